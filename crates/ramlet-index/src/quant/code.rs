//! A row's code in bytes, and finding it.
//!
//! | bytes | what |
//! |---|---|
//! | 0..n | the code: `u_i + (2^B - 1) / 2` by dimension; at 4 bits dimension `i` in the low half of byte `i`, dimension `n + i` in the high half |
//! | n..n+4 | `add` f32 |
//! | n+4..n+8 | `f` f32; 0 when the row is its centroid |
//! | n+8..n+10 | `\|r / f - u\|` in units of 1/256, rounded up, u16 |
//! | n+10..n+14 | the segment row's number u32 |

use ramlet_kernels::CodeWidth;

use super::{CodeBits, Rotation, dot};
use crate::Metric;

/// Bytes of a row behind its code.
const FACTORS: usize = 14;

/// Units of the remainder's length: 1 / this.
pub(super) const REMAINDER_UNITS: f32 = 256.0;

/// Step sizes tried, as shares of the one at which the largest value just fits: it pays to clip a few.
const STEPS: [f32; 8] = [0.62, 0.68, 0.74, 0.8, 0.86, 0.92, 0.97, 1.02];

/// Where things lie in a row of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeLayout {
    pub(crate) width: CodeWidth,
    pub(crate) code_bytes: usize,
    pub(crate) dims: usize,
}

/// What stands behind a code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    pub(crate) add: f32,
    pub(crate) scale: f32,
    pub(crate) remainder: u16,
    pub(crate) number: u32,
}

impl CodeLayout {
    pub(crate) fn new(bits: CodeBits, dims: usize) -> CodeLayout {
        let width = match bits {
            CodeBits::Four => CodeWidth::Four,
            CodeBits::Eight => CodeWidth::Eight,
        };
        CodeLayout {
            width,
            code_bytes: width.code_bytes(dims),
            dims,
        }
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.code_bytes + FACTORS
    }

    /// Largest digit of a code.
    pub(super) fn digit_max(&self) -> u8 {
        match self.width {
            CodeWidth::Four => 15,
            CodeWidth::Eight => 255,
        }
    }

    /// The digit that stands for 0, between two.
    pub(super) fn centre(&self) -> f32 {
        f32::from(self.digit_max()) / 2.0
    }

    /// The factors of a whole row.
    #[inline]
    pub(crate) fn factors(&self, row: &[u8]) -> Factors {
        let bytes = &row[self.code_bytes..][..FACTORS];
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Factors {
            add: f32::from_bits(word(0)),
            scale: f32::from_bits(word(4)),
            remainder: u16::from_le_bytes([bytes[8], bytes[9]]),
            number: word(10),
        }
    }
}

/// Codes rows; shared by threads, each with its own [`EncodeScratch`].
#[derive(Debug)]
pub(crate) struct Encoder {
    metric: Metric,
    layout: CodeLayout,
    rotation: Rotation,
}

/// One thread's memory for [`Encoder::encode`]: some 13 bytes per dimension.
#[derive(Debug, Default)]
pub(crate) struct EncodeScratch {
    residual: Vec<f32>,
    rotated: Vec<f32>,
    mixing: Vec<f32>,
    digits: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new(metric: Metric, bits: CodeBits, dims: usize) -> Encoder {
        Encoder {
            metric,
            layout: CodeLayout::new(bits, dims),
            rotation: Rotation::new(dims),
        }
    }

    pub(crate) fn layout(&self) -> &CodeLayout {
        &self.layout
    }

    /// Writes the row of codes for a vector (under cosine of unit length) in the cluster around `centroid`.
    pub(crate) fn encode(
        &self,
        vector: &[f32],
        centroid: impl Iterator<Item = f32>,
        number: u32,
        scratch: &mut EncodeScratch,
        out: &mut [u8],
    ) {
        let EncodeScratch {
            residual,
            rotated,
            mixing,
            digits,
        } = scratch;
        residual.clear();
        let mut along = 0.0f64; // <c, x - c>
        residual.extend(vector.iter().zip(centroid).map(|(x, c)| {
            along += f64::from(c) * f64::from(x - c);
            x - c
        }));
        let add = match self.metric {
            Metric::Euclid => dot(residual, residual),
            Metric::Cosine => -along,
            Metric::Dot | Metric::Manhattan => 0.0,
        };
        rotated.clone_from(residual);
        self.rotation.apply(rotated, mixing);
        let (scale, remainder) = self.quantise(rotated, digits);
        let (code, factors) = out.split_at_mut(self.layout.code_bytes);
        match self.layout.width {
            CodeWidth::Eight => code.copy_from_slice(digits),
            CodeWidth::Four => {
                code.copy_from_slice(&digits[..code.len()]);
                let high = &digits[code.len()..];
                code.iter_mut()
                    .zip(high)
                    .for_each(|(byte, high)| *byte |= high << 4);
            }
        }
        factors[..4].copy_from_slice(&(add as f32).to_le_bytes());
        factors[4..8].copy_from_slice(&(scale as f32).to_le_bytes());
        let remainder = (remainder * f64::from(REMAINDER_UNITS)).ceil() as u16; // saturates
        factors[8..10].copy_from_slice(&remainder.to_le_bytes());
        factors[10..FACTORS].copy_from_slice(&number.to_le_bytes());
    }

    /// The digits, `f`, and `|r / f - u|`.
    fn quantise(&self, r: &[f32], digits: &mut Vec<u8>) -> (f64, f64) {
        let centre = self.layout.centre();
        let largest = r.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let fits = largest / (centre + 0.5);
        let cosine = |(along, squares): (f64, f64)| along / squares.sqrt();
        let best = STEPS
            .map(|share| 1.0 / (fits * share))
            .into_iter()
            .filter(|per_unit| per_unit.is_finite())
            .max_by(|a, b| cosine(self.measure(r, *a)).total_cmp(&cosine(self.measure(r, *b))));
        digits.clear();
        let Some(per_unit) = best else {
            // Nothing, or too little for a float to tell.
            digits.resize(r.len(), self.layout.digit_max() / 2);
            return (0.0, 0.0);
        };
        let most = f32::from(self.layout.digit_max());
        digits.extend(r.iter().map(|value| digit(*value, per_unit, centre, most) as u8));
        let (along, squares) = self.improve(r, digits, self.measure(r, per_unit));
        let length = dot(r, r);
        let f = length / along;
        (f, (squares - along * along / length).max(0.0).sqrt())
    }

    /// `<u, r>` and `|u|^2` of the code with steps of `1 / per_unit`.
    fn measure(&self, r: &[f32], per_unit: f32) -> (f64, f64) {
        let (centre, most) = (self.layout.centre(), f32::from(self.layout.digit_max()));
        // In eight lanes, which the compiler makes one vector.
        let (mut along, mut squares) = ([0.0f32; 8], [0.0f32; 8]);
        for chunk in r.chunks(8) {
            for ((value, along), squares) in chunk.iter().zip(&mut along).zip(&mut squares) {
                let u = digit(*value, per_unit, centre, most) as f32 - centre;
                *along += u * value;
                *squares += u * u;
            }
        }
        let sum = |lanes: [f32; 8]| lanes.iter().map(|lane| f64::from(*lane)).sum();
        (sum(along), sum(squares))
    }

    /// Moves each digit by one if that turns the code towards `r`; `<u, r>` and `|u|^2` at the end.
    fn improve(&self, r: &[f32], digits: &mut [u8], start: (f64, f64)) -> (f64, f64) {
        let (mut along, mut squares) = start;
        let centre = self.layout.centre();
        for (digit, value) in digits.iter_mut().zip(r) {
            let (u, value) = (f64::from(f32::from(*digit) - centre), f64::from(*value));
            // The digit that `r` asks for at the present scale lies on one side of the one it has.
            let up = value * squares > u * along;
            let step = if up { 1.0 } else { -1.0 };
            let fits = if up {
                *digit < self.layout.digit_max()
            } else {
                *digit > 0
            };
            let moved = (along + step * value, squares + 2.0 * step * u + 1.0);
            if fits && moved.0 > 0.0 && moved.0 * moved.0 * squares > along * along * moved.1 {
                *digit = if up { *digit + 1 } else { *digit - 1 };
                (along, squares) = moved;
            }
        }
        (along, squares)
    }
}

/// The digit nearest to a value; exact ties go up.
#[inline]
fn digit(value: f32, per_unit: f32, centre: f32, most: f32) -> i32 {
    (value * per_unit + centre + 0.5).clamp(0.0, most + 0.5) as i32
}
