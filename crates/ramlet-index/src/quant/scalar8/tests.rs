use ramlet_kernels::kernels;

use super::*;
use crate::ivf::Random;

const KINDS: [ScalarKey; 3] = [ScalarKey::Distance, ScalarKey::Product, ScalarKey::Manhattan];

fn normal(random: &mut Random) -> f32 {
    (0..4).map(|_| random.below(2001) as f32 - 1000.0).sum::<f32>() * 0.000_87
}

/// Around 0.3, so that the middle of the range isn't 0.
fn vectors(random: &mut Random, count: usize, dims: usize) -> Vec<f32> {
    (0..count * dims).map(|_| 0.3 + normal(random)).collect()
}

fn exact(kind: ScalarKey, q: &[f32], x: &[f32]) -> f64 {
    let pairs = q.iter().zip(x).map(|(q, x)| (f64::from(*q), f64::from(*x)));
    match kind {
        ScalarKey::Distance => pairs.map(|(q, x)| (q - x).powi(2)).sum(),
        ScalarKey::Product => -pairs.map(|(q, x)| q * x).sum::<f64>(),
        ScalarKey::Manhattan => pairs.map(|(q, x)| (q - x).abs()).sum(),
    }
}

/// Mean and deviation of what keys miss by, in units of what is said.
fn missed(kind: ScalarKey, dims: usize, quantile: f32, random: &mut Random) -> (f64, f64) {
    let (sample, queries) = (vectors(random, 500, dims), vectors(random, 20, dims));
    let model = ScalarModel::train(dims, &sample, quantile).unwrap();
    let stride = model.row_bytes(kind) + 3;
    let mut rows = vec![0xee; 500 * stride];
    for (x, row) in sample.chunks(dims).zip(rows.chunks_mut(stride)) {
        model.encode(kind, x, row);
    }
    let mut query = ScalarQuery::default();
    let (mut sum, mut squares) = (0.0, 0.0);
    for q in queries.chunks(dims) {
        query.prepare(&model, kind, q);
        let mut keys = vec![0.0; 500];
        query.keys(kernels(), &rows, stride, &mut keys);
        for (x, key) in sample.chunks(dims).zip(keys) {
            let off = (f64::from(key) - exact(kind, q, x)) / f64::from(query.deviation(key));
            sum += off;
            squares += off * off;
        }
    }
    (sum / 1e4, (squares / 1e4).sqrt())
}

#[test]
fn keys_are_unbiased_and_miss_by_what_is_said() {
    let mut random = Random::new(1);
    for kind in KINDS {
        for dims in [25, 100] {
            let (mean, deviation) = missed(kind, dims, 1.0, &mut random);
            assert!(mean.abs() < 0.35, "{kind:?} {dims}: biased by {mean}");
            assert!((0.75..1.3).contains(&deviation), "{kind:?} {dims}: {deviation}");
        }
    }
}

#[test]
fn clipping_misses_by_more_and_says_so() {
    let mut random = Random::new(2);
    for kind in [ScalarKey::Distance, ScalarKey::Product] {
        let (_, deviation) = missed(kind, 100, 0.98, &mut random);
        assert!((0.8..1.25).contains(&deviation), "{kind:?}: {deviation}");
    }
}

#[test]
fn values_within_the_range_are_off_by_half_a_step() {
    let mut random = Random::new(3);
    let sample = vectors(&mut random, 300, 10);
    let model = ScalarModel::train(10, &sample, 1.0).unwrap();
    let (mut row, mut back) = (vec![0; 10], vec![0.0; 10]);
    for x in sample.chunks(10) {
        model.encode(ScalarKey::Product, x, &mut row);
        model.decode(&row, &mut back);
        for (x, back) in x.iter().zip(&back) {
            assert!((x - back).abs() <= model.step * 0.501, "{x} {back} {model:?}");
        }
    }
    // What lies outside is taken for the end.
    model.encode(
        ScalarKey::Product,
        &[-9.0, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        &mut row,
    );
    assert_eq!(&row[..2], &[0, 255]);
}

#[test]
fn a_quantile_leaves_its_share_outside() {
    let sample: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let model = ScalarModel::train(1, &sample, 0.9).unwrap();
    assert_eq!((model.value(0), model.value(255)), (50.0, 949.0));
}

#[test]
fn vectors_of_one_value_are_exact() {
    let model = ScalarModel::train(4, &[2.5; 40], 1.0).unwrap();
    for kind in KINDS {
        let mut row = vec![0; model.row_bytes(kind)];
        model.encode(kind, &[2.5; 4], &mut row);
        let mut query = ScalarQuery::default();
        query.prepare(&model, kind, &[2.5; 4]);
        let mut keys = [1.0];
        query.keys(kernels(), &row, row.len(), &mut keys);
        let want = exact(kind, &[2.5; 4], &[2.5; 4]);
        assert!((f64::from(keys[0]) - want).abs() < 1e-4, "{kind:?} {keys:?}");
    }
}

#[test]
fn bytes_survive_and_others_are_refused() {
    let mut random = Random::new(4);
    let model = ScalarModel::train(7, &vectors(&mut random, 50, 7), 0.99).unwrap();
    let bytes = model.to_bytes();
    assert_eq!(ScalarModel::from_bytes(&bytes).unwrap(), model);
    for len in 0..bytes.len() {
        assert!(ScalarModel::from_bytes(&bytes[..len]).is_err());
    }
    for _ in 0..2000 {
        let mut broken = bytes;
        broken[random.below(BYTES as u64) as usize] = random.below(256) as u8;
        if let Ok(model) = ScalarModel::from_bytes(&broken) {
            assert!(model.step > 0.0 && model.dims > 0);
        }
    }
    assert!(ScalarModel::train(0, &[1.0], 1.0).is_err());
    assert!(ScalarModel::train(3, &[1.0; 2], 1.0).is_err());
}
