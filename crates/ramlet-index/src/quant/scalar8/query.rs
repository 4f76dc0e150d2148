//! A query made ready to be compared with rows of bytes.

use ramlet_kernels::{CodeWidth, Kernels, Measure};

use super::{CENTRE, ScalarModel};

/// What is estimated; smaller is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarKey {
    /// `|q - x|^2`
    Distance,
    /// `-<q, x>`
    Product,
    /// `sum |q_i - x_i|`
    Manhattan,
}

/// Rows compared by one call of the kernels; their products lie on the stack.
const BLOCK: usize = 64;

/// One query; its memory is used again: 2 bytes for each dimension.
#[derive(Debug)]
pub(crate) struct ScalarQuery {
    kind: ScalarKey,
    /// The query in whole numbers.
    rounded: Vec<i8>,
    /// The query as a code, for Manhattan.
    digits: Vec<u8>,
    /// A key is `base + scale * product + row's factor`.
    base: f32,
    scale: f32,
    /// A deviation squared is `variance + slope * key`.
    variance: f32,
    slope: f32,
}

impl Default for ScalarQuery {
    fn default() -> ScalarQuery {
        ScalarQuery {
            kind: ScalarKey::Distance,
            rounded: Vec::new(),
            digits: Vec::new(),
            base: 0.0,
            scale: 0.0,
            variance: 0.0,
            slope: 0.0,
        }
    }
}

impl ScalarQuery {
    /// Takes another query.
    pub(crate) fn prepare(&mut self, model: &ScalarModel, kind: ScalarKey, query: &[f32]) {
        assert_eq!(query.len(), model.dims, "the query's dimensions");
        self.kind = kind;
        let mid = model.mid();
        match kind {
            ScalarKey::Distance => {
                let unit = self.round(model, query.iter().map(|q| q - mid));
                let length: f32 = query.iter().map(|q| (q - mid) * (q - mid)).sum();
                self.base = length - 2.0 * self.base;
                self.scale *= -2.0;
                let factor = model.distance_factor * model.distance_factor;
                self.variance = unit * unit / 3.0 * model.power + factor * model.error_variance;
                self.slope = factor * 4.0 * model.error;
            }
            ScalarKey::Product => {
                let unit = self.round(model, query.iter().copied());
                self.base = -self.base - mid * query.iter().sum::<f32>();
                self.scale = -self.scale;
                let length: f32 = query.iter().map(|q| q * q).sum();
                let factor = model.product_factor * model.product_factor;
                self.variance = factor * length * model.error + unit * unit / 12.0 * model.power;
                self.slope = 0.0;
            }
            ScalarKey::Manhattan => {
                self.digits.clear();
                self.digits.extend(query.iter().map(|q| model.digit(*q)));
                let clipped = query
                    .iter()
                    .map(|q| (model.low - q).max(q - model.value(255)).max(0.0));
                self.base = clipped.sum();
                self.scale = model.step;
                self.variance = model.dims as f32 * (model.error + model.step * model.step / 12.0);
                self.slope = 0.0;
            }
        }
    }

    /// Rounds to whole numbers in -127..=127; `P` then is `base + scale * product`. The unit.
    fn round(&mut self, model: &ScalarModel, values: impl Iterator<Item = f32> + Clone) -> f32 {
        let most = values.clone().fold(0.0f32, |most, value| most.max(value.abs()));
        let unit = most / 127.0;
        let per_unit = if unit > 0.0 { 1.0 / unit } else { 0.0 };
        self.rounded.clear();
        self.rounded
            .extend(values.map(|value| (value * per_unit).round() as i8));
        let sum: i32 = self.rounded.iter().map(|z| i32::from(*z)).sum();
        self.scale = unit * model.step;
        self.base = -self.scale * CENTRE * sum as f32;
        unit
    }

    /// The keys of `out.len()` rows which begin `stride` bytes apart.
    pub(crate) fn keys(&self, kernels: &Kernels, rows: &[u8], stride: usize, out: &mut [f32]) {
        if self.kind == ScalarKey::Manhattan {
            for (i, out) in out.iter_mut().enumerate() {
                let digits = &rows[i * stride..][..self.digits.len()];
                let sum = kernels.u8_row(Measure::L1, &self.digits, digits);
                *out = self.base + self.scale * sum as f32;
            }
            return;
        }
        let dims = self.rounded.len();
        let mut products = [0; BLOCK];
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            let rows = &rows[block * BLOCK * stride..];
            let products = &mut products[..out.len()];
            kernels.dot_codes(CodeWidth::Eight, &self.rounded, rows, stride, products);
            for (i, (out, product)) in out.iter_mut().zip(products).enumerate() {
                let factor = match self.kind {
                    ScalarKey::Distance => factor(&rows[i * stride + dims..]),
                    ScalarKey::Product | ScalarKey::Manhattan => 0.0,
                };
                *out = self.base + self.scale * *product as f32 + factor;
            }
        }
    }

    /// By how much an estimated key misses: its standard deviation.
    #[inline]
    pub(crate) fn deviation(&self, key: f32) -> f32 {
        (self.variance + self.slope * key.max(0.0)).sqrt()
    }
}

/// The four bytes behind a row's digits.
#[inline]
fn factor(bytes: &[u8]) -> f32 {
    bytes
        .first_chunk()
        .map_or(0.0, |bytes| f32::from_le_bytes(*bytes))
}
