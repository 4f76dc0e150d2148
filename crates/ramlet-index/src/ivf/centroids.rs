//! Centres of clusters, one byte a dimension, and finding the nearest.
//!
//! A centroid is `origin + scale * code`, with a scale of its own and codes of -127 to 127. What it decodes to is the
//! centroid: rows are assigned to it, residuals are taken from it, and searches rank it. The origin is some point
//! amid the data, common to all: data that lie far from zero lose nothing.

use ramlet_kernels::{CodeWidth, Kernels, kernels};

use super::points::{PointQuery, encode_point};

/// Centroids compared by one call of the kernels; their products lie on the stack.
pub(crate) const AT_ONCE: usize = 64;

/// Centroids of one byte a dimension: `dims + 8` bytes each.
///
/// The rounding moves a centroid by about 0.5 % of its distance to the origin, in no preferred direction.
#[derive(Clone, Debug, Default)]
pub struct Centroids {
    origin: Vec<f32>,
    /// Each code plus 128: what the kernels compare.
    codes: Vec<u8>,
    scales: Vec<f32>,
    /// Squared distances to the origin.
    squares: Vec<f32>,
}

impl Centroids {
    /// None yet, around `origin`, whose length is the number of dimensions.
    pub fn new(origin: &[f32]) -> Centroids {
        Centroids::with_capacity(origin, 0)
    }

    pub(crate) fn with_capacity(origin: &[f32], count: usize) -> Centroids {
        Centroids {
            origin: origin.to_vec(),
            codes: Vec::with_capacity(count * origin.len()),
            scales: Vec::with_capacity(count),
            squares: Vec::with_capacity(count),
        }
    }

    pub fn dims(&self) -> usize {
        self.origin.len()
    }

    pub fn count(&self) -> usize {
        self.scales.len()
    }

    pub fn origin(&self) -> &[f32] {
        &self.origin
    }

    /// Bytes that so many centroids hold.
    pub fn bytes_for(count: usize, dims: usize) -> usize {
        count * (dims + 8) + dims * 4
    }

    /// Appends the nearest to `vector` that can be told.
    pub fn push(&mut self, vector: &[f32]) {
        let relative: Vec<f32> = vector.iter().zip(&self.origin).map(|(v, o)| v - o).collect();
        self.push_relative(&relative);
    }

    /// Appends a centroid given from the origin.
    pub(crate) fn push_relative(&mut self, vector: &[f32]) {
        let at = self.codes.len();
        self.codes.resize(at + vector.len(), 0);
        let scale = encode_point(vector, &mut self.codes[at..]);
        self.scales.push(scale);
        self.squares.push(square(&self.codes[at..], scale));
    }

    /// Replaces a centroid by one given from the origin.
    pub(crate) fn set_relative(&mut self, i: usize, vector: &[f32]) {
        let codes = &mut self.codes[i * vector.len()..][..vector.len()];
        self.scales[i] = encode_point(vector, codes);
        self.squares[i] = square(codes, self.scales[i]);
    }

    /// Appends centroid `i` of others around the same origin.
    pub(crate) fn push_of(&mut self, others: &Centroids, i: usize) {
        self.codes.extend_from_slice(others.row_i8(i));
        self.scales.push(others.scales[i]);
        self.squares.push(others.squares[i]);
    }

    /// The codes, each plus 128: `dims` bytes.
    pub fn row_i8(&self, i: usize) -> &[u8] {
        &self.codes[i * self.dims()..][..self.dims()]
    }

    /// All codes, each plus 128, without gaps.
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    pub fn scale(&self, i: usize) -> f32 {
        self.scales[i]
    }

    /// Squared distance from the origin.
    pub(crate) fn square(&self, i: usize) -> f32 {
        self.squares[i]
    }

    /// The centroid itself.
    pub fn decode(&self, i: usize, out: &mut [f32]) {
        for (out, value) in out.iter_mut().zip(self.row(i)) {
            *out = value;
        }
    }

    /// The centroid from the origin.
    pub(crate) fn decode_relative(&self, i: usize, out: &mut Vec<f32>) {
        let scale = self.scales[i];
        out.clear();
        out.extend(
            self.row_i8(i)
                .iter()
                .map(|code| scale * (f32::from(*code) - 128.0)),
        );
    }

    pub(crate) fn row(&self, i: usize) -> impl Iterator<Item = f32> {
        let scale = self.scales[i];
        let codes = self.row_i8(i).iter().zip(&self.origin);
        codes.map(move |(code, origin)| origin + scale * (f32::from(*code) - 128.0))
    }

    /// Tells for each centroid of `range`, in order, `base[i] - 2 <x, c>`, both taken from the origin: with its square
    /// as base that is the squared distance less `|x|^2`.
    pub(crate) fn scores(
        &self,
        point: &PointQuery,
        base: &[f32],
        range: std::ops::Range<usize>,
        mut each: impl FnMut(usize, f32),
    ) {
        let table: &Kernels = kernels();
        let dims = self.dims();
        let mut products = [0i32; AT_ONCE];
        for start in range.clone().step_by(AT_ONCE) {
            let products = &mut products[..AT_ONCE.min(range.end - start)];
            let rows = &self.codes[start * dims..];
            table.dot_codes(CodeWidth::Eight, &point.codes, rows, dims, products);
            let factors = self.scales[start..].iter().zip(&base[start..]);
            for ((i, product), (scale, base)) in products.iter().enumerate().zip(factors) {
                // Codes are 128 too large each.
                let dot = (product - point.sum * 128) as f32;
                each(start + i, base - 2.0 * point.scale * scale * dot);
            }
        }
    }

    /// The one of least score among `range`, which isn't empty; the first of equals.
    pub(crate) fn nearest(
        &self,
        point: &PointQuery,
        base: &[f32],
        range: std::ops::Range<usize>,
    ) -> (usize, f32) {
        let mut best = (range.start, f32::INFINITY);
        self.scores(point, base, range, |i, score| {
            if score < best.1 {
                best = (i, score);
            }
        });
        best
    }
}

/// The squared length of a code.
pub(super) fn square(codes: &[u8], scale: f32) -> f32 {
    let squares = codes
        .iter()
        .map(|code| i64::from((i32::from(*code) - 128).pow(2)));
    squares.sum::<i64>() as f32 * scale * scale
}
