//! Searches for more rows than a build measures (100), of groups of which the larger hold more than are wanted and the smaller
//! far fewer: what 100 rows take says nothing about where the next group lies.

use std::collections::BTreeSet;

use ramlet_index::{
    Allowed, CodeKind, Element, IndexSearchParams, Metric, Query, TopK, VectorIndex, encode_row,
};
use roaring::RoaringBitmap;

use crate::disk::Disk;
use crate::flat::brute_force;
use crate::ivf::{DIMS, Rows, scratch};
use crate::random::Random;

const ROWS: usize = 20_000;
const GROUPS: usize = 200;
const QUERIES: usize = 20;
/// Dimensions of small groups.
const WIDE: usize = 100;

/// Groups around centres, the tenth a tenth as large as the first.
fn grouped(metric: Metric, random: &mut Random) -> Rows {
    let centres: Vec<Vec<f32>> = (0..GROUPS)
        .map(|_| (0..DIMS).map(|_| random.normal()).collect())
        .collect();
    let sizes: Vec<f64> = (1..=GROUPS).map(|rank| 1.0 / rank as f64).collect();
    let all: f64 = sizes.iter().sum();
    let mut rows = Rows::of_dims(DIMS, metric, Element::F32, 0, random);
    for (centre, size) in centres.iter().zip(&sizes) {
        for _ in 0..(size / all * ROWS as f64).ceil() as usize {
            let vector: Vec<f32> = centre.iter().map(|value| value + random.normal() * 0.3).collect();
            encode_row(metric, Element::F32, &vector, &mut rows.bytes);
        }
    }
    rows
}

/// Groups of 60 wide rows each.
fn small_groups(random: &mut Random) -> Rows {
    let (count, metric) = (ROWS / 60, Metric::Cosine);
    let centres: Vec<Vec<f32>> = (0..count)
        .map(|_| (0..WIDE).map(|_| random.normal()).collect())
        .collect();
    let mut rows = Rows::of_dims(WIDE, metric, Element::F32, 0, random);
    for centre in centres.iter().flat_map(|centre| std::iter::repeat_n(centre, 60)) {
        let vector: Vec<f32> = centre
            .iter()
            .map(|value| value + random.normal() * 0.85)
            .collect();
        encode_row(metric, Element::F32, &vector, &mut rows.bytes);
    }
    rows
}

/// Share of the `k` nearest found, over searches, and of the segment's clusters visited.
fn found(metric: Metric, kinds: &[CodeKind], k: usize) -> (f64, f64) {
    let mut random = Random::new(17);
    let rows = grouped(metric, &mut random);
    found_of(rows, (kinds, 0.1), k, &mut random)
}

fn found_of(mut rows: Rows, (kinds, off): (&[CodeKind], f32), k: usize, random: &mut Random) -> (f64, f64) {
    let disk = Disk::ram();
    let (ivf, _) = rows.build_with(&disk, "deep", 4 << 20, 2, kinds);
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(k));
    let (mut found, mut visited) = (0, 0);
    for _ in 0..QUERIES {
        let query = rows.query_off(off, random);
        top.clear(k);
        let (want, mut allowed) = (IndexSearchParams::default(), Allowed::default());
        ivf.search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
            .expect("a search");
        visited += scratch.stats.probes;
        let truth = brute_force(&query, &rows.bytes, k, rows.has);
        let truth: BTreeSet<u32> = truth.iter().map(|hit| hit.row).collect();
        found += top.sorted().iter().filter(|hit| truth.contains(&hit.row)).count();
    }
    let share = |count: f64, each: f64| count / (QUERIES as f64 * each);
    (
        share(found as f64, k as f64),
        share(visited as f64, f64::from(ivf.clusters())),
    )
}

#[test]
fn hundreds_of_rows_are_found_as_ten_are() {
    let signs = [CodeKind::OneBit, CodeKind::Extended { bits: 4 }];
    for metric in [Metric::Cosine, Metric::Euclid] {
        for (kinds, k) in [
            (&[][..], 500),
            (&signs[..], 200),
            (&signs[..], 500),
            (&signs[..], 900),
        ] {
            let (recall, visited) = found(metric, kinds, k);
            // Aimed at .95; before there were rounds, .90 to .93 for 500 and more.
            assert!(recall >= 0.95, "{metric:?} {kinds:?} {k}: recall {recall}");
            assert!(
                visited < 0.5,
                "{metric:?} {kinds:?} {k}: {visited} of the clusters"
            );
        }
    }
}

/// The ten nearest lie in a cluster or two, the hundred nearest in the group and in others anywhere.
#[test]
fn a_hundred_are_found_where_groups_are_smaller() {
    let signs = [CodeKind::OneBit, CodeKind::Extended { bits: 4 }];
    for kinds in [&[][..], &signs[..]] {
        for k in [10, 50, 70, 100, 101] {
            let mut random = Random::new(18);
            let rows = small_groups(&mut random);
            let (recall, visited) = found_of(rows, (kinds, 0.03), k, &mut random);
            assert!(recall >= 0.91, "{kinds:?} {k}: recall {recall}");
            assert!(
                k > 50 || visited < 0.2,
                "{kinds:?} {k}: {visited} of the clusters"
            );
        }
    }
}

/// A group that is deleted leaves a hole: what was measured is of rows that there are no more.
#[test]
fn where_all_near_rows_are_deleted_farther_ones_are_found() {
    let signs = [CodeKind::OneBit, CodeKind::Extended { bits: 4 }];
    for kinds in [&[][..], &signs[..], &[CodeKind::Product { m: 60, row_ids: true }]] {
        let (mut random, disk) = (Random::new(19), Disk::ram());
        let mut rows = small_groups(&mut random);
        let (ivf, _) = rows.build_with(&disk, "holes", 4 << 20, 2, kinds);
        let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
        let (mut found, mut visited, mut usual) = (0, 0, 0);
        for _ in 0..QUERIES {
            let row = random.below(rows.segment_rows());
            let mut vector = Vec::new();
            ramlet_index::decode_row(rows.element, rows.row(row), &mut vector);
            let query = Query::new(rows.metric, rows.element, &vector);
            let group = row / 60 * 60..row / 60 * 60 + 60;
            let deleted: RoaringBitmap = group.clone().collect();
            let mut search = |allowed: &mut Allowed<'_>, top: &mut TopK| {
                top.clear(10);
                ivf.search(
                    &query,
                    &IndexSearchParams::default(),
                    allowed,
                    &mut scratch,
                    &mut io,
                    top,
                )
                .expect("a search");
                scratch.stats.probes
            };
            // Far from what is deleted nothing changes.
            let elsewhere: RoaringBitmap = (0..60)
                .map(|i| (group.start + 600 + i) % rows.segment_rows())
                .collect();
            let free = search(&mut Allowed::default(), &mut top);
            let deleted_elsewhere = Allowed {
                deleted: Some(&elsewhere),
                ..Allowed::default()
            };
            let here = search(&mut { deleted_elsewhere }, &mut top);
            usual += u64::from(here <= free + free / 4 + 1);
            let mut allowed = Allowed {
                deleted: Some(&deleted),
                ..Allowed::default()
            };
            visited += search(&mut allowed, &mut top);
            let truth = brute_force(&query, &rows.bytes, 10, |row| !group.contains(&row));
            let truth: BTreeSet<u32> = truth.iter().map(|hit| hit.row).collect();
            found += top.sorted().iter().filter(|hit| truth.contains(&hit.row)).count();
        }
        let recall = found as f64 / (10 * QUERIES) as f64;
        let share = visited as f64 / QUERIES as f64 / f64::from(ivf.clusters());
        assert!(recall >= 0.8, "{kinds:?}: recall {recall}");
        assert!(share < 0.6, "{kinds:?}: {share} of the clusters");
        assert!(usual as usize >= QUERIES - 2, "{kinds:?}: {usual} as before");
    }
}
