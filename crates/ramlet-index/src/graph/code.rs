//! Codes of 4 bits a dimension around one centre, which neighbours and entry points have.
//!
//! As in `quant`, a vector is coded by `r = P (x - mean) / unit`, rotated and in units of the usual length, and its
//! code is the grid vector `u` that points most nearly in the direction of `r`; with `f = |r|^2 / <u, r>`,
//! `<r, y> = f <u, y>` but for a small error. The centre is the same for all, so that a neighbour's code means the
//! same wherever it is met, and equal codes give bit-equal distances: a beam search relies on it.
//!
//! Distances are `|r|^2 - 2 <r, y>` with `y = P (q - mean) / unit`, which orders as the distance does (under cosine of unit
//! vectors); under dot product `-2 <r, y>` with `y = P q / unit`.
//!
//! | bytes | what |
//! |---|---|
//! | code | `u_i + 7.5`: dimension `i` in the low half of byte `i`, dimension `ceil(d/2) + i` in the high half |
//! | f16 | `\|r\|^2`, 0 under dot product |
//! | f16 | `f` |

use ramlet_kernels::{CodeWidth, Kernels, kernels};

use crate::quant::Rotation;
use crate::{Element, Metric, decode_row};

/// Both factors of a code.
pub(crate) const FACTOR_BYTES: usize = 4;

/// The level that stands for 0, between two; and the largest.
const CENTRE: f32 = 7.5;
const LEVEL_MAX: f32 = 15.0;

/// Step sizes tried, as shares of the one at which the largest value just fits: it pays to clip a few.
const STEPS: [f32; 6] = [0.66, 0.74, 0.81, 0.88, 0.95, 1.02];

/// 1.5 * 2^23: what is added to it is rounded to a whole number, whose lowest bits are then those of the sum.
const WHOLE: f32 = 12_582_912.0;

/// Codes estimated at once; their products lie on the stack.
pub(crate) const AT_ONCE: usize = 192;

/// Bytes of a code without its factors.
pub(crate) const fn code_bytes(dims: usize) -> usize {
    CodeWidth::Four.code_bytes(dims)
}

/// What codes are relative to.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) metric: Metric,
    pub(crate) mean: Vec<f32>,
    /// The usual length of `x - mean`, above 0.
    pub(crate) unit: f32,
    rotation: Rotation,
}

/// How a stored row becomes the vector that is coded and linked: decoded, and under cosine of unit length.
pub(crate) fn decode(metric: Metric, element: Element, row: &[u8], out: &mut Vec<f32>) {
    out.clear();
    decode_row(element, row, out);
    if metric == Metric::Cosine && element == Element::U8 {
        let norm = crate::vector::norm(out);
        out.iter_mut()
            .for_each(|value| *value = crate::vector::divide(*value, norm));
    }
}

impl Frame {
    pub(crate) fn new(metric: Metric, mean: Vec<f32>, unit: f32) -> Frame {
        let rotation = Rotation::new(mean.len());
        Frame {
            metric,
            mean,
            unit,
            rotation,
        }
    }

    pub(crate) fn dims(&self) -> usize {
        self.mean.len()
    }

    /// `r` of a vector.
    pub(crate) fn rotate(&self, vector: &[f32], out: &mut Vec<f32>, mixing: &mut Vec<f32>) {
        out.clear();
        let centred = vector.iter().zip(&self.mean);
        out.extend(centred.map(|(x, mean)| (x - mean) / self.unit));
        self.rotation.apply(out, mixing);
    }

    /// Writes code and factors of `r`, of a vector of this squared length.
    pub(crate) fn encode(&self, (r, squares): (&[f32], f32), levels: &mut Vec<u8>, out: &mut [u8]) {
        let f = quantise(r, levels);
        let (code, factors) = out.split_at_mut(code_bytes(r.len()));
        code.copy_from_slice(&levels[..code.len()]);
        let high = &levels[code.len()..];
        code.iter_mut()
            .zip(high)
            .for_each(|(byte, high)| *byte |= high << 4);
        let add = match self.metric {
            Metric::Dot => 0.0,
            // Zeros, which are like nothing, are as far as what has a product of 0: by distance they were nearer than most rows, and beam searches
            // met nothing else.
            Metric::Cosine if squares == 0.0 => dot(r, r) + 1.0 / (self.unit * self.unit),
            Metric::Cosine | Metric::Euclid | Metric::Manhattan => dot(r, r),
        };
        // Larger ones than half precision has would be no numbers to compare with.
        let most = 65_504.0;
        let mut halves = [0u16; 2];
        kernels().f32_to_f16(&[add.min(most), f.min(most)], &mut halves);
        factors[..2].copy_from_slice(&halves[0].to_le_bytes());
        factors[2..FACTOR_BYTES].copy_from_slice(&halves[1].to_le_bytes());
    }
}

/// One thread's query, made ready for codes: 9 bytes per dimension.
#[derive(Debug, Default)]
pub(crate) struct CodedQuery {
    y: Vec<f32>,
    mixing: Vec<f32>,
    levels: Vec<i8>,
    /// Twice the worth of a unit of the integer product, and what is taken off it first.
    step: f32,
    offset: f32,
}

impl CodedQuery {
    /// Takes a query's floats (under cosine of unit length).
    pub(crate) fn prepare(&mut self, frame: &Frame, floats: &[f32]) {
        let CodedQuery {
            y, mixing, levels, ..
        } = self;
        if frame.metric == Metric::Dot {
            y.clear();
            y.extend(floats.iter().map(|value| value / frame.unit));
            frame.rotation.apply(y, mixing);
        } else {
            frame.rotate(floats, y, mixing);
        }
        let largest = y.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let step = largest / 127.0;
        let per_unit = if step > 0.0 { 1.0 / step } else { 0.0 };
        levels.clear();
        levels.extend(y.iter().map(|value| (value * per_unit + WHOLE).to_bits() as i8));
        levels.resize(code_bytes(y.len()) * 2, 0);
        let sum: i32 = levels.iter().map(|level| i32::from(*level)).sum();
        self.step = 2.0 * step;
        self.offset = CENTRE * sum as f32;
    }

    /// The distances of at most [`AT_ONCE`] codes that lie without gaps, their factors in lists of f16.
    pub(crate) fn estimate(
        &self,
        kernels: &Kernels,
        codes: &[u8],
        adds: &[u8],
        scales: &[u8],
        distances: &mut [f32],
    ) {
        let count = distances.len();
        let mut products = [0i32; AT_ONCE];
        let products = &mut products[..count];
        kernels.dot_codes(
            CodeWidth::Four,
            &self.levels,
            codes,
            self.levels.len() / 2,
            products,
        );
        let mut scale = [0.0f32; AT_ONCE];
        halves(kernels, adds, distances);
        halves(kernels, scales, &mut scale[..count]);
        for ((distance, product), scale) in distances.iter_mut().zip(products).zip(&scale) {
            *distance -= scale * (self.step * (*product as f32 - self.offset));
        }
    }
}

/// Widens at most [`AT_ONCE`] numbers of half precision.
fn halves(kernels: &Kernels, bytes: &[u8], out: &mut [f32]) {
    let mut halves = [0u16; AT_ONCE];
    let halves = &mut halves[..out.len()];
    for (half, bytes) in halves.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *half = u16::from_le_bytes(*bytes);
    }
    kernels.f16_to_f32(halves, out);
}

pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    kernels().dot_f32(a, b)
}

/// The levels, and `f`.
fn quantise(r: &[f32], levels: &mut Vec<u8>) -> f32 {
    let largest = r.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let fits = largest / (CENTRE + 0.5);
    let cosine = |(along, squares): (f32, f32)| along / squares.sqrt();
    let best = STEPS
        .map(|share| 1.0 / (fits * share))
        .into_iter()
        .filter(|per_unit| per_unit.is_finite())
        .max_by(|a, b| cosine(measure(r, *a)).total_cmp(&cosine(measure(r, *b))));
    levels.clear();
    let Some(per_unit) = best else {
        // Nothing, or too little for a float to tell.
        levels.resize(r.len(), 7);
        return 0.0;
    };
    levels.extend(r.iter().map(|value| level(*value, per_unit) as u8));
    let along = improve(r, levels, measure(r, per_unit));
    (f64::from(dot(r, r)) / along) as f32
}

/// `<u, r>` and `|u|^2` of the code with steps of `1 / per_unit`.
fn measure(r: &[f32], per_unit: f32) -> (f32, f32) {
    // In eight lanes, which the compiler makes one vector.
    let (mut along, mut squares) = ([0.0f32; 8], [0.0f32; 8]);
    for chunk in r.chunks(8) {
        for ((value, along), squares) in chunk.iter().zip(&mut along).zip(&mut squares) {
            let u = level(*value, per_unit) as f32 - CENTRE;
            *along += u * value;
            *squares += u * u;
        }
    }
    (along.iter().sum(), squares.iter().sum())
}

/// Moves each level by one if that turns the code towards `r`; `<u, r>` at the end.
fn improve(r: &[f32], levels: &mut [u8], start: (f32, f32)) -> f64 {
    let (mut along, mut squares) = (f64::from(start.0), f64::from(start.1));
    for (level, value) in levels.iter_mut().zip(r) {
        let (u, value) = (f64::from(f32::from(*level) - CENTRE), f64::from(*value));
        // The level that `r` asks for at the present scale lies on one side of the one it has.
        let up = value * squares > u * along;
        let step = if up { 1.0 } else { -1.0 };
        let fits = if up { *level < 15 } else { *level > 0 };
        let moved = (along + step * value, squares + 2.0 * step * u + 1.0);
        if fits && moved.0 > 0.0 && moved.0 * moved.0 * squares > along * along * moved.1 {
            *level = if up { *level + 1 } else { *level - 1 };
            (along, squares) = moved;
        }
    }
    along
}

/// The level nearest to a value; exact ties go up.
#[inline]
fn level(value: f32, per_unit: f32) -> i32 {
    (value * per_unit + CENTRE + 0.5).clamp(0.0, LEVEL_MAX + 0.5) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::random::Random;

    fn normal(random: &mut Random, dims: usize) -> Vec<f32> {
        let mut value = || (0..4).map(|_| random.below(2001) as f32 - 1000.0).sum::<f32>() * 0.000_87;
        (0..dims).map(|_| value()).collect()
    }

    /// Mean and deviation of what estimated distances miss by, as shares of the deviation of the distances.
    fn misses(metric: Metric, dims: usize) -> (f64, f64) {
        let mut random = Random::new(5);
        let mean = normal(&mut random, dims);
        let unit = (dims as f32).sqrt();
        let frame = Frame::new(metric, mean.clone(), unit);
        let (mut rotated, mut mixing, mut levels) = (Vec::new(), Vec::new(), Vec::new());
        let mut coded = vec![0; code_bytes(dims) + FACTOR_BYTES];
        let mut query = CodedQuery::default();
        let q: Vec<f32> = normal(&mut random, dims)
            .iter()
            .zip(&mean)
            .map(|(q, m)| q + m)
            .collect();
        query.prepare(&frame, &q);
        let (mut offs, mut distances) = (Vec::new(), Vec::new());
        for _ in 0..2000 {
            let x: Vec<f32> = normal(&mut random, dims)
                .iter()
                .zip(&mean)
                .map(|(x, m)| x + m)
                .collect();
            frame.rotate(&x, &mut rotated, &mut mixing);
            frame.encode((&rotated, dot(&x, &x)), &mut levels, &mut coded);
            let (code, factors) = coded.split_at(code_bytes(dims));
            let mut distance = [0.0];
            query.estimate(kernels(), code, &factors[..2], &factors[2..], &mut distance);
            // What all distances have in common is left out of them.
            let square =
                |a: &[f32], b: &[f32]| -> f32 { a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum() };
            let exact = match metric {
                Metric::Dot => -2.0 * (dot(&q, &x) - dot(&q, &mean)),
                _ => square(&q, &x) - square(&q, &mean),
            } / (unit * unit);
            offs.push(f64::from(distance[0] - exact));
            distances.push(f64::from(exact));
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let deviation = |values: &[f64]| {
            let middle = mean(values);
            mean(
                &values
                    .iter()
                    .map(|value| (value - middle).powi(2))
                    .collect::<Vec<_>>(),
            )
            .sqrt()
        };
        (
            mean(&offs) / deviation(&distances),
            deviation(&offs) / deviation(&distances),
        )
    }

    #[test]
    fn estimates_are_unbiased_and_near() {
        for metric in [Metric::Euclid, Metric::Cosine, Metric::Dot] {
            for dims in [24, 99, 300] {
                let (bias, deviation) = misses(metric, dims);
                assert!(bias.abs() < 0.01, "{metric:?} {dims}: biased by {bias}");
                assert!(deviation < 0.13, "{metric:?} {dims}: off by {deviation}");
            }
        }
    }
}
