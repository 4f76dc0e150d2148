//! Codes against brute force: unbiased, and as far off as they say.

use ramlet_kernels::{FastScanned, kernels};

use super::*;
use crate::build::random::Random;

fn normal(random: &mut Random) -> f32 {
    (0..4).map(|_| random.below(2001) as f32 - 1000.0).sum::<f32>() * 0.000_87
}

fn unit(vector: &mut [f32]) {
    let length = dot(vector, vector).sqrt() as f32;
    vector.iter_mut().for_each(|value| *value /= length);
}

/// What estimates missed by.
#[derive(Debug, Default)]
struct Misses {
    trials: f64,
    beyond: f64,
    sum: f64,
    squares: f64,
    absolute: f64,
}

impl Misses {
    fn add(&mut self, off: f64, error: f64) {
        let missed = off / error;
        self.trials += 1.0;
        self.beyond += f64::from(u8::from(missed.abs() > 1.0));
        self.sum += missed;
        self.squares += missed * missed;
        self.absolute += off.abs();
    }

    /// Errors are two deviations.
    fn check(&self, what: &str) {
        let beyond = self.beyond / self.trials;
        assert!(beyond < 0.07, "{what}: {beyond} beyond the error");
        let mean = self.sum / self.trials;
        assert!(mean.abs() < 0.04, "{what}: biased by {mean}");
        let deviation = (self.squares / self.trials).sqrt();
        assert!((0.22..0.56).contains(&deviation), "{what}: deviation {deviation}");
    }
}

/// Estimates of rows around one centroid after another, by signs, by codes of so many bits and by SQ8 rows.
fn misses(metric: Metric, bits: u8, dims: usize, trials: usize, random: &mut Random) -> [Misses; 3] {
    let rotation = Rotation::new(dims);
    let (mut query, mut entered) = (CodeQuery::default(), ResidualQuery::default());
    let (groups, extended) = (GroupLayout::new(dims, 100), ExtendedLayout::new(dims, bits));
    let encoder = Encoder::new(metric, 0.5);
    let (mut residual, mut signs, mut levels) = (Residual::default(), Vec::new(), Vec::new());
    let mut mixing = Vec::new();
    let mean = vec![0; dims * 4];
    let epsilon = Epsilon {
        scanned: 2.0,
        extended: 2.0,
    };
    let mut fast_scanned = FastScanned::default();
    let sq8 = Sq8Layout::new(dims);
    let mut numbers = Vec::new();
    let mut out = [Misses::default(), Misses::default(), Misses::default()];
    for trial in 0..trials {
        let mut x: Vec<f32> = (0..dims).map(|_| 1.0 + normal(random)).collect();
        let centre: Vec<f32> = x.iter().map(|x| x + 0.5 * normal(random)).collect();
        let mut q: Vec<f32> = centre.iter().map(|c| c + 0.8 * normal(random)).collect();
        let mut centroid = centre;
        if metric == Metric::Cosine {
            unit(&mut x);
            unit(&mut q);
            unit(&mut centroid);
        }
        rotation.apply(&mut centroid, &mut mixing);
        let most = centroid.iter().fold(0.0f32, |most, c| most.max(c.abs()));
        let step = most / 127.0;
        let levels8: Vec<u8> = centroid
            .iter()
            .map(|c| ((c / step).round() + 128.0) as u8)
            .collect();
        let centroid: Vec<f32> = levels8
            .iter()
            .map(|level| step * (f32::from(*level) - 128.0))
            .collect();
        let mut rotated = x.clone();
        rotation.apply(&mut rotated, &mut mixing);
        residual.set(&rotated, &centroid, squares(&x));
        let (mut group, mut row) = (vec![0; groups.row_bytes()], vec![0; extended.row_bytes()]);
        let lane = trial % GROUP;
        let sign_row = encoder.one_bit(&residual, 77, &mut signs);
        groups.put(&mut group, lane, &sign_row);
        assert_eq!(groups.number(&group, lane), 77);
        encoder.extended(&residual, &extended, &mut levels, &mut row);

        query.prepare(metric, Some(&rotation), &mean, &q, kernels());
        let space = CodeSpace { metric, unit: 0.5 };
        entered.enter(
            &space,
            &query,
            (step, &levels8),
            Some(&extended),
            &epsilon,
            kernels(),
        );
        entered.fast_scan(
            kernels(),
            (&group, group.len()),
            f32::INFINITY,
            &[],
            &mut fast_scanned,
        );
        let kept = fast_scanned.get(lane).expect("all are kept");
        let distance = match metric {
            Metric::Euclid => x.iter().zip(&q).map(|(x, q)| f64::from(x - q).powi(2)).sum(),
            _ => -dot(&x, &q),
        };
        let (estimate, lower) = (kept.distance, kept.lower);
        out[0].add(f64::from(estimate) - distance, f64::from(estimate - lower));
        let low = kernels().planes_dot(
            entered.rounded(),
            dims,
            extended.planes() as u32,
            &row[..extended.code_bytes()],
        );
        let (estimate, error) = entered.extended(&extended, kept.sum, kept.add, &row, low);
        out[1].add(f64::from(estimate) - distance, f64::from(error));

        let mut row = vec![0; sq8.row_bytes()];
        encoder.sq8(&residual, 78, sq8, &mut numbers, &mut row);
        entered.refine(kernels());
        let mut told = 0;
        entered.sq8(kernels(), sq8, &row, |row, estimate, deviation| {
            assert_eq!(row.number, 78);
            out[2].add(f64::from(estimate) - distance, f64::from(2.0 * deviation));
            told += 1;
        });
        assert_eq!(told, 1);
    }
    out
}

#[test]
fn estimates_are_unbiased_and_miss_as_often_as_said() {
    let mut random = Random::new(1);
    for metric in [Metric::Euclid, Metric::Cosine, Metric::Dot] {
        for (dims, trials) in [(24, 1200), (100, 1200), (128, 300), (384, 200), (771, 200)] {
            let mut last = f64::INFINITY;
            for bits in 2..=8 {
                let [scanned, extended, sq8] = misses(metric, bits, dims, trials, &mut random);
                if trials > 1000 {
                    sq8.check(&format!("{metric:?}, {dims} dimensions, SQ8 rows"));
                    scanned.check(&format!("{metric:?}, {dims} dimensions, signs"));
                    extended.check(&format!("{metric:?}, {dims} dimensions, {bits} bits"));
                }
                let absolute = extended.absolute / extended.trials;
                // Each bit halves the error, until rounding the query counts.
                let share = if bits < 7 { 0.75 } else { 1.05 };
                assert!(
                    absolute < share * last,
                    "{metric:?} {dims}: {bits} bits {absolute}, {last} before"
                );
                assert!(extended.absolute < scanned.absolute * 0.7);
                // As good as codes of eight bits at least.
                let share = if bits == 8 { 1.1 } else { 0.8 };
                assert!(
                    sq8.absolute < share * extended.absolute,
                    "{metric:?} {dims}, {bits} bits"
                );
                last = absolute;
            }
        }
    }
}

#[test]
fn codes_have_the_bytes_they_say() {
    assert_eq!(CodeKind::OneBit.row_bytes(100, 1_000_000), 25 * 16 + 32 * 7);
    assert_eq!(CodeKind::OneBit.row_bytes(3, 1 << 24), 16 + 32 * 8);
    assert_eq!(CodeKind::OneBit.bytes_for(33, 100, 33), 2 * 624);
    assert_eq!(CodeKind::extended(100), CodeKind::Extended { bits: 6 });
    assert_eq!(CodeKind::extended(100).row_bytes(100, 0), 67);
    assert_eq!(
        CodeKind::extended_low(100).map(|kind| kind.bytes_for(10, 100, 10)),
        Some(280)
    );
    let bits = [24, 128, 384, 768, 1536].map(CodeKind::extended);
    assert_eq!(bits, [8, 5, 3, 3, 2].map(|bits| CodeKind::Extended { bits }));
    assert_eq!(CodeKind::extended_low(1536), None);
}

#[test]
fn half_precision_is_read_as_it_is_written() {
    let mut floats = [0.0; 1];
    for bits in (0..=u16::MAX).step_by(7) {
        kernels().f16_to_f32(&[bits], &mut floats);
        let read = from_half(bits.to_le_bytes());
        assert!(
            read == floats[0] || read.is_nan() && floats[0].is_nan(),
            "{bits:x}"
        );
    }
}
