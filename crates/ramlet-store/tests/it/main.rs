//! Backups and probes over stores in memory, and the model of shards over a store.

mod backup;
mod lying;
mod model;
mod restore;
mod rivals;
mod slots;
mod wrapped;
