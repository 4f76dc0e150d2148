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
/// What codes miss where the clusters miss nothing, when their error bounds are as tight as pays.
///
/// Source: `--bench ivf`, 600 clusters that hold .963: 6 bits find .955, 3 bits .933. Product codes: as 3 bits.
const MISSED_BY_FINE: f64 = 0.008;
const MISSED_BY_LOW: f64 = 0.045;
/// Bits that all dimensions of a code have together, from which on it counts as fine.
const FINE_BITS: f64 = 500.0;
/// Easy data against hard at equal recall: rows looked at, rows read (DESIGN.md, section 6: 15,100 against 8,600
/// queries a second at 135 MB, 3,200 against 2,400 at 32 MB).
const EASY_ROWS: f64 = 0.45;
const EASY_READS: f64 = 0.75;

/// Rows that must be read per search at recall 0.95 of 10, by the codes' relative error `2^-bits / sqrt(dims)`.
///
/// Source: at 100 dimensions, 6 and 3 bits: `cargo bench -p ramlet-index --bench ivf`; product codes, 1 bit: DESIGN.md,
/// section 6.
const AMBIGUOUS: [(f64, f64); 4] = [(0.00156, 1.8), (0.0125, 13.5), (0.0235, 51.0), (0.05, 350.0)];
/// They grow so as less may be missed: 11.2, 14.7, 20.3, 24.3 at .914, .954, .981, .990 (3 bits), 1.05, 1.9, 2.8, 3.2 at
/// .905, .957, .984, .992 (6 bits).
const AMBIGUOUS_GROWTH: f64 = 0.36;
/// And so with the number of results.
const AMBIGUOUS_RESULTS: f64 = 0.8;
/// Product codes of 4 bits for two dimensions are as exact as scalar ones of so many bits.
const PRODUCT_BITS: f64 = 2.09;
/// Rows that are looked at again with all bits, and how their number grows with the rows looked at: 916 of 23,451,
/// 1,092 of 35,076, 1,455 of 69,849 (`--bench ivf`, 100 dimensions).
const REFINED: f64 = 1_092.0;
const REFINED_ROWS: f64 = 35_076.0;
const REFINED_GROWTH: f64 = 0.42;

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

/// Probing clusters until they hold what these codes may lose a part of; `None`: all rows are scored exactly.
pub fn probing(spec: &Spec, codes: Option<Codes>) -> Counts {
    let rows = spec.points as f64;
    let by_codes = codes.map_or(0.0, |codes| match bits(codes) * spec.dims as f64 >= FINE_BITS {
        true => MISSED_BY_FINE,
        false => MISSED_BY_LOW,
    });
    // The less may be missed in all, the less the codes are let miss: with wider bounds, never with none.
    let may_miss = 1.0 - spec.recall;
    let missed = may_miss * may_miss / (may_miss + by_codes);
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
    let error = (-bits(codes)).exp2() / (spec.dims as f64).sqrt();
    let easy = match spec.hardness {
        Hardness::Hard => 1.0,
        Hardness::Easy => EASY_READS,
    };
    let stricter = (0.05 / (1.0 - spec.recall)).powf(AMBIGUOUS_GROWTH);
    let results = (f64::from(spec.k) / 10.0).powf(AMBIGUOUS_RESULTS);
    (on_line(&AMBIGUOUS, error) * stricter * results * easy).min(probing(spec, Some(codes)).rows_scanned)
}

/// Of the rows scanned, those that are looked at with all bits.
pub fn survivors(scanned: f64, dims: u64) -> f64 {
    // A sign code tells more the more dimensions it has.
    let blur = (100.0 / dims as f64).sqrt();
    (REFINED * (scanned / REFINED_ROWS).powf(REFINED_GROWTH) * blur).min(scanned)
}

fn bits(codes: Codes) -> f64 {
    match codes {
        Codes::Signs { bits } => bits as f64,
        Codes::Product => PRODUCT_BITS,
    }
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
        let fine = Codes::Signs { bits: 6 };
        let mut check = |recall, probes: f64, rows: f64, refined: f64, reads: f64| {
            spec.recall = recall;
            let counts = probing(&spec, Some(fine));
            for (found, measured) in [
                (counts.clusters_probed, probes),
                (counts.rows_scanned, rows),
                (survivors(counts.rows_scanned, 100), refined),
                (ambiguous(&spec, fine), reads),
            ] {
                assert!(
                    (found / measured - 1.0).abs() < 0.12,
                    "{recall}: {found}, measured {measured}"
                );
            }
        };
        // (`--bench ivf`, 6 bits.)
        check(0.8711, 200.0, 23_451.0, 916.0, 1.25);
        check(0.9101, 300.0, 35_076.0, 1_092.0, 1.4);
        check(0.9549, 600.0, 69_849.0, 1_455.0, 1.9);
        let mut spec = Spec::new(1_000_000, 100);
        spec.recall = 0.95;
        let reads = |bits| ambiguous(&spec, Codes::Signs { bits });
        assert!(
            (reads(6) - 1.8).abs() < 0.05 && (reads(3) - 13.5).abs() < 0.1,
            "{} {}",
            reads(6),
            reads(3)
        );
        assert!((ambiguous(&spec, Codes::Product) - 51.0).abs() < 1.0);
    }
}
