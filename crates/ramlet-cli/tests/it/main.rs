//! The binary, from outside.

mod fake_server;
mod import;
mod import_from;
mod machine;
mod plan;
mod serve;
