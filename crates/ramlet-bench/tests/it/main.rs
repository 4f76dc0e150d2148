//! Sets against naive computing and the files they are kept in; load on a server that counts.

mod fake_server;
mod files;
mod grpc;
mod io;
mod load;
mod sets;
