//! A reading thread's context: its reader and its counters.

use crate::stages::{SearchStage, StageUse, Stages};
use crate::storage::{BatchRead, BatchReader, Result, Storage};

/// One per thread: how it reads many blocks at once, and how much it has read.
pub struct IoContext {
    reader: Box<dyn BatchReader>,
    stats: IoStats,
    clock: Option<Clock>,
    waited_ns: u64,
    waits: u64,
    stage: SearchStage,
    /// When the stage began, and the totals then.
    begun: StageUse,
    stages: Stages,
}

/// Nanoseconds since some moment of the process, never less than before. It comes from outside: nothing below the server reads a clock of its own.
pub type Clock = fn() -> u64;

/// What was read since the counters were last taken. A block held in RAM (pinned) counts nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoStats {
    /// Reads handed to the backend; adjacent blocks read as one count once. The same on every backend.
    pub reads: u64,
    /// Bytes of those reads.
    pub bytes: u64,
    /// Blocks found in the block cache instead.
    pub cache_hits: u64,
}

impl IoContext {
    pub fn new(reader: Box<dyn BatchReader>) -> IoContext {
        IoContext {
            reader,
            stats: IoStats::default(),
            clock: None,
            waited_ns: 0,
            waits: 0,
            stage: SearchStage::Other,
            begun: StageUse::default(),
            stages: Stages::default(),
        }
    }

    /// A context with the storage's own kind of reader, `depth` reads in flight at most.
    pub fn for_storage(storage: &dyn Storage, depth: usize) -> Result<IoContext> {
        Ok(IoContext::new(storage.reader(depth)?))
    }

    pub fn reads(&self) -> u64 {
        self.stats.reads
    }

    pub fn bytes(&self) -> u64 {
        self.stats.bytes
    }

    pub fn cache_hits(&self) -> u64 {
        self.stats.cache_hits
    }

    /// The counters, which start again at zero.
    pub fn take_stats(&mut self) -> IoStats {
        // Totals that a stage began with are of these.
        (self.begun.reads, self.begun.bytes) = (0, 0);
        std::mem::take(&mut self.stats)
    }

    /// From now on waiting is timed, or no longer. Without a clock nothing is: a search that nobody wants explained asks for no time.
    pub fn set_clock(&mut self, clock: Option<Clock>) {
        self.clock = clock;
        self.stage = SearchStage::Other;
        self.begun = self.so_far();
        self.stages = Stages::default();
    }

    pub fn clock(&self) -> Option<Clock> {
        self.clock
    }

    /// From now on time and reads count for this stage; for which they did so far. Without a clock it is a branch.
    pub fn enter(&mut self, stage: SearchStage) -> SearchStage {
        let before = self.stage;
        if self.clock.is_some() && stage != before {
            self.note_stage();
            self.stage = stage;
        }
        before
    }

    pub fn stage(&self) -> SearchStage {
        self.stage
    }

    /// What went into each stage since the last call, or since there was a clock; none without one. What comes next is [`SearchStage::Other`].
    pub fn take_stages(&mut self) -> Option<Stages> {
        self.clock?;
        self.note_stage();
        self.stage = SearchStage::Other;
        Some(std::mem::take(&mut self.stages))
    }

    fn note_stage(&mut self) {
        let now = self.so_far();
        self.stages.of_mut(self.stage).add(&now.without(&self.begun));
        self.begun = now;
    }

    /// Totals since the context was made; `ns` is the clock's.
    fn so_far(&self) -> StageUse {
        StageUse {
            ns: self.now(),
            ..self.read_so_far()
        }
    }

    /// The same of reads alone: no clock is asked.
    pub fn read_so_far(&self) -> StageUse {
        StageUse {
            ns: 0,
            waited_ns: self.waited_ns,
            reads: self.stats.reads,
            bytes: self.stats.bytes,
        }
    }

    /// What the clock says, nanoseconds; 0 without one.
    pub fn now(&self) -> u64 {
        self.clock.map_or(0, |clock| clock())
    }

    /// Nanoseconds that reads took, all since the context was made while it had a clock.
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns
    }

    /// Batches of reads that these were.
    pub fn waits(&self) -> u64 {
        self.waits
    }

    /// Does all the reads at once; the first error wins.
    pub fn read_batch(&mut self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        for read in reads.iter() {
            self.note_read(read.out.len());
        }
        let begun = self.now();
        let done = self.reader.read_batch(reads);
        self.waited_ns += self.now() - begun;
        self.waits += 1;
        done
    }

    /// Counts a read that the backend answered out of its own memory.
    pub(crate) fn note_read(&mut self, bytes: usize) {
        self.stats.reads += 1;
        self.stats.bytes += bytes as u64;
    }

    pub fn note_cache_hit(&mut self) {
        self.stats.cache_hits += 1;
    }
}
