//! How many clusters must be visited for which recall: measured at build on rows of the index itself.
//!
//! Within a visited cluster every row is scored exactly, so the recall of a query is the share of its true
//! neighbours whose clusters rank among those visited. One pass over the rows finds the true neighbours; nothing is
//! searched. The row that serves as query is left out of its own neighbours, which would flatter.
//!
//! Estimate and recall of 200 outside queries: .955 and .944, .953 and .954 (Fashion-MNIST, 8 and 32 MiB of scratch).

use ramlet_kernels::BRAID;

use super::cells;
use super::centroids::AT_ONCE;
use super::centroids::{Centroids, handicap};
use super::gap::{Gaps, key_as_of_clusters};
use super::misses::DeviationsByDepth;
use super::ranked::Ranked;
use super::rough::{Block, QUERIES, RoughQuery};
use crate::{Metric, Query, TopK};

/// Neighbours whose clusters are looked at.
pub(super) const DEPTHS: [usize; 2] = [10, 100];

/// Recall over clusters at which the two rules are compared.
const COMPARED_AT: [f32; 3] = [0.9, 0.95, 0.98];

/// Of the clusters visited by gap so many may be visited by the border.
const BORDER_WORTH: f64 = 0.97;

/// Recall reached with so many clusters visited on average, over the held-out rows: by each of two rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationPoint {
    pub probes: u32,
    /// Cells whose clusters are ranked to visit so many, the nearest ones; [`u32::MAX`]: all clusters are. See `cells`.
    pub cells: u32,
    /// [`Rule::Gap`].
    pub by_gap: Reached,
    /// [`Rule::Border`].
    pub by_border: Reached,
}

/// What a rule reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Visited are the clusters whose keys lie at most so far above what the rule holds them against (under dot product in
    /// units of the query's length). [`f32::MAX`]: all are, or nothing was measured; [`f32::MIN`]: as many as said.
    pub gap: f32,
    pub recall_10: f32,
    pub recall_100: f32,
}

/// Which clusters a search visits: see `gap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Those within a gap above the key of one of the nearest.
    Gap,
    /// Those within a gap above the middle between that key and where the tenth row of the nearest clusters lies.
    Border,
}

impl Reached {
    pub(super) fn is_sane(&self) -> bool {
        let is_share = |recall: f32| (0.0..=1.0).contains(&recall);
        is_share(self.recall_10) && is_share(self.recall_100)
    }

    /// With no more recall than was measured elsewhere.
    pub(super) fn at_most(self, other: &Reached) -> Reached {
        Reached {
            gap: self.gap,
            recall_10: self.recall_10.min(other.recall_10),
            recall_100: self.recall_100.min(other.recall_100),
        }
    }
}

impl CalibrationPoint {
    pub fn by(&self, rule: Rule) -> &Reached {
        match rule {
            Rule::Gap => &self.by_gap,
            Rule::Border => &self.by_border,
        }
    }
}

/// Recall by number of clusters visited, ascending; empty when there was nothing to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    pub points: Vec<CalibrationPoint>,
    /// Per file of codes by how many deviations its keys may be off before so many neighbours are lost.
    pub deviations: Vec<DeviationsByDepth>,
    /// A query is unlike those that were measured if its near clusters are farther than this: see `gap`. [`f32::MAX`]: none is.
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
    /// Whether searches that go by the border visit fewer clusters, by enough to be worth the two steps that they take: for few
    /// rows, and for many.
    pub(super) fn prefers_border(&self, clusters: u32) -> [bool; DEPTHS.len()] {
        DEPTHS.map(|depth| {
            let ratio = |recall: f32| {
                let [border, gap] = [Rule::Border, Rule::Gap]
                    .map(|rule| f64::from(self.probes(recall, depth as f64, clusters, rule)));
                border / gap
            };
            let ratios = COMPARED_AT.map(ratio);
            ratios.iter().product::<f64>() < BORDER_WORTH.powi(ratios.len() as i32)
        })
    }

    /// Cells to rank for so many clusters visited; [`u32::MAX`] for all clusters.
    pub fn cells(&self, probes: u32) -> u32 {
        let reached = self.points.partition_point(|point| point.probes < probes);
        self.points.get(reached).map_or(cells::ALL, |point| point.cells)
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
}

/// A row that serves as query, and its nearest rows so far; a hit's segment is the row's cluster.
pub(super) struct HeldOut {
    row: u32,
    /// The cluster that it lies in itself, once it came by. (Under dot product a row is seldom among its own nearest.)
    pub(super) cluster: Option<u32>,
    query: Query,
    rough: RoughQuery,
    top: TopK,
}

impl HeldOut {
    /// Bytes of one, but for its codes, which are few beside the rest and have the room that buffers leave. How many rows are held
    /// out, and so what is measured, depends on neither them nor the size of a [`Query`], whose fields serve others too.
    pub(super) fn bytes(dims: usize) -> usize {
        /// Of the struct without what grows, about.
        const OWN: usize = 176;
        const { assert!(size_of::<HeldOut>() - size_of::<RoughQuery>() <= OWN + OWN / 2) };
        TopK::bytes_for(DEPTHS[1] + 1) + dims * 5 + OWN
    }

    pub(super) fn new(row: u32, query: Query) -> HeldOut {
        HeldOut {
            row,
            cluster: None,
            rough: RoughQuery::new(query.floats()),
            query,
            top: TopK::new(DEPTHS[1] + 1),
        }
    }

    /// The nearest rows but itself, with their keys, ascending.
    pub(super) fn nearest(&mut self, count: usize) -> Vec<(f32, u32)> {
        let row = self.row;
        let others = self.top.sorted().iter().filter(|hit| hit.row != row);
        others.take(count).map(|hit| (hit.key, hit.row)).collect()
    }

    pub(super) fn row(&self) -> u32 {
        self.row
    }

    /// Adds what was found of it, with every cluster's key, which is by `less` below what it is of.
    fn add_to(&mut self, gaps: &mut Gaps, keys: &[f32], less: f32) {
        let (row, metric) = (self.row, self.query.metric());
        let neighbours = self.top.sorted().iter().filter(|hit| hit.row != row);
        let neighbours = neighbours.map(|hit| (hit.segment, key_as_of_clusters(metric, hit.key) - less));
        gaps.add(&self.query, (keys, less), neighbours);
    }

    pub(super) fn floats(&self) -> &[f32] {
        self.query.floats()
    }

    /// Compares with `numbers.len()` rows without gaps, whose clusters are given.
    pub(super) fn compare(&mut self, rows: &[u8], numbers: &[u32], clusters: &[u32]) {
        let stride = self.query.row_bytes();
        let mut keys = [0.0f32; AT_ONCE];
        for start in (0..numbers.len()).step_by(AT_ONCE) {
            let keys = &mut keys[..AT_ONCE.min(numbers.len() - start)];
            self.query.key_rows(&rows[start * stride..], stride, keys);
            for (key, i) in keys.iter().zip(start..) {
                if *key <= self.top.threshold() {
                    self.top.begin_segment(clusters[i]);
                    self.top.push(*key, numbers[i]);
                }
            }
        }
    }

    /// Compares several with the same [`AT_ONCE`] rows at most, of which a look at their codes rules out most.
    pub(super) fn compare_block(
        several: &mut [HeldOut],
        (rows, numbers, clusters): (&[u8], &[u32], &[u32]),
        rough: &Block<'_>,
    ) {
        const BRAIDS: usize = AT_ONCE / BRAID;
        let braids = numbers.len().div_ceil(BRAID);
        for several in several.chunks_mut(QUERIES) {
            let mut near = [0u16; QUERIES * BRAIDS];
            let near = &mut near[..several.len() * braids];
            rough.within(several.iter().map(|one| (&one.rough, one.top.threshold())), near);
            for (one, near) in several.iter_mut().zip(near.chunks_exact(braids)) {
                one.compare_near(rows, numbers, clusters, near);
            }
        }
    }

    /// Compares with the rows whose bits are set.
    fn compare_near(&mut self, rows: &[u8], numbers: &[u32], clusters: &[u32], near: &[u16]) {
        let stride = self.query.row_bytes();
        for (braid, near) in near.iter().enumerate() {
            let mut near = *near;
            while near != 0 {
                let i = braid * BRAID + near.trailing_zeros() as usize;
                near &= near - 1;
                let key = self.query.key_row(&rows[i * stride..][..stride]);
                if key <= self.top.threshold() {
                    self.top.begin_segment(clusters[i]);
                    self.top.push(key, numbers[i]);
                }
            }
        }
    }
}

/// Held-out rows that are compared with centroids at once: what a centroid decodes to serves all of them.
const TOGETHER: usize = 16;

/// Recall by clusters visited, from the neighbours that were found. `ranked` are the same centroids.
pub(super) fn measure(
    held_out: &mut [HeldOut],
    centroids: &Centroids,
    ranked: &Ranked<'_>,
    metric: Metric,
) -> Calibration {
    let clusters = centroids.count();
    let mut gaps = Gaps::new(clusters, held_out.len(), cells::less_than_mean(ranked, metric));
    let mut keys = vec![0.0f32; clusters * TOGETHER.min(held_out.len())];
    for held_out in held_out.chunks_mut(TOGETHER) {
        key_all(held_out, centroids, &mut keys);
        for (held_out, keys) in held_out.iter_mut().zip(keys.chunks_exact(clusters)) {
            held_out.add_to(&mut gaps, keys, 0.0);
        }
    }
    measured(gaps)
}

/// The same where `key_all` tells every cluster's key, as clusters are ranked, and what these are less by than they should be.
pub(super) fn measure_by(
    held_out: &mut [HeldOut],
    ranked: &Ranked<'_>,
    metric: Metric,
    key_all: &mut dyn FnMut(&Query, &mut [f32]) -> f32,
) -> Calibration {
    let clusters = ranked.count();
    let mut keys = vec![0.0f32; clusters];
    let mut gaps = Gaps::new(clusters, held_out.len(), cells::less_than_mean(ranked, metric));
    for held_out in held_out {
        let less = key_all(&held_out.query, &mut keys);
        held_out.add_to(&mut gaps, &keys, less);
    }
    measured(gaps)
}

fn measured(mut gaps: Gaps) -> Calibration {
    let far = gaps.far();
    Calibration {
        points: gaps.points(),
        far,
        ..Calibration::default()
    }
}

/// Every cluster's key, as clusters are ranked, for one query after another.
fn key_all(held_out: &[HeldOut], centroids: &Centroids, keys: &mut [f32]) {
    let (clusters, mut floats) = (centroids.count(), Vec::new());
    let vector = &mut vec![0.0; centroids.dims()];
    for first in (0..clusters).step_by(AT_ONCE) {
        floats.clear();
        let numbers = first..clusters.min(first + AT_ONCE);
        for i in numbers.clone() {
            centroids.decode(i, vector);
            vector
                .iter()
                .for_each(|value| floats.extend_from_slice(&value.to_le_bytes()));
        }
        for (held_out, keys) in held_out.iter().zip(keys.chunks_exact_mut(clusters)) {
            let (query, keys) = (&held_out.query, &mut keys[numbers.clone()]);
            query.key_centroids(&floats, keys);
            if matches!(query.metric(), Metric::Cosine | Metric::Euclid) {
                let spreads = (first..).map(|i| handicap(centroids.spread(i)));
                keys.iter_mut()
                    .zip(spreads)
                    .for_each(|(key, handicap)| *key += handicap);
            }
        }
    }
}
