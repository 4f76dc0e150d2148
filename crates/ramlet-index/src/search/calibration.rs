//! The calibration of an inverted file: recall by clusters visited, and how much codes miss.

/// Neighbours whose clusters are looked at.
pub(crate) const DEPTHS: [usize; 2] = [10, 100];

/// Recall over clusters at which the two rules are compared.
const COMPARED_AT: [f32; 3] = [0.9, 0.95, 0.98];

/// Of the clusters visited by the probe threshold so many may be visited by the k-th distance.
const KTH_WORTH: f64 = 0.97;

/// Recall reached with so many clusters visited on average, over the held-out rows: by each of two rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationPoint {
    pub probes: u32,
    /// Super-centroids whose clusters are ranked to visit so many, the nearest ones; [`u32::MAX`]: all clusters are. See `super_centroids`.
    pub super_centroids: u32,
    /// [`Rule::ProbeThreshold`].
    pub by_threshold: Reached,
    /// [`Rule::KthDistance`].
    pub by_kth_distance: Reached,
}

/// What a rule reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Visited are the clusters whose distances lie at most so far above what the rule holds them against (under dot product in
    /// units of the query's length). [`f32::MAX`]: all are, or nothing was measured; [`f32::MIN`]: as many as said.
    pub threshold: f32,
    pub recall_10: f32,
    pub recall_100: f32,
}

/// Which clusters a search visits: see `probe_threshold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Those within a probe threshold above the distance of one of the nearest.
    ProbeThreshold,
    /// Those within a probe threshold above the middle between that distance and where the tenth row of the nearest clusters lies.
    KthDistance,
}

impl Reached {
    pub(crate) fn is_sane(&self) -> bool {
        let is_share = |recall: f32| (0.0..=1.0).contains(&recall);
        is_share(self.recall_10) && is_share(self.recall_100)
    }

    /// With no more recall than was measured elsewhere.
    pub(crate) fn at_most(self, other: &Reached) -> Reached {
        Reached {
            threshold: self.threshold,
            recall_10: self.recall_10.min(other.recall_10),
            recall_100: self.recall_100.min(other.recall_100),
        }
    }
}

impl CalibrationPoint {
    pub fn by(&self, rule: Rule) -> &Reached {
        match rule {
            Rule::ProbeThreshold => &self.by_threshold,
            Rule::KthDistance => &self.by_kth_distance,
        }
    }
}

/// Recall by number of clusters visited, ascending; empty when there was nothing to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    pub points: Vec<CalibrationPoint>,
    /// Per file of codes by how many deviations its distances may be off before so many neighbours are lost.
    pub deviations: Vec<DeviationsByDepth>,
    /// A query is out of distribution if its near clusters are farther than this: see `probe_threshold`. [`f32::MAX`]: none is.
    pub far: f32,
    /// How many times the neighbours that a search should lose by all of this are lost by queries.
    pub lost: f32,
}

/// How many times the neighbours that rows held out of the index lose are lost by queries, where nobody measured it: 1.10 to 1.16 over
/// targets of .9 to .99 where a million rows had come through the API, 1.00 to 1.03 where the same were built at once. The target is
/// what queries are to reach, so the effort is sought for as much less.
pub const LOST_BY_QUERIES: f32 = 1.12;

impl Default for Calibration {
    fn default() -> Calibration {
        Calibration {
            points: Vec::new(),
            deviations: Vec::new(),
            far: f32::MAX,
            lost: LOST_BY_QUERIES,
        }
    }
}

impl Calibration {
    /// Whether searches that go by the k-th distance visit fewer clusters, by enough to be worth the two steps that they take: for few
    /// rows, and for many.
    pub(crate) fn prefers_kth_distance(&self, clusters: u32) -> [bool; DEPTHS.len()] {
        DEPTHS.map(|depth| {
            let ratio = |recall: f32| {
                let [kth_distance, threshold] = [Rule::KthDistance, Rule::ProbeThreshold]
                    .map(|rule| f64::from(self.probes(recall, depth as f64, clusters, rule)));
                kth_distance / threshold
            };
            let ratios = COMPARED_AT.map(ratio);
            ratios.iter().product::<f64>() < KTH_WORTH.powi(ratios.len() as i32)
        })
    }

    /// Super-centroids to rank for so many clusters visited; [`u32::MAX`] for all clusters.
    pub fn super_centroids(&self, probes: u32) -> u32 {
        let reached = self.points.partition_point(|point| point.probes < probes);
        self.points
            .get(reached)
            .map_or(ALL_SUPER_CENTROIDS, |point| point.super_centroids)
    }

    /// Share of the 10 nearest that lie in so many clusters; 1 if nothing was measured.
    pub fn coverage(&self, probes: u32, rule: Rule) -> f32 {
        let recall = |point: &CalibrationPoint| point.by(rule).recall_10;
        let reached = self.points.partition_point(|point| point.probes <= probes);
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else {
            return 1.0;
        };
        match (
            reached.checked_sub(1).map(|i| self.points[i]),
            self.points.get(reached),
        ) {
            (None, _) => recall(first),
            (Some(_), None) => recall(last),
            (Some(below), Some(above)) => {
                let share = (probes - below.probes) as f32 / (above.probes - below.probes) as f32;
                recall(&below) + (recall(above) - recall(&below)) * share
            }
        }
    }

    /// Clusters to visit for `recall` among the `wanted` nearest rows, of `clusters` in all.
    ///
    /// Between 10 and 100 the number follows a power of `wanted`, through what was measured at both; beyond that the same, up to its first:
    /// where the hundred nearest reach beyond a group of rows that has the ten, no thousand lies as much farther.
    pub fn probes(&self, recall: f32, wanted: f64, clusters: u32, rule: Rule) -> u32 {
        let first = |recall_of: fn(&Reached) -> f32| {
            let reached = |point: &CalibrationPoint| recall_of(point.by(rule));
            let Some(at) = self.points.iter().position(|point| reached(point) >= recall) else {
                return f64::from(clusters);
            };
            let above = &self.points[at];
            let Some(below) = at.checked_sub(1).map(|at| &self.points[at]) else {
                return f64::from(above.probes);
            };
            let share = f64::from((recall - reached(below)) / (reached(above) - reached(below)));
            f64::from(below.probes) + share * f64::from(above.probes - below.probes)
        };
        let at_10 = first(|reached| reached.recall_10);
        let at_100 = first(|reached| reached.recall_100);
        let power = (at_100 / at_10).log10().max(0.1);
        let of_hundred = at_10 * 10f64.powf(power);
        let probes = match wanted > 100.0 {
            true => of_hundred * (wanted / 100.0).powf(power.min(1.0)),
            false => at_10 * (wanted.max(10.0) / 10.0).powf(power),
        };
        (probes.ceil() as u32).clamp(1, clusters)
    }

    /// The probe threshold within which so many clusters lie on average; `None` if that wasn't measured, or if it is all, or as many as said.
    pub fn threshold(&self, probes: u32, rule: Rule) -> Option<f32> {
        let reached = self.points.partition_point(|point| point.probes <= probes);
        let (below, above) = (
            self.points.get(reached.checked_sub(1)?)?,
            self.points.get(reached)?,
        );
        let (from, to) = (below.by(rule).threshold, above.by(rule).threshold);
        if from == f32::MAX || from == f32::MIN {
            return None;
        }
        if to == f32::MAX {
            return Some(from);
        }
        let share = (probes - below.probes) as f32 / (above.probes - below.probes) as f32;
        Some(from + (to - from) * share)
    }
}

/// All super-centroids are ranked, or rather none: what a measure says where nothing is gained by them.
pub(crate) const ALL_SUPER_CENTROIDS: u32 = u32::MAX;

/// Shares of the neighbours lost, for which the deviations are kept.
pub(crate) const LOSSES: [f32; 8] = [0.08, 0.04, 0.02, 0.01, 0.005, 0.0025, 0.001, 0.0005];

/// Neighbours of a held-out row that count, and of which each is measured.
pub(crate) const MISS_DEPTHS: [usize; 2] = [10, 1];

/// Deviations at which so many neighbours are lost as `LOSSES` say, descending losses.
pub type Deviations = [f32; LOSSES.len()];

/// The same of the ten nearest, and of the nearest alone, which are no less.
pub type DeviationsByDepth = [Deviations; MISS_DEPTHS.len()];

/// 1, 2, 3, .. growing by an eighth, and last `clusters`.
pub(crate) fn steps(clusters: usize) -> impl Iterator<Item = usize> {
    let mut next = Some(1);
    std::iter::from_fn(move || {
        let now = next?;
        next = (now < clusters).then(|| (now + 1).max(now + now / 8).min(clusters));
        Some(now)
    })
}
