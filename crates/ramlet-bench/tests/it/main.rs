//! Files of vectors, and load on a server that counts.

mod fake_server;
mod files;
mod grpc;
mod io;
mod load;
