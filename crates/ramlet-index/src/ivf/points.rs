//! Vectors of one byte a dimension: rows of the sample, and rows while their nearest centroid is looked for.
//!
//! A point is `scale * code` from the centroids' origin. Stored: `dims` bytes of codes plus 128, then the scale (f32).

use ramlet_kernels::BRAID_QUAD;

use super::sample::Decoder;

/// Bytes of a stored point beside its codes.
pub(super) const POINT_TAIL: usize = 4;

/// Writes a vector's codes plus 128, and returns its scale.
pub(crate) fn encode_point(vector: &[f32], codes: &mut [u8]) -> f32 {
    /// Adding it leaves the nearest integer in the lowest bits.
    const ROUNDER: f32 = 12_582_912.0;
    let most = vector.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    // The least normal number, so that its inverse is finite; a huge one stays finite too.
    let most = most.clamp(1e-30, 1e30);
    let inverse = 127.0 / most;
    for (code, value) in codes.iter_mut().zip(vector) {
        let value = (value * inverse).clamp(-127.0, 127.0);
        *code = (value + ROUNDER).to_bits() as u8 ^ 0x80;
    }
    most / 127.0
}

/// A point as the kernels compare it with codes.
#[derive(Debug, Default)]
pub(crate) struct PointQuery {
    pub(super) codes: Vec<i8>,
    pub(super) scale: f32,
    /// Sum of the codes.
    pub(super) sum: i32,
}

impl PointQuery {
    /// Takes codes plus 128.
    pub(super) fn set(&mut self, codes: &[u8], scale: f32) {
        self.codes.clear();
        self.codes.extend(codes.iter().map(|code| (code ^ 0x80) as i8));
        self.codes.resize(codes.len().next_multiple_of(BRAID_QUAD), 0);
        self.sum = self.codes.iter().map(|code| i32::from(*code)).sum();
        self.scale = scale;
    }

    /// Squared distance from the origin.
    pub(super) fn square(&self) -> f32 {
        let squares: i64 = self
            .codes
            .iter()
            .map(|code| i64::from(i32::from(*code).pow(2)))
            .sum();
        squares as f32 * self.scale * self.scale
    }
}

/// Makes points of rows.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    pub(super) decoder: Decoder,
    pub(super) origin: Vec<f32>,
}

impl Pointer {
    /// Appends the row's stored point; `vector` is overwritten.
    pub(super) fn append(&self, row: &[u8], vector: &mut Vec<f32>, out: &mut Vec<u8>) {
        self.decoder.decode(row, vector);
        for (value, origin) in vector.iter_mut().zip(&self.origin) {
            *value -= origin;
        }
        append_point(vector, out);
    }
}

/// Appends the stored point of a vector given from the origin.
pub(super) fn append_point(vector: &[f32], out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + vector.len(), 0);
    let scale = encode_point(vector, &mut out[at..]);
    out.extend_from_slice(&scale.to_le_bytes());
}

/// Stored points without gaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Points<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) dims: usize,
}

impl<'a> Points<'a> {
    pub(super) fn stride(&self) -> usize {
        self.dims + POINT_TAIL
    }

    pub(super) fn count(&self) -> usize {
        self.bytes.len() / self.stride()
    }

    /// Codes plus 128, and the scale.
    pub(super) fn get(&self, i: usize) -> (&'a [u8], f32) {
        split(&self.bytes[i * self.stride()..][..self.stride()])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a [u8], f32)> {
        self.bytes.chunks_exact(self.stride()).map(split)
    }
}

/// A stored point's codes plus 128, and its scale.
pub(super) fn split(point: &[u8]) -> (&[u8], f32) {
    let (codes, scale) = point.split_at(point.len() - POINT_TAIL);
    (
        codes,
        f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]),
    )
}
