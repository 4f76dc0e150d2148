//! Starts: catalogs, manifests, and what becomes of a directory that is damaged.

pub mod catalog;
pub mod closed;
pub mod directory_check;
pub mod inventory;
pub mod manifest_store;
pub mod orphans;
pub mod recover;
pub mod sidecar;
pub mod verify;
