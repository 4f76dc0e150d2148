//! Search in rounds, without a calibrated effort: until further clusters bring hardly any nearer rows.
//!
//! The `k` nearest rows that a filter admits are about the `k / share` nearest of all, if the filter has nothing to do with
//! the query. But often it does: it admits the rows around it (a category that it belongs to) or hardly any of them (the
//! other side of a boundary). And how many clusters hold the 5,000 nearest of all, nobody measured. So a filtered search goes
//! in rounds, each half as large again as all before, and keeps a list of the nearest rows admitted so far, longer than what
//! is wanted; it ends when a round has brought so few of the candidates that what further ones would bring is tolerable.
//!
//! Neighbours missed fall about as one over the clusters visited (so they do in what calibration measures from recall .8
//! on). Then what is missing after two rounds is four fifths of what the two have brought.
//!
//! 50,000 rows of 24 dimensions, recall@10 aimed at .95, filters of half to a hundredth of the rows (`filtered.rs` of the
//! engine's tests): from the share in the whole segment alone, times four for safety, .300 to .942; so, .94 to 1.
//!
//! So does a search whose query is out of distribution (see `probe_threshold`), and a search for more rows than it has measured, which knew only that as many rows as are wanted must have been
//! met: the nearest end where a group of rows ends, and no power of what 100 took tells how far the next group is (`deep.rs` of
//! the tests).
//!
//! Where rows are deleted it may be those around the query: a document and all its parts. Then what was measured holds for the rows that
//! there are no more, and those wanted lie farther. Deleted rows that are met are kept too: with so many of them nearer than the last row
//! wanted, as many more of all rows are aimed at, and from there the search goes in rounds.

use ramlet_io::Clock;

use super::calibration::DEPTHS;
use crate::{Allowed, TopK};

/// Rows in the candidates at least, and for each one wanted. Fewer, and a round that brings none says little.
const CANDIDATES_MIN: usize = 64;
const CANDIDATES_PER_WANTED: f64 = 1.5;

/// Clusters visited after a round, by those visited before.
const GROWTH: f64 = 1.5;

/// Missing rows by those that the last two rounds brought, where misses fall as one over the clusters visited.
const MISSING_PER_NEW: f64 = 1.0 / (GROWTH * GROWTH - 1.0);

/// Of the rows that may be missing, those that the estimate may be wrong by.
const CAUTION: f64 = 0.5;

/// The same for a search without a filter: its hundreds of rows say as much after one round as others' dozens after two.
const MISSING_PER_NEW_DEEP: f64 = 1.0 / (GROWTH - 1.0);
const CAUTION_DEEP: f64 = 1.0;

/// Rows wanted up to which the build has measured how many clusters hold them.
pub(crate) const MEASURED: usize = DEPTHS[DEPTHS.len() - 1];

/// Deleted rows that are kept.
const GONE: usize = MEASURED;

/// More are aimed at if it is by so much.
const GONE_WORTH: f64 = 1.25;

/// Rows of a list of candidates that stays for the next search.
const CANDIDATES_KEPT: usize = 1 << 12;

/// The nearest rows that a search in rounds has met, and in which. Reused; allocates only for a longer list.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// A hit's segment is the round.
    candidates: TopK,
    round: u32,
    filtered: bool,
    /// Only what was asked of the payload filter is known to be admitted.
    by_payload: bool,
    /// More is wanted than was measured, and nothing filters.
    deep: bool,
    /// The query is out of distribution, and nothing filters; how many clusters are visited at most.
    out_of_distribution: Option<usize>,
    /// Rows are deleted, and it isn't known to be more or less of those around the query.
    minds_gone: bool,
    /// The nearest deleted rows.
    gone: TopK,
    /// Nearest of all rows, deleted ones too, that the first clusters hold.
    aimed: f64,
    /// The caller's, for one search; and what it said when the first clusters were chosen.
    clock: Option<Clock>,
    ranked_at: u64,
}

impl Rounds {
    /// Bytes that a search for the `k` nearest takes, at most, beyond what is kept for the next.
    pub(crate) fn bytes_for(k: usize) -> u64 {
        let candidates = (k as f64 * CANDIDATES_PER_WANTED) as usize;
        TopK::bytes_for(candidates.saturating_sub(CANDIDATES_KEPT)) as u64
    }

    /// Searches are timed from now on, or no longer.
    pub(crate) fn set_clock(&mut self, clock: Option<Clock>) {
        (self.clock, self.ranked_at) = (clock, 0);
    }

    /// When the centroids were ranked and the first clusters chosen; `None`: none were, or nothing is timed.
    pub(crate) fn ranked_at(&self) -> Option<u64> {
        (self.ranked_at > 0).then_some(self.ranked_at)
    }

    /// A search for the `k` nearest begins; one that is `told` how many clusters to visit has no rounds without a filter.
    pub(crate) fn start(&mut self, k: usize, allowed: &Allowed<'_>, is_fixed: bool) {
        self.ranked_at = 0;
        self.by_payload = allowed.filter.is_some();
        self.filtered = self.by_payload || allowed.only.is_some();
        self.deep = !self.filtered && !is_fixed && k > MEASURED;
        self.out_of_distribution = None;
        self.minds_gone = allowed.deleted.is_some() && !self.filtered && !self.deep && !is_fixed;
        self.gone.clear(if self.minds_gone { GONE } else { 0 });
        self.round = 0;
        let candidates = match (self.filtered, self.by_payload) {
            (false, _) if self.deep => k,
            (false, _) if self.minds_gone => candidates_of(k),
            (false, _) => {
                // Room for what `begin_out_of_distribution` wants: which query is the first such nobody knows.
                self.candidates
                    .clear(candidates_of(k).min(candidates_of(MEASURED)));
                0
            }
            (true, true) => k,
            (true, false) => candidates_of(k),
        };
        self.candidates.clear(candidates);
    }

    /// Before the first round: the query is out of distribution. At most so many clusters are visited.
    pub(crate) fn begin_out_of_distribution(&mut self, k: usize, most: usize) {
        (self.out_of_distribution, self.minds_gone) = (Some(most), false);
        self.candidates.clear(candidates_of(k));
    }

    /// After the first clusters of a search that isn't in rounds: how many of all rows, deleted ones too, it is that are to be found, if many
    /// more lie around the query than was expected. From then on it goes in rounds, of `clusters` at most.
    /// What other segments have found is all nearer than `limit`.
    pub(crate) fn beyond_gone(&mut self, k: usize, clusters: usize, limit: f32) -> Option<f64> {
        if !std::mem::take(&mut self.minds_gone) {
            return None;
        }
        let last = self.candidates.sorted().get(k.max(1) - 1);
        let kth_distance = last.map_or(f32::INFINITY, |hit| hit.distance).min(limit);
        let nearer = self
            .gone
            .sorted()
            .partition_point(|hit| hit.distance <= kth_distance);
        let wanted = (k + nearer) as f64;
        // Fewer rows than were measured take as many clusters as those.
        let is_more = wanted > self.aimed.max(DEPTHS[0] as f64) * GONE_WORTH;
        is_more.then(|| {
            self.out_of_distribution = Some(clusters);
            wanted
        })
    }

    /// Whether as many clusters were visited as may be.
    pub(crate) fn is_over(&self, visited: usize) -> bool {
        self.out_of_distribution.is_some_and(|most| visited >= most)
    }

    /// Whether it is found out on the way how many clusters are visited.
    pub(crate) fn is_in_rounds(&self) -> bool {
        self.filtered || self.deep || self.out_of_distribution.is_some()
    }

    /// Gives back what a search for many rows took.
    pub(crate) fn trim(&mut self) {
        if self.candidates.k() > CANDIDATES_KEPT {
            self.candidates = TopK::default();
        }
    }

    /// Clusters of the first round: `probes` says how many hold so many nearest of all. For the `k` nearest of a share that
    /// is half of the way, since near the query there may be more of them, and two rounds follow at least. Without a filter one does.
    pub(crate) fn first(&mut self, k: usize, share: f64, probes: impl Fn(f64) -> u32) -> usize {
        self.ranked_at = self.clock.map_or(0, |clock| clock());
        self.aimed = k as f64 / share;
        match self.is_in_rounds() {
            true if self.filtered => {
                (f64::from(probes(k as f64 / share.sqrt())) / (GROWTH * GROWTH)).ceil() as usize
            }
            true => (f64::from(probes(k as f64 / share)) / GROWTH).ceil() as usize,
            false => probes(k as f64 / share) as usize,
        }
    }

    /// Rows with a larger distance needn't be offered, unless they may enter the result. Without a filter no others count.
    #[inline]
    pub(crate) fn limit(&self) -> f32 {
        match self.filtered && !self.by_payload || self.out_of_distribution.is_some() {
            true => self.candidates.threshold(),
            false => f32::NEG_INFINITY,
        }
    }

    /// Whether it is to be told of a row with this distance that the bitmaps admit.
    #[inline]
    pub(crate) fn counts(&self, distance: f32) -> bool {
        let minds = self.is_in_rounds() && !self.by_payload;
        minds && distance <= self.candidates.threshold() || self.minds_gone
    }

    /// A row that the bitmaps admit.
    #[inline]
    pub(crate) fn met(&mut self, distance: f32, row: u32) {
        if self.is_in_rounds() && !self.by_payload || self.minds_gone {
            self.candidates.push(distance, row);
        }
    }

    /// A row that the bitmaps don't admit.
    #[inline]
    pub(crate) fn refused(&mut self, distance: f32, row: u32) {
        if self.minds_gone {
            self.gone.push(distance, row);
        }
    }

    /// A row that all filters admit.
    #[inline]
    pub(crate) fn admitted(&mut self, distance: f32, row: u32) {
        if self.by_payload {
            self.candidates.push(distance, row);
        }
    }

    /// After a round, `visited` clusters in all: whether enough was found for `recall`. If not, the next round begins.
    pub(crate) fn is_settled(&mut self, recall: f32) -> bool {
        if !self.is_in_rounds() {
            return true;
        }
        let (last, missing_per_new, caution) = match self.deep || self.out_of_distribution.is_some() {
            true => (self.round, MISSING_PER_NEW_DEEP, CAUTION_DEEP),
            false => (self.round.saturating_sub(1), MISSING_PER_NEW, CAUTION),
        };
        self.round += 1;
        self.candidates.begin_segment(self.round);
        let hits = self.candidates.sorted();
        let new = hits.iter().filter(|hit| hit.segment >= last).count();
        let missing = new as f64 * missing_per_new;
        // That nothing was met says something only where what other segments hold is all nearer.
        let says = self.deep || !hits.is_empty();
        // The first rounds have nothing before them that they could be compared with.
        last > 0 && says && missing <= caution * f64::from(1.0 - recall) * hits.len() as f64
    }

    /// Further clusters of the next round.
    pub(crate) fn next(visited: usize) -> usize {
        ((visited as f64 * (GROWTH - 1.0)).ceil() as usize).max(1)
    }
}

/// Rows in the candidates of a search for the `k` nearest.
fn candidates_of(k: usize) -> usize {
    CANDIDATES_MIN.max((k as f64 * CANDIDATES_PER_WANTED) as usize)
}

#[cfg(test)]
mod tests {
    use roaring::RoaringBitmap;

    use super::*;

    fn start(k: usize, of_payload: bool) -> Rounds {
        struct Any;
        impl crate::RowFilter for Any {
            fn admits(&mut self, _: u32, _: &mut ramlet_io::IoContext) -> crate::Result<bool> {
                Ok(true)
            }
        }
        let (only, mut any) = ((0..1_000u32).collect(), Any);
        let mut reach = Rounds::default();
        reach.start(
            k,
            &Allowed {
                only: Some(&only),
                filter: of_payload.then_some(&mut any),
                ..Allowed::default()
            },
            false,
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
        let mut reach = Rounds::default();
        reach.start(10, &Allowed::default(), false);
        reach.met(1.0, 1);
        assert!(reach.is_settled(0.99) && reach.limit() == f32::NEG_INFINITY);
        assert_eq!(reach.first(10, 0.5, |wanted| wanted as u32), 20);
        assert_eq!(
            start(10, false).first(9, 0.25, |wanted| wanted as u32),
            8,
            "18 / 2.25"
        );
    }

    #[test]
    fn an_out_of_distribution_search_goes_in_rounds() {
        let mut reach = Rounds::default();
        reach.start(10, &Allowed::default(), false);
        assert!(!reach.is_in_rounds());
        reach.begin_out_of_distribution(10, 100);
        assert!(reach.is_in_rounds() && reach.limit() == f32::INFINITY);
        (0..70).for_each(|row| reach.met(row as f32, row));
        assert_eq!(reach.limit(), 63.0, "more than is wanted is met");
        assert!(
            !reach.is_settled(0.95),
            "the first has nothing to be compared with"
        );
        (70..72).for_each(|row| reach.met(0.5, row));
        assert!(!reach.is_settled(0.95), "2 of 64, so 4 more may be missing");
        reach.met(0.5, 72);
        assert!(reach.is_settled(0.95), "1 of 64");
        assert!(!reach.is_over(99) && reach.is_over(100));
        reach.start(10, &Allowed::default(), false);
        assert!(!reach.is_in_rounds() && !reach.is_over(100));
    }

    #[test]
    fn where_the_nearest_are_deleted_more_are_aimed_at() {
        let deleted: RoaringBitmap = (0..1_000).collect();
        let begin = |k: usize| {
            let mut reach = Rounds::default();
            let deleted = Some(&deleted as &dyn crate::RowSet);
            let allowed = Allowed {
                deleted,
                ..Allowed::default()
            };
            reach.start(k, &allowed, false);
            assert_eq!(
                reach.first(k, 0.8, |wanted| wanted as u32),
                (k as f64 / 0.8) as usize
            );
            reach
        };
        let mut reach = begin(10);
        assert!(!reach.is_in_rounds() && reach.counts(f32::MAX) && reach.limit() == f32::NEG_INFINITY);
        (0..20).for_each(|row| reach.met(row as f32, row));
        (20..26).for_each(|row| reach.refused(8.5, row));
        (26..99).for_each(|row| reach.refused(9.5, row));
        assert_eq!(reach.beyond_gone(10, 100, f32::INFINITY), Some(16.0));
        assert!(reach.is_in_rounds() && !reach.is_over(99) && !reach.is_settled(0.95));
        assert_eq!(reach.beyond_gone(10, 100, f32::INFINITY), None, "once");
        let mut reach = begin(10);
        (0..20).for_each(|row| reach.refused(8.5, row));
        assert_eq!(reach.beyond_gone(10, 100, 8.0), None, "others have nearer ones");
        let mut reach = begin(10);
        (0..20).for_each(|row| reach.met(row as f32, row));
        (20..25).for_each(|row| reach.refused(8.5, row));
        assert_eq!(
            reach.beyond_gone(10, 100, f32::INFINITY),
            None,
            "hardly more than is aimed at"
        );
        let mut reach = begin(1);
        reach.met(5.0, 0);
        (1..8).for_each(|row| reach.refused(1.0, row));
        assert_eq!(
            reach.beyond_gone(1, 100, f32::INFINITY),
            None,
            "ten take no more than one"
        );
        let mut reach = begin(1);
        (0..200).for_each(|row| reach.refused(1.0, row));
        assert_eq!(
            reach.beyond_gone(1, 100, f32::INFINITY),
            Some(101.0),
            "and more that aren't kept"
        );
        // What a filter doesn't admit says nothing of the kind.
        let mut reach = start(10, false);
        reach.refused(1.0, 1);
        assert_eq!(reach.beyond_gone(10, 100, f32::INFINITY), None);
    }

    #[test]
    fn a_search_for_more_than_was_measured_goes_in_rounds() {
        let mut reach = Rounds::default();
        for (k, told, in_rounds) in [
            (MEASURED, false, false),
            (MEASURED + 1, false, true),
            (500, true, false),
        ] {
            reach.start(k, &Allowed::default(), told);
            assert_eq!(reach.is_in_rounds(), in_rounds, "{k}");
        }
        reach.start(200, &Allowed::default(), false);
        assert_eq!(
            reach.limit(),
            f32::NEG_INFINITY,
            "what can't enter the result isn't read"
        );
        (0..200).for_each(|row| reach.met(row as f32, row));
        assert!(!reach.counts(200.0) && reach.counts(198.0));
        assert!(
            !reach.is_settled(0.95),
            "the first round has nothing to be compared with"
        );
        (200..206).for_each(|row| reach.met(0.5, row));
        assert!(!reach.is_settled(0.95), "6 of 200, so 12 more may be missing");
        (206..210).for_each(|row| reach.met(0.5, row));
        assert!(reach.is_settled(0.95), "4 of 200");
        reach.start(200, &Allowed::default(), false);
        assert!(!reach.is_settled(0.95));
        assert!(
            reach.is_settled(0.95),
            "all that is nearer lies in other segments"
        );
    }
}
