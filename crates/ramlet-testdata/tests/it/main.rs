//! Sets against naive computing and the files they are kept in.

mod sets;
