//! Selects the clusters to visit next, and moves them to the front of the ranked list.

use ramlet_kernels::{Kernels, PLACES_MORE, packed, unpacked};

use super::candidates::Candidates;
use super::codes::Codes;
use super::inverted_file::Ivf;
use super::lists::Lists;
use super::probe_threshold::{
    CAP_OUT_OF_DISTRIBUTION, CAP_OUT_OF_DISTRIBUTION_BLURRED, KTH_ROWS, KTH_SHARE, MANY, base_rank,
    distance_as_of_clusters, most_of, unit,
};
use crate::rows::scan::Search;
use crate::search::calibration::{ALL_SUPER_CENTROIDS, Rule};
use crate::search::rounds::MEASURED;
use crate::vector_index::IndexSearchParams;
use crate::{Allowed, WIDE};

impl Ivf {
    /// Puts the ranked clusters that are to be visited next behind the `visited` ones; how many they are, if `probes` are
    /// on average. Rounds and who tells how many are taken at their word, and so are few clusters by the k-th distance: that many were measured.
    pub(super) fn next_clusters(
        &self,
        search: &mut Search<'_, '_>,
        (want, rule): (&IndexSearchParams, Rule),
        (visited, probes): (usize, usize),
        lists: &mut Lists,
    ) -> usize {
        if visited > 0 || is_taken_at_word(search, want) {
            self.rank_rest(search.query, visited, lists);
            return nearest(&mut lists.clusters[visited..], probes);
        }
        let threshold = match rule {
            Rule::ProbeThreshold => self.meta.calibration.threshold(probes as u32, rule),
            Rule::KthDistance => None,
        };
        let kernels = search.query.kernels();
        let unit = unit(search.query.metric(), lists.codes.query.squares());
        let within = threshold.unwrap_or(0.0) * unit;
        let base = within_threshold(self.base_rank(), within, kernels, lists);
        let base = (base + lists.codes.query.less()) / unit;
        if self.needs_rounds(search, want, base, probes) {
            self.rank_rest(search.query, 0, lists);
            return nearest(&mut lists.clusters, probes);
        }
        if threshold.is_none() {
            return nearest(&mut lists.clusters, probes);
        }
        let Lists { clusters, places, .. } = lists;
        let most = match base > self.meta.calibration.far {
            true => probes.saturating_mul(CAP_OUT_OF_DISTRIBUTION_BLURRED),
            false => most_of(probes),
        };
        match move_to_front(clusters, places, most) {
            0 => nearest(clusters, 1),
            within => within,
        }
    }

    /// Puts the clusters that a search of codes visits next behind the `visited` ones; how many they are, `None` if enough rows were
    /// `found`. `begun` is what one call leaves to the next, `known` where the rows are whose codes tell the k-th distance.
    pub(super) fn further_clusters(
        &self,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        (visited, found): (usize, usize),
        begun: &mut Option<KthSearch>,
        (lists, known): (&mut Lists, fn(&mut Lists) -> &mut Candidates),
    ) -> Option<usize> {
        if let Some(begun) = begun.take() {
            let kth_distance = known(lists).kth_distance(KTH_ROWS);
            return Some(self.clusters_within_kth_distance(search, begun, kth_distance, lists));
        }
        let more = self.more(search, want, visited, found)?;
        let share = search.allowed.share(u64::from(self.meta.shape.segment_rows));
        let rule = self.rule(want, search.allowed, search.top.k() as f64 / share);
        *begun = match (rule, visited) {
            (Rule::KthDistance, 0) => self.begin(search, want, more, lists),
            _ => None,
        };
        match begun {
            Some(begun) => {
                known(lists).keep(KTH_ROWS);
                Some(begun.first)
            }
            None => Some(self.next_clusters(search, (want, rule), (visited, more), lists)),
        }
    }

    /// Before the first clusters are visited: ranks as many as that takes, and makes the query ready. `probes` are visited on average.
    pub(super) fn rank_for(
        &self,
        search: &Search<'_, '_>,
        want: &IndexSearchParams,
        probes: u32,
        lists: &mut Lists,
    ) {
        let super_centroids = match is_taken_at_word(search, want) {
            true => ALL_SUPER_CENTROIDS,
            false => self.meta.calibration.super_centroids(probes),
        };
        self.rank_super_centroids(search.query, super_centroids, lists);
    }

    /// Rows that are candidates for `wanted`: more where the request asks for oversampling, at most all.
    pub(super) fn oversampled(&self, wanted: usize, want: &IndexSearchParams) -> usize {
        let times = f64::from(want.codes.oversampling.unwrap_or(1.0)).max(1.0);
        let rows = self.meta.shape.rows as usize;
        ((wanted as f64 * times).ceil() as usize).min(rows).max(wanted)
    }

    fn base_rank(&self) -> usize {
        base_rank(self.meta.shape.clusters)
    }

    /// Which clusters a search visits that is for so many rows.
    pub(super) fn rule(&self, want: &IndexSearchParams, allowed: &Allowed<'_>, wanted: f64) -> Rule {
        let prefers = self.by_kth_distance[usize::from(wanted >= MANY)];
        // One bit a dimension tells of wide vectors what two or three tell of others.
        let is_finer = |codes: &Codes| codes.extended.is_some() || self.dims() >= WIDE;
        let tells = self.codes.as_ref().is_some_and(is_finer)
            || self
                .products
                .as_ref()
                .is_some_and(|products| products.numbers.is_some());
        let is_deep = wanted > MEASURED as f64;
        match tells && prefers && !want.codes.ignore && !is_deep && !is_fixed(want, allowed) {
            true => Rule::KthDistance,
            false => Rule::ProbeThreshold,
        }
    }

    /// Whether a search whose near clusters are so far goes in rounds, of which `probes` are the first: its query is out of distribution
    /// measured, and what is met tells whether more is to come.
    fn needs_rounds(
        &self,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        base: f32,
        probes: usize,
    ) -> bool {
        let goes = base > self.meta.calibration.far && self.tells(want);
        if goes {
            let most = probes.saturating_mul(CAP_OUT_OF_DISTRIBUTION);
            search.rounds.begin_out_of_distribution(search.top.k(), most);
        }
        goes
    }

    /// Whether it is known at once how near rows are, by their codes or themselves. (By signs alone the more rows are met the more
    /// seem near: of 20,000 rows a search in rounds compares 16,000.)
    fn tells(&self, want: &IndexSearchParams) -> bool {
        let scanned = self.codes.as_ref().is_some_and(|codes| codes.extended.is_none());
        let plain = self
            .products
            .as_ref()
            .is_some_and(|products| products.numbers.is_none());
        want.codes.ignore || !(scanned || plain)
    }

    /// A search that goes by the k-th distance: puts the nearest clusters in front, which are visited before it is known. `None` where
    /// there is no more to visit than these, or nobody knows how much more.
    fn begin(
        &self,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        probes: usize,
        lists: &mut Lists,
    ) -> Option<KthSearch> {
        let threshold = self
            .meta
            .calibration
            .threshold(probes as u32, Rule::KthDistance)?;
        let unit = unit(search.query.metric(), lists.codes.query.squares());
        let less = lists.codes.query.less();
        // Those whose distances are at most the eleventh's.
        within_threshold(self.base_rank(), 0.0, search.query.kernels(), lists);
        let Lists { clusters, places, .. } = lists;
        let first = move_to_front(clusters, places, self.base_rank());
        let base = unpacked(*clusters[..first].iter().max()?).0;
        if self.needs_rounds(search, want, (base + less) / unit, probes) {
            return None;
        }
        Some(KthSearch {
            first,
            base,
            threshold: threshold * unit,
            most: most_of(probes).max(first),
        })
    }

    /// Puts the further clusters of that round behind those that were visited; how many they are. `kth_distance` is the distance of the last of
    /// [`KTH_ROWS`] rows found; without it as many are visited as ever.
    fn clusters_within_kth_distance(
        &self,
        search: &Search<'_, '_>,
        begun: KthSearch,
        kth_distance: Option<f32>,
        lists: &mut Lists,
    ) -> usize {
        let clusters = &mut lists.clusters[begun.first..];
        let most = begun.most - begun.first;
        let Some(kth_distance) = kth_distance.filter(|kth_distance| kth_distance.is_finite()) else {
            return nearest(clusters, most);
        };
        let kth_distance =
            distance_as_of_clusters(search.query.metric(), kth_distance) - lists.codes.query.less();
        let limit = begun.base + (kth_distance - begun.base) * KTH_SHARE + begun.threshold;
        let (kernels, places) = (search.query.kernels(), &mut lists.places);
        kernels.places_at_most(clusters, packed(limit, u32::MAX), places);
        move_to_front(clusters, places, most)
    }
}

/// A search that looks for the k-th distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct KthSearch {
    /// Clusters that are visited first, and the greatest of their distances.
    first: usize,
    base: f32,
    threshold: f32,
    /// Clusters visited in all, at most.
    most: usize,
}

/// A filter's rounds and who tells how many clusters are taken at their word.
fn is_fixed(want: &IndexSearchParams, allowed: &Allowed<'_>) -> bool {
    want.fixed_effort.is_some() || allowed.only.is_some() || allowed.filter.is_some()
}

/// So is a search in rounds.
fn is_taken_at_word(search: &Search<'_, '_>, want: &IndexSearchParams) -> bool {
    is_fixed(want, search.allowed) || search.rounds.is_in_rounds()
}

/// Puts the clusters at these places, which ascend, to the front, but at most so many, the nearest; how many they are.
fn move_to_front(clusters: &mut [u64], places: &[u32], most: usize) -> usize {
    for (at, place) in places.iter().enumerate() {
        clusters.swap(at, *place as usize);
    }
    match places.len() {
        within if within > most => nearest(&mut clusters[..within], most),
        within => within,
    }
}

/// One in so many clusters says about how near the nearest are.
const SAMPLED: usize = 8;

/// Where the clusters lie whose distances are at most `threshold` above the one that others are compared with, which has this rank and is
/// returned. What a sample has of that rank is no less: what lies within the probe threshold above it is found in one pass over all, and the
/// rest among that.
fn within_threshold(rank: usize, threshold: f32, kernels: &Kernels, lists: &mut Lists) -> f32 {
    let Lists {
        clusters,
        places,
        sample,
        ..
    } = lists;
    let rank = rank.min(clusters.len());
    sample.clear();
    // Once: how many are ranked and lie within differs from search to search.
    sample.reserve(clusters.capacity());
    places.clear();
    places.reserve(clusters.capacity() + PLACES_MORE);
    sample.extend(clusters.iter().step_by(SAMPLED));
    if sample.len() < rank {
        sample.clear();
        sample.extend_from_slice(clusters);
    }
    let no_less = *sample.select_nth_unstable(rank - 1).1;
    let above = |base: u64| packed(unpacked(base).0 + threshold, u32::MAX);
    // With a probe threshold below zero too the base itself is among them.
    kernels.places_at_most(clusters, above(no_less).max(no_less), places);
    let distance = |place: &u32| clusters[*place as usize];
    sample.clear();
    sample.extend(places.iter().map(distance));
    let base = *sample.select_nth_unstable(rank - 1).1;
    let most = above(base);
    places.retain(|place| distance(place) <= most);
    unpacked(base).0
}

/// Puts the nearest to the front; how many there are.
fn nearest(clusters: &mut [u64], count: usize) -> usize {
    if count >= clusters.len() {
        return clusters.len();
    }
    clusters.select_nth_unstable(count);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first() {
        let mut clusters: Vec<u64> = (0..50).rev().collect();
        assert_eq!(nearest(&mut clusters, 7), 7);
        assert!(clusters[..7].iter().all(|cluster| *cluster < 7));
        assert_eq!(nearest(&mut clusters, 50), 50);
        let ranks = [1, 2, 64, 400, 8_000].map(base_rank);
        assert_eq!(ranks, [1, 2, 3, 3, 11]);
    }
}
