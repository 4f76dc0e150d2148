//! Scalar quantization: a byte for each dimension.
//!
//! All dimensions share one range, from a low to a high quantile of the values of a sample, cut into 255 steps; a value
//! outside is taken for the range's end (the API's `int8` with `quantile`; the idea is as old as pulse-code modulation:
//! Bennett, "Spectra of quantized signals", 1948). A quantile below 1 gives finer steps at the price of a few clipped
//! values, which are always taken for too short.
//!
//! With `x' = mid + step (digit - 127.5)` for what a code stands for and `q` rounded to whole numbers `z` times a unit
//! of its own, a block of codes takes one integer product each ([`ramlet_kernels::Kernels::dot_codes`]):
//!
//! | key | from `P = unit step (<z, digits> - 127.5 sum z)` | `z` rounds |
//! |---|---|---|
//! | distance `\|q - x\|^2` | `\|q - mid\|^2 + \|x' - mid\|^2 - 2 P`; the middle term stands behind the code | `q - mid` |
//! | product `-<q, x>` | `-P - mid sum q` | `q` |
//! | manhattan `sum \|q_i - x_i\|` | the query as a code too; what it was clipped by is added | |
//!
//! A value is off by `e`, mean square `v` (`step^2 / 12` where nothing is clipped), and `z` by `unit^2 / 12`. Then
//! distances miss by about `2 sqrt(v |q - x|^2 + unit^2 |x' - mid|^2 / 12)`, products by half of that with `|q|` for
//! `|q - x|`. Cosine is the product of unit vectors.

mod query;
#[cfg(test)]
mod tests;

pub(crate) use query::{ScalarKey, ScalarQuery};

use crate::error::{IndexError, Result};

/// Version of the bytes; others are refused.
const VERSION: u32 = 1;
const BYTES: usize = 36;
/// Vectors of a sample that are compared with so many others each.
const COMPARED: usize = 2048;
const PAIRS: usize = 4;
/// Largest digit, and steps of the range.
const DIGIT_MAX: f32 = 255.0;
/// The digit that would stand for the middle of the range.
const CENTRE: f32 = 127.5;

/// The range, and how far digits are from what they stand for. 36 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScalarModel {
    dims: usize,
    /// What digit 0 stands for.
    low: f32,
    step: f32,
    /// Mean square of `e` in a dimension.
    error: f32,
    /// Variance of `|e|^2`, for whole vectors.
    error_variance: f32,
    /// Mean of `|x' - mid|^2`.
    power: f32,
    /// By how much distances and products miss, measured, in units of what `error` says.
    distance_factor: f32,
    product_factor: f32,
}

impl ScalarModel {
    /// The range within which lies the share `quantile` (0.5 to 1) of the values of a sample of vectors, as many being
    /// below as above. Holds as many bytes as the sample.
    pub(crate) fn train(dims: usize, sample: &[f32], quantile: f32) -> Result<ScalarModel> {
        if dims == 0 || dims > ramlet_kernels::MAX_U8_DIMS || sample.len() < dims {
            return Err(broken(format!(
                "{dims} dimensions, a sample of {} numbers",
                sample.len()
            )));
        }
        let mut values = sample.to_vec();
        let outside = (1.0 - f64::from(quantile.clamp(0.5, 1.0))) / 2.0;
        let cut = (outside * values.len() as f64) as usize;
        let last = values.len() - 1;
        let low = *values.select_nth_unstable_by(cut, f32::total_cmp).1;
        let high = *values.select_nth_unstable_by(last - cut, f32::total_cmp).1;
        // Where all values are the same, any step will do: digits are 0.
        let step = if high > low {
            (high - low) / DIGIT_MAX
        } else {
            f32::MIN_POSITIVE
        };
        let mut model = ScalarModel {
            dims,
            low,
            step: step.max(f32::MIN_POSITIVE),
            error: 0.0,
            error_variance: 0.0,
            power: 0.0,
            distance_factor: 1.0,
            product_factor: 1.0,
        };
        model.measure(sample);
        model.compare(sample);
        Ok(model)
    }

    fn measure(&mut self, sample: &[f32]) {
        let (mut sum, mut squares, mut power) = (0.0f64, 0.0f64, 0.0f64);
        for vector in sample.chunks_exact(self.dims) {
            let mut error = 0.0;
            for value in vector {
                let digit = self.digit(*value);
                error += f64::from(value - self.value(digit)).powi(2);
                power += f64::from((f32::from(digit) - CENTRE) * self.step).powi(2);
            }
            sum += error;
            squares += error * error;
        }
        let of = (sample.len() / self.dims) as f64;
        self.error = (sum / of / self.dims as f64) as f32;
        self.error_variance = (squares / of - (sum / of).powi(2)).max(0.0) as f32;
        self.power = (power / of) as f32;
    }

    /// Measures what vectors of the sample, as queries, miss others by: what is clipped goes together, in the dimensions
    /// of one vector and in queries, so that `error` alone would say too little.
    fn compare(&mut self, sample: &[f32]) {
        let sample = &sample[..sample.len().min(COMPARED * self.dims)];
        let vectors = || sample.chunks_exact(self.dims);
        let (mut distances, mut products, mut pairs) = (0.0f64, 0.0f64, 0u32);
        for ahead in 1..=PAIRS {
            for (q, x) in vectors().zip(vectors().skip(ahead)) {
                let (mut missed, mut along, mut apart, mut length) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
                for (q, x) in q.iter().zip(x) {
                    let (q, x, of) = (
                        f64::from(*q),
                        f64::from(*x),
                        f64::from(self.value(self.digit(*x))),
                    );
                    missed += (q - of).powi(2) - (q - x).powi(2);
                    along += q * (of - x);
                    apart += (q - x).powi(2);
                    length += q * q;
                }
                let error = f64::from(self.error);
                distances += missed.powi(2) / (4.0 * error * apart + f64::from(self.error_variance));
                products += along.powi(2) / (error * length);
                pairs += 1;
            }
        }
        let factor = |sum: f64| {
            let factor = (sum / f64::from(pairs)).sqrt() as f32;
            if factor.is_finite() { factor } else { 1.0 }
        };
        (self.distance_factor, self.product_factor) = (factor(distances), factor(products));
    }

    /// Bytes of a row: the digits, and a factor of 4 bytes for distances.
    pub(crate) fn row_bytes(&self, kind: ScalarKey) -> usize {
        match kind {
            ScalarKey::Distance => self.dims + 4,
            ScalarKey::Product | ScalarKey::Manhattan => self.dims,
        }
    }

    /// Writes the row of a vector: its digits; for distances behind them `|x' - mid|^2`, f32.
    pub(crate) fn encode(&self, kind: ScalarKey, vector: &[f32], row: &mut [u8]) {
        assert_eq!(vector.len(), self.dims, "the vector's dimensions");
        let (digits, factor) = row[..self.row_bytes(kind)].split_at_mut(self.dims);
        for (digit, value) in digits.iter_mut().zip(vector) {
            *digit = self.digit(*value);
        }
        if kind == ScalarKey::Distance {
            factor.copy_from_slice(&self.length(digits).to_le_bytes());
        }
    }

    /// The vector that digits stand for.
    pub(crate) fn decode(&self, digits: &[u8], vector: &mut [f32]) {
        for (value, digit) in vector.iter_mut().zip(digits) {
            *value = self.value(*digit);
        }
    }

    /// `|x' - mid|^2`
    fn length(&self, digits: &[u8]) -> f32 {
        // Twice what lies between a digit and the centre is a whole number.
        let doubled = digits.iter().map(|digit| i64::from(*digit) * 2 - 255);
        let squares: i64 = doubled.map(|value| value * value).sum();
        (squares as f64 / 4.0 * f64::from(self.step) * f64::from(self.step)) as f32
    }

    #[inline]
    fn digit(&self, value: f32) -> u8 {
        // Saturates.
        ((value - self.low) / self.step + 0.5) as u8
    }

    #[inline]
    fn value(&self, digit: u8) -> f32 {
        self.low + self.step * f32::from(digit)
    }

    fn mid(&self) -> f32 {
        self.low + self.step * CENTRE
    }

    /// Little endian: version u32, dims u32; low, step, `v`, `Var|e|^2`, `E|x' - mid|^2`, factors of distances and of
    /// products, f32.
    pub(crate) fn to_bytes(self) -> [u8; BYTES] {
        let ScalarModel {
            dims,
            low,
            step,
            error,
            error_variance,
            power,
            distance_factor,
            product_factor,
        } = self;
        let floats = [
            low,
            step,
            error,
            error_variance,
            power,
            distance_factor,
            product_factor,
        ];
        let words = [VERSION, dims as u32].into_iter().chain(floats.map(f32::to_bits));
        let mut out = [0; BYTES];
        for (out, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *out = word.to_le_bytes();
        }
        out
    }

    /// Reads what `to_bytes` wrote; anything else is an error.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<ScalarModel> {
        let ([version, dims, floats @ ..], []) = bytes.as_chunks::<4>() else {
            return Err(broken(format!("{} bytes", bytes.len())));
        };
        let (version, dims) = (u32::from_le_bytes(*version), u32::from_le_bytes(*dims) as usize);
        if version != VERSION {
            return Err(broken(format!("version {version}, this program reads {VERSION}")));
        }
        let floats = <[[u8; 4]; 7]>::try_from(floats)
            .map_err(|_| broken(format!("{} bytes, not {BYTES}", bytes.len())))?;
        let [low, sizes @ ..] = floats.map(f32::from_le_bytes);
        let [
            step,
            error,
            error_variance,
            power,
            distance_factor,
            product_factor,
        ] = sizes;
        let sound =
            low.is_finite() && step > 0.0 && sizes.iter().all(|size| size.is_finite() && *size >= 0.0);
        if !sound || dims == 0 || dims > ramlet_kernels::MAX_U8_DIMS {
            return Err(broken("a number that can't be"));
        }
        Ok(ScalarModel {
            dims,
            low,
            step,
            error,
            error_variance,
            power,
            distance_factor,
            product_factor,
        })
    }
}

fn broken(detail: impl Into<String>) -> IndexError {
    IndexError::Mismatch(format!("scalar quantizer: {}", detail.into()))
}
