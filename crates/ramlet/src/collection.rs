//! A collection (skeleton: signatures first).
use crate::engine::Scratch;
use crate::error::Result;
use crate::filter::Filter;
use crate::request::*;
use crate::types::*;

/// Called once, on an engine thread, when an update is durable (and, with `wait`, searchable) or has failed.
pub type Completion = Box<dyn FnOnce(Result<UpdateResult>) + Send>;

/// Green: nothing to do. Yellow: flush, index build or merge under way. Grey: pending. Red: a job failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectionStatus {
    Green,
    Yellow,
    Red,
}

/// What `GET /collections/{name}` shows.
#[derive(Debug, Clone)]
pub struct CollectionInfo {
    pub status: CollectionStatus,
    /// Failure of the last job, when status is Red.
    pub optimizer_error: Option<String>,
    pub points_count: u64,
    pub indexed_vectors_count: u64,
    pub segments_count: u64,
    pub config: CollectionConfig,
    /// Points that each payload index covers, by field.
    pub payload_index_points: Vec<(String, u64)>,
    pub disk_bytes: u64,
    pub last_operation_id: u64,
    /// Updates accepted and not yet applied.
    pub update_queue: u64,
}

pub struct Collection {}

impl Collection {
    pub fn info(&self) -> CollectionInfo {
        unimplemented!()
    }
    pub fn config(&self) -> CollectionConfig {
        unimplemented!()
    }
    /// Queues a change. `Busy` at once when the queue is full; `BadInput` at once for what can be told without state
    /// (unknown vector name, wrong dimension, payload not an object). `done` is called from an engine thread.
    pub fn submit(&self, _op: UpdateOp, _done: Completion) -> Result<()> {
        unimplemented!()
    }
    /// `submit`, and wait for the completion.
    pub fn update(&self, _op: UpdateOp) -> Result<UpdateResult> {
        unimplemented!()
    }
    pub fn search(&self, _request: &SearchRequest, _scratch: &mut Scratch) -> Result<SearchResponse> {
        unimplemented!()
    }
    /// In the order of `ids`, unknown ones left out.
    pub fn retrieve(
        &self,
        _ids: &[PointId],
        _with_payload: &PayloadSelector,
        _with_vectors: &VectorSelector,
        _scratch: &mut Scratch,
    ) -> Result<Vec<Record>> {
        unimplemented!()
    }
    pub fn scroll(&self, _request: &ScrollRequest, _scratch: &mut Scratch) -> Result<ScrollPage> {
        unimplemented!()
    }
    pub fn count(&self, _filter: Option<&Filter>, _exact: bool, _scratch: &mut Scratch) -> Result<u64> {
        unimplemented!()
    }
    /// Builds the index over what is there, then keeps it. The same again is a no-op; another kind replaces it.
    pub fn create_payload_index(&self, _field: &str, _index: FieldIndex) -> Result<UpdateResult> {
        unimplemented!()
    }
    /// No-op when there is none.
    pub fn delete_payload_index(&self, _field: &str) -> Result<UpdateResult> {
        unimplemented!()
    }
    /// Waits until buffer, flush and merge queues are empty (tests, benches, `import --wait`).
    pub fn wait_idle(&self) -> Result<()> {
        unimplemented!()
    }
}
