//! A collection's information for clients.

use crate::types::CollectionConfig;

/// Green: nothing to do. Yellow: a flush, merge or index build is due or under way. Red: a job failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CollectionStatus {
    Green,
    Yellow,
    Red,
}

/// What `GET /collections/{name}` shows.
#[derive(Debug, Clone)]
pub struct CollectionInfo {
    pub status: CollectionStatus,
    /// Failure of the last job, or an index that there is no memory for, when status is Red.
    pub optimizer_error: Option<String>,
    pub points_count: u64,
    pub indexed_vectors_count: u64,
    /// By name; of rows that are deleted in segments a share is taken off.
    pub vectors_count: Vec<(String, u64)>,
    pub segments_count: u64,
    pub config: CollectionConfig,
    /// Points that each payload index covers, by field.
    pub payload_index_points: Vec<(String, u64)>,
    pub disk_bytes: u64,
    pub last_operation_id: u64,
    /// Updates accepted and not yet applied.
    pub update_queue: u64,
    /// Bytes by component and place.
    pub memory: Vec<ComponentMemory>,
}

/// What one kind of data of a collection holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentMemory {
    pub component: String,
    /// "flat", "ivf", "records", "sorted", "buffer".
    pub kind: &'static str,
    pub heap_bytes: u64,
    pub pinned_bytes: u64,
    pub disk_bytes: u64,
}

impl CollectionInfo {
    /// Adds a shard's.
    pub(crate) fn add(&mut self, other: CollectionInfo) {
        self.status = self.status.max(other.status);
        self.optimizer_error = self.optimizer_error.take().or(other.optimizer_error);
        self.points_count += other.points_count;
        self.indexed_vectors_count += other.indexed_vectors_count;
        add_counts(&mut self.vectors_count, other.vectors_count);
        add_counts(&mut self.payload_index_points, other.payload_index_points);
        self.segments_count += other.segments_count;
        self.disk_bytes += other.disk_bytes;
        self.last_operation_id = self.last_operation_id.max(other.last_operation_id);
        self.update_queue += other.update_queue;
        for theirs in other.memory {
            let mut own = self.memory.iter_mut();
            match own.find(|own| own.component == theirs.component && own.kind == theirs.kind) {
                Some(own) => {
                    own.heap_bytes += theirs.heap_bytes;
                    own.pinned_bytes += theirs.pinned_bytes;
                    own.disk_bytes += theirs.disk_bytes;
                }
                None => self.memory.push(theirs),
            }
        }
    }
}

fn add_counts(own: &mut [(String, u64)], theirs: Vec<(String, u64)>) {
    for (name, count) in theirs {
        let mut own = own.iter_mut();
        if let Some((_, sum)) = own.find(|(own, _)| *own == name) {
            *sum += count;
        }
    }
}
