//! Codes that hardly tell neighbours apart are off by more for the nearest than for ten, and for what a small part has of ten.

use std::ops::Range;

use ramlet_index::{Allowed, CodeKind, Element, Hit, Metric, Query, TopK, VectorIndex, Want, encode_row};

use crate::disk::Disk;
use crate::flat::brute_force;
use crate::ivf::{Rows, scratch};
use crate::random::Random;

const DIMS: usize = 64;
const GROUPS: u32 = 60;
const QUERIES: usize = 200;
/// A 64th of the floats.
const CODES: [CodeKind; 1] = [CodeKind::Product { m: 8 }];

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
    // Of the large part alone and of both: by how many rows are wanted, of how many of them.
    let mut nearest_of = |which: Range<usize>, k: usize| -> [(usize, usize); 2] {
        let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(k));
        let all: u32 = which.clone().map(|part| parts[part].segment_rows()).sum();
        let mut of_part = [(0, 0); 2];
        for _ in 0..QUERIES {
            let query = Query::new(Metric::Euclid, Element::F32, &groups.vector(&mut random));
            top.clear(k);
            let mut truth: Vec<(usize, Hit)> = Vec::new();
            for part in which.clone() {
                let want = Want {
                    share: Some(parts[part].segment_rows() as f32 / all as f32),
                    ..Want::default()
                };
                top.begin_segment(part as u32);
                ivfs[part]
                    .search(
                        &query,
                        &want,
                        &mut Allowed::default(),
                        &mut scratch,
                        &mut io,
                        &mut top,
                    )
                    .expect("a search");
                let here = brute_force(&query, &parts[part].bytes, k, |_| true);
                truth.extend(here.into_iter().map(|hit| (part, hit)));
            }
            truth.sort_by(|a, b| a.1.key.total_cmp(&b.1.key));
            let hits = top.sorted();
            for (part, true_hit) in &truth[..k] {
                let is_found = hits
                    .iter()
                    .any(|hit| (hit.segment as usize, hit.row) == (*part, true_hit.row));
                of_part[*part].0 += usize::from(is_found);
                of_part[*part].1 += 1;
            }
        }
        of_part
    };
    let share = |(found, of): (usize, usize)| found as f64 / of as f64;
    for k in [1, 2, 10] {
        let recall = share(nearest_of(0..1, k)[0]);
        assert!((0.91..=0.995).contains(&recall), "{k} nearest: {recall}");
    }
    let of_part = nearest_of(0..2, 10);
    let recall = share((of_part[0].0 + of_part[1].0, of_part[0].1 + of_part[1].1));
    assert!(recall >= 0.93, "{recall}: {of_part:?}");
    assert!(
        of_part[1].1 > 100 && share(of_part[1]) >= 0.88,
        "of the small part: {of_part:?}"
    );
}
