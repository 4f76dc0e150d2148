//! 8-bit vectors: rows of the sample, and rows whose nearest centroid is searched.
//!
//! A point is `scale * code` from the centroids' origin. Stored: `dims` bytes of codes plus 128, then the scale (f32).

use ramlet_kernels::{INTERLEAVED_QUAD, InterleavedQuery, kernels};

use super::sample::Decoder;

/// Bytes of a stored point beside its codes.
pub(crate) const POINT_TAIL: usize = 4;

/// Writes a vector's codes plus 128, and returns its scale.
pub(crate) fn encode_point(vector: &[f32], codes: &mut [u8]) -> f32 {
    kernels().to_bytes(vector, codes)
}

/// Points as the kernels compare them with codes; the memory is used again: `dims + 12` bytes each (dims rounded up to 4).
#[derive(Debug, Default)]
pub(crate) struct PointQueries {
    dims: usize,
    levels: Vec<i8>,
    scales: Vec<f32>,
    /// Sums of the levels.
    sums: Vec<i32>,
}

impl PointQueries {
    /// None any more, of so many dimensions.
    pub(crate) fn clear(&mut self, dims: usize) {
        self.dims = dims.next_multiple_of(INTERLEAVED_QUAD);
        self.levels.clear();
        self.scales.clear();
        self.sums.clear();
    }

    /// Appends a point of codes plus 128.
    pub(crate) fn push(&mut self, codes: &[u8], scale: f32) {
        let from = self.levels.len();
        self.levels.extend(codes.iter().map(|code| (code ^ 0x80) as i8));
        self.levels.resize(from + self.dims, 0);
        self.sums
            .push(self.levels[from..].iter().map(|level| i32::from(*level)).sum());
        self.scales.push(scale);
    }

    pub(crate) fn count(&self) -> usize {
        self.scales.len()
    }

    /// What makes of products with codes plus 128, and of a centroid's scale and square, the squared distance less `|x|^2`.
    pub(crate) fn distances(&self, i: usize) -> InterleavedQuery<'_> {
        InterleavedQuery {
            per_product: -2.0 * self.scales[i],
            ..self.products(i)
        }
    }

    /// What makes products of them.
    pub(crate) fn products(&self, i: usize) -> InterleavedQuery<'_> {
        InterleavedQuery {
            levels: &self.levels[i * self.dims..][..self.dims],
            per_product: self.scales[i],
            less: self.sums[i] * 128, // codes are 128 too large each
        }
    }

    /// Squared distance from the origin.
    pub(crate) fn square(&self, i: usize) -> f32 {
        let levels = &self.levels[i * self.dims..][..self.dims];
        // At most 127^2 each, of 65,536 at most.
        let squares: i32 = levels
            .iter()
            .map(|level| i32::from(*level) * i32::from(*level))
            .sum();
        squares as f32 * self.scales[i] * self.scales[i]
    }
}

/// Makes points of rows.
#[derive(Clone, Debug)]
pub(crate) struct Pointer {
    pub(crate) decoder: Decoder,
    pub(crate) origin: Vec<f32>,
}

impl Pointer {
    /// Appends the row's stored point; `vector` is overwritten.
    pub(crate) fn append(&self, row: &[u8], vector: &mut Vec<f32>, out: &mut Vec<u8>) {
        self.decoder.decode(row, vector);
        for (value, origin) in vector.iter_mut().zip(&self.origin) {
            *value -= origin;
        }
        append_point(vector, out);
    }
}

/// Appends the stored point of a vector given from the origin.
pub(crate) fn append_point(vector: &[f32], out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + vector.len(), 0);
    let scale = encode_point(vector, &mut out[at..]);
    out.extend_from_slice(&scale.to_le_bytes());
}

/// Stored points without holes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Points<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) dims: usize,
}

impl<'a> Points<'a> {
    pub(crate) fn stride(&self) -> usize {
        self.dims + POINT_TAIL
    }

    pub(crate) fn count(&self) -> usize {
        self.bytes.len() / self.stride()
    }

    /// Codes plus 128, and the scale.
    pub(crate) fn get(&self, i: usize) -> (&'a [u8], f32) {
        split(&self.bytes[i * self.stride()..][..self.stride()])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a [u8], f32)> {
        self.bytes.chunks_exact(self.stride()).map(split)
    }
}

/// A stored point's codes plus 128, and its scale.
pub(crate) fn split(point: &[u8]) -> (&[u8], f32) {
    let (codes, scale) = point.split_at(point.len() - POINT_TAIL);
    (
        codes,
        f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]),
    )
}
