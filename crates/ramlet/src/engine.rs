//! The engine: a directory of collections (skeleton: signatures first).
use std::sync::Arc;

use crate::collection::Collection;
use crate::error::Result;
use crate::types::CollectionConfig;

/// How an engine is opened.
pub struct EngineOptions {
    /// RAM in all, bytes (`B` of docs/memory.md).
    pub memory: u64,
    /// Search slots: fixed threads, each with its `Scratch`.
    pub search_threads: usize,
}

/// What one search slot owns: reader, buffers, heaps. One per thread; nothing is allocated on the warm path.
pub struct Scratch {}

/// One step of an alias change; a list is applied all at once or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum AliasOp {
    Create { alias: String, collection: String },
    Delete { alias: String },
    Rename { from: String, to: String },
}

pub struct Engine {}

impl Engine {
    pub fn open(
        _storage: Arc<dyn ramlet_io::storage::Storage>,
        _options: EngineOptions,
    ) -> Result<Arc<Engine>> {
        unimplemented!()
    }
    /// `AlreadyExists` when the name is taken (by a collection or an alias).
    pub fn create_collection(&self, _name: &str, _config: CollectionConfig) -> Result<()> {
        unimplemented!()
    }
    /// Replaces the settings that may change (`other`, `indexing_threshold`, `on_disk_payload`, per-vector `on_disk`/`other`).
    pub fn update_collection(
        &self,
        _name: &str,
        _change: &mut dyn FnMut(&mut CollectionConfig) -> Result<()>,
    ) -> Result<()> {
        unimplemented!()
    }
    /// `false` when there was none.
    pub fn delete_collection(&self, _name: &str) -> Result<bool> {
        unimplemented!()
    }
    /// By name or alias. `NotFound` with the API's sentence.
    pub fn collection(&self, _name: &str) -> Result<Arc<Collection>> {
        unimplemented!()
    }
    pub fn collection_names(&self) -> Vec<String> {
        unimplemented!()
    }
    /// (alias, collection) pairs, sorted.
    pub fn aliases(&self) -> Vec<(String, String)> {
        unimplemented!()
    }
    pub fn change_aliases(&self, _ops: &[AliasOp]) -> Result<()> {
        unimplemented!()
    }
    /// The search slots: runs `job` on a slot's thread. `Busy` when the queue is full (the job is handed back by drop).
    pub fn run(&self, _job: Box<dyn FnOnce(&mut Scratch) + Send>) -> Result<()> {
        unimplemented!()
    }
    /// A scratch outside the slots (embedded use, tests).
    pub fn scratch(&self) -> Result<Scratch> {
        unimplemented!()
    }
    pub fn ledger(&self) -> &Arc<ramlet_memory::Ledger> {
        unimplemented!()
    }
    /// False after a failed write to log or manifest: readiness.
    pub fn writable(&self) -> bool {
        unimplemented!()
    }
    /// Flushes nothing (the log has it all), stops the threads, releases the lock.
    pub fn close(&self) {
        unimplemented!()
    }
}
