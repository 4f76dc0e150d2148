//! What `ramlet serve` is told beside its flags: the environment and files. One table decides the names.

mod places;
mod qdrant;
mod sources;
mod table;
mod yaml;

#[cfg(test)]
pub use sources::tests::environment;
pub use sources::{Found, Sources};
pub use table::with_names;
