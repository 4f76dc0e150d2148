//! The RAM that data may take, out of a process's memory.

use ramlet_memory::{BudgetRequest, BudgetTable, ReclaimableBuf};
use serde::{Deserialize, Serialize};

use super::{PlanError, bytes};
use crate::schema::VectorField;
use crate::segment::indexable::Means;

/// The memory of a process, and what kind of process it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// As `--memory`; see docs/memory.md.
    pub bytes: u64,
    /// `None`: as many as the server would take.
    pub search_threads: Option<usize>,
    /// Threads of the process beside those that search.
    pub other_threads: usize,
    /// The engine inside another program, without server.
    pub in_process: bool,
}

impl Memory {
    /// A server with so much.
    pub fn of_server(bytes: u64) -> Memory {
        Memory {
            bytes,
            search_threads: None,
            // Network, blocking calls, writer, jobs.
            other_threads: 8,
            in_process: false,
        }
    }

    pub fn in_process(bytes: u64) -> Memory {
        Memory {
            other_threads: 2,
            in_process: true,
            ..Memory::of_server(bytes)
        }
    }

    /// The same process with another amount.
    pub fn with(self, bytes: u64) -> Memory {
        Memory { bytes, ..self }
    }

    pub fn threads(&self, cores: usize) -> usize {
        let chosen = || match self.in_process {
            true => BudgetRequest::search_threads_in_process(self.bytes, cores),
            false => BudgetRequest::search_threads_for(self.bytes, cores),
        };
        self.search_threads.unwrap_or_else(chosen).max(1)
    }

    fn table(&self, cores: usize) -> Result<BudgetTable, PlanError> {
        let threads = self.threads(cores);
        let mut request = match self.in_process {
            true => BudgetRequest::in_process(self.bytes, threads),
            false => BudgetRequest::new(self.bytes, threads),
        };
        request.other_threads = self.other_threads;
        BudgetTable::plan(request).map_err(|small| PlanError::DoesNotFit {
            what: "the process itself".to_owned(),
            memory_bytes: small.memory_bytes,
            memory_bytes_min: small.memory_bytes_min,
        })
    }

    /// Bytes that data may take when nothing else needs them.
    pub fn room(&self, cores: usize) -> Result<u64, PlanError> {
        Ok(self.table(cores)?.pinned_max())
    }

    /// Bytes in which data comes to RAM and goes.
    pub fn piece_bytes(&self, cores: usize) -> u64 {
        let limit = self.table(cores).map_or(0, |table| table.ledger_limit());
        ReclaimableBuf::piece_bytes_within(limit) as u64
    }

    /// Scratch that an index gets of what is set aside for a job: seven sixteenths of it.
    pub fn scratch(&self, cores: usize) -> u64 {
        self.table(cores).map_or(0, |table| table.job_scratch / 16 * 7)
    }

    /// Whether so many rows of a vector can have an index, or need none. As the engine decides that refuses those beyond.
    pub fn indexes(&self, vector: &VectorField, rows: u64, cores: usize) -> bool {
        self.table(cores)
            .is_ok_and(|table| Means::of_budget(&table).do_for(vector, rows))
    }

    /// Whether it is enough for building a graph.
    pub fn builds_graph(&self, scratch_least: u64, cores: usize) -> bool {
        self.scratch(cores) >= scratch_least
    }

    /// Scratch for building clusters: as much of that and of the half of what requests may take, which a job that wants more gets while
    /// they don't (`begin_job` in `shared.rs`).
    pub fn scratch_of_clusters(&self, cores: usize) -> u64 {
        let bytes = |table: BudgetTable| (table.job_scratch + table.elastic / 2) / 16 * 7;
        self.table(cores).map_or(0, bytes)
    }

    /// Metadata that the centroids of so many rows may take (`FileContext::centroids_room`) beside the rows' ids and as many centroids, those of the segments that
    /// they are merged from. Ids take no more than half (`FileContext::spare`).
    pub fn centroids_room(&self, rows: u64, cores: usize) -> u64 {
        let metadata = self.table(cores).map_or(0, |table| table.metadata_max());
        let ids = bytes::ids_held(rows).min(metadata / 2);
        (metadata / 4 * 3 - ids) / 2
    }

    /// The least memory whose room is `bytes`.
    pub fn least_for(&self, bytes: u64, cores: usize) -> u64 {
        self.least(|memory| memory.room(cores).is_ok_and(|room| room >= bytes))
    }

    /// The least memory with which something is so that is so with all that is more.
    pub fn least(&self, is_so: impl Fn(&Memory) -> bool) -> u64 {
        let fits = |memory: u64| is_so(&self.with(memory));
        let (mut low, mut high) = (0, 1u64 << 62);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            match fits(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        high
    }
}
