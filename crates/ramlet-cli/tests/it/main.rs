//! The binary, from outside.

mod fake_server;
mod import;
mod machine;
mod plan;
