//! The binary, from outside.

mod fake_server;
mod import;
mod import_from;
mod machine;
mod output;
mod plan;
mod serve;
