//! How many clusters a search visits: those whose keys lie at most a gap above that of one of the nearest.
//!
//! A query amid its neighbours finds them in a few clusters, one between many clusters needs hundreds; the keys of the
//! clusters tell which it is. So the build measures for gaps, not for numbers of clusters, how many neighbours are found,
//! and how many clusters lie within each on average: that number is what is spoken of elsewhere. Keys are held against
//! that of the eleventh nearest of 8,000 because the nearest one says less of what is around, and of rows that serve as
//! queries too much: they are a part of their centroid.
//!
//! 1M x 100, recall .95 and .98 over clusters alone, clusters visited on average: 310 and 631 if all queries visit as many,
//! 225 and 440 so; within a gap above the nearest one's key 213 and 414, but then the build takes 253 and 495 for it; above
//! the key of the last neighbour 229 and 470.

use ramlet_kernels::{Kernels, packed, unpacked};

use super::calibrate::{Calibration, CalibrationPoint, DEPTHS};
use super::search::Ivf;
use crate::scan::{Lists, Search};
use crate::vector_index::Want;
use crate::{Metric, Query};

/// A search visits at most so many times the clusters that searches visit on average.
///
/// 1M x 100, effort 128: without a cap one search in a hundred compares 82,900 codes where the mean is 31,300, and is what a
/// latency's 99th percentile tells of; capped at 2.5 it compares 74,800, at 2 62,500. That costs .0015 of recall at 2 % fewer
/// codes, which the build measures with it.
const CAP: usize = 2;

/// Halvings of what a gap may lie in.
const HALVINGS: usize = 40;

/// Which of the nearest clusters others are held against, from 1.
pub(super) fn base_rank(clusters: usize) -> usize {
    ((clusters as f64).sqrt() / 8.0).round().max(1.0) as usize
}

/// What gaps are measured in: keys of dot products grow with the query.
fn unit(metric: Metric, squares: f32) -> f32 {
    match metric {
        Metric::Dot => squares.sqrt().max(f32::MIN_POSITIVE),
        Metric::Cosine | Metric::Euclid | Metric::Manhattan => 1.0,
    }
}

/// 1, 2, 3, .. growing by an eighth, and last `clusters`.
fn steps(clusters: usize) -> impl Iterator<Item = usize> {
    let mut next = Some(1);
    std::iter::from_fn(move || {
        let now = next?;
        next = (now < clusters).then(|| (now + 1).max(now + now / 8).min(clusters));
        Some(now)
    })
}

/// A neighbour's cluster: the gap that takes it in, and how many clusters are nearer.
#[derive(Clone, Copy, Debug)]
struct Found {
    gap: f32,
    nearer: u32,
}

/// What is measured of held-out rows: see [`Gaps::bytes`].
#[derive(Debug)]
pub(super) struct Gaps {
    /// Numbers of clusters, and one after another for each query the gaps that take in so many.
    steps: Vec<usize>,
    gaps: Vec<f32>,
    /// Of neighbours, by depth.
    found: [Vec<Found>; DEPTHS.len()],
    sorted: Vec<f32>,
}

impl Gaps {
    /// What it takes for a query: 8 bytes for each neighbour, 4 for each of about `8 ln K` steps; beside that 4 for each cluster.
    pub(super) fn bytes(clusters: usize) -> usize {
        DEPTHS.iter().sum::<usize>() * size_of::<Found>() + steps(clusters).count() * size_of::<f32>()
    }

    pub(super) fn new(clusters: usize, queries: usize) -> Gaps {
        let steps: Vec<usize> = steps(clusters).collect();
        Gaps {
            gaps: Vec::with_capacity(queries * steps.len()),
            found: DEPTHS.map(|depth| Vec::with_capacity(queries * depth)),
            sorted: Vec::with_capacity(clusters),
            steps,
        }
    }

    /// A query with its clusters' keys, and its neighbours' clusters, the nearest first.
    pub(super) fn add(&mut self, query: &Query, keys: &[f32], neighbours: impl Iterator<Item = u32>) {
        self.sorted.clear();
        self.sorted.extend_from_slice(keys);
        self.sorted.sort_unstable_by(f32::total_cmp);
        let sorted = &self.sorted;
        let floats = query.floats();
        let unit = unit(query.metric(), floats.iter().map(|value| value * value).sum());
        let gap = |key: f32| (key - sorted[base_rank(keys.len()) - 1]) / unit;
        self.gaps
            .extend(self.steps.iter().map(|step| gap(sorted[step - 1])));
        for (i, cluster) in neighbours.enumerate() {
            let key = keys[cluster as usize];
            // The nearest cluster is visited by all.
            let at = Found {
                gap: if key <= sorted[0] { f32::MIN } else { gap(key) },
                nearer: sorted.partition_point(|of| *of < key) as u32,
            };
            for (found, depth) in self.found.iter_mut().zip(DEPTHS) {
                if i < depth {
                    found.push(at);
                }
            }
        }
    }

    /// Clusters within a gap, on average over the queries.
    fn clusters_within(&self, gap: f32) -> f64 {
        let within = |gaps: &[f32]| {
            let reached = gaps.partition_point(|of| *of <= gap);
            let Some(last) = reached.checked_sub(1) else {
                return 1.0;
            };
            let below = self.steps[last] as f64;
            let (Some(next), Some(above)) = (gaps.get(reached), self.steps.get(reached)) else {
                return below;
            };
            let share = f64::from((gap - gaps[last]) / (next - gaps[last]));
            below + share * (*above as f64 - below - 1.0).max(0.0)
        };
        let queries = self.gaps.chunks_exact(self.steps.len());
        let count = queries.len();
        queries.map(within).sum::<f64>() / count as f64
    }

    /// The gap that so many clusters lie within on average.
    fn of_clusters(&self, clusters: usize) -> f32 {
        let finite = || self.gaps.iter().copied().filter(|gap| gap.is_finite());
        let (mut low, mut high) = (finite().fold(0.0, f32::min), finite().fold(0.0, f32::max));
        for _ in 0..HALVINGS {
            let middle = low + (high - low) / 2.0;
            if self.clusters_within(middle) < clusters as f64 {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// What was measured; nothing if there were no neighbours.
    pub(super) fn points(self) -> Vec<CalibrationPoint> {
        if self.found.iter().any(Vec::is_empty) {
            return Vec::new();
        }
        let recall = |depth: usize, gap: f32, step: usize| {
            let (found, most) = (&self.found[depth], step.saturating_mul(CAP) as u32);
            let within = |of: &&Found| of.gap <= gap && of.nearer < most;
            found.iter().filter(within).count() as f32 / found.len() as f32
        };
        let all = self.steps.last().copied();
        let point = |step: &usize| {
            let gap = if Some(*step) == all {
                f32::MAX
            } else {
                self.of_clusters(*step)
            };
            CalibrationPoint {
                probes: *step as u32,
                gap,
                recall_10: recall(0, gap, *step),
                recall_100: recall(1, gap, *step),
            }
        };
        self.steps.iter().map(point).collect()
    }
}

impl Calibration {
    /// The gap within which so many clusters lie on average; `None` if that wasn't measured, or if it is all.
    pub fn gap(&self, probes: u32) -> Option<f32> {
        let reached = self.points.partition_point(|point| point.probes <= probes);
        let (below, above) = (
            self.points.get(reached.checked_sub(1)?)?,
            self.points.get(reached)?,
        );
        if below.gap == f32::MAX {
            return None;
        }
        if above.gap == f32::MAX {
            return Some(below.gap);
        }
        let share = (probes - below.probes) as f32 / (above.probes - below.probes) as f32;
        Some(below.gap + (above.gap - below.gap) * share)
    }
}

impl Ivf {
    /// Puts the ranked clusters that are to be visited next behind the `visited` ones; how many they are, if `probes` are
    /// on average. A filter's rounds and who tells how many are taken at their word.
    pub(super) fn bring_next(
        &self,
        search: &Search<'_, '_>,
        want: &Want,
        visited: usize,
        probes: usize,
        lists: &mut Lists,
    ) -> usize {
        let clusters = &mut lists.clusters[visited..];
        if visited > 0 {
            return nearest(clusters, probes);
        }
        let squares = lists.codes.query.squares();
        let allowed = &search.allowed;
        let is_told = want.told.is_some() || allowed.only.is_some() || allowed.filter.is_some();
        let gap = self.meta.calibration.gap(probes as u32).filter(|_| !is_told);
        let Some(gap) = gap else {
            return nearest(clusters, probes);
        };
        let (kernels, places) = (search.query.kernels(), &mut lists.places);
        let gap = gap * unit(search.query.metric(), squares);
        within_gap(clusters, gap, kernels, places, &mut lists.sample);
        for (at, place) in places.iter().enumerate() {
            clusters.swap(at, *place as usize);
        }
        let capped = probes.saturating_mul(CAP);
        match places.len() {
            0 => nearest(clusters, 1),
            within if within > capped => nearest(&mut clusters[..within], capped),
            within => within,
        }
    }
}

/// One in so many clusters says about how near the nearest are.
const SAMPLED: usize = 8;

/// Where the clusters lie whose keys are at most `gap` above the one that others are held against. What a sample has of that
/// key's rank is no less: what lies within the gap above it is found in one pass over all, and the rest among that.
fn within_gap(clusters: &[u64], gap: f32, kernels: &Kernels, places: &mut Vec<u32>, sample: &mut Vec<u64>) {
    let rank = base_rank(clusters.len());
    sample.clear();
    // Once: how many lie within differs from search to search.
    sample.reserve(clusters.len());
    sample.extend(clusters.iter().step_by(SAMPLED));
    if sample.len() < rank {
        sample.clear();
        sample.extend_from_slice(clusters);
    }
    let no_less = *sample.select_nth_unstable(rank - 1).1;
    let above = |base: u64| packed(unpacked(base).0 + gap, u32::MAX);
    // With a gap below zero too the base itself is among them.
    kernels.places_at_most(clusters, above(no_less).max(no_less), places);
    let key = |place: &u32| clusters[*place as usize];
    sample.clear();
    sample.extend(places.iter().map(key));
    let base = *sample.select_nth_unstable(rank - 1).1;
    let most = above(base);
    places.retain(|place| key(place) <= most);
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
    use crate::Element;

    /// Keys of 1,000 clusters, evenly spread: `per` of them in each unit.
    fn keys(per: f32) -> Vec<f32> {
        (0..1_000).map(|i| 5.0 + i as f32 / per).collect()
    }

    #[test]
    fn gaps_take_in_as_many_clusters_on_average_as_they_say() {
        let query = Query::new(Metric::Euclid, Element::F32, &[1.0, 2.0]);
        let mut gaps = Gaps::new(1_000, 2);
        // Of these every second neighbour is in the nearest cluster, the others a hundred clusters on.
        gaps.add(&query, &keys(100.0), (0..100).map(|i| i % 2 * 100));
        gaps.add(&query, &keys(300.0), (0..100).map(|i| i % 2 * 100));
        let points = gaps.points();
        let calibration = Calibration {
            points: points.clone(),
            deviations: Vec::new(),
        };
        for probes in [40usize, 100, 200, 400] {
            let gap = calibration.gap(probes as u32).expect("measured");
            // The base is the fourth nearest: three lie below it.
            let within = |per: f32| 4.0 + (gap * per).floor();
            let mean = (within(100.0) + within(300.0)) / 2.0;
            assert!(
                (mean - probes as f32).abs() <= 0.03 * probes as f32 + 1.0,
                "{mean} of {probes}"
            );
        }
        let at = |probes: u32| {
            points
                .iter()
                .rfind(|point| point.probes <= probes)
                .expect("a point")
        };
        assert_eq!(at(1).recall_10, 0.5, "the nearest cluster");
        assert_eq!(
            at(100).recall_100,
            0.75,
            "of the denser query 150 are visited, of the other 50"
        );
        assert_eq!(at(220).recall_100, 1.0);
        assert!(points.is_sorted_by(|a, b| a.gap <= b.gap && a.recall_10 <= b.recall_10));
        assert_eq!(calibration.gap(1_000), None, "all");
        assert_eq!(Calibration::default().gap(10), None);
    }

    #[test]
    fn the_nearest_come_first() {
        let mut clusters: Vec<u64> = (0..50).rev().collect();
        assert_eq!(nearest(&mut clusters, 7), 7);
        assert!(clusters[..7].iter().all(|cluster| *cluster < 7));
        assert_eq!(nearest(&mut clusters, 50), 50);
        assert_eq!((base_rank(1), base_rank(64), base_rank(8_000)), (1, 1, 11));
    }
}
