//! Settings of `ramlet serve` other than flags: the environment and files. One table defines the names.

pub mod audit_settings;
mod places;
mod qdrant;
mod sources;
mod table;
pub mod tls_settings;
mod yaml;

#[cfg(test)]
pub use sources::tests::environment;
pub use sources::{Found, Sources};
pub use table::with_names;
