//! Recovery: catalogs, manifests, and damaged directories.

pub mod catalog;
pub mod closed;
pub mod directory_check;
pub mod inventory;
pub mod manifest_store;
pub mod orphans;
pub mod recover;
pub mod sidecar;
pub mod verify;
