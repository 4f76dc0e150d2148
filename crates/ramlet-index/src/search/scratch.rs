//! One thread's memory for searching.

use std::any::Any;

use ramlet_io::Clock;
use ramlet_memory::AnonBuf;

use super::rounds::Rounds;
use super::search_stats::SearchStats;

/// One thread's memory for searching; reused, so that a warm search allocates nothing.
#[derive(Debug)]
pub struct IndexScratch {
    /// What the last search did.
    pub stats: SearchStats,
    /// Blocks are read into here; its length decides how much is read at once.
    pub(crate) buf: AnonBuf,
    pub(crate) lists: RowLists,
    /// For searches in rounds.
    pub(crate) rounds: Rounds,
    pub(crate) own: OwnLists,
}

/// Lists for reading single rows, bounded by the blocks that fit the buffer and by `LISTED_ROWS`.
#[derive(Debug, Default)]
pub(crate) struct RowLists {
    /// Reads of one batch: first page and pages.
    pub(crate) reads: Vec<(u64, u32)>,
    /// Positions to visit.
    pub(crate) positions: Vec<u32>,
    /// Rows to find the positions of.
    pub(crate) rows: Vec<u32>,
}

/// The lists of each kind of index that this thread has searched.
#[derive(Debug, Default)]
pub(crate) struct OwnLists(Vec<Box<dyn Any + Send>>);

impl OwnLists {
    /// The lists of one kind; empty before the first search.
    pub(crate) fn of<L: Any + Default + Send>(&mut self) -> &mut L {
        let place = self.0.iter().position(|lists| lists.is::<L>());
        let place = place.unwrap_or_else(|| {
            self.0.push(Box::<L>::default());
            self.0.len() - 1
        });
        match self.0[place].downcast_mut() {
            Some(lists) => lists,
            None => unreachable!("lists of another kind"),
        }
    }
}

impl IndexScratch {
    /// Where blocks are read to, for indexes whose rows are read elsewhere.
    pub fn buffer(&mut self) -> &mut AnonBuf {
        &mut self.buf
    }

    /// From now on a search notes when its centroids were ranked, or no longer.
    pub fn set_clock(&mut self, clock: Option<Clock>) {
        self.rounds.set_clock(clock);
    }

    /// When the last search had ranked its centroids, by the clock; `None`: there were none, or there was no clock.
    pub fn ranked_at(&self) -> Option<u64> {
        self.rounds.ranked_at()
    }

    /// Scratch that reads into `buf`. 256 KiB to 1 MiB is a good size; it grows only if a single block doesn't fit.
    pub fn new(buf: AnonBuf) -> IndexScratch {
        IndexScratch {
            stats: SearchStats::default(),
            buf,
            lists: RowLists::default(),
            rounds: Rounds::default(),
            own: OwnLists::default(),
        }
    }
}
