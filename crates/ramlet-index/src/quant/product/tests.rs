//! What is promised of distances, words and bytes, on generated vectors.

use ramlet_kernels::{GROUP, Kernels};

use super::*;
use crate::build::random::Random;

const KINDS: [TableKind; 2] = [TableKind::Distance, TableKind::Product];

fn normal(random: &mut Random) -> f32 {
    (0..4).map(|_| random.below(2001) as f32 - 1000.0).sum::<f32>() * 0.000_87
}

/// Neighbouring dimensions go together, and later ones matter less, as in real data.
fn vectors(random: &mut Random, count: usize, dims: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(count * dims);
    for _ in 0..count {
        let mut before = 0.0;
        for i in 0..dims {
            before = 0.6 * before + normal(random);
            out.push(before / (1.0 + i as f32 / dims as f32));
        }
    }
    out
}

fn shapes(dims: usize) -> [ProductShape; 3] {
    [dims.div_ceil(2), dims / 3, dims / 4].map(|parts| ProductShape { dims, parts })
}

fn codes_of(model: &ProductModel, vectors: &[f32]) -> Vec<u8> {
    let shape = *model.shape();
    let mut codes = vec![0; vectors.len() / shape.dims * shape.parts];
    let vectors = vectors.chunks(shape.dims);
    vectors
        .zip(codes.chunks_mut(shape.parts))
        .for_each(|(x, codes)| model.encode(x, codes));
    codes
}

#[test]
fn distances_are_unbiased_and_miss_by_what_is_said() {
    let mut random = Random::new(1);
    let dims = 31;
    let sample = vectors(&mut random, 6000, dims);
    let (fresh, queries) = (vectors(&mut random, 500, dims), vectors(&mut random, 20, dims));
    for shape in shapes(dims) {
        let model = ProductModel::train(shape, &sample, 5, 2).unwrap();
        let codes = codes_of(&model, &fresh);
        for kind in KINDS {
            let mut tables = ProductTables::default();
            let (mut sum, mut squares, mut beyond) = (0.0, 0.0, 0);
            for q in queries.chunks(dims) {
                tables.enter(&model, kind, q);
                for (x, codes) in fresh.chunks(dims).zip(codes.chunks(shape.parts)) {
                    let distance = tables.distance_of_code(codes);
                    let off =
                        (f64::from(distance) - kind.exact(q, x)) / f64::from(tables.deviation(distance));
                    sum += off;
                    squares += off * off;
                    beyond += usize::from(off.abs() > 2.0);
                }
            }
            let (mean, deviation) = (sum / 1e4, (squares / 1e4).sqrt());
            assert!(mean.abs() < 0.1, "{shape:?} {kind:?}: biased by {mean}");
            assert!(
                (0.85..1.15).contains(&deviation),
                "{shape:?} {kind:?}: {deviation}"
            );
            assert!(
                beyond < 700,
                "{shape:?} {kind:?}: {beyond} of 10000 beyond two deviations"
            );
        }
    }
}

#[test]
fn scanned_groups_agree_with_tables_within_the_rounding() {
    let mut random = Random::new(2);
    for dims in [2, 24, 101] {
        let sample = vectors(&mut random, 600, dims);
        let model = ProductModel::train(ProductShape::scanned(dims), &sample, 5, 1).unwrap();
        let parts = model.shape().parts;
        let codes = codes_of(&model, &sample[..GROUP * dims]);
        let mut columns = vec![0; parts * 16];
        for (lane, codes) in codes.chunks(parts).enumerate() {
            ProductModel::put(codes, lane, &mut columns);
        }
        let mut tables = ProductTables::default();
        for kind in KINDS {
            tables.enter(&model, kind, &sample[40 * dims..][..dims]);
            assert_eq!(tables.rounded().iter().max(), Some(&255));
            for table in Kernels::all_available() {
                let mut sums = [0; GROUP];
                table.fast_scan_sums(tables.rounded(), &columns, columns.len(), parts, &mut sums);
                let (low, step) = tables.affine();
                for (sum, codes) in sums.into_iter().zip(codes.chunks(parts)) {
                    let (distance, want) = (tables.distance_of_sum(sum), tables.distance_of_code(codes));
                    assert_eq!(distance, low + step * sum as f32);
                    let slack = 1e-4 * want.abs().max(1.0);
                    assert!(
                        (distance - want).abs() <= tables.rounding_max() + slack,
                        "{kind:?} {distance} {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_code_is_the_nearest_word() {
    let mut random = Random::new(3);
    let dims = 10;
    let sample = vectors(&mut random, 1000, dims);
    for shape in shapes(dims) {
        let model = ProductModel::train(shape, &sample, 5, 3).unwrap();
        let (mut back, mut other) = (vec![0.0; dims], vec![0.0; dims]);
        let off = |back: &[f32], x: &[f32], part| {
            TableKind::Distance.exact(&back[shape.part(part)], &x[shape.part(part)])
        };
        for x in sample.chunks(dims).take(50) {
            let codes = codes_of(&model, x);
            model.decode(&codes, &mut back);
            for word in 0..WORDS {
                model.decode(&vec![word as u8; shape.parts], &mut other);
                for part in 0..shape.parts {
                    assert!(
                        off(&back, x, part) <= off(&other, x, part) + 1e-6,
                        "{shape:?} {part} {word}"
                    );
                }
            }
        }
    }
}

#[test]
fn threads_do_not_change_the_model() {
    let sample = vectors(&mut Random::new(4), 700, 20);
    let shape = ProductShape::scanned(20);
    let one = ProductModel::train(shape, &sample, 9, 1).unwrap();
    assert_eq!(ProductModel::train(shape, &sample, 9, 4).unwrap(), one);
    assert_ne!(ProductModel::train(shape, &sample, 10, 4).unwrap(), one);
}

#[test]
fn few_and_equal_vectors_make_a_model() {
    for (dims, sample) in [(3, vec![1.0; 3]), (4, vec![-2.0; 400]), (1, vec![0.0; 1])] {
        for shape in [ProductShape::scanned(dims), ProductShape { dims, parts: dims }] {
            let model = ProductModel::train(shape, &sample, 1, 2).unwrap();
            let codes = codes_of(&model, &sample[..dims]);
            let mut back = vec![0.0; dims];
            model.decode(&codes, &mut back);
            assert_eq!(back, sample[..dims]);
            let mut tables = ProductTables::default();
            for kind in KINDS {
                tables.enter(&model, kind, &sample[..dims]);
                let distance = tables.distance_of_code(&codes);
                let want = kind.exact(&sample[..dims], &sample[..dims]);
                assert!((f64::from(distance) - want).abs() < 1e-5 && tables.deviation(distance) >= 0.0);
            }
        }
    }
    assert!(ProductModel::train(ProductShape::scanned(3), &[1.0; 2], 1, 1).is_err());
    assert!(ProductModel::train(ProductShape::scanned(0), &[], 1, 1).is_err());
}

#[test]
fn parts_cover_the_dimensions() {
    for (dims, parts) in [(1, 1), (3, 3), (100, 50), (1536, 96)] {
        let shape = ProductShape { dims, parts };
        assert_eq!(shape.part(0).start, 0);
        assert_eq!(shape.part(parts - 1).end, dims);
        assert!((0..parts).all(|part| !shape.part(part).is_empty()));
    }
}

#[test]
fn more_bytes_find_more() {
    let mut random = Random::new(6);
    let dims = 32;
    let (rows, queries) = (vectors(&mut random, 2000, dims), vectors(&mut random, 20, dims));
    let recall = |shape| {
        let model = ProductModel::train(shape, &rows, 5, 1).unwrap();
        let codes = codes_of(&model, &rows);
        let mut tables = ProductTables::default();
        let mut found = 0;
        for q in queries.chunks(dims) {
            tables.enter(&model, TableKind::Distance, q);
            let distance =
                |i: &usize| f64::from(tables.distance_of_code(&codes[i * shape.parts..][..shape.parts]));
            let exact = |i: &usize| TableKind::Distance.exact(q, &rows[i * dims..][..dims]);
            let nearest = ten_nearest(2000, exact);
            found += ten_nearest(2000, distance)
                .iter()
                .filter(|i| nearest.contains(i))
                .count();
        }
        found
    };
    let found = [32, 16, 8, 2].map(|parts| recall(ProductShape { dims, parts }));
    assert!(
        found[0] >= 150 && found.is_sorted_by(|more, fewer| more > fewer) && found[3] > 10,
        "{found:?} of 200"
    );
}

fn ten_nearest(count: usize, distance: impl Fn(&usize) -> f64) -> Vec<usize> {
    let mut order: Vec<(f64, usize)> = (0..count).map(|i| (distance(&i), i)).collect();
    order.select_nth_unstable_by(9, |a, b| a.0.total_cmp(&b.0));
    order[..10].iter().map(|(_, i)| *i).collect()
}

#[test]
fn bytes_survive_and_others_are_refused() {
    let mut random = Random::new(7);
    for shape in shapes(9) {
        let model = ProductModel::train(shape, &vectors(&mut random, 300, 9), 5, 1).unwrap();
        let bytes = model.to_bytes();
        assert_eq!(bytes.len(), ProductModel::bytes_for(&shape)[0]);
        assert_eq!(ProductModel::from_bytes(&bytes).unwrap(), model);
        for len in [0, 3, 16, HEADER_BYTES, bytes.len() - 1] {
            assert!(ProductModel::from_bytes(&bytes[..len]).is_err());
        }
        for _ in 0..2000 {
            let mut broken = bytes.clone();
            let end = [16, bytes.len()][random.below(2) as usize];
            let at = random.below(end as u64) as usize;
            broken[at] = random.below(256) as u8;
            if let Ok(model) = ProductModel::from_bytes(&broken) {
                // What was accepted can be used.
                let mut tables = ProductTables::default();
                tables.enter(&model, TableKind::Distance, &[0.5; 9]);
                tables.distance_of_code(&codes_of(&model, &[0.5; 9]));
            }
        }
    }
}

#[test]
fn nothing_that_may_lie_within_a_limit_is_left_out() {
    let mut random = Random::new(11);
    let dims = 24;
    let sample = vectors(&mut random, 2000, dims);
    let (fresh, queries) = (vectors(&mut random, 300, dims), vectors(&mut random, 10, dims));
    let model = ProductModel::train(ProductShape { dims, parts: 12 }, &sample, 5, 2).unwrap();
    let codes = codes_of(&model, &fresh);
    let mut left_out = 0;
    for kind in KINDS {
        let mut tables = ProductTables::default();
        for q in queries.chunks(dims) {
            tables.enter(&model, kind, q);
            let distances = codes
                .chunks(model.shape().parts)
                .map(|codes| tables.distance_of_code(codes));
            let distances: Vec<f32> = distances.collect();
            let least = distances.iter().copied().fold(f32::INFINITY, f32::min);
            for limit in [least - 2.0, least, least + 0.1, least + 1.0, least + 20.0] {
                for epsilon in [0.1, 1.0, 3.0] {
                    let most = tables.most(limit, epsilon);
                    for distance in distances.iter().filter(|distance| **distance > most) {
                        left_out += 1;
                        let lower = distance - epsilon * tables.deviation(*distance);
                        assert!(
                            lower > limit - 1e-3,
                            "{kind:?}: {distance} within {limit} by {epsilon}, most {most}"
                        );
                    }
                    let lower = most - epsilon * tables.deviation(most);
                    assert!(
                        lower <= limit + 1e-3 || most <= least,
                        "{kind:?}: {most} isn't within {limit}"
                    );
                }
            }
        }
    }
    assert!(left_out > 1000, "{left_out}");
}
