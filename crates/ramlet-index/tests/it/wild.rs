//! Numbers as nobody likes them: lengths that differ by orders of magnitude, and single vectors of huge ones.

use std::collections::BTreeSet;

use ramlet_index::{
    Allowed, CodeKind, Element, IndexSearchParams, Ivf, Metric, Query, TopK, VectorIndex, encode_row,
};

use crate::disk::Disk;
use crate::flat::brute_force;
use crate::ivf::{DIMS, Rows, scratch};
use crate::random::Random;

const EXTENDED: CodeKind = CodeKind::Extended { bits: 8 };
const TIERS: [&[CodeKind]; 8] = [
    &[],
    &[CodeKind::OneBit, EXTENDED, CodeKind::Residual { bits: 4 }],
    &[CodeKind::OneBit, CodeKind::Extended { bits: 4 }],
    &[CodeKind::OneBit],
    &[CodeKind::Product {
        m: 12,
        row_ids: false,
    }],
    &[CodeKind::Product { m: 20, row_ids: true }],
    &[CodeKind::OneBit, CodeKind::Sq8],
    &[
        CodeKind::Product {
            m: 12,
            row_ids: false,
        },
        CodeKind::Sq8,
    ],
];
const K: usize = 10;
const QUERIES: usize = 10;

fn rows_of(metric: Metric, vectors: &[Vec<f32>]) -> Rows {
    let mut bytes = Vec::new();
    for vector in vectors {
        encode_row(metric, Element::F32, vector, &mut bytes);
    }
    Rows {
        metric,
        element: Element::F32,
        dims: DIMS,
        bytes,
        has: |_| true,
    }
}

/// Share of the true nearest that a search finds; rows as near as the last of them count. There must be `K` hits.
fn found(rows: &Rows, ivf: &Ivf, disk: &Disk, vector: &[f32], want: &IndexSearchParams, what: &str) -> f64 {
    found_by_reading(rows, ivf, disk, vector, want, what).0
}

/// The same, and how many pages were read.
fn found_by_reading(
    rows: &Rows,
    ivf: &Ivf,
    disk: &Disk,
    vector: &[f32],
    want: &IndexSearchParams,
    what: &str,
) -> (f64, u64) {
    let query = Query::new(rows.metric, rows.element, vector);
    let mut top = TopK::new(K);
    let (mut io, mut scratch) = (disk.io(), scratch());
    ivf.search(
        &query,
        want,
        &mut Allowed::default(),
        &mut scratch,
        &mut io,
        &mut top,
    )
    .expect("a search");
    assert_eq!(top.len(), K, "{what}: hits");
    let truth = brute_force(&query, &rows.bytes, rows.segment_rows() as usize, rows.has);
    let last = truth[K - 1].distance;
    let near: BTreeSet<u32> = truth
        .iter()
        .filter(|hit| hit.distance <= last + 1e-4 * last.abs())
        .map(|hit| hit.row)
        .collect();
    let share = top.sorted().iter().filter(|hit| near.contains(&hit.row)).count() as f64 / K as f64;
    let mut rows: Vec<u32> = top.sorted().iter().map(|hit| hit.row).collect();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), K, "{what}: a row twice");
    (share, scratch.stats.pages_read)
}

fn everywhere() -> IndexSearchParams {
    IndexSearchParams {
        effort: Some(1 << 20),
        ..IndexSearchParams::default()
    }
}

/// Some rows' estimates are off by more than most rows' distances: they neither rule others out nor each other.
#[test]
fn rows_are_found_whose_lengths_differ_by_orders_of_magnitude() {
    let mut random = Random::new(5);
    for powers in [1.0, 2.5, 4.0] {
        let vectors: Vec<Vec<f32>> = (0..3000)
            .map(|_| {
                let length = 10f32.powf(powers * random.float());
                (0..DIMS).map(|_| random.normal() * length).collect()
            })
            .collect();
        let mut rows = rows_of(Metric::Euclid, &vectors);
        let square = |vector: &[f32]| vector.iter().map(|value| value * value).sum::<f32>();
        let least = vectors.iter().min_by(|a, b| square(a).total_cmp(&square(b)));
        let scaled = |row: usize, by: f32| vectors[row].iter().map(|value| value * by).collect();
        let mut queries: Vec<Vec<f32>> = vec![vec![0.0; DIMS], least.expect("rows").clone()];
        for row in 1..8 {
            queries.extend([scaled(row, 1.0), scaled(row, 1e-3), scaled(row, 1.1)]);
        }
        let disk = Disk::files();
        for tier in TIERS {
            let name = format!("{powers}-{tier:?}");
            let (ivf, _) = rows.build_with(&disk, &name, 1 << 20, 2, tier);
            let mut sum = 0.0;
            for query in &queries {
                found(&rows, &ivf, &disk, query, &IndexSearchParams::default(), &name);
                sum += found(&rows, &ivf, &disk, query, &everywhere(), &name);
            }
            let recall = sum / queries.len() as f64;
            assert!(recall > 0.93, "{name}: recall {recall}");
        }
    }
}

/// Under dot product the longest are nearest to every query, and hardly any row to itself: codes are made for the others all the same.
/// (Books of product codes were made for those held-out rows that are among their own nearest. Of few rows, as a small budget holds out,
/// that was none: all words were zero, and all rows of a cluster equally near for certain. One in three was found, in larger
/// collections one in two hundred.)
#[test]
fn rows_that_are_nearest_to_everything_leave_others_their_codes() {
    let mut random = Random::new(7);
    let mut vector = || -> Vec<f32> {
        let length = random.normal().exp();
        (0..DIMS).map(|_| (random.normal() * length).abs()).collect()
    };
    let vectors: Vec<Vec<f32>> = (0..40_000).map(|_| vector()).collect();
    let mut rows = rows_of(Metric::Dot, &vectors);
    let queries: Vec<Vec<f32>> = (0..4 * QUERIES).map(|_| vector()).collect();
    let disk = Disk::files();
    for tier in TIERS {
        let name = format!("hubs-{tier:?}");
        let (ivf, _) = rows.build_with(&disk, &name, 400_000, 2, tier);
        let sum = |want: &IndexSearchParams| -> f64 {
            let recalls = queries
                .iter()
                .map(|query| found(&rows, &ivf, &disk, query, want, &name));
            recalls.sum()
        };
        let recall = sum(&IndexSearchParams::default()) / queries.len() as f64;
        assert!(recall > 0.9, "{name}: recall {recall}");
    }
}

/// They don't keep an index from being built, nor others from being found.
#[test]
fn a_few_huge_vectors_harm_nobody() {
    let mut random = Random::new(6);
    for metric in [Metric::Euclid, Metric::Dot, Metric::Cosine] {
        for huge in [1e12, 1e18, 3e38] {
            let mut vectors: Vec<Vec<f32>> = (0..1500)
                .map(|_| (0..DIMS).map(|_| random.normal()).collect())
                .collect();
            vectors[7] = vec![huge; DIMS];
            vectors[8] = vec![-huge / 3.0; DIMS];
            let mut rows = rows_of(metric, &vectors);
            let disk = Disk::files();
            for tier in TIERS {
                let name = format!("{metric:?}-{huge}-{tier:?}");
                let (ivf, _) = rows.build_with(&disk, &name, 1 << 20, 2, tier);
                let mut sum = 0.0;
                for _ in 0..QUERIES {
                    let query: Vec<f32> = (0..DIMS).map(|_| random.normal()).collect();
                    found(&rows, &ivf, &disk, &query, &IndexSearchParams::default(), &name);
                    sum += found(&rows, &ivf, &disk, &query, &everywhere(), &name);
                }
                let recall = sum / QUERIES as f64;
                // Products with the greatest numbers there are overflow, however they are reckoned.
                assert!(recall > 0.93 || huge == 3e38, "{name}: recall {recall}");
                let met = found(&rows, &ivf, &disk, &vectors[7], &everywhere(), &name);
                assert!(met > 0.0 || huge == 3e38, "{name}: recall {met} near a huge one");
            }
        }
    }
}

/// Rows nine tenths of which are all but equal: codes can't tell them from each other, and reading each alone costs more than
/// reading all as they lie.
#[test]
fn rows_that_are_all_but_equal_are_read_as_they_lie() {
    const NEAR: usize = 50;
    let mut random = Random::new(81);
    let middle = random.vector(DIMS);
    let vectors: Vec<Vec<f32>> = (0..20_000u32)
        .map(|i| match i % 10 {
            0 => random.vector(DIMS),
            _ => middle.iter().map(|value| value + 1e-4 * random.float()).collect(),
        })
        .collect();
    for metric in [Metric::Euclid, Metric::Cosine] {
        for kinds in &TIERS[2..] {
            let mut rows = rows_of(metric, &vectors);
            let disk = Disk::files();
            let (ivf, _) = rows.build_with(&disk, "ivf", 4 << 20, 2, kinds);
            let what = format!("{metric:?} {kinds:?}");
            let (mut sum, mut pages) = (0.0, 0);
            for _ in 0..NEAR {
                let query: Vec<f32> = middle.iter().map(|value| value + 1e-4 * random.float()).collect();
                let (share, read) =
                    found_by_reading(&rows, &ivf, &disk, &query, &IndexSearchParams::default(), &what);
                (sum, pages) = (sum + share, pages.max(read));
            }
            assert!(sum / NEAR as f64 >= 0.9, "{what}: {sum} of {NEAR}");
            // The file has five hundred.
            assert!(pages <= 2_000, "{what}: {pages} pages read");
        }
    }
}
