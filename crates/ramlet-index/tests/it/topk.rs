use ramlet_index::{Hit, TopK};

use crate::random::Random;

/// The model: sort everything, cut.
fn nearest(mut hits: Vec<Hit>, k: usize) -> Vec<Hit> {
    hits.sort_by(|a, b| {
        a.distance
            .total_cmp(&b.distance)
            .then((a.segment, a.row).cmp(&(b.segment, b.row)))
    });
    hits.truncate(k);
    hits
}

#[test]
fn keeps_what_sorting_would_keep() {
    let mut random = Random::new(1);
    let mut top = TopK::new(0);
    for round in 0..300 {
        let (k, count) = (random.below(20) as usize, random.below(60));
        top.clear(k);
        let mut all = Vec::new();
        for row in 0..count {
            // Few different distances, so that ties are common; segments out of order.
            let hit = Hit {
                distance: random.below(8) as f32 - 4.0,
                segment: random.below(3),
                row: row ^ 5,
            };
            top.begin_segment(hit.segment);
            let entered = top.would_enter(hit.distance, hit.row);
            assert_eq!(top.push(hit.distance, hit.row), entered);
            all.push(hit);
            assert_eq!(entered, nearest(all.clone(), k).contains(&hit));
            assert!(!entered || hit.distance <= top.threshold() || top.len() < k);
            if random.below(10) == 0 {
                // Looking at the result in between changes nothing.
                assert_eq!(top.sorted(), nearest(all.clone(), k), "round {round}");
            }
        }
        assert_eq!(top.sorted(), nearest(all, k), "round {round}");
        assert_eq!(top.len(), k.min(count as usize));
    }
}

#[test]
fn what_is_not_a_number_is_farthest() {
    let mut top = TopK::new(2);
    for (row, distance) in [(0, f32::NAN), (1, -f32::NAN), (2, 5.0), (3, 1e38)] {
        top.push(distance, row);
    }
    let rows: Vec<u32> = top.sorted().iter().map(|hit| hit.row).collect();
    assert_eq!(rows, [2, 3]);
}
