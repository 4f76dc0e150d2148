//! Rows that may be among the nearest, and choosing those that are.

use ramlet_memory::AnonBuf;

use crate::error::{IndexError, Result};
use crate::rows_file::RowsFile;
use crate::scan::{Search, trailing_number};
use crate::{CodesWanted, TopK};

/// Candidates kept until they must be looked through: at least so many, and so many times the rows that are wanted.
const CANDIDATES_MIN: usize = 1024;
const CANDIDATES_PER_WANTED: usize = 4;
/// But, unless more rows are wanted, at most so many (1 MiB).
const CANDIDATES_MAX: usize = 1 << 16;

/// Rows read at once. The first show how near the nearest are, and later ones need not be read then.
const BATCH: usize = 64;

/// A row whose key lies within `error` of `key`, all but certainly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) key: f32,
    pub(super) error: f32,
    pub(super) position: u32,
    pub(super) number: u32,
}

impl Candidate {
    fn lower(&self) -> f32 {
        self.key - self.error
    }

    fn upper(&self) -> f32 {
        self.key + self.error
    }
}

fn nearest_first(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    a.key.total_cmp(&b.key).then(a.number.cmp(&b.number))
}

/// The candidates of a search.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    list: Vec<Candidate>,
    /// The first so many have been asked the filter about.
    admitted: usize,
    /// The smallest of their greatest possible keys: as many rows as are wanted lie within.
    uppers: TopK,
    /// Whether a filter must be asked, before which no row may be dropped on another's account.
    filtered: bool,
    /// Rows to choose the nearest from.
    pool: usize,
    room: usize,
    /// Working lists of `settle`.
    bounds: Vec<f32>,
    positions: Vec<u32>,
}

impl Candidates {
    /// `pool` rows will be chosen from; `more` may be added between two looks at [`Candidates::is_full`].
    pub(super) fn start(&mut self, pool: usize, filtered: bool, more: usize) {
        self.list.clear();
        self.uppers.clear(pool);
        (self.filtered, self.admitted, self.pool) = (filtered, 0, pool);
        let room = pool.saturating_mul(CANDIDATES_PER_WANTED);
        self.room = room.clamp(CANDIDATES_MIN, CANDIDATES_MAX).max(pool);
        self.list.reserve_exact(self.room + more);
        self.positions.clear();
        self.positions.reserve_exact(BATCH.max(pool));
        self.bounds.clear();
        self.bounds.reserve_exact(self.room + more + pool);
    }

    /// A key above this can't be among the nearest.
    #[inline]
    pub(super) fn limit(&self, top: &TopK) -> f32 {
        self.uppers.threshold().min(top.threshold())
    }

    #[inline]
    pub(super) fn push(&mut self, mut candidate: Candidate) {
        if !candidate.key.is_finite() || !candidate.error.is_finite() {
            // A sum that overflowed says nothing about the row.
            (candidate.key, candidate.error) = (f32::MAX, f32::INFINITY);
        }
        self.list.push(candidate);
        if !self.filtered {
            self.uppers.push(candidate.upper(), candidate.position);
        }
    }

    /// Rows known to be allowed.
    pub(super) fn found(&self) -> usize {
        if self.filtered {
            self.admitted
        } else {
            self.list.len()
        }
    }

    /// Whether too many are left even when those that later ones have ruled out are gone.
    pub(super) fn is_full(&mut self, top: &TopK) -> bool {
        if self.list.len() < self.room {
            return false;
        }
        self.prune(top);
        self.list.len() > self.room / 2
    }

    fn prune(&mut self, top: &TopK) {
        let limit = self.limit(top);
        let mut kept = 0;
        for i in 0..self.list.len() {
            if i == self.admitted {
                self.admitted = kept;
            }
            if self.list[i].lower() <= limit {
                self.list[kept] = self.list[i];
                kept += 1;
            }
        }
        self.admitted = self.admitted.min(kept);
        self.list.truncate(kept);
    }

    /// Asks the filter about those that nobody asked about, the nearest first, until no other can be among the nearest.
    pub(super) fn ask(&mut self, search: &mut Search<'_, '_>) -> Result<()> {
        if !self.filtered {
            return Ok(());
        }
        self.list[self.admitted..].sort_unstable_by(nearest_first);
        for i in self.admitted..self.list.len() {
            let candidate = self.list[i];
            if candidate.lower() > self.limit(search.top) {
                continue;
            }
            search.stats.rows_checked += 1;
            if search.allowed.admits(candidate.number, search.io)? {
                search.stats.rows_admitted += 1;
                search.reach.admitted(candidate.key, candidate.number);
                self.list[self.admitted] = candidate;
                self.admitted += 1;
                self.uppers.push(candidate.upper(), candidate.position);
            }
        }
        self.list.truncate(self.admitted);
        Ok(())
    }

    /// Offers the nearest to `search.top`, after reading those of which the bounds can't tell.
    pub(super) fn settle(
        &mut self,
        search: &mut Search<'_, '_>,
        rows: &RowsFile,
        codes: &CodesWanted,
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        self.prune(search.top);
        if !self.filtered {
            search.stats.rows_checked += self.list.len() as u64;
        }
        self.narrow(search, rows, codes, reads, buf)?;
        for candidate in &self.list {
            if search.top.would_enter(candidate.key, candidate.number) {
                search.top.push(candidate.key, candidate.number);
            }
        }
        Ok(())
    }

    /// Reads rows until it is clear which are the nearest, and drops the others. All have been asked the filter about.
    pub(super) fn narrow(
        &mut self,
        search: &mut Search<'_, '_>,
        rows: &RowsFile,
        codes: &CodesWanted,
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        reads.clear();
        reads.reserve(BATCH.max(self.pool));
        self.list.sort_unstable_by(nearest_first);
        // The pool is read whole if one was asked for.
        let asked = codes.rescore == Some(true) || codes.oversampling.is_some();
        let mut forced = if asked { self.pool } else { 0 };
        while codes.rescore != Some(false) {
            self.choose_reads(search.top, forced);
            if self.positions.is_empty() {
                break;
            }
            forced = forced.saturating_sub(self.positions.len());
            self.read(search, rows, reads, buf)?;
        }
        self.list.truncate(self.pool);
        self.admitted = self.admitted.min(self.list.len());
        Ok(())
    }

    /// The positions to read next, ascending: at most a batch, the nearest first, of those that may be among the nearest
    /// but needn't, and of the first `forced`.
    fn choose_reads(&mut self, top: &mut TopK, forced: usize) {
        let k = top.k();
        let hits = top.sorted();
        let mut bound = |place: usize, of: fn(&Candidate) -> f32| {
            self.bounds.clear();
            self.bounds.extend(self.list.iter().map(of));
            self.bounds.extend(hits.iter().map(|hit| hit.key));
            if place >= self.bounds.len() {
                return f32::INFINITY;
            }
            *self.bounds.select_nth_unstable_by(place, f32::total_cmp).1
        };
        let most = if k == 0 {
            f32::NEG_INFINITY
        } else {
            bound(k - 1, Candidate::upper)
        };
        let next = bound(k, Candidate::lower);
        let batch = BATCH.max(k);
        self.positions.clear();
        let mut unread = 0;
        for candidate in &self.list {
            if candidate.error <= 0.0 {
                continue;
            }
            let ambiguous = candidate.lower() <= most && candidate.upper() >= next;
            if ambiguous || unread < forced {
                self.positions.push(candidate.position);
                if self.positions.len() == batch {
                    break;
                }
            }
            unread += 1;
        }
        self.positions.sort_unstable();
    }

    /// Reads the rows at `positions`; their keys are then known, and the list is in order again.
    fn read(
        &mut self,
        search: &mut Search<'_, '_>,
        rows: &RowsFile,
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let (list, positions) = (&mut self.list, &self.positions);
        list.sort_unstable_by_key(|candidate| candidate.position);
        let mut at = 0;
        search.stats.rows_read += positions.len() as u64;
        search.read_keys(rows, positions, reads, buf, |position, key, row| {
            while list[at].position < position {
                at += 1;
            }
            if trailing_number(row)? != list[at].number {
                let detail = format!("position {position} has another row than its code says");
                return Err(IndexError::Mismatch(detail));
            }
            let key = if key.is_nan() { f32::INFINITY } else { key };
            (list[at].key, list[at].error) = (key, 0.0);
            Ok(())
        })?;
        list.sort_unstable_by(nearest_first);
        Ok(())
    }
}
