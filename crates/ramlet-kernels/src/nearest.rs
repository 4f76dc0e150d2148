//! Several queries against codes that lie interleaved: each part of the codes that is loaded serves them all, and what is done with
//! the products is done where they are.
//!
//! Of code `i` the score is `bases[i] + per_product * scales[i] * (product - less)`.

use std::ops::Range;

use crate::interleaved::{INTERLEAVED_CODES, INTERLEAVED_QUAD, interleaved_bytes};
use crate::operands::{
    InterleavedBall, InterleavedCodes, InterleavedLimit, InterleavedQuery, MAX_U8_DIMS, Nearest,
};
use crate::table::{InterleavedKernel, Kernels};

impl Kernels {
    /// Puts the code of least score in `range` (the first of equals) in the place of each `nearest` whose score is greater. What
    /// isn't a number is never the least.
    ///
    /// Bit-equal in all tables. AVX-512 takes 1.6 cycles for 100 dimensions of a code where queries come by fours.
    pub fn nearest_interleaved(
        &self,
        queries: &[InterleavedQuery<'_>],
        interleaved_blocks: &InterleavedCodes<'_>,
        range: Range<usize>,
        nearest: &mut [Nearest],
    ) {
        check(
            queries.iter().map(|query| query.levels),
            range.end,
            interleaved_blocks.codes,
        );
        assert_eq!(queries.len(), nearest.len(), "one nearest for each query");
        assert!(
            range.end <= interleaved_blocks.scales.len()
                && range.end <= interleaved_blocks.bases.len()
                && range.end <= u32::MAX as usize
        );
        if range.is_empty() {
            return;
        }
        // SAFETY: the table proves the features; the rest was just checked.
        unsafe { (self.nearest.nearest)(queries, interleaved_blocks, range, nearest) }
    }

    /// Which of `scales.len()` codes score no more than the query's limit: bit `v` of number `b` for code `16 b + v`, as many
    /// numbers as there are interleaved blocks, one query behind another. What isn't a number is no more.
    ///
    /// Bit-equal in all tables.
    pub fn within_interleaved(
        &self,
        queries: &[InterleavedQuery<'_>],
        limits: &[InterleavedLimit],
        codes: &[u8],
        scales: &[f32],
        out: &mut [u16],
    ) {
        check(queries.iter().map(|query| query.levels), scales.len(), codes);
        assert_eq!(queries.len(), limits.len(), "one limit for each query");
        assert_eq!(
            out.len(),
            queries.len() * scales.len().div_ceil(INTERLEAVED_CODES),
            "a number for each interleaved block"
        );
        if scales.is_empty() {
            return;
        }
        // SAFETY: the table proves the features; the rest was just checked.
        unsafe { (self.nearest.within)(queries, limits, codes, scales, out) }
    }

    /// The squared distances of whole interleaved blocks of codes from each query, one query behind another, and which of them are below its
    /// limit: bit `v` of number `b` for code `16 b + v`.
    ///
    /// Bit-equal in all tables.
    pub fn closer_interleaved(
        &self,
        queries: &[InterleavedBall<'_>],
        codes: &[u8],
        squares: &[u32],
        distances: &mut [u32],
        near: &mut [u16],
    ) {
        check(queries.iter().map(|query| query.levels), squares.len(), codes);
        assert!(
            squares.len().is_multiple_of(INTERLEAVED_CODES),
            "a part of an interleaved block"
        );
        assert!(
            distances.len() == queries.len() * squares.len()
                && near.len() == distances.len() / INTERLEAVED_CODES,
            "a distance for each code, a number for each interleaved block"
        );
        if squares.is_empty() {
            return;
        }
        // SAFETY: the table proves the features; the rest was just checked.
        unsafe { (self.nearest.closer)(queries, codes, squares, distances, near) }
    }
}

fn check<'q>(mut levels: impl Iterator<Item = &'q [i8]>, count: usize, codes: &[u8]) {
    let Some(len) = levels.next().map(<[i8]>::len) else {
        return;
    };
    assert!((1..=MAX_U8_DIMS).contains(&len) && len.is_multiple_of(INTERLEAVED_QUAD));
    assert!(
        levels.all(|levels| levels.len() == len),
        "queries of different lengths"
    );
    assert!(
        count.div_ceil(INTERLEAVED_CODES) * interleaved_bytes(len) <= codes.len(),
        "codes that aren't there"
    );
}

/// The functions by a table's own products, query by query.
macro_rules! interleaved_kernels {
    ($dot:path) => {
        mod nearest {
            use std::ops::Range;

            use super::*;
            use crate::nearest;
            use crate::operands::{
                InterleavedBall, InterleavedCodes, InterleavedLimit, InterleavedQuery, Nearest,
            };
            use crate::table::NearestKernels;

            pub(super) const KERNELS: NearestKernels = NearestKernels {
                nearest,
                within,
                closer,
            };

            unsafe fn nearest(
                queries: &[InterleavedQuery<'_>],
                interleaved_blocks: &InterleavedCodes<'_>,
                range: Range<usize>,
                nearest: &mut [Nearest],
            ) {
                // SAFETY: the caller's, and the products are those of the same table.
                unsafe { nearest::nearest($dot, queries, interleaved_blocks, range, nearest) }
            }

            unsafe fn within(
                queries: &[InterleavedQuery<'_>],
                limits: &[InterleavedLimit],
                codes: &[u8],
                scales: &[f32],
                out: &mut [u16],
            ) {
                // SAFETY: the caller's, and the products are those of the same table.
                unsafe { nearest::within($dot, queries, limits, codes, scales, out) }
            }

            unsafe fn closer(
                queries: &[InterleavedBall<'_>],
                codes: &[u8],
                squares: &[u32],
                distances: &mut [u32],
                near: &mut [u16],
            ) {
                // SAFETY: the caller's, and the products are those of the same table.
                unsafe { nearest::closer($dot, queries, codes, squares, distances, near) }
            }
        }
    };
}

/// InterleavedCodes whose products lie on the stack.
const INTERLEAVED_BLOCKS: usize = 6;

/// By a table's own products, query by query. Inlined into a function of each instruction set, for which the compiler vectorizes it.
///
/// Safety: that of `NearestKernel`, and the processor has what `dot` needs.
#[inline(always)]
pub(crate) unsafe fn nearest(
    dot: InterleavedKernel,
    queries: &[InterleavedQuery<'_>],
    interleaved_blocks: &InterleavedCodes<'_>,
    range: Range<usize>,
    nearest: &mut [Nearest],
) {
    for (query, nearest) in queries.iter().zip(nearest) {
        let bytes = interleaved_bytes(query.levels.len());
        let mut products = [0i32; INTERLEAVED_BLOCKS * INTERLEAVED_CODES];
        let last = range.end.div_ceil(INTERLEAVED_CODES);
        for first in (range.start / INTERLEAVED_CODES..last).step_by(INTERLEAVED_BLOCKS) {
            let end = last.min(first + INTERLEAVED_BLOCKS);
            let products = &mut products[..(end - first) * INTERLEAVED_CODES];
            // SAFETY: whole interleaved blocks, one product for each of their codes.
            unsafe {
                dot(
                    query.levels,
                    &interleaved_blocks.codes[first * bytes..end * bytes],
                    products,
                )
            };
            // An interleaved block may begin before the range and end behind it.
            let (from, to) = (
                range.start.max(first * INTERLEAVED_CODES),
                range.end.min(end * INTERLEAVED_CODES),
            );
            let products = &products[from - first * INTERLEAVED_CODES..to - first * INTERLEAVED_CODES];
            let found = least(
                query,
                products,
                &interleaved_blocks.scales[from..to],
                &interleaved_blocks.bases[from..to],
            );
            if found.score < nearest.score {
                *nearest = Nearest {
                    code: found.code + from as u32,
                    ..found
                };
            }
        }
    }
}

/// The least score; lane by lane, so that it takes few instructions.
#[inline(always)]
fn least(query: &InterleavedQuery<'_>, products: &[i32], scales: &[f32], bases: &[f32]) -> Nearest {
    let score = |product: i32, scale: f32, base: f32| {
        base + query.per_product * scale * product.wrapping_sub(query.less) as f32
    };
    let (mut least, mut at) = ([f32::INFINITY; INTERLEAVED_CODES], [0u32; INTERLEAVED_CODES]);
    let ((products, last), (scales, last_scales)) = (
        products.as_chunks::<INTERLEAVED_CODES>(),
        scales.as_chunks::<INTERLEAVED_CODES>(),
    );
    let (bases, last_bases) = bases.as_chunks::<INTERLEAVED_CODES>();
    for (number, ((products, scales), bases)) in (0u32..).zip(products.iter().zip(scales).zip(bases)) {
        for lane in 0..INTERLEAVED_CODES {
            let score = score(products[lane], scales[lane], bases[lane]);
            let less = score < least[lane];
            least[lane] = if less { score } else { least[lane] };
            at[lane] = if less { number } else { at[lane] };
        }
    }
    let number = products.len() as u32;
    for (lane, ((product, scale), base)) in last.iter().zip(last_scales).zip(last_bases).enumerate() {
        let score = score(*product, *scale, *base);
        if score < least[lane] {
            (least[lane], at[lane]) = (score, number);
        }
    }
    let mut found = Nearest {
        score: f32::INFINITY,
        code: 0,
    };
    for (lane, (score, at)) in (0u32..).zip(least.into_iter().zip(at)) {
        let code = at * INTERLEAVED_CODES as u32 + lane;
        if score < found.score || (score == found.score && code < found.code) {
            found = Nearest { score, code };
        }
    }
    found
}

/// As [`nearest`].
///
/// Safety: that of `WithinKernel`, and the processor has what `dot` needs.
#[inline(always)]
pub(crate) unsafe fn within(
    dot: InterleavedKernel,
    queries: &[InterleavedQuery<'_>],
    limits: &[InterleavedLimit],
    codes: &[u8],
    scales: &[f32],
    out: &mut [u16],
) {
    let interleaved_blocks = scales.len().div_ceil(INTERLEAVED_CODES);
    for ((query, limit), out) in queries
        .iter()
        .zip(limits)
        .zip(out.chunks_exact_mut(interleaved_blocks))
    {
        let bytes = interleaved_bytes(query.levels.len());
        let each = codes
            .chunks_exact(bytes)
            .zip(scales.chunks(INTERLEAVED_CODES))
            .zip(out);
        for ((codes, scales), out) in each {
            let (mut products, mut padded) = ([0i32; INTERLEAVED_CODES], [0.0f32; INTERLEAVED_CODES]);
            // SAFETY: one interleaved block.
            unsafe { dot(query.levels, codes, &mut products) };
            padded[..scales.len()].copy_from_slice(scales);
            let mut near = [0u16; INTERLEAVED_CODES];
            for lane in 0..INTERLEAVED_CODES {
                let product = products[lane].wrapping_sub(query.less) as f32;
                let score = limit.base + query.per_product * padded[lane] * product;
                near[lane] = if score > limit.most { 0 } else { 1 << lane };
            }
            let near = near.iter().fold(0, |all, one| all | one);
            *out = near & (u16::MAX >> (INTERLEAVED_CODES - scales.len()));
        }
    }
}

/// As [`nearest`].
///
/// Safety: that of `CloserKernel`, and the processor has what `dot` needs.
#[inline(always)]
pub(crate) unsafe fn closer(
    dot: InterleavedKernel,
    queries: &[InterleavedBall<'_>],
    codes: &[u8],
    squares: &[u32],
    distances: &mut [u32],
    near: &mut [u16],
) {
    let of_queries = distances.chunks_exact_mut(squares.len());
    let of_queries = of_queries.zip(near.chunks_exact_mut(squares.len() / INTERLEAVED_CODES));
    for (query, (distances, near)) in queries.iter().zip(of_queries) {
        let codes = codes.chunks_exact(interleaved_bytes(query.levels.len()));
        let out = distances
            .as_chunks_mut::<INTERLEAVED_CODES>()
            .0
            .iter_mut()
            .zip(near);
        let interleaved_blocks = codes.zip(squares.as_chunks::<INTERLEAVED_CODES>().0);
        for ((codes, squares), (distances, near)) in interleaved_blocks.zip(out) {
            let mut products = [0i32; INTERLEAVED_CODES];
            // SAFETY: one interleaved block.
            unsafe { dot(query.levels, codes, &mut products) };
            *near = 0;
            for lane in 0..INTERLEAVED_CODES {
                let twice = (products[lane] as u32).wrapping_mul(2);
                let distance = squares[lane].wrapping_add(query.offset).wrapping_sub(twice);
                distances[lane] = distance;
                *near |= u16::from(distance < query.limit) << lane;
            }
        }
    }
}
