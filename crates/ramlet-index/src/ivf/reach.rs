//! How far a filtered search has to go: until further clusters bring hardly any nearer rows.
//!
//! The `k` nearest rows that a filter admits are about the `k / share` nearest of all, if the filter has nothing to do with
//! the query. But often it does: it admits the rows around it (a category that it belongs to) or hardly any of them (the
//! other side of a border). And how many clusters hold the 5,000 nearest of all, nobody measured. So a filtered search goes
//! in rounds, each half as large again as all before, and keeps a pool of the nearest rows admitted so far, larger than what
//! is wanted; it ends when a round has brought so few of the pool that what further ones would bring is tolerable.
//!
//! Neighbours missed fall about as one over the clusters visited (so they do in what calibration measures from recall .8
//! on). Then what is missing after two rounds is four fifths of what the two have brought.
//!
//! 50,000 rows of 24 dimensions, recall@10 aimed at .95, filters of half to a hundredth of the rows (`filtered.rs` of the
//! engine's tests): from the share in the whole segment alone, times four for safety, .300 to .942; so, .94 to 1.

use crate::{Allowed, TopK};

/// Rows in the pool at least, and for each one wanted. Fewer, and a round that brings none says little.
const POOL_MIN: usize = 64;
const POOL_PER_WANTED: f64 = 1.5;

/// Clusters visited after a round, by those visited before.
const GROWTH: f64 = 1.5;

/// Missing rows by those that the last two rounds brought, where misses fall as one over the clusters visited.
const MISSING_PER_NEW: f64 = 1.0 / (GROWTH * GROWTH - 1.0);

/// Of the rows that may be missing, those that the estimate may be wrong by.
const CAUTION: f64 = 0.5;

/// The nearest rows that a filtered search has met, and in which round. Reused; allocates only for a larger pool.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// A hit's segment is the round.
    pool: TopK,
    round: u32,
    filtered: bool,
    /// Only what was asked of the payload filter is known to be admitted.
    by_payload: bool,
}

impl Reach {
    /// A search for the `k` nearest begins.
    pub(crate) fn start(&mut self, k: usize, allowed: &Allowed<'_>) {
        self.by_payload = allowed.filter.is_some();
        self.filtered = self.by_payload || allowed.only.is_some();
        self.round = 0;
        let pool = match (self.filtered, self.by_payload) {
            (false, _) => 0,
            (true, true) => k,
            (true, false) => POOL_MIN.max((k as f64 * POOL_PER_WANTED) as usize),
        };
        self.pool.clear(pool);
    }

    /// Clusters of the first round: `probes` says how many hold so many nearest of all. For the `k` nearest of a share that
    /// is half of the way, since near the query there may be more of them, and two rounds follow at least.
    pub(crate) fn first(&self, k: usize, share: f64, probes: impl Fn(f64) -> u32) -> usize {
        match self.filtered {
            true => (f64::from(probes(k as f64 / share.sqrt())) / (GROWTH * GROWTH)).ceil() as usize,
            false => probes(k as f64 / share) as usize,
        }
    }

    /// Rows with a larger key needn't be offered.
    #[inline]
    pub(crate) fn limit(&self) -> f32 {
        match self.filtered && !self.by_payload {
            true => self.pool.threshold(),
            false => f32::NEG_INFINITY,
        }
    }

    /// A row that the bitmaps admit.
    #[inline]
    pub(crate) fn met(&mut self, key: f32, row: u32) {
        if self.filtered && !self.by_payload {
            self.pool.push(key, row);
        }
    }

    /// A row that all filters admit.
    #[inline]
    pub(crate) fn admitted(&mut self, key: f32, row: u32) {
        if self.by_payload {
            self.pool.push(key, row);
        }
    }

    /// After a round, `visited` clusters in all: whether enough was found for `recall`. If not, the next round begins.
    pub(crate) fn is_settled(&mut self, recall: f32) -> bool {
        if !self.filtered {
            return true;
        }
        let last_two = self.round.saturating_sub(1);
        self.round += 1;
        self.pool.begin_segment(self.round);
        let hits = self.pool.sorted();
        let new = hits.iter().filter(|hit| hit.segment >= last_two).count();
        let missing = new as f64 * MISSING_PER_NEW;
        // The first rounds have nothing before them that they could be held against.
        last_two > 0 && !hits.is_empty() && missing <= CAUTION * f64::from(1.0 - recall) * hits.len() as f64
    }

    /// Further clusters of the next round.
    pub(crate) fn next(visited: usize) -> usize {
        ((visited as f64 * (GROWTH - 1.0)).ceil() as usize).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(k: usize, of_payload: bool) -> Reach {
        struct Any;
        impl crate::RowFilter for Any {
            fn admits(&mut self, _: u32, _: &mut ramlet_io::IoContext) -> crate::Result<bool> {
                Ok(true)
            }
        }
        let (only, mut any) = ((0..1_000u32).collect(), Any);
        let mut reach = Reach::default();
        reach.start(
            k,
            &Allowed {
                only: Some(&only),
                filter: of_payload.then_some(&mut any),
                ..Allowed::default()
            },
        );
        reach
    }

    #[test]
    fn a_search_ends_when_two_rounds_bring_little() {
        let mut reach = start(10, false);
        (0..100).for_each(|row| reach.met(100.0 - row as f32, row));
        assert!(
            !reach.is_settled(0.95) && !reach.is_settled(0.95),
            "the first two say nothing"
        );
        reach.met(0.5, 100);
        assert!(reach.is_settled(0.95), "1 of 64");
        (101..103).for_each(|row| reach.met(0.5, row));
        assert!(
            !reach.is_settled(0.95),
            "3 of 64 in two rounds, so 2.4 more may be missing"
        );
        reach.met(1000.0, 104);
        assert!(reach.is_settled(0.95), "2 of 64");
        let mut none = start(10, false);
        assert!((0..5).all(|_| !none.is_settled(0.95)), "nothing was met");
    }

    #[test]
    fn what_a_payload_filter_admits_counts_where_there_is_one() {
        let mut reach = start(3, true);
        reach.met(1.0, 1);
        assert!((0..3).all(|_| !reach.is_settled(0.5)), "nothing was admitted");
        (0..3).for_each(|row| reach.admitted(row as f32, row));
        assert!(!reach.is_settled(0.5) && !reach.is_settled(0.5));
        assert!(reach.is_settled(0.5));
    }

    #[test]
    fn a_search_without_filter_is_settled_at_once() {
        let mut reach = Reach::default();
        reach.start(10, &Allowed::default());
        reach.met(1.0, 1);
        assert!(reach.is_settled(0.99) && reach.limit() == f32::NEG_INFINITY);
        assert_eq!(reach.first(10, 0.5, |wanted| wanted as u32), 20);
        assert_eq!(
            start(10, false).first(9, 0.25, |wanted| wanted as u32),
            8,
            "18 / 2.25"
        );
    }
}
