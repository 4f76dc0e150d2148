//! Several queries against interleaved codes: four of each at a time, whose sixteen sums are registers.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::interleaved::{INTERLEAVED_CODES, INTERLEAVED_COLUMN_BYTES, INTERLEAVED_QUAD};
use crate::operands::{InterleavedBall, InterleavedCodes, InterleavedLimit, InterleavedQuery, Nearest};
use crate::table::NearestKernels;

pub(super) const KERNELS: NearestKernels = NearestKernels {
    nearest,
    within,
    closer,
};

/// Queries at a time.
const QUERIES: usize = 4;

/// Safety: the interleaved blocks from `first` on lie in `codes`, `B` of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn sums<const Q: usize, const B: usize>(
    queries: [&[i8]; Q],
    codes: &[u8],
    first: usize,
) -> [[__m512i; Q]; B] {
    let columns = queries[0].len() / INTERLEAVED_QUAD;
    let bytes = columns * INTERLEAVED_COLUMN_BYTES;
    let mut sums = [[_mm512_setzero_si512(); Q]; B];
    // SAFETY: the caller vouches for the interleaved blocks.
    let codes = unsafe { codes.as_ptr().add(first * bytes) };
    for i in 0..columns {
        let quads: [__m512i; Q] = std::array::from_fn(|query| {
            // SAFETY: all queries have the same whole columns.
            let quad = unsafe {
                queries[query]
                    .as_ptr()
                    .add(i * INTERLEAVED_QUAD)
                    .cast::<i32>()
                    .read_unaligned()
            };
            _mm512_set1_epi32(quad)
        });
        for (interleaved_block, sums) in sums.iter_mut().enumerate() {
            // SAFETY: an interleaved block has a column of 64 bytes for each quad.
            let column = unsafe {
                _mm512_loadu_si512(
                    codes
                        .add(interleaved_block * bytes + i * INTERLEAVED_COLUMN_BYTES)
                        .cast(),
                )
            };
            for (sum, quad) in sums.iter_mut().zip(quads) {
                *sum = _mm512_dpbusd_epi32(*sum, column, quad);
            }
        }
    }
    sums
}

/// `base + per_product * scale * (product - less)`
#[inline]
#[target_feature(enable = "avx512f")]
fn score(query: &InterleavedQuery<'_>, base: __m512, scale: __m512, product: __m512i) -> __m512 {
    let product = _mm512_cvtepi32_ps(_mm512_sub_epi32(product, _mm512_set1_epi32(query.less)));
    let factor = _mm512_mul_ps(_mm512_set1_ps(query.per_product), scale);
    _mm512_add_ps(base, _mm512_mul_ps(factor, product))
}

/// The lanes of an interleaved block that lie in the range.
#[inline]
fn lanes(interleaved_block: usize, range: &Range<usize>) -> __mmask16 {
    let start = range.start.saturating_sub(interleaved_block * INTERLEAVED_CODES);
    let end = (range.end - interleaved_block * INTERLEAVED_CODES).min(INTERLEAVED_CODES);
    (u16::MAX >> (INTERLEAVED_CODES - end)) & (u16::MAX << start)
}

/// Sixteen floats of `from`, of which those of `mask` are there.
#[inline]
#[target_feature(enable = "avx512f")]
fn floats(from: &[f32], interleaved_block: usize, mask: __mmask16) -> __m512 {
    debug_assert!(
        interleaved_block * INTERLEAVED_CODES + (INTERLEAVED_CODES - mask.leading_zeros() as usize)
            <= from.len()
    );
    // SAFETY: masked-off lanes are not read; the others lie in the slice.
    unsafe {
        _mm512_maskz_loadu_ps(
            mask,
            from.as_ptr().wrapping_add(interleaved_block * INTERLEAVED_CODES),
        )
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn nearest(
    queries: &[InterleavedQuery<'_>],
    interleaved_blocks: &InterleavedCodes<'_>,
    range: Range<usize>,
    nearest: &mut [Nearest],
) {
    let (fours, rest) = queries.as_chunks::<QUERIES>();
    let (near_fours, near_rest) = nearest.as_chunks_mut::<QUERIES>();
    for (queries, nearest) in fours.iter().zip(near_fours) {
        nearest_of(queries, interleaved_blocks, &range, nearest);
    }
    for (query, nearest) in rest.iter().zip(near_rest) {
        nearest_of(
            &[*query],
            interleaved_blocks,
            &range,
            std::array::from_mut(nearest),
        );
    }
}

/// The least score of each lane, and the interleaved block that has it.
struct Least<const Q: usize> {
    scores: [__m512; Q],
    interleaved_blocks: [__m512i; Q],
    found: [__mmask16; Q],
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn nearest_of<const Q: usize>(
    queries: &[InterleavedQuery<'_>; Q],
    interleaved_blocks: &InterleavedCodes<'_>,
    range: &Range<usize>,
    nearest: &mut [Nearest; Q],
) {
    let mut least = Least {
        scores: std::array::from_fn(|query| _mm512_set1_ps(nearest[query].score)),
        interleaved_blocks: [_mm512_setzero_si512(); Q],
        found: [0; Q],
    };
    let (mut first, last) = (
        range.start / INTERLEAVED_CODES,
        range.end.div_ceil(INTERLEAVED_CODES),
    );
    while first < last {
        first += match last - first {
            1 => several::<Q, 1>(queries, interleaved_blocks, (first, range), &mut least),
            2 | 3 => several::<Q, 2>(queries, interleaved_blocks, (first, range), &mut least),
            _ => several::<Q, 4>(queries, interleaved_blocks, (first, range), &mut least),
        };
    }
    for (query, nearest) in nearest.iter_mut().enumerate() {
        let found = least.found[query];
        if found == 0 {
            continue;
        }
        let score = _mm512_mask_reduce_min_ps(found, least.scores[query]);
        let equal = _mm512_mask_cmp_ps_mask::<_CMP_EQ_OQ>(found, least.scores[query], _mm512_set1_ps(score));
        let lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        let codes = _mm512_add_epi32(_mm512_slli_epi32::<4>(least.interleaved_blocks[query]), lane);
        *nearest = Nearest {
            score,
            code: _mm512_mask_reduce_min_epu32(equal, codes),
        };
    }
}

/// Compares with `B` interleaved blocks, so many as it returns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn several<const Q: usize, const B: usize>(
    queries: &[InterleavedQuery<'_>; Q],
    interleaved_blocks: &InterleavedCodes<'_>,
    (first, range): (usize, &Range<usize>),
    least: &mut Least<Q>,
) -> usize {
    // SAFETY: the range's interleaved blocks lie in the codes, and `B` of them are left of it.
    let sums = unsafe { sums::<Q, B>(queries.map(|query| query.levels), interleaved_blocks.codes, first) };
    for (interleaved_block, sums) in sums.iter().enumerate() {
        let mask = lanes(first + interleaved_block, range);
        let scale = floats(interleaved_blocks.scales, first + interleaved_block, mask);
        let base = floats(interleaved_blocks.bases, first + interleaved_block, mask);
        let number = _mm512_set1_epi32((first + interleaved_block) as i32);
        for (query, sum) in sums.iter().enumerate() {
            let score = score(&queries[query], base, scale, *sum);
            let less = _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(mask, score, least.scores[query]);
            least.scores[query] = _mm512_mask_mov_ps(least.scores[query], less, score);
            least.interleaved_blocks[query] =
                _mm512_mask_mov_epi32(least.interleaved_blocks[query], less, number);
            least.found[query] |= less;
        }
    }
    B
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn within(
    queries: &[InterleavedQuery<'_>],
    limits: &[InterleavedLimit],
    codes: &[u8],
    scales: &[f32],
    out: &mut [u16],
) {
    let interleaved_blocks = scales.len().div_ceil(INTERLEAVED_CODES);
    let (fours, rest) = queries.as_chunks::<QUERIES>();
    let (limit_fours, limit_rest) = limits.as_chunks::<QUERIES>();
    let (fours_out, rest_out) = out.split_at_mut(fours.len() * QUERIES * interleaved_blocks);
    let each = fours
        .iter()
        .zip(limit_fours)
        .zip(fours_out.chunks_exact_mut(QUERIES * interleaved_blocks));
    each.for_each(|((queries, limits), out)| within_of(queries, limits, codes, scales, out));
    let each = rest
        .iter()
        .zip(limit_rest)
        .zip(rest_out.chunks_exact_mut(interleaved_blocks));
    each.for_each(|((query, limit), out)| within_of(&[*query], &[*limit], codes, scales, out));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn within_of<const Q: usize>(
    queries: &[InterleavedQuery<'_>; Q],
    limits: &[InterleavedLimit; Q],
    codes: &[u8],
    scales: &[f32],
    out: &mut [u16],
) {
    let last = scales.len().div_ceil(INTERLEAVED_CODES);
    let mut first = 0;
    while first < last {
        first += match last - first {
            1 => several_within::<Q, 1>((queries, limits), codes, scales, first, out),
            2 | 3 => several_within::<Q, 2>((queries, limits), codes, scales, first, out),
            _ => several_within::<Q, 4>((queries, limits), codes, scales, first, out),
        };
    }
}

/// Compares with `B` interleaved blocks, so many as it returns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn several_within<const Q: usize, const B: usize>(
    (queries, limits): (&[InterleavedQuery<'_>; Q], &[InterleavedLimit; Q]),
    codes: &[u8],
    scales: &[f32],
    first: usize,
    out: &mut [u16],
) -> usize {
    // SAFETY: the scales' interleaved blocks lie in the codes, and `B` of them are left.
    let sums = unsafe { sums::<Q, B>(queries.map(|query| query.levels), codes, first) };
    let interleaved_blocks = scales.len().div_ceil(INTERLEAVED_CODES);
    for (interleaved_block, sums) in sums.iter().enumerate() {
        let mask = lanes(first + interleaved_block, &(0..scales.len()));
        let scale = floats(scales, first + interleaved_block, mask);
        for (query, sum) in sums.iter().enumerate() {
            let (base, most) = (
                _mm512_set1_ps(limits[query].base),
                _mm512_set1_ps(limits[query].most),
            );
            let score = score(&queries[query], base, scale, *sum);
            out[query * interleaved_blocks + first + interleaved_block] =
                _mm512_mask_cmp_ps_mask::<_CMP_NGT_UQ>(mask, score, most);
        }
    }
    B
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn closer(
    queries: &[InterleavedBall<'_>],
    codes: &[u8],
    squares: &[u32],
    distances: &mut [u32],
    near: &mut [u16],
) {
    let (fours, rest) = queries.as_chunks::<QUERIES>();
    let (distances_fours, distances_rest) = distances.split_at_mut(fours.len() * QUERIES * squares.len());
    let (near_fours, near_rest) = near.split_at_mut(distances_fours.len() / INTERLEAVED_CODES);
    let out = distances_fours.chunks_exact_mut(QUERIES * squares.len());
    let out = out.zip(near_fours.chunks_exact_mut(QUERIES * squares.len() / INTERLEAVED_CODES));
    for (queries, (distances, near)) in fours.iter().zip(out) {
        closer_of(queries, codes, squares, distances, near);
    }
    let out = distances_rest.chunks_exact_mut(squares.len());
    let out = out.zip(near_rest.chunks_exact_mut(squares.len() / INTERLEAVED_CODES));
    for (query, (distances, near)) in rest.iter().zip(out) {
        closer_of(&[*query], codes, squares, distances, near);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn closer_of<const Q: usize>(
    queries: &[InterleavedBall<'_>; Q],
    codes: &[u8],
    squares: &[u32],
    distances: &mut [u32],
    near: &mut [u16],
) {
    let last = squares.len() / INTERLEAVED_CODES;
    let mut first = 0;
    while first < last {
        first += match last - first {
            1 => several_closer::<Q, 1>(queries, (codes, squares), first, distances, near),
            2 | 3 => several_closer::<Q, 2>(queries, (codes, squares), first, distances, near),
            _ => several_closer::<Q, 4>(queries, (codes, squares), first, distances, near),
        };
    }
}

/// Compares with `B` interleaved blocks, so many as it returns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn several_closer<const Q: usize, const B: usize>(
    queries: &[InterleavedBall<'_>; Q],
    (codes, squares): (&[u8], &[u32]),
    first: usize,
    distances: &mut [u32],
    near: &mut [u16],
) -> usize {
    // SAFETY: the squares' interleaved blocks lie in the codes, and `B` of them are left.
    let sums = unsafe { sums::<Q, B>(queries.map(|query| query.levels), codes, first) };
    let interleaved_blocks = squares.len() / INTERLEAVED_CODES;
    for (interleaved_block, sums) in (first..).zip(&sums) {
        let squares = squares[interleaved_block * INTERLEAVED_CODES..]
            .first_chunk::<INTERLEAVED_CODES>()
            .expect("an interleaved block");
        // SAFETY: 16 numbers.
        let squares = unsafe { _mm512_loadu_si512(squares.as_ptr().cast()) };
        for (q, (query, sum)) in queries.iter().zip(sums).enumerate() {
            let at = (q * interleaved_blocks + interleaved_block) * INTERLEAVED_CODES;
            let out = distances[at..]
                .first_chunk_mut::<INTERLEAVED_CODES>()
                .expect("an interleaved block");
            let own = _mm512_add_epi32(squares, _mm512_set1_epi32(query.offset as i32));
            let distance = _mm512_sub_epi32(own, _mm512_slli_epi32::<1>(*sum));
            // SAFETY: 16 numbers.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), distance) };
            near[q * interleaved_blocks + interleaved_block] =
                _mm512_cmplt_epu32_mask(distance, _mm512_set1_epi32(query.limit as i32));
        }
    }
    B
}
