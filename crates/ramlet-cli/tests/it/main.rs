//! The binary, from outside.

mod about;
mod compose;
mod fake_server;
mod honest_import;
mod import;
#[cfg(feature = "parquet")]
mod import_columns;
mod import_formats;
mod import_from;
mod machine;
mod output;
mod plan;
mod serve;
