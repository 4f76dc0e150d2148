//! Centres of clusters, one byte a dimension, and finding the nearest.
//!
//! A centroid is `origin + scale * code`, with a scale of its own and codes of -127 to 127. What it decodes to is the
//! centroid: rows are assigned to it, residuals are taken from it, and searches rank it. The origin is some point
//! amid the data, common to all: data that lie far from zero lose nothing.

use ramlet_kernels::{
    INTERLEAVED_CODES, INTERLEAVED_COLUMN_BYTES, INTERLEAVED_QUAD, InterleavedCodes, interleaved_bytes,
    kernels,
};

/// How much of its spread a cluster is taken to be farther away than its centroid is.
///
/// The centroids of wide clusters lie amid everything, so that they are near to every query, while few of their rows
/// are. 1M x 100, 8,000 clusters, 400 queries, coverage of the true 10 at 25,000 rows scanned: 0 gives 0.89, 1/4 0.92,
/// 1/2 0.92, 3/4 0.92, 1 (the mean distance of the cluster's rows) 0.89.
const SPREAD_SHARE: f32 = 0.5;

/// What a search adds to the squared distance of a centroid before it ranks the clusters.
pub(crate) fn handicap(spread: f32) -> f32 {
    SPREAD_SHARE * spread
}

/// The vector that codes, each plus 128, stand for.
pub(crate) fn decoded(
    codes: impl Iterator<Item = u8>,
    scale: f32,
    origin: &[f32],
) -> impl Iterator<Item = f32> {
    codes
        .zip(origin)
        .map(move |(code, origin)| origin + scale * (f32::from(code) - 128.0))
}

/// Rows or centroids compared by one call of the kernels.
pub(crate) const AT_ONCE: usize = 6 * INTERLEAVED_CODES;

/// Centroids of one byte a dimension: `dims + 8` bytes each (dims rounded up to 4, their number to 16).
///
/// The rounding moves a centroid by about 0.5 % of its distance to the origin, in no preferred direction.
#[derive(Clone, Debug, Default)]
pub struct Centroids {
    origin: Vec<f32>,
    /// Each code plus 128, in interleaved blocks of 16 centroids: what the kernels compare.
    codes: Vec<u8>,
    scales: Vec<f32>,
    /// Squared distances to the origin.
    squares: Vec<f32>,
    /// Mean squared distances of the clusters' rows, once known.
    spreads: Vec<f32>,
}

impl Centroids {
    /// None yet, around `origin`, whose length is the number of dimensions.
    pub fn new(origin: &[f32]) -> Centroids {
        Centroids::with_capacity(origin, 0)
    }

    pub(crate) fn with_capacity(origin: &[f32], count: usize) -> Centroids {
        Centroids {
            origin: origin.to_vec(),
            codes: Vec::with_capacity(count.div_ceil(INTERLEAVED_CODES) * interleaved_bytes(origin.len())),
            scales: Vec::with_capacity(count),
            squares: Vec::with_capacity(count),
            spreads: Vec::new(),
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
        count.div_ceil(INTERLEAVED_CODES) * interleaved_bytes(dims) + count * 8 + dims * 4
    }

    /// Appends the nearest to `vector` that can be told.
    pub fn push(&mut self, vector: &[f32]) {
        let relative: Vec<f32> = vector.iter().zip(&self.origin).map(|(v, o)| v - o).collect();
        self.push_relative(&relative);
    }

    /// Appends a centroid given from the origin.
    pub(crate) fn push_relative(&mut self, vector: &[f32]) {
        let mut codes = vec![0; vector.len()];
        let scale = kernels().to_bytes(vector, &mut codes);
        self.push_codes(codes.iter().copied(), scale, square(&codes, scale));
    }

    fn push_codes(&mut self, codes: impl Iterator<Item = u8>, scale: f32, square: f32) {
        let count = self.count() + 1;
        let bytes = count.div_ceil(INTERLEAVED_CODES) * interleaved_bytes(self.dims());
        self.codes.resize(bytes, 0);
        self.scales.push(scale);
        self.squares.push(square);
        self.set_codes(count - 1, codes);
    }

    fn set_codes(&mut self, i: usize, codes: impl Iterator<Item = u8>) {
        let at = self.place(i);
        for (dim, code) in codes.enumerate() {
            self.codes[at + offset(dim)] = code;
        }
    }

    /// Where a centroid's first code lies.
    fn place(&self, i: usize) -> usize {
        i / INTERLEAVED_CODES * interleaved_bytes(self.dims()) + i % INTERLEAVED_CODES * INTERLEAVED_QUAD
    }

    /// Replaces a centroid by one given from the origin.
    pub(crate) fn set_relative(&mut self, i: usize, vector: &[f32]) {
        let mut codes = vec![0; vector.len()];
        self.scales[i] = kernels().to_bytes(vector, &mut codes);
        self.squares[i] = square(&codes, self.scales[i]);
        self.set_codes(i, codes.into_iter());
    }

    /// Appends centroid `i` of others around the same origin.
    pub(crate) fn push_of(&mut self, others: &Centroids, i: usize) {
        self.push_codes(others.row_i8(i), others.scales[i], others.squares[i]);
    }

    /// Puts a centroid in the place of another.
    pub(crate) fn move_to(&mut self, from: usize, to: usize) {
        let (source, target) = (self.place(from), self.place(to));
        for dim in 0..self.dims() {
            self.codes[target + offset(dim)] = self.codes[source + offset(dim)];
        }
        (self.scales[to], self.squares[to]) = (self.scales[from], self.squares[from]);
    }

    /// Drops the last ones, or appends such as are to be set.
    pub(crate) fn resize(&mut self, count: usize) {
        let bytes = count.div_ceil(INTERLEAVED_CODES) * interleaved_bytes(self.dims());
        self.codes.resize(bytes, 0);
        self.scales.resize(count, 0.0);
        self.squares.resize(count, 0.0);
    }

    /// The codes, each plus 128.
    pub fn row_i8(&self, i: usize) -> impl Iterator<Item = u8> {
        let codes = &self.codes[self.place(i)..];
        (0..self.dims()).map(|dim| codes[offset(dim)])
    }

    pub fn scale(&self, i: usize) -> f32 {
        self.scales[i]
    }

    /// Squared distance from the origin.
    pub(crate) fn square(&self, i: usize) -> f32 {
        self.squares[i]
    }

    /// Mean squared distance of the cluster's rows to the centroid; 0 if it isn't known.
    pub(crate) fn spread(&self, i: usize) -> f32 {
        self.spreads.get(i).copied().unwrap_or(0.0)
    }

    pub(crate) fn set_spreads(&mut self, spreads: Vec<f32>) {
        self.spreads = spreads;
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
        out.extend(self.row_i8(i).map(|code| scale * (f32::from(code) - 128.0)));
    }

    pub(crate) fn row(&self, i: usize) -> impl Iterator<Item = f32> {
        decoded(self.row_i8(i), self.scales[i], &self.origin)
    }

    /// What the kernels compare, each with its base: with its square as base and a point's `PointQueries::distances` a score is
    /// the squared distance less `|x|^2`, both taken from the origin.
    pub(crate) fn interleaved_blocks<'b>(&'b self, bases: &'b [f32]) -> InterleavedCodes<'b> {
        InterleavedCodes {
            codes: &self.codes,
            scales: &self.scales,
            bases,
        }
    }
}

/// Centroids of an index that is there, for a build that goes on from them. They are told one after another, so that they aren't in memory twice.
pub trait SeedCentroids: std::fmt::Debug {
    fn dims(&self) -> usize;
    fn count(&self) -> usize;
    /// A centroid in the space of the rows, in place of what `out` had.
    fn write(&self, i: usize, out: &mut Vec<f32>);
}

/// Where dimension `dim` of a code lies from its first.
pub(crate) fn offset(dim: usize) -> usize {
    dim / INTERLEAVED_QUAD * INTERLEAVED_COLUMN_BYTES + dim % INTERLEAVED_QUAD
}

/// The squared length of a code of at most 65,536 bytes: at most 127^2 each, it fits.
pub(crate) fn square(codes: &[u8], scale: f32) -> f32 {
    let squares: i32 = codes
        .iter()
        .map(|code| (i32::from(*code) - 128) * (i32::from(*code) - 128))
        .sum();
    squares as f32 * scale * scale
}
