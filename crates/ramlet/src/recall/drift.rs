//! Drift: whether a calibration still holds, by the recall that the monitor measures.
//!
//! An index is calibrated at build on rows of its own. Users may ask for something else than more of the same: text for
//! images, questions for answers, last year's words. Their neighbours lie in more clusters, and less is found than was
//! promised. So the last queries are kept, and when too little was found of enough of them, the index is measured again *on
//! these queries* ([`crate::jobs::recalibrate`]); nothing is rebuilt. A merge measures its new index anyway.

use ramlet_memory::Consumer;

use crate::recall::query_sample::{Kept, QuerySample, mean_and_error, room};

/// Queries measured before anything is concluded, at most: one in ten seconds makes as many in twenty minutes.
const KEPT: usize = 128;

/// Less recall than was aimed at by more than this is too little, if it is by more than so many standard errors as well.
const TOLERATED: f64 = 0.01;
const ERRORS: f64 = 2.0;

/// Queries of one vector.
pub struct Drift {
    slot: u16,
    /// How many are kept.
    room: usize,
    /// The last queries without a filter, with the recall of each.
    kept: Vec<(Kept, f64)>,
    next: usize,
    target: f64,
    /// Queries until there is something to conclude, if more than are kept: more each time, for where measuring again doesn't help.
    wait: usize,
    seen: usize,
}

impl Drift {
    /// Of queries of so many dimensions; `None`: they are too long.
    pub fn new(slot: u16, dims: usize, from: &Consumer) -> Option<Drift> {
        Some(Drift {
            slot,
            room: room(dims, from)?.min(KEPT),
            kept: Vec::new(),
            next: 0,
            target: 0.0,
            wait: 0,
            seen: 0,
        })
    }

    /// The index is another one: what was found before says nothing of it.
    pub fn reset(&mut self) {
        self.kept.clear();
        (self.seen, self.next, self.wait) = (0, 0, 0);
    }

    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// A query found this share of what it should have found.
    pub fn note(&mut self, query: &[f32], recall: f64, target: f64, from: &Consumer) {
        let Some(kept) = Kept::new(query, from) else {
            return;
        };
        (self.target, self.seen) = (target, self.seen + 1);
        match self.kept.get_mut(self.next) {
            Some(place) => *place = (kept, recall),
            None => self.kept.push((kept, recall)),
        }
        self.next = (self.next + 1) % self.room;
    }

    /// Whether too little is found.
    pub fn is_off(&self) -> bool {
        if self.kept.len() < self.room || self.seen < self.wait {
            return false;
        }
        let (mean, error) = mean_and_error(self.kept.iter().map(|(_, recall)| *recall));
        mean < self.target - TOLERATED && mean < self.target - ERRORS * error
    }

    /// The queries, if too little is found; then measuring begins anew.
    pub fn take(&mut self) -> Option<QuerySample> {
        if !self.is_off() {
            return None;
        }
        (self.seen, self.next, self.wait) = (0, 0, 2 * self.wait.max(self.room));
        let kept = std::mem::take(&mut self.kept).into_iter();
        Some(QuerySample::new(self.slot, kept.map(|(kept, _)| kept)))
    }
}

#[cfg(test)]
mod tests {
    use ramlet_memory::Ledger;

    use super::*;

    #[test]
    fn too_little_recall_of_enough_queries_is_told_once() {
        let ledger = Ledger::new(1 << 20);
        let from = ledger.consumer("test", u64::MAX);
        let mut drift = Drift::new(3, 2, &from).expect("short ones");
        let note = |drift: &mut Drift, recall: f64, times: usize| {
            (0..times).for_each(|i| drift.note(&[i as f32, 1.0], recall, 0.95, &from))
        };
        note(&mut drift, 0.9, KEPT - 1);
        assert!(!drift.is_off(), "too few");
        note(&mut drift, 0.9, 1);
        let drifted = drift.take().expect("all of them .05 below");
        assert_eq!((drifted.slot, drifted.queries.len()), (3, KEPT));
        drop(drifted);
        note(&mut drift, 0.9, KEPT);
        assert!(!drift.is_off(), "it had been measured again just before");
        note(&mut drift, 0.9, KEPT);
        assert!(drift.is_off());
        note(&mut drift, 0.945, KEPT);
        assert!(!drift.is_off(), "near enough");
        (0..KEPT / 2).for_each(|_| {
            note(&mut drift, 0.5, 1);
            note(&mut drift, 1.0, 1);
        });
        assert!(drift.is_off(), ".75, and .03 by chance");
        note(&mut drift, 0.0, 3);
        note(&mut drift, 0.955, KEPT - 3);
        assert!(
            !drift.is_off(),
            ".93, by three that found nothing: that may be chance"
        );
        drift.reset();
        note(&mut drift, 0.9, KEPT - 1);
        assert!(!drift.is_off(), "of another index these are too few");
        note(&mut drift, 0.9, 1);
        assert!(drift.is_off());
        drop(drift);
        assert_eq!(ledger.used(), 0);
    }
}
