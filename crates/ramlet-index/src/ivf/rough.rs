//! 8-bit rows of a batch, sixteen interleaved: most are ruled out as neighbours without comparing the rows themselves.
//!
//! A row `x` and a query `q`, each `scale * code` but for what rounding left out, have a product of at most that of the codes plus
//! `|q - q'| |x| + |q'| |x - x'|`. So what passes is compared exactly, and what is found is the same.

use ramlet_kernels::{
    INTERLEAVED_CODES, INTERLEAVED_QUAD, InterleavedLimit, InterleavedQuery, interleaved_bytes, kernels,
};

use super::points::{PointQueries, encode_point};
use super::sample::Decoder;
use crate::centroids::{AT_ONCE, offset};
use crate::quant::squares;
use crate::{Element, Metric};

/// Of lengths, more than what sums of floats are off by.
const ROUNDING: f32 = 1e-4;

/// The codes of a batch; its memory is used again: `dims + 4` bytes a row.
#[derive(Debug, Default)]
pub(super) struct Rough {
    dims: usize,
    rows: usize,
    /// Blocks of [`AT_ONCE`] rows.
    codes: Vec<u8>,
    scales: Vec<f32>,
    bounds: Vec<Bounds>,
}

/// The greatest of a block's lengths, and of what rounding left out.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    length: f32,
    left: f32,
}

/// Some rows' codes.
#[derive(Clone, Copy)]
pub(super) struct Block<'r> {
    codes: &'r [u8],
    scales: &'r [f32],
    bounds: Bounds,
}

/// Queries that are compared with a block at once.
pub(super) const QUERIES: usize = 4;

/// A query as these codes are compared with it.
#[derive(Debug, Default)]
pub(super) struct RoughQuery {
    point: PointQueries,
    /// `|q'|`, and `|q - q'|`.
    length: f32,
    left: f32,
}

impl Rough {
    /// Whether products decide, of rows of numbers that aren't bytes already.
    pub(super) fn serves(decoder: &Decoder) -> bool {
        matches!(decoder.metric, Metric::Cosine | Metric::Dot) && decoder.element != Element::U8
    }

    /// Takes rows without holes in place of the last ones, by all threads.
    pub(super) fn take(&mut self, decoder: &Decoder, rows: &[u8], threads: usize) {
        let row_bytes = decoder.row_bytes();
        let (dims, count) = (decoder.dims, rows.len() / row_bytes);
        let (blocks, block_bytes) = (
            count.div_ceil(AT_ONCE),
            AT_ONCE / INTERLEAVED_CODES * interleaved_bytes(dims),
        );
        (self.dims, self.rows) = (dims, count);
        self.codes.clear();
        self.codes.resize(blocks * block_bytes, 0);
        self.scales.clear();
        self.scales.resize(blocks * AT_ONCE, 0.0);
        self.bounds.clear();
        self.bounds.resize(blocks, Bounds::default());
        let share = blocks.div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let rows = rows.chunks(share * AT_ONCE * row_bytes);
            let codes = self.codes.chunks_mut(share * block_bytes);
            let scales = self.scales.chunks_mut(share * AT_ONCE);
            let bounds = self.bounds.chunks_mut(share);
            for (((rows, codes), scales), bounds) in rows.zip(codes).zip(scales).zip(bounds) {
                scope.spawn(move || {
                    let blocks = codes
                        .chunks_mut(block_bytes)
                        .zip(scales.chunks_mut(AT_ONCE))
                        .zip(bounds);
                    for (rows, ((codes, scales), bounds)) in rows.chunks(AT_ONCE * row_bytes).zip(blocks) {
                        *bounds = fill(decoder, rows, codes, scales);
                    }
                });
            }
        });
    }

    /// The block of rows that begins with row `AT_ONCE * block`.
    pub(super) fn block(&self, block: usize) -> Block<'_> {
        let count = (self.rows - block * AT_ONCE).min(AT_ONCE);
        let (interleaved_block, bytes) = (
            interleaved_bytes(self.dims),
            AT_ONCE / INTERLEAVED_CODES * interleaved_bytes(self.dims),
        );
        Block {
            codes: &self.codes[block * bytes..][..count.div_ceil(INTERLEAVED_CODES) * interleaved_block],
            scales: &self.scales[block * AT_ONCE..][..count],
            bounds: self.bounds[block],
        }
    }
}

/// Codes a block's rows.
fn fill(decoder: &Decoder, rows: &[u8], codes: &mut [u8], scales: &mut [f32]) -> Bounds {
    let (mut vector, mut own) = (Vec::with_capacity(decoder.dims), vec![0; decoder.dims]);
    let mut bounds = Bounds::default();
    for (at, (row, scale)) in rows.chunks_exact(decoder.row_bytes()).zip(scales).enumerate() {
        decoder.decode(row, &mut vector);
        *scale = encode_point(&vector, &mut own);
        let first = at / INTERLEAVED_CODES * interleaved_bytes(decoder.dims)
            + at % INTERLEAVED_CODES * INTERLEAVED_QUAD;
        for (dim, code) in own.iter().enumerate() {
            codes[first + offset(dim)] = *code;
        }
        bounds.length = bounds.length.max(squares(&vector).sqrt() as f32);
        bounds.left = bounds.left.max(left_out(&vector, &own, *scale));
    }
    bounds
}

/// `|x - x'|`
fn left_out(vector: &[f32], codes: &[u8], scale: f32) -> f32 {
    let each = vector.iter().zip(codes);
    let squares = each.map(|(value, code)| (value - scale * (f32::from(*code) - 128.0)).powi(2));
    squares.sum::<f32>().sqrt()
}

impl RoughQuery {
    pub(super) fn new(query: &[f32]) -> RoughQuery {
        let mut codes = vec![0; query.len()];
        let scale = encode_point(query, &mut codes);
        let mut point = PointQueries::default();
        point.clear(query.len());
        point.push(&codes, scale);
        RoughQuery {
            length: point.square(0).sqrt(),
            left: left_out(query, &codes, scale),
            point,
        }
    }
}

impl Block<'_> {
    /// For each of [`QUERIES`] at most, which of the rows may have a negative product up to the distance given with it: a number for each
    /// sixteen rows, whose bits they are, one query behind another.
    pub(super) fn within<'q>(&self, queries: impl Iterator<Item = (&'q RoughQuery, f32)>, out: &mut [u16]) {
        let (mut points, mut limits) = (
            [InterleavedQuery::default(); QUERIES],
            [InterleavedLimit::default(); QUERIES],
        );
        let places = points.iter_mut().zip(&mut limits).zip(queries);
        let count = places
            .map(|((point, limit), (query, distance))| {
                *point = query.point.products(0);
                point.per_product = -point.per_product;
                *limit = InterleavedLimit {
                    base: -self.slack(query),
                    most: distance,
                };
            })
            .count();
        kernels().within_interleaved(&points[..count], &limits[..count], self.codes, self.scales, out);
    }

    /// By how much more than those of codes products may be.
    fn slack(&self, query: &RoughQuery) -> f32 {
        let Bounds { length, left } = self.bounds;
        query.left * length + query.length * left + ROUNDING * (query.length + query.left) * length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::random::Random;
    use crate::encode_row;

    #[test]
    fn no_row_within_the_distance_is_ruled_out() {
        let mut random = Random::new(9);
        for (dims, rows, metric) in [
            (3usize, 1usize, Metric::Dot),
            (100, 97, Metric::Cosine),
            (65, 200, Metric::Dot),
        ] {
            let element = Element::F32;
            let decoder = Decoder {
                metric,
                element,
                dims,
            };
            let mut vector = || -> Vec<f32> {
                (0..dims)
                    .map(|_| random.below(2001) as f32 * 1e-3 - 1.0)
                    .collect()
            };
            let vectors: Vec<Vec<f32>> = (0..rows).map(|_| vector()).collect();
            let mut bytes = Vec::new();
            vectors
                .iter()
                .for_each(|vector| encode_row(metric, element, vector, &mut bytes));
            let mut rough = Rough::default();
            for threads in [1, 2] {
                rough.take(&decoder, &bytes, threads);
                let queries: Vec<Vec<f32>> = (0..3).map(|_| vector()).collect();
                let rough_queries: Vec<RoughQuery> =
                    queries.iter().map(|query| RoughQuery::new(query)).collect();
                for block in 0..rows.div_ceil(AT_ONCE) {
                    let rough = rough.block(block);
                    let own = bytes.chunks_exact(dims * 4).skip(block * AT_ONCE).take(AT_ONCE);
                    let own: Vec<Vec<f32>> = own
                        .map(|bytes| {
                            let mut row = Vec::new();
                            decoder.decode(bytes, &mut row);
                            row
                        })
                        .collect();
                    let interleaved_blocks = own.len().div_ceil(INTERLEAVED_CODES);
                    let products = |query: &[f32]| -> Vec<f32> {
                        own.iter()
                            .map(|row| row.iter().zip(query).map(|(x, q)| x * q).sum())
                            .collect()
                    };
                    for at in 0..own.len() {
                        // The k-th distance runs through a row: it is told, and those that are farther by more than codes err aren't.
                        let distances: Vec<f32> = queries.iter().map(|query| -products(query)[at]).collect();
                        let mut near = vec![0xffff; queries.len() * interleaved_blocks];
                        rough.within(rough_queries.iter().zip(distances.iter().copied()), &mut near);
                        for ((query, distance), near) in queries
                            .iter()
                            .zip(&distances)
                            .zip(near.chunks_exact(interleaved_blocks))
                        {
                            for (i, product) in products(query).into_iter().enumerate() {
                                let told = near[i / INTERLEAVED_CODES] >> (i % INTERLEAVED_CODES) & 1 == 1;
                                let lengths = (squares(&own[i]) * squares(query)).sqrt() as f32;
                                assert!(told || -product > *distance, "{product}, {distance}");
                                assert!(
                                    !told || -product <= distance + 0.1 * lengths.max(1.0),
                                    "{product}, {distance}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}
