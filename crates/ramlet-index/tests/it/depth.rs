//! Codes that hardly tell neighbours apart are off by more for the nearest than for ten, and for what a small part has of ten.

use ramlet_index::{CodeKind, Element, IndexSearchParams, Metric, Query, VectorIndex, encode_row};

use crate::disk::Disk;
use crate::ivf::{Rows, found_by, nearest_of};
use crate::random::Random;

const DIMS: usize = 64;
const GROUPS: u32 = 60;
const QUERIES: usize = 200;
/// A 64th of the floats.
const CODES: [CodeKind; 1] = [CodeKind::Product { m: 8, row_ids: false }];

/// What rows and queries are drawn around.
struct Groups(Vec<Vec<f32>>);

impl Groups {
    fn new(random: &mut Random) -> Groups {
        let group = |_| (0..DIMS).map(|_| random.normal()).collect();
        Groups((0..GROUPS).map(group).collect())
    }

    fn vector(&self, random: &mut Random) -> Vec<f32> {
        let centre = &self.0[random.below(GROUPS) as usize];
        centre.iter().map(|value| value + random.normal() * 0.6).collect()
    }

    fn rows(&self, count: usize, random: &mut Random) -> Rows {
        let mut rows = Rows::of_dims(DIMS, Metric::Euclid, Element::F32, 0, random);
        for _ in 0..count {
            encode_row(
                Metric::Euclid,
                Element::F32,
                &self.vector(random),
                &mut rows.bytes,
            );
        }
        rows
    }
}

#[test]
fn the_nearest_is_found_as_ten_are_and_what_a_small_part_has() {
    let (mut random, disk) = (Random::new(31), Disk::ram());
    let groups = Groups::new(&mut random);
    let mut parts = [groups.rows(10_940, &mut random), groups.rows(1_060, &mut random)];
    let ivfs = [0, 1].map(|part| {
        let name = ["large", "small"][part];
        parts[part].build_with(&disk, name, 4 << 20, 2, &CODES).0
    });
    // Of the first so many parts, by part: of how many true neighbours how many are found.
    let mut found_of = |count: usize, k: usize| -> [(usize, usize); 2] {
        let parts = &parts[..count];
        let all: u32 = parts.iter().map(Rows::segment_rows).sum();
        let want = |rows: &Rows| IndexSearchParams {
            share: Some(rows.segment_rows() as f32 / all as f32),
            ..IndexSearchParams::default()
        };
        let with_ids = || (0..).zip(parts);
        let rows: Vec<(u32, &Rows)> = with_ids().collect();
        let indexes: Vec<(u32, &dyn VectorIndex, IndexSearchParams)> = with_ids()
            .zip(&ivfs)
            .map(|((part, rows), ivf)| (part, ivf as &dyn VectorIndex, want(rows)))
            .collect();
        let mut of_part = [(0, 0); 2];
        for _ in 0..QUERIES {
            let query = Query::new(Metric::Euclid, Element::F32, &groups.vector(&mut random));
            let (hits, _) = found_by(&indexes, &disk, &query, k);
            for row in nearest_of(&rows, &query, k) {
                let of_part = &mut of_part[row.0 as usize];
                *of_part = (of_part.0 + usize::from(hits.contains(&row)), of_part.1 + 1);
            }
        }
        of_part
    };
    let share = |(found, of): (usize, usize)| found as f64 / of as f64;
    for k in [1, 2, 10] {
        let recall = share(found_of(1, k)[0]);
        assert!((0.91..=0.995).contains(&recall), "{k} nearest: {recall}");
    }
    let of_part = found_of(2, 10);
    let recall = share((of_part[0].0 + of_part[1].0, of_part[0].1 + of_part[1].1));
    assert!(recall >= 0.93, "{recall}: {of_part:?}");
    assert!(
        of_part[1].1 > 100 && share(of_part[1]) >= 0.88,
        "of the small part: {of_part:?}"
    );
}
