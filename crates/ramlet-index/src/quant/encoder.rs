//! Finding a row's codes.

use super::group::SignRow;
use super::rest::{RestLayout, fine_factor, grid};
use super::{FineLayout, dot, from_half, to_half};
use crate::Metric;

/// Step sizes tried, as shares of the one at which the largest value just fits: it pays to clip a few, the more the
/// fewer bits and the more dimensions there are.
const STEPS: [f32; 10] = [0.45, 0.53, 0.6, 0.67, 0.73, 0.79, 0.85, 0.91, 0.96, 1.0];

/// From the largest on, so many in turn that are worse than the best end the search: of codes of 6 bits the first or the second
/// is the best, and to try all ten took a tenth of a build's time.
const WORSE: usize = 2;

/// A row less its centroid, both rotated.
#[derive(Debug, Default)]
pub(crate) struct Residual {
    values: Vec<f32>,
    /// `|r|^2`.
    squares: f64,
    /// `|x|^2`.
    row_squares: f64,
}

impl Residual {
    /// Takes a row in place of the last one: rotated, and both less the mean; `row_squares` is the row's own `|x|^2`.
    pub(crate) fn set(&mut self, rotated: &[f32], centroid: &[f32], row_squares: f64) {
        self.values.clear();
        self.values
            .extend(rotated.iter().zip(centroid).map(|(x, c)| x - c));
        self.squares = dot(&self.values, &self.values);
        self.row_squares = row_squares;
    }

    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }

    /// `|r|^2`.
    pub(crate) fn squares(&self) -> f64 {
        self.squares
    }
}

/// Codes residuals; a few words. `unit` is about the length of a residual: factors are stored in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder {
    metric: Metric,
    unit: f64,
}

impl Encoder {
    pub(crate) fn new(metric: Metric, unit: f32) -> Encoder {
        Encoder {
            metric,
            unit: f64::from(unit),
        }
    }

    /// A unit for residuals of this mean squared length: a power of two, 1 if there is nothing to go by.
    pub(crate) fn unit_for(mean_squares: f64) -> f32 {
        let unit = mean_squares.sqrt().log2().round().exp2() as f32;
        if unit.is_normal() { unit } else { 1.0 }
    }

    /// What a group takes in. `signs` is overwritten.
    pub(crate) fn coarse<'s>(&self, residual: &Residual, number: u32, signs: &'s mut Vec<u8>) -> SignRow<'s> {
        let r = &residual.values;
        signs.clear();
        signs.resize(r.len().div_ceil(8), 0);
        let mut along = 0.0f64;
        for (i, value) in r.iter().enumerate() {
            if *value >= 0.0 {
                signs[i / 8] |= 1 << (i % 8);
            }
            along += f64::from(value.abs());
        }
        let add = self.add(residual);
        let factor = match along > 0.0 {
            true => residual.squares / along * (r.len() as f64).sqrt() / self.unit,
            false => 0.0,
        };
        SignRow {
            signs,
            add: to_half(add / (self.unit * self.unit)),
            factor: to_half(factor),
            number,
        }
    }

    fn add(&self, residual: &Residual) -> f64 {
        match self.metric {
            // The length that cosine divides by is 1, but for rows of zeros, which are like nothing.
            Metric::Cosine => residual.squares + 1.0 - residual.row_squares,
            _ => residual.squares,
        }
    }

    /// Writes a row of fine codes into `out`, which holds 0. `digits` is overwritten.
    pub(crate) fn fine(
        &self,
        residual: &Residual,
        layout: &FineLayout,
        digits: &mut Vec<u8>,
        out: &mut [u8],
    ) {
        let r = &residual.values;
        let planes = layout.planes();
        let along = quantise(r, planes as u32, digits);
        for (plane, bytes) in out[..layout.code_bytes()]
            .chunks_exact_mut(layout.plane_bytes())
            .enumerate()
        {
            let bit = planes - 1 - plane;
            for (byte, digits) in bytes.iter_mut().zip(digits.chunks(8)) {
                let bits = digits.iter().enumerate();
                *byte = bits.fold(0, |byte, (i, digit)| byte | (digit >> bit & 1) << i);
            }
        }
        let scale = (r.len() as f64).sqrt() * f64::from(1u32 << planes) / self.unit;
        let factor = if along > 0.0 {
            residual.squares / along * scale
        } else {
            0.0
        };
        out[layout.code_bytes()..].copy_from_slice(&to_half(factor));
    }

    /// What a row's fine code, just written with these digits, leaves over of it.
    pub(crate) fn left_over(
        &self,
        residual: &Residual,
        layout: &FineLayout,
        digits: &[u8],
        row: &[u8],
        out: &mut Vec<f32>,
    ) {
        let factor = fine_factor(layout, row, self.unit) as f32;
        let signs = 1u32 << layout.planes();
        out.clear();
        out.extend(residual.values.iter().zip(digits).map(|(value, digit)| {
            let sign = if *value >= 0.0 { signs } else { 0 };
            value - factor * grid(sign + u32::from(*digit), layout.bits)
        }));
    }

    /// Writes what is left over of a row into `out`, which holds 0. `digits` is overwritten.
    pub(crate) fn rest(
        &self,
        residual: &Residual,
        left: &[f32],
        layout: &RestLayout,
        digits: &mut Vec<u8>,
        out: &mut [u8],
    ) {
        let planes = u32::from(layout.bits) - 1;
        let along = quantise(left, planes, digits);
        let plane_bytes = layout.dims.div_ceil(8);
        let mut along_row = 0.0;
        for (i, (value, digit)) in left.iter().zip(&*digits).enumerate() {
            let sign = if *value >= 0.0 { 1 << planes } else { 0 };
            let digit = sign + u32::from(*digit);
            along_row += f64::from(residual.values[i]) * f64::from(grid(digit, layout.bits));
            for plane in 0..=planes {
                let bit = (digit >> (planes - plane) & 1) as u8;
                out[plane as usize * plane_bytes + i / 8] |= bit << (i % 8);
            }
        }
        let squares = dot(left, left);
        let scale = (left.len() as f64).sqrt() * f64::from(1u32 << planes) / self.unit;
        let factor = to_half(if along > 0.0 { squares / along * scale } else { 0.0 });
        // What both codes say of the row, along the row.
        let said =
            residual.squares - dot(left, &residual.values) + f64::from(from_half(factor)) / scale * along_row;
        let longer = match residual.squares > 0.0 {
            true => residual.squares / said - 1.0,
            false => 0.0,
        };
        let add = self.add(residual) / (self.unit * self.unit);
        let factors = &mut out[layout.code_bytes()..];
        factors[..2].copy_from_slice(&factor);
        factors[2..4].copy_from_slice(&to_half(add - f64::from(from_half(to_half(add)))));
        factors[4..].copy_from_slice(&to_half(longer));
    }
}

/// The digits without their signs' bits, and `<u, r>`; 0 if there is no telling.
fn quantise(r: &[f32], planes: u32, digits: &mut Vec<u8>) -> f64 {
    let most = ((1u32 << planes) - 1) as f32;
    let largest = r.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let fits = largest / (most + 1.0);
    let cosine = |(along, squares): (f64, f64)| along / squares.sqrt();
    let (mut best, mut worse): (Option<(f32, (f64, f64))>, _) = (None, 0);
    for share in STEPS.iter().rev() {
        let per_unit = 1.0 / (fits * share);
        if !per_unit.is_finite() {
            continue;
        }
        let found = measure(r, per_unit, most);
        if best.is_none_or(|(_, best)| cosine(found) > cosine(best)) {
            (best, worse) = (Some((per_unit, found)), 0);
        } else {
            worse += 1;
        }
        if worse == WORSE {
            break;
        }
    }
    digits.clear();
    let Some((per_unit, start)) = best else {
        // Nothing, or too little for a float to tell.
        digits.resize(r.len(), 0);
        return 0.0;
    };
    // The lowest bits are the whole number.
    digits.extend(
        r.iter()
            .map(|value| (level(*value, per_unit, most) + ROUNDER).to_bits() as u8),
    );
    let most = most as u8;
    let along = improve(r, digits, most, start);
    // Digits grow away from zero; in the code they grow upwards. (All of their bits are flipped, without a branch that nothing
    // foretells.)
    for (digit, value) in digits.iter_mut().zip(r) {
        *digit ^= if *value < 0.0 { most } else { 0 };
    }
    along
}

/// Added and taken away again, it leaves the nearest whole number.
const ROUNDER: f32 = 12_582_912.0;

/// Steps from zero to the grid value of a number, less the half step. (Converting to an integer and back would take several times
/// as long, since what isn't a number is asked for.)
#[inline]
fn level(value: f32, per_unit: f32, most: f32) -> f32 {
    let steps = value.abs() * per_unit;
    let most = most + 0.5;
    let steps = if steps < most { steps } else { most };
    (steps - 0.5 + ROUNDER) - ROUNDER
}

/// `<u, r>` and `|u|^2` of the code with steps of `1 / per_unit`.
fn measure(r: &[f32], per_unit: f32, most: f32) -> (f64, f64) {
    // In eight lanes, which the compiler makes one vector.
    let (mut along, mut squares) = ([0.0f32; 8], [0.0f32; 8]);
    let mut add = |lane: usize, value: f32| {
        let u = level(value, per_unit, most) + 0.5;
        along[lane] += u * value.abs();
        squares[lane] += u * u;
    };
    let (chunks, last) = r.as_chunks::<8>();
    for chunk in chunks {
        (0..8).for_each(|lane| add(lane, chunk[lane]));
    }
    last.iter()
        .enumerate()
        .for_each(|(lane, value)| add(lane, *value));
    let sum = |lanes: [f32; 8]| lanes.iter().map(|lane| f64::from(*lane)).sum();
    (sum(along), sum(squares))
}

/// Moves each digit by one if that turns the code towards `r`; `<u, r>` at the end.
fn improve(r: &[f32], digits: &mut [u8], most: u8, start: (f64, f64)) -> f64 {
    let (mut along, mut squares) = start;
    for (digit, value) in digits.iter_mut().zip(r) {
        let (u, value) = (f64::from(*digit) + 0.5, f64::from(value.abs()));
        // The digit that `r` asks for at the present scale lies on one side of the one it has.
        let up = value * squares > u * along;
        let step = if up { 1.0 } else { -1.0 };
        let fits = if up { *digit < most } else { *digit > 0 };
        let moved = (along + step * value, squares + 2.0 * step * u + 1.0);
        if fits && moved.0 > 0.0 && moved.0 * moved.0 * squares > along * along * moved.1 {
            *digit = if up { *digit + 1 } else { *digit - 1 };
            (along, squares) = moved;
        }
    }
    along
}
