//! How much codes miss true neighbours, measured at the build on the neighbours of held-out rows.
//!
//! A neighbour is lost where its least possible distance lies above that of the last one wanted. By how many deviations that
//! happens depends on the data: rows are lost less often than normal errors say, since most neighbours lie well within. Of the nearest
//! alone none does: where codes hardly tell neighbours apart they are off by much more for it than for ten. (Codes of a 64th, 64
//! dimensions in 60 groups: 78 % of the nearest were found where 96 % of ten were, and 56 % of what a small segment had of ten.)

use ramlet_kernels::{FastScanned, kernels};

use super::calibrate::HeldOut;
use super::product_query::ProductQuery;
use super::ranked::Ranked;
use crate::Metric;
use crate::quant::product::ProductModel;
use crate::quant::{
    CodeQuery, CodeSpace, Epsilon, ExtendedLayout, GroupLayout, ResidualQuery, Rotation, SignRow,
};
use crate::search::calibration::{Deviations, DeviationsByDepth, LOSSES, MISS_DEPTHS};

/// What is taken where too little was measured: about what vectors of text and images take.
pub(super) const ONE_BIT_USUAL: [f32; LOSSES.len()] = [0.7, 1.0, 1.3, 1.6, 1.9, 2.1, 2.4, 2.7];
pub(super) const EXTENDED_USUAL: [f32; LOSSES.len()] = [0.1, 0.2, 0.35, 0.6, 0.8, 1.1, 1.6, 2.0];

/// For product codes, whose errors exceed what tells neighbours from each other: wide, since for want of neighbours to measure
/// there are few rows, and reading some more costs little.
pub(super) const PRODUCT_USUAL: Deviations = [2.1, 2.6, 3.1, 3.5, 3.9, 4.2, 4.6, 4.9];

/// Neighbours measured at least, for what was measured to be believed if it is less than what is usual.
const SAMPLES_MIN: usize = 1000;

/// And if it is more: reading some rows more costs little.
const SAMPLES_FEW: usize = 50;

/// Deviations at least.
const LEAST: f32 = 0.05;

/// Losses are believed to be as normal errors have them down to so many halvings of the least that is measured: a neighbour in
/// 32,000. (An effort of 2^20 asks for one in 500,000, 5.3 deviations: 2,884 of 10,000 rows were read beside codes of one bit.)
const HALVINGS_MOST: f32 = 4.0;

/// A row that is among the nearest of a held-out one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbour {
    row: u32,
    query: u32,
    /// Distance of the farthest that counts: of those nearest, by depth. Only the nearest of all has the second.
    limits: [Option<f32>; MISS_DEPTHS.len()],
}

/// The held-out rows as queries, and their neighbours by row.
#[derive(Debug)]
pub(super) struct HeldOutQueries {
    queries: Vec<CodeQuery>,
    neighbours: Vec<Neighbour>,
}

/// One thread's memory, and by how many deviations each form of codes missed.
#[derive(Debug, Default)]
pub(super) struct Misses {
    entered: ResidualQuery,
    fast_scanned: FastScanned,
    group: Vec<u8>,
    /// A centroid whose levels had to be unpacked.
    centroid: Vec<u8>,
    tables: ProductQuery,
    /// By form.
    pub(super) samples: Vec<Samples>,
}

/// By how many deviations the codes of one form missed, by depth.
pub(super) type Samples = [Vec<f32>; MISS_DEPTHS.len()];

/// A row's codes, each with the number of its form.
pub(super) struct Coded<'c> {
    pub(super) group: Option<(usize, &'c GroupLayout, SignRow<'c>)>,
    /// Looked at beside the signs only.
    pub(super) extended: &'c [(usize, ExtendedLayout, &'c [u8])],
    pub(super) product: Option<(usize, &'c ProductModel, &'c [u8])>,
}

impl HeldOutQueries {
    pub(super) fn new(
        held_out: &mut [HeldOut],
        metric: Metric,
        rotation: &Rotation,
        mean: &[u8],
    ) -> HeldOutQueries {
        let (mut queries, mut neighbours) = (Vec::with_capacity(held_out.len()), Vec::new());
        for held_out in held_out {
            let near = held_out.nearest(MISS_DEPTHS[0]);
            if near.is_empty() {
                continue;
            }
            let query = queries.len() as u32;
            let limits = MISS_DEPTHS.map(|depth| near[depth.min(near.len()) - 1].0);
            neighbours.extend(near.iter().enumerate().map(|(place, (_, row))| Neighbour {
                row: *row,
                query,
                limits: std::array::from_fn(|i| (place < MISS_DEPTHS[i]).then_some(limits[i])),
            }));
            let mut code_query = CodeQuery::default();
            code_query.prepare(metric, Some(rotation), mean, held_out.floats(), kernels());
            queries.push(code_query);
        }
        neighbours.sort_unstable_by_key(|neighbour| (neighbour.row, neighbour.query));
        HeldOutQueries { queries, neighbours }
    }

    /// The queries that a row is near to.
    pub(super) fn of(&self, row: u32) -> &[Neighbour] {
        let start = self.neighbours.partition_point(|neighbour| neighbour.row < row);
        let rest = &self.neighbours[start..];
        &rest[..rest.iter().take_while(|neighbour| neighbour.row == row).count()]
    }

    /// Measures a coded row of a cluster against a query that it is near to.
    pub(super) fn measure(
        &self,
        neighbour: &Neighbour,
        coded: &Coded<'_>,
        space: &CodeSpace,
        (cluster, centroids): (u32, &Ranked<'_>),
        misses: &mut Misses,
    ) {
        let query = &self.queries[neighbour.query as usize];
        if let Some((form, model, codes)) = coded.product {
            let tables = &mut misses.tables;
            tables.start();
            let base = tables.enter(model, space.metric, query.rotated(), centroids, cluster);
            let distance = tables.tables.distance_rounded(codes);
            let deviation = tables.tables.deviation(distance);
            misses.note(form, neighbour, base + distance, deviation);
        }
        if let Some(group) = &coded.group {
            let mut unpacked = std::mem::take(&mut misses.centroid);
            let entered = (query, space, centroids.parts(cluster, &mut unpacked));
            misses.measure_signs(neighbour, group, coded.extended, entered);
            misses.centroid = unpacked;
        }
    }
}

impl Misses {
    fn note(&mut self, form: usize, neighbour: &Neighbour, distance: f32, error: f32) {
        let forms = self.samples.len().max(form + 1);
        self.samples.resize_with(forms, Samples::default);
        for (samples, limit) in self.samples[form].iter_mut().zip(neighbour.limits) {
            let beyond = limit.map(|limit| (distance - limit) / error);
            samples.extend(beyond.filter(|beyond| beyond.is_finite()));
        }
    }

    fn measure_signs(
        &mut self,
        neighbour: &Neighbour,
        (form, layout, row): &(usize, &GroupLayout, SignRow<'_>),
        extended: &[(usize, ExtendedLayout, &[u8])],
        (query, space, centroid): (&CodeQuery, &CodeSpace, (f32, &[u8])),
    ) {
        let kernels = kernels();
        let one = Epsilon {
            scanned: 1.0,
            extended: 1.0,
        };
        self.group.clear();
        self.group.resize(layout.row_bytes(), 0);
        layout.put(&mut self.group, 0, row);
        let (entered, group) = (&mut self.entered, &self.group);
        entered.enter(space, query, centroid, None, &one, kernels);
        entered.fast_scan(
            kernels,
            (group, group.len()),
            f32::INFINITY,
            &[],
            &mut self.fast_scanned,
        );
        let Some(kept) = self.fast_scanned.get(0) else {
            return;
        };
        self.note(*form, neighbour, kept.distance, kept.distance - kept.lower);
        for (form, layout, row) in extended {
            let entered = &mut self.entered;
            entered.enter(space, query, centroid, Some(layout), &one, kernels);
            let planes = &row[..layout.code_bytes()];
            let low = kernels.planes_dot(entered.rounded(), layout.dims, layout.planes() as u32, planes);
            let (distance, error) = entered.extended(layout, kept.sum, kept.add, row, low);
            // The limit is then the greatest possible distance of another, which lies as far above its own.
            self.note(*form, neighbour, distance, 2.0 * error);
        }
    }
}

/// The deviations to allow for by depth, from what was measured of one form of codes; no less than the `usual` ones if that was little.
pub(super) fn deviations_by_depth(samples: &mut Samples, usual: &Deviations) -> DeviationsByDepth {
    let [of_ten, nearest] = samples;
    let of_ten = deviations(of_ten, usual);
    let nearest = deviations(nearest, usual);
    [of_ten, std::array::from_fn(|i| nearest[i].max(of_ten[i]))]
}

fn deviations(samples: &mut [f32], usual: &Deviations) -> Deviations {
    if samples.len() < SAMPLES_FEW {
        return *usual;
    }
    samples.sort_unstable_by(f32::total_cmp);
    let mut least = LEAST;
    let measured = LOSSES.map(|loss| {
        let lost = (loss * samples.len() as f32) as usize;
        least = samples[samples.len() - 1 - lost].max(least);
        least
    });
    match samples.len() < SAMPLES_MIN {
        true => std::array::from_fn(|i| measured[i].max(usual[i])),
        false => measured,
    }
}

/// The way from the ten nearest to the nearest is gone on by so much of it: to what is found once in ten searches.
const BEYOND_NEAREST: f32 = 1.0;

/// How many times what is measured to be lost may be allowed of the nearest alone: its distance is what rows are compared with in the measure, and
/// something above it in a search. (With 1 .98 to .99 of the nearest were found of a target of .95, with 2 once .84.)
const ALLOWED_OF_NEAREST: f32 = 1.4;

/// Deviations at which `loss` of the nearest rows are lost, so many of them; a number below 1 where most searches have none. Between the
/// depths that were measured by the logarithm of it.
pub(crate) fn deviation_at_depth(deviations: &DeviationsByDepth, depth: f64, loss: f32) -> f32 {
    let [of_ten, nearest] = deviations;
    let fraction = (MISS_DEPTHS[0] as f64 / depth).log10() as f32;
    let fraction = fraction.clamp(0.0, 1.0 + BEYOND_NEAREST);
    let between = std::array::from_fn(|i| of_ten[i] + (nearest[i] - of_ten[i]) * fraction);
    deviation(&between, loss * ALLOWED_OF_NEAREST.powf(fraction.min(1.0)))
}

/// Deviations at which `loss` of the neighbours are lost, between and beyond what was measured.
pub(crate) fn deviation(deviations: &Deviations, loss: f32) -> f32 {
    let at = LOSSES.partition_point(|measured| *measured > loss);
    match at {
        // Beyond, along the same line.
        0 => {
            let step = (deviations[1] - deviations[0]) / (LOSSES[0] / LOSSES[1]).log2();
            (deviations[0] - step * (loss / LOSSES[0]).log2()).max(LEAST)
        }
        // Beyond, as normal errors have it: about a third of a deviation for half the loss.
        at if at == LOSSES.len() => {
            let halvings = (LOSSES[at - 1] / loss).log2().min(HALVINGS_MOST);
            deviations[at - 1] * (1.0 + 0.12 * halvings)
        }
        at => {
            let share = (LOSSES[at - 1] / loss).ln() / (LOSSES[at - 1] / LOSSES[at]).ln();
            deviations[at - 1] + (deviations[at] - deviations[at - 1]) * share
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_little_was_measured_counts_if_it_is_more_than_usual() {
        let of = |count: usize, scale: f32| {
            let mut samples: Vec<f32> = (0..count).map(|i| scale * i as f32 / count as f32).collect();
            deviations(&mut samples, &ONE_BIT_USUAL)
        };
        assert_eq!(of(SAMPLES_FEW - 1, 100.0), ONE_BIT_USUAL);
        assert_eq!(of(SAMPLES_MIN - 1, 0.1), ONE_BIT_USUAL);
        assert!(of(SAMPLES_MIN - 1, 100.0)[0] > 90.0);
        assert!(of(SAMPLES_MIN, 0.1)[7] < 0.2);
    }

    #[test]
    fn the_nearest_take_more_than_ten_and_rare_ones_more_than_the_nearest() {
        let ten: Vec<f32> = (0..2 * SAMPLES_MIN)
            .map(|i| i as f32 / SAMPLES_MIN as f32)
            .collect();
        let nearest = ten.iter().map(|sample| sample + 2.0).collect();
        let by_depth = deviations_by_depth(&mut [ten.clone(), nearest], &ONE_BIT_USUAL);
        let at = |depth: f64| deviation_at_depth(&by_depth, depth, 0.02);
        assert_eq!([at(1000.0), at(10.0)], [deviation(&by_depth[0], 0.02); 2]);
        assert!((at(1.0) - deviation(&by_depth[1], 0.02 * ALLOWED_OF_NEAREST)).abs() < 1e-5);
        assert!(at(10.0) < at(3.0) && at(3.0) < at(1.0) && at(1.0) < at(0.3));
        assert_eq!(at(0.1), at(0.01));
        // No less for the nearest than for ten.
        let by_depth = deviations_by_depth(&mut [ten, vec![0.0; SAMPLES_MIN]], &ONE_BIT_USUAL);
        assert_eq!(by_depth[0], by_depth[1]);
    }
}
