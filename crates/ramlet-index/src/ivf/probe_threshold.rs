//! The number of clusters to visit: those within a probe threshold of a near cluster's distance, or of the k-th distance.
//!
//! A query amid its neighbours finds them in a few clusters, one between many clusters needs hundreds; the distances of the
//! clusters tell which it is. So the build measures for probe thresholds, not for numbers of clusters, how many neighbours are found,
//! and how many clusters lie within each on average: that number is what is spoken of elsewhere. Distances are compared with
//! that of the eleventh nearest of 8,000 because the nearest one says less of what is around, and of rows that serve as
//! queries too much: they are a part of their centroid.
//!
//! 1M x 100, recall .95 and .98 over clusters alone, clusters visited on average: 310 and 631 if all queries visit as many,
//! 225 and 440 so; within a probe threshold above the nearest one's distance 213 and 414, but then the build takes 253 and 495 for it; above
//! the distance of the last neighbour 229 and 470.
//!
//! Where codes tell at once how near rows are, the eleven nearest clusters are visited first, and further ones are compared with
//! the middle between the eleventh's distance and the tenth nearest row of those: the distances tell which clusters are around, the row
//! how much of what is near lies ahead. Codes to compare for recall .90, .95 and .98 over clusters alone (simulated): 15,700,
//! 30,800 and 59,200 by the probe threshold, 11,900, 23,600 and 44,900 so.

use super::super_centroids;
use crate::search::calibration::{CalibrationPoint, DEPTHS, Reached, Rule, steps};
use crate::{Metric, Query};

/// A search visits at most so many times the clusters that searches visit on average, unless its query is out of distribution.
///
/// 1M x 100, effort 128: without a cap one search in a hundred compares 82,900 codes where the mean is 31,300, and is what a
/// latency's 99th percentile tells of; capped at 2.5 it compares 74,800, at 2 62,500. That costs .0015 of recall at 2 % fewer
/// codes, which the build measures with it.
const CAP: usize = 2;

/// The same for an out-of-distribution query, which goes in rounds.
pub(super) const CAP_OUT_OF_DISTRIBUTION: usize = 16;

/// The same where codes are too blurred for rounds.
pub(super) const CAP_OUT_OF_DISTRIBUTION_BLURRED: usize = 4;

/// A query is out of distribution if its near clusters are farther than those of so many of them. Questions among answers and texts
/// among images are such: what they look for lies on the far side of many clusters, all about as far, and no probe threshold that was measured
/// tells of how many. 80,000 passages and 2,000 questions of 384 dimensions, several builds: recall .82 to .84 where .95 was aimed at
/// before, .91 to .94 since; half of the questions are out of distribution by this measure, and of the others less is found than was aimed at.
/// Of queries that are like the rows .05 to .3 % exceed .997 (1M x 100, words, images), and of those that do each compares several times
/// as many codes: where more did, the 99th percentile of latency would tell.
const LIKE: f64 = 0.997;

/// Clusters that a search visits at most, if `probes` are visited on average.
pub(super) fn most_of(probes: usize) -> usize {
    probes.saturating_mul(CAP)
}

/// Looks for a probe threshold at most: some ten are enough, halvings alone take 30.
const LOOKS_MOST: usize = 40;

/// One look in so many halves what the threshold may lie in: what is counted jumps where clusters are equally far.
const HALVED_ONE_IN: usize = 4;

/// By what share the clusters within a threshold may differ from those that it is for.
const NEAR_ENOUGH: f64 = 1e-4;

/// From so many rows wanted on the rule is what was better for a hundred.
pub(super) const MANY: f64 = 32.0;

/// The k-th distance is where so many rows of the nearest clusters lie within.
pub(super) const KTH_ROWS: usize = 10;

/// How far towards the k-th distance from the distance of a near cluster. 1M x 100, codes for recall .95 over clusters: 23,200 at .7,
/// 23,600 at .5, 24,900 at .3; the greatest hundredth of searches 62,300, 59,200 and 57,400.
pub(super) const KTH_SHARE: f32 = 0.5;

/// Which of the nearest clusters others are compared with, from 1; so many are visited before the k-th distance is looked for.
///
/// A query near a stored row is near that row's cluster, whatever else is around: compared with it, all others are far. 3,000 x 1,024 and 12,000 x 256 without
/// structure were found with a recall of .66 to .70 and .87 to .89 so, where .95 was aimed at (records/2026-11-29-epyc-2core/from-outside.txt).
pub(super) fn base_rank(clusters: usize) -> usize {
    const LEAST: f64 = 3.0;
    let rank = ((clusters as f64).sqrt() / 8.0).round().max(LEAST) as usize;
    rank.min(clusters)
}

/// What probe thresholds are measured in: distances of dot products grow with the query.
pub(super) fn unit(metric: Metric, squares: f32) -> f32 {
    match metric {
        Metric::Dot => squares.sqrt().max(f32::MIN_POSITIVE),
        Metric::Cosine | Metric::Euclid | Metric::Manhattan => 1.0,
    }
}

/// What a row's distance is, compared with those of clusters: under cosine they are squared distances.
pub(super) fn distance_as_of_clusters(metric: Metric, distance: f32) -> f32 {
    match metric {
        Metric::Cosine => 2.0 + 2.0 * distance,
        Metric::Dot | Metric::Euclid | Metric::Manhattan => distance,
    }
}

/// A neighbour's cluster: the probe threshold that takes it in, how many clusters are nearer, and how many super-centroids are nearer than its own.
#[derive(Clone, Copy, Debug)]
struct Found {
    threshold: f32,
    nearer: u32,
    nearer_super_centroids: u32,
}

/// Which neighbours' clusters are visited.
#[derive(Clone, Copy, Debug)]
enum Within {
    /// As many of the nearest.
    Nearest(u32),
    /// Those within a probe threshold, `first` of them and at most so many.
    ProbeThreshold {
        rule: Rule,
        threshold: f32,
        first: u32,
        most: u32,
    },
}

/// Of so few queries: another one, of which nothing is found, weighs so much. Ten queries that miss nothing don't show that others
/// don't: 3,000 rows of 1,536 dimensions, measured with ten, were found with a recall of .67 to .99 where .95 was aimed at.
fn unseen(queries: usize) -> f32 {
    const LEAST: usize = 10;
    const ENOUGH: usize = 18;
    0.5 * ENOUGH.saturating_sub(queries) as f32 / (ENOUGH - LEAST) as f32
}

impl Within {
    /// `shift` is by how much less the query's thresholds above the k-th distance are.
    pub(super) fn has(&self, of: &Found, shift: f32) -> bool {
        match *self {
            Within::Nearest(count) => of.nearer < count,
            Within::ProbeThreshold {
                rule,
                threshold,
                first,
                most,
            } => {
                let of_rule = match rule {
                    Rule::ProbeThreshold => of.threshold,
                    Rule::KthDistance => of.threshold - shift,
                };
                // Without branches: it is asked for each neighbour, for two rules and some seventy numbers of clusters.
                ((of_rule <= threshold) | (of.nearer < first)) & (of.nearer < most)
            }
        }
    }
}

/// What is measured of held-out rows: see [`ProbeThresholds::bytes`].
#[derive(Debug)]
pub(super) struct ProbeThresholds {
    /// Numbers of clusters, and one after another for each query the probe thresholds that take in so many.
    steps: Vec<usize>,
    thresholds: Vec<f32>,
    /// For each query by how much less thresholds above the k-th distance are.
    shifts: Vec<f32>,
    /// How far the cluster is that others are compared with.
    bases: Vec<f32>,
    /// Clusters that are visited before the k-th distance is known.
    first: usize,
    /// For each query where its neighbours end.
    ends: Vec<u32>,
    found: Vec<Found>,
    sorted: Vec<f32>,
    /// By how much less each super-centroid's distance is than the mean of its clusters' distances.
    less: Vec<f32>,
    super_centroids: Vec<f32>,
    sorted_super_centroids: Vec<f32>,
}

impl ProbeThresholds {
    /// What it takes for a query: 12 bytes for each neighbour, 4 for each of about `8 ln K` steps; beside that 5 for each cluster.
    pub(super) fn bytes(clusters: usize) -> usize {
        DEPTHS[DEPTHS.len() - 1] * size_of::<Found>() + (steps(clusters).count() + 3) * size_of::<f32>()
    }

    /// `less` is empty if there are no super-centroids.
    pub(super) fn new(clusters: usize, queries: usize, less: Vec<f32>) -> ProbeThresholds {
        let steps: Vec<usize> = steps(clusters).collect();
        ProbeThresholds {
            thresholds: Vec::with_capacity(queries * steps.len()),
            shifts: Vec::with_capacity(queries),
            bases: Vec::with_capacity(queries),
            first: base_rank(clusters),
            ends: Vec::with_capacity(queries),
            found: Vec::with_capacity(queries * DEPTHS[DEPTHS.len() - 1]),
            sorted: Vec::with_capacity(clusters),
            super_centroids: Vec::with_capacity(less.len()),
            sorted_super_centroids: Vec::with_capacity(less.len()),
            less,
            steps,
        }
    }

    /// A query with its clusters' distances, `less` below what they are of, and its neighbours, the nearest first: their clusters, and
    /// their distances as those of clusters.
    pub(super) fn add(
        &mut self,
        query: &Query,
        (distances, less): (&[f32], f32),
        neighbours: impl Iterator<Item = (u32, f32)> + Clone,
    ) {
        self.sorted.clear();
        self.sorted.extend_from_slice(distances);
        self.sorted.sort_unstable_by(f32::total_cmp);
        self.super_centroids.clear();
        self.super_centroids
            .extend(
                distances
                    .chunks(super_centroids::RUN)
                    .zip(&self.less)
                    .map(|(run, less)| {
                        let mean = run
                            .iter()
                            .map(|distance| distance / run.len() as f32)
                            .sum::<f32>();
                        mean - less
                    }),
            );
        self.sorted_super_centroids.clear();
        self.sorted_super_centroids
            .extend_from_slice(&self.super_centroids);
        self.sorted_super_centroids.sort_unstable_by(f32::total_cmp);
        let sorted = &self.sorted;
        let floats = query.floats();
        let unit = unit(query.metric(), floats.iter().map(|value| value * value).sum());
        let base = sorted[self.first - 1];
        self.bases.push((base + less) / unit);
        let threshold = |distance: f32| (distance - base) / unit;
        self.thresholds
            .extend(self.steps.iter().map(|step| threshold(sorted[step - 1])));
        let here = neighbours
            .clone()
            .filter(|(cluster, _)| distances[*cluster as usize] <= base);
        // Where fewer are here than that, the last neighbour of all is nearer than the k-th distance.
        let kth_distance = here.map(|(_, distance)| distance).nth(KTH_ROWS - 1);
        let kth_distance = kth_distance.or_else(|| neighbours.clone().last().map(|(_, distance)| distance));
        let shift = kth_distance.map_or(0.0, |kth_distance| threshold(kth_distance) * KTH_SHARE);
        let shift = if shift.is_finite() { shift } else { 0.0 };
        self.shifts.push(shift);
        for (cluster, _) in neighbours.take(DEPTHS[DEPTHS.len() - 1]) {
            let distance = distances[cluster as usize];
            let super_centroid = self.super_centroids.get(cluster as usize / super_centroids::RUN);
            let nearer_super_centroids = super_centroid.map_or(0, |distance| {
                self.sorted_super_centroids.partition_point(|of| of < distance)
            });
            self.found.push(Found {
                threshold: threshold(distance),
                nearer: sorted.partition_point(|of| *of < distance) as u32,
                nearer_super_centroids: nearer_super_centroids as u32,
            });
        }
        self.ends.push(self.found.len() as u32);
    }

    /// Of each query its neighbours, at most so many, with its shift.
    fn neighbours(&self, depth: usize) -> impl Iterator<Item = (&[Found], f32)> {
        let begins = std::iter::once(&0).chain(&self.ends);
        let each = begins.zip(&self.ends).zip(&self.shifts);
        each.map(move |((begin, end), shift)| {
            let found = &self.found[*begin as usize..*end as usize];
            (&found[..depth.min(found.len())], *shift)
        })
    }

    /// Clusters within a probe threshold, at most so many, on average over the queries.
    fn clusters_within(&self, threshold: f32, rule: Rule, most: usize) -> f64 {
        let within = |thresholds: &[f32], threshold: f32| {
            let reached = thresholds.partition_point(|of| *of <= threshold);
            let Some(last) = reached.checked_sub(1) else {
                return 1.0;
            };
            let below = self.steps[last] as f64;
            let (Some(next), Some(above)) = (thresholds.get(reached), self.steps.get(reached)) else {
                return below;
            };
            let share = f64::from((threshold - thresholds[last]) / (next - thresholds[last]));
            below + share * (*above as f64 - below - 1.0).max(0.0)
        };
        let queries = self.thresholds.chunks_exact(self.steps.len()).zip(&self.shifts);
        let count = queries.len();
        let of_query = |(thresholds, shift): (&[f32], &f32)| match rule {
            Rule::ProbeThreshold => within(thresholds, threshold),
            Rule::KthDistance => within(thresholds, threshold + shift).max(self.first as f64),
        };
        let capped = queries.map(|query| of_query(query).min(most as f64));
        capped.sum::<f64>() / count as f64
    }

    /// The probe threshold within which searches visit so many clusters on average, by false position (the Illinois rule): what is counted is made of
    /// straight pieces.
    pub(super) fn of_clusters(&self, clusters: usize, rule: Rule) -> f32 {
        let finite = || {
            self.thresholds
                .iter()
                .copied()
                .filter(|threshold| threshold.is_finite())
        };
        let (mut low, mut high) = (finite().fold(0.0, f32::min), finite().fold(0.0, f32::max));
        if rule == Rule::KthDistance {
            low -= self.shifts.iter().copied().fold(0.0, f32::max);
            high -= self.shifts.iter().copied().fold(0.0, f32::min);
        }
        // Of distances near the end of what there are, half: differences of them are numbers too.
        (low, high) = (low.max(f32::MIN / 2.0), high.min(f32::MAX / 2.0));
        let wanted = clusters as f64;
        let beyond = |threshold: f32| self.clusters_within(threshold, rule, most_of(clusters)) - wanted;
        let (mut below, mut above) = (beyond(low), beyond(high));
        let mut was_low = None;
        for look in 1..=LOOKS_MOST {
            let share = match look % HALVED_ONE_IN == 0 || above <= below {
                true => 0.5,
                false => (-below / (above - below)).clamp(0.0, 1.0) as f32,
            };
            let middle = low + (high - low) * share;
            let found = beyond(middle);
            if found.abs() <= wanted * NEAR_ENOUGH {
                return middle;
            }
            let is_low = found < 0.0;
            // An end that stays twice counts half, so that it moves too.
            let stays = if was_low == Some(is_low) { 0.5 } else { 1.0 };
            match is_low {
                true => (low, below, above) = (middle, found, above * stays),
                false => (high, above, below) = (middle, found, below * stays),
            }
            was_low = Some(is_low);
        }
        high
    }

    /// Beyond which the near clusters of few queries are.
    pub(super) fn far(&mut self) -> f32 {
        self.bases.retain(|base| base.is_finite());
        self.bases.sort_unstable_by(f32::total_cmp);
        let at = (self.bases.len() as f64 * LIKE) as usize;
        self.bases.get(at).copied().unwrap_or(f32::MAX)
    }

    /// How many super-centroids' clusters to rank for so many clusters visited.
    fn super_centroids_for(&self, step: usize, within: &Within) -> u32 {
        let super_centroids = self.less.len();
        let (mut beyond, mut all) = (vec![0usize; super_centroids + 1], 0usize);
        for (found, shift) in self.neighbours(DEPTHS[0]) {
            all += found.len();
            for of in found {
                beyond[of.nearer_super_centroids as usize] += usize::from(within.has(of, shift));
            }
        }
        // Of as many as lie in a super-centroid so many lie beyond it.
        let mut after = 0;
        for at in beyond.iter_mut().rev() {
            (*at, after) = (after, after + *at);
        }
        let all = all as f64;
        let missing = (all - after as f64).max(0.5) / all;
        let beyond = |super_centroids: usize| beyond[super_centroids - 1] as f64 / all;
        super_centroids::enough((step, most_of(step)), missing, super_centroids, beyond)
    }

    /// Which clusters are visited where so many are on average.
    fn within(&self, step: usize, rule: Rule) -> Within {
        if rule == Rule::KthDistance && step < self.first {
            return Within::Nearest(step as u32);
        }
        Within::ProbeThreshold {
            rule,
            threshold: match self.steps.last() {
                Some(all) if *all == step => f32::MAX,
                _ => self.of_clusters(step, rule),
            },
            // The nearest cluster is visited by all, and before the k-th distance is known some more.
            first: match rule {
                Rule::ProbeThreshold => 1,
                Rule::KthDistance => self.first as u32,
            },
            most: most_of(step) as u32,
        }
    }

    fn reached(&self, within: &Within, super_centroids: u32) -> Reached {
        let visits_all = matches!(
            within,
            Within::ProbeThreshold {
                threshold: f32::MAX,
                ..
            }
        );
        let unseen = if visits_all { 0.0 } else { unseen(self.ends.len()) };
        let recall = |depth: usize| {
            let (mut found, mut all) = (0usize, 0usize);
            let has =
                |of: &&Found, shift| within.has(of, shift) & (of.nearer_super_centroids < super_centroids);
            for (neighbours, shift) in self.neighbours(depth) {
                all += neighbours.len();
                found += neighbours.iter().filter(|of| has(of, shift)).count();
            }
            found as f32 / (all as f32 + unseen * depth as f32)
        };
        Reached {
            threshold: match within {
                Within::Nearest(_) => f32::MIN,
                Within::ProbeThreshold { threshold, .. } => *threshold,
            },
            recall_10: recall(DEPTHS[0]),
            recall_100: recall(DEPTHS[1]),
        }
    }

    /// What was measured; nothing if there were no neighbours.
    pub(super) fn points(self) -> Vec<CalibrationPoint> {
        if self.found.is_empty() {
            return Vec::new();
        }
        let mut before = 0;
        let point = |step: &usize| {
            let [by_threshold, by_kth_distance] =
                [Rule::ProbeThreshold, Rule::KthDistance].map(|rule| self.within(*step, rule));
            before = self.super_centroids_for(*step, &by_threshold).max(before);
            CalibrationPoint {
                probes: *step as u32,
                super_centroids: before,
                by_threshold: self.reached(&by_threshold, before),
                by_kth_distance: self.reached(&by_kth_distance, before),
            }
        };
        let mut points: Vec<CalibrationPoint> = self.steps.iter().map(point).collect();
        // Sums are rounded, and each step has a cap of its own: who reads them wants them ascending.
        for i in 1..points.len() {
            let [before, next] = [points[i - 1], points[i]];
            points[i].by_threshold.threshold = next.by_threshold.threshold.max(before.by_threshold.threshold);
            points[i].by_kth_distance.threshold = next
                .by_kth_distance
                .threshold
                .max(before.by_kth_distance.threshold);
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Calibration, Element};

    /// Distances of 1,000 clusters, evenly spread: `per` of them in each unit.
    fn distances(per: f32) -> Vec<f32> {
        (0..1_000).map(|i| 5.0 + i as f32 / per).collect()
    }

    #[test]
    fn thresholds_take_in_as_many_clusters_on_average_as_they_say() {
        let query = Query::new(Metric::Euclid, Element::F32, &[1.0, 2.0]);
        let mut thresholds = ProbeThresholds::new(1_000, 2, Vec::new());
        // Of these every second neighbour is in the nearest cluster, the others a hundred clusters on.
        let neighbours = || (0..100).map(|i| (i % 2 * 100, 5.0));
        thresholds.add(&query, (&distances(100.0), 0.0), neighbours());
        thresholds.add(&query, (&distances(300.0), 1.0), neighbours());
        // The fourth nearest of the second, with what its distances are less by.
        let far = thresholds.far();
        assert!((far - 6.01).abs() < 1e-3, "{far}");
        let points = thresholds.points();
        let calibration = Calibration {
            points: points.clone(),
            ..Calibration::default()
        };
        for probes in [40usize, 100, 200, 400] {
            let threshold = calibration
                .threshold(probes as u32, Rule::ProbeThreshold)
                .expect("measured");
            // The base is the fourth nearest: three lie below it.
            let within = |per: f32| 4.0 + (threshold * per).floor();
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
        // Of two queries, and a part of one that finds nothing.
        let of = |share: f32| share * 2.0 / (2.0 + unseen(2));
        assert_eq!(at(1).by_threshold.recall_10, of(0.5), "the nearest cluster");
        assert_eq!(
            at(100).by_threshold.recall_100,
            of(0.75),
            "of the denser query 150 are visited, of the other 50"
        );
        assert_eq!(at(220).by_threshold.recall_100, of(1.0));
        assert_eq!(at(1_000).by_threshold.recall_100, 1.0, "all clusters");
        for rule in [Rule::ProbeThreshold, Rule::KthDistance] {
            let ascend = |a: &Reached, b: &Reached| a.threshold <= b.threshold && a.recall_10 <= b.recall_10;
            assert!(points.is_sorted_by(|a, b| ascend(a.by(rule), b.by(rule))));
            assert_eq!(calibration.threshold(1_000, rule), None, "all");
            assert_eq!(Calibration::default().threshold(10, rule), None);
        }
    }
}
