//! What a search does: clusters probed, codes looked at, rows read. Counts don't depend on the machine.

use super::bytes::{self, Codes};
use super::spec::{Hardness, Spec};

/// How many of the nearest clusters, and rows in them, hold all but a share of the true ten nearest:
/// (missed, probes, rows), for 1,000,000 x 100, hard, 8,000 balanced clusters.
///
/// Source: `cargo bench -p ramlet-index --bench build`, coverage; below 0.02, the same set in clusters by plain k-means,
/// joined to it (docs/plan.md, "Where the figures come from").
const COVERAGE: [(f64, f64, f64); 8] = [
    (0.005, 1730.0, 202_000.0),
    (0.010, 1310.0, 153_000.0),
    (0.0242, 800.0, 93_495.0),
    (0.0450, 500.0, 58_521.0),
    (0.0841, 300.0, 35_228.0),
    (0.1173, 200.0, 23_564.0),
    (0.1915, 100.0, 11_875.0),
    (0.2773, 50.0, 6_019.0),
];
const COVERAGE_ROWS: f64 = 1e6;
/// Rows that must be looked at grow so with all rows: 23,529 of 250,000 where 65,117 of 1,000,000 are, at 0.05 missed.
const GROWTH: f64 = 0.73;
/// Of what a search may miss, the clusters get this share; the codes' errors the rest.
const MISSED_BY_CLUSTERS: f64 = 0.9;
/// Easy data against hard at equal recall: rows looked at, rows read (DESIGN.md, section 6: 15,100 against 8,600
/// queries a second at 135 MB, 3,200 against 2,400 at 32 MB).
const EASY_ROWS: f64 = 0.45;
const EASY_READS: f64 = 0.75;

/// Rows that must be read per search at recall 0.95 of 10, by the codes' relative error `2^-bits / sqrt(dims)`.
///
/// Source: at 100 dimensions, 6 bits: 2.2 by `cargo bench -p ramlet-index --bench ivf`; 3 bits, product codes, 1 bit:
/// DESIGN.md, section 6.
const AMBIGUOUS: [(f64, f64); 4] = [(0.00156, 2.3), (0.0125, 16.0), (0.0235, 51.0), (0.05, 350.0)];
/// They grow so as less may be missed: 10 to 17 between .895 and .955 (3 bits), 34 to 58 between .91 and .96 (product).
const AMBIGUOUS_GROWTH: f64 = 0.55;
/// And so with the number of results.
const AMBIGUOUS_RESULTS: f64 = 0.8;
/// Product codes of 4 bits for two dimensions are as exact as scalar ones of so many bits.
const PRODUCT_BITS: f64 = 2.09;
/// Of the rows looked at, so many are looked at again with all bits: 1,092 of 35,076 (`--bench ivf`).
const SURVIVORS: f64 = 0.031;

/// Nodes of the graph that are read at a recall of 10, for 1.18 million x 100, hard (DESIGN.md, section 6; early stop).
const NODES: [(f64, f64); 3] = [(0.01, 200.0), (0.05, 84.0), (0.10, 45.0)];
const NODES_ROWS: f64 = 1.18e6;
const EASY_NODES: f64 = 0.6;

/// Counts of one search.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct Counts {
    pub clusters_ranked: f64,
    pub clusters_probed: f64,
    /// Codes looked at, or rows where there are none.
    pub rows_scanned: f64,
    /// Of those, with all bits.
    pub rows_refined: f64,
    /// Rows or nodes read for exact scores.
    pub reads_vectors: f64,
    /// Ids and versions of the results.
    pub reads_ids: f64,
    pub reads_payload: f64,
}

impl Counts {
    pub fn reads(&self) -> f64 {
        self.reads_vectors + self.reads_ids + self.reads_payload
    }
}

/// Probing clusters, as far as it is the same for all codes.
pub fn probing(spec: &Spec) -> Counts {
    let rows = spec.points as f64;
    let missed = (1.0 - spec.recall) * MISSED_BY_CLUSTERS;
    let clusters = bytes::clusters(spec.points) as f64;
    let probes_of = |(missed, probes, _)| (missed, probes);
    let rows_of = |(missed, _, rows)| (missed, rows);
    let hardness = match spec.hardness {
        Hardness::Hard => 1.0,
        Hardness::Easy => EASY_ROWS,
    };
    // More results reach further out: as if so much less could be missed.
    let further = (f64::from(spec.k) / 10.0).powf(0.25);
    let growth = (rows / COVERAGE_ROWS).powf(GROWTH) * hardness * further;
    let scanned = (on_line(&COVERAGE.map(rows_of), missed) * growth).min(rows);
    let probed = on_line(&COVERAGE.map(probes_of), missed)
        * growth
        * (COVERAGE_ROWS / rows.max(1.0))
        * (clusters / 8000.0);
    // Beyond a few million rows centroids are found by two levels.
    Counts {
        clusters_ranked: clusters.min(16_000.0 + clusters.sqrt()),
        clusters_probed: probed.clamp(1.0, clusters),
        rows_scanned: scanned,
        ..Counts::default()
    }
}

/// Of the rows scanned with these codes, those read to decide about them.
pub fn ambiguous(spec: &Spec, codes: Codes) -> f64 {
    let bits = match codes {
        Codes::Signs { bits } => bits as f64,
        Codes::Product => PRODUCT_BITS,
    };
    let error = (-bits).exp2() / (spec.dims as f64).sqrt();
    let easy = match spec.hardness {
        Hardness::Hard => 1.0,
        Hardness::Easy => EASY_READS,
    };
    let stricter = (0.05 / (1.0 - spec.recall)).powf(AMBIGUOUS_GROWTH);
    let results = (f64::from(spec.k) / 10.0).powf(AMBIGUOUS_RESULTS);
    (on_line(&AMBIGUOUS, error) * stricter * results * easy).min(probing(spec).rows_scanned)
}

/// Of the rows scanned, those that are looked at with all bits.
pub fn survivors(scanned: f64, dims: u64) -> f64 {
    // A sign code tells more the more dimensions it has.
    scanned * (SURVIVORS * (100.0 / dims as f64).sqrt()).min(1.0)
}

/// Nodes of the graph read per search.
pub fn nodes(spec: &Spec) -> f64 {
    let rows = (spec.points as f64).max(2.0);
    let easy = match spec.hardness {
        Hardness::Hard => 1.0,
        Hardness::Easy => EASY_NODES,
    };
    let results = (f64::from(spec.k) / 10.0).max(1.0).sqrt();
    (on_line(&NODES, 1.0 - spec.recall) * (rows.ln() / NODES_ROWS.ln()) * easy * results).min(rows)
}

/// The value at `x` between points in ascending order of x, straight in logarithms, continued beyond the ends.
fn on_line(points: &[(f64, f64)], x: f64) -> f64 {
    let above = points
        .partition_point(|(at, _)| *at < x)
        .clamp(1, points.len() - 1);
    let ((x0, y0), (x1, y1)) = (points[above - 1], points[above]);
    let share = (x / x0).ln() / (x1 / x0).ln();
    y0 * (y1 / y0).powf(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!(
            (found / expected - 1.0).abs() < 1e-6,
            "{found}, expected {expected}"
        );
    }

    #[test]
    fn a_line_goes_through_its_points_and_beyond() {
        let points = [(1.0, 1.0), (10.0, 100.0), (100.0, 1000.0)];
        near(on_line(&points, 1.0), 1.0);
        near(on_line(&points, 10.0), 100.0);
        near(on_line(&points, 31.622_776_6), 316.227_766);
        near(on_line(&points, 0.1), 0.01);
        near(on_line(&points, 1000.0), 10_000.0);
    }

    #[test]
    fn the_set_that_was_measured_gets_its_figures_back() {
        let mut spec = Spec::new(1_000_000, 100);
        // So much may be missed that the clusters may miss 4.5 % of all.
        spec.recall = 1.0 - 0.045 / MISSED_BY_CLUSTERS;
        let counts = probing(&spec);
        near(counts.rows_scanned, 58_521.0);
        near(counts.clusters_probed, 500.0);
        spec.recall = 0.95;
        let reads = |bits| ambiguous(&spec, Codes::Signs { bits });
        assert!(
            (reads(6) - 2.3).abs() < 0.05 && (reads(3) - 16.0).abs() < 0.1,
            "{} {}",
            reads(6),
            reads(3)
        );
        assert!((ambiguous(&spec, Codes::Product) - 51.0).abs() < 1.0);
    }
}
