//! Several queries against braided codes: four of each at a time, whose sixteen sums are registers.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::braid::{BRAID, BRAID_COLUMN_BYTES, BRAID_QUAD};
use crate::operands::{BraidBall, BraidLimit, BraidQuery, Braids, Nearest};
use crate::table::NearestKernels;

pub(super) const KERNELS: NearestKernels = NearestKernels {
    nearest,
    within,
    closer,
};

/// Queries at a time.
const QUERIES: usize = 4;

/// Safety: the braids from `first` on lie in `codes`, `B` of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn sums<const Q: usize, const B: usize>(
    queries: [&[i8]; Q],
    codes: &[u8],
    first: usize,
) -> [[__m512i; Q]; B] {
    let columns = queries[0].len() / BRAID_QUAD;
    let bytes = columns * BRAID_COLUMN_BYTES;
    let mut sums = [[_mm512_setzero_si512(); Q]; B];
    // SAFETY: the caller vouches for the braids.
    let codes = unsafe { codes.as_ptr().add(first * bytes) };
    for i in 0..columns {
        let quads: [__m512i; Q] = std::array::from_fn(|query| {
            // SAFETY: all queries have the same whole columns.
            let quad = unsafe {
                queries[query]
                    .as_ptr()
                    .add(i * BRAID_QUAD)
                    .cast::<i32>()
                    .read_unaligned()
            };
            _mm512_set1_epi32(quad)
        });
        for (braid, sums) in sums.iter_mut().enumerate() {
            // SAFETY: a braid has a column of 64 bytes for each quad.
            let column =
                unsafe { _mm512_loadu_si512(codes.add(braid * bytes + i * BRAID_COLUMN_BYTES).cast()) };
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
fn score(query: &BraidQuery<'_>, base: __m512, scale: __m512, product: __m512i) -> __m512 {
    let product = _mm512_cvtepi32_ps(_mm512_sub_epi32(product, _mm512_set1_epi32(query.less)));
    let factor = _mm512_mul_ps(_mm512_set1_ps(query.per_product), scale);
    _mm512_add_ps(base, _mm512_mul_ps(factor, product))
}

/// The lanes of a braid that lie in the range.
#[inline]
fn lanes(braid: usize, range: &Range<usize>) -> __mmask16 {
    let start = range.start.saturating_sub(braid * BRAID);
    let end = (range.end - braid * BRAID).min(BRAID);
    (u16::MAX >> (BRAID - end)) & (u16::MAX << start)
}

/// Sixteen floats of `from`, of which those of `mask` are there.
#[inline]
#[target_feature(enable = "avx512f")]
fn floats(from: &[f32], braid: usize, mask: __mmask16) -> __m512 {
    debug_assert!(braid * BRAID + (BRAID - mask.leading_zeros() as usize) <= from.len());
    // SAFETY: masked-off lanes are not read; the others lie in the slice.
    unsafe { _mm512_maskz_loadu_ps(mask, from.as_ptr().wrapping_add(braid * BRAID)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn nearest(queries: &[BraidQuery<'_>], braids: &Braids<'_>, range: Range<usize>, nearest: &mut [Nearest]) {
    let (fours, rest) = queries.as_chunks::<QUERIES>();
    let (near_fours, near_rest) = nearest.as_chunks_mut::<QUERIES>();
    for (queries, nearest) in fours.iter().zip(near_fours) {
        nearest_of(queries, braids, &range, nearest);
    }
    for (query, nearest) in rest.iter().zip(near_rest) {
        nearest_of(&[*query], braids, &range, std::array::from_mut(nearest));
    }
}

/// The least score of each lane, and the braid that has it.
struct Least<const Q: usize> {
    scores: [__m512; Q],
    braids: [__m512i; Q],
    found: [__mmask16; Q],
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn nearest_of<const Q: usize>(
    queries: &[BraidQuery<'_>; Q],
    braids: &Braids<'_>,
    range: &Range<usize>,
    nearest: &mut [Nearest; Q],
) {
    let mut least = Least {
        scores: std::array::from_fn(|query| _mm512_set1_ps(nearest[query].score)),
        braids: [_mm512_setzero_si512(); Q],
        found: [0; Q],
    };
    let (mut first, last) = (range.start / BRAID, range.end.div_ceil(BRAID));
    while first < last {
        first += match last - first {
            1 => several::<Q, 1>(queries, braids, (first, range), &mut least),
            2 | 3 => several::<Q, 2>(queries, braids, (first, range), &mut least),
            _ => several::<Q, 4>(queries, braids, (first, range), &mut least),
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
        let codes = _mm512_add_epi32(_mm512_slli_epi32::<4>(least.braids[query]), lane);
        *nearest = Nearest {
            score,
            code: _mm512_mask_reduce_min_epu32(equal, codes),
        };
    }
}

/// Compares with `B` braids, so many as it returns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn several<const Q: usize, const B: usize>(
    queries: &[BraidQuery<'_>; Q],
    braids: &Braids<'_>,
    (first, range): (usize, &Range<usize>),
    least: &mut Least<Q>,
) -> usize {
    // SAFETY: the range's braids lie in the codes, and `B` of them are left of it.
    let sums = unsafe { sums::<Q, B>(queries.map(|query| query.digits), braids.codes, first) };
    for (braid, sums) in sums.iter().enumerate() {
        let mask = lanes(first + braid, range);
        let scale = floats(braids.scales, first + braid, mask);
        let base = floats(braids.bases, first + braid, mask);
        let number = _mm512_set1_epi32((first + braid) as i32);
        for (query, sum) in sums.iter().enumerate() {
            let score = score(&queries[query], base, scale, *sum);
            let less = _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(mask, score, least.scores[query]);
            least.scores[query] = _mm512_mask_mov_ps(least.scores[query], less, score);
            least.braids[query] = _mm512_mask_mov_epi32(least.braids[query], less, number);
            least.found[query] |= less;
        }
    }
    B
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn within(queries: &[BraidQuery<'_>], limits: &[BraidLimit], codes: &[u8], scales: &[f32], out: &mut [u16]) {
    let braids = scales.len().div_ceil(BRAID);
    let (fours, rest) = queries.as_chunks::<QUERIES>();
    let (limit_fours, limit_rest) = limits.as_chunks::<QUERIES>();
    let (fours_out, rest_out) = out.split_at_mut(fours.len() * QUERIES * braids);
    let each = fours
        .iter()
        .zip(limit_fours)
        .zip(fours_out.chunks_exact_mut(QUERIES * braids));
    each.for_each(|((queries, limits), out)| within_of(queries, limits, codes, scales, out));
    let each = rest.iter().zip(limit_rest).zip(rest_out.chunks_exact_mut(braids));
    each.for_each(|((query, limit), out)| within_of(&[*query], &[*limit], codes, scales, out));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn within_of<const Q: usize>(
    queries: &[BraidQuery<'_>; Q],
    limits: &[BraidLimit; Q],
    codes: &[u8],
    scales: &[f32],
    out: &mut [u16],
) {
    let last = scales.len().div_ceil(BRAID);
    let mut first = 0;
    while first < last {
        first += match last - first {
            1 => several_within::<Q, 1>((queries, limits), codes, scales, first, out),
            2 | 3 => several_within::<Q, 2>((queries, limits), codes, scales, first, out),
            _ => several_within::<Q, 4>((queries, limits), codes, scales, first, out),
        };
    }
}

/// Compares with `B` braids, so many as it returns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn several_within<const Q: usize, const B: usize>(
    (queries, limits): (&[BraidQuery<'_>; Q], &[BraidLimit; Q]),
    codes: &[u8],
    scales: &[f32],
    first: usize,
    out: &mut [u16],
) -> usize {
    // SAFETY: the scales' braids lie in the codes, and `B` of them are left.
    let sums = unsafe { sums::<Q, B>(queries.map(|query| query.digits), codes, first) };
    let braids = scales.len().div_ceil(BRAID);
    for (braid, sums) in sums.iter().enumerate() {
        let mask = lanes(first + braid, &(0..scales.len()));
        let scale = floats(scales, first + braid, mask);
        for (query, sum) in sums.iter().enumerate() {
            let (base, most) = (
                _mm512_set1_ps(limits[query].base),
                _mm512_set1_ps(limits[query].most),
            );
            let score = score(&queries[query], base, scale, *sum);
            out[query * braids + first + braid] = _mm512_mask_cmp_ps_mask::<_CMP_NGT_UQ>(mask, score, most);
        }
    }
    B
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn closer(queries: &[BraidBall<'_>], codes: &[u8], squares: &[u32], distances: &mut [u32], near: &mut [u16]) {
    let (fours, rest) = queries.as_chunks::<QUERIES>();
    let (distances_fours, distances_rest) = distances.split_at_mut(fours.len() * QUERIES * squares.len());
    let (near_fours, near_rest) = near.split_at_mut(distances_fours.len() / BRAID);
    let out = distances_fours.chunks_exact_mut(QUERIES * squares.len());
    let out = out.zip(near_fours.chunks_exact_mut(QUERIES * squares.len() / BRAID));
    for (queries, (distances, near)) in fours.iter().zip(out) {
        closer_of(queries, codes, squares, distances, near);
    }
    let out = distances_rest.chunks_exact_mut(squares.len());
    let out = out.zip(near_rest.chunks_exact_mut(squares.len() / BRAID));
    for (query, (distances, near)) in rest.iter().zip(out) {
        closer_of(&[*query], codes, squares, distances, near);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn closer_of<const Q: usize>(
    queries: &[BraidBall<'_>; Q],
    codes: &[u8],
    squares: &[u32],
    distances: &mut [u32],
    near: &mut [u16],
) {
    let last = squares.len() / BRAID;
    let mut first = 0;
    while first < last {
        first += match last - first {
            1 => several_closer::<Q, 1>(queries, (codes, squares), first, distances, near),
            2 | 3 => several_closer::<Q, 2>(queries, (codes, squares), first, distances, near),
            _ => several_closer::<Q, 4>(queries, (codes, squares), first, distances, near),
        };
    }
}

/// Compares with `B` braids, so many as it returns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn several_closer<const Q: usize, const B: usize>(
    queries: &[BraidBall<'_>; Q],
    (codes, squares): (&[u8], &[u32]),
    first: usize,
    distances: &mut [u32],
    near: &mut [u16],
) -> usize {
    // SAFETY: the squares' braids lie in the codes, and `B` of them are left.
    let sums = unsafe { sums::<Q, B>(queries.map(|query| query.digits), codes, first) };
    let braids = squares.len() / BRAID;
    for (braid, sums) in (first..).zip(&sums) {
        let squares = squares[braid * BRAID..].first_chunk::<BRAID>().expect("a braid");
        // SAFETY: 16 numbers.
        let squares = unsafe { _mm512_loadu_si512(squares.as_ptr().cast()) };
        for (q, (query, sum)) in queries.iter().zip(sums).enumerate() {
            let at = (q * braids + braid) * BRAID;
            let out = distances[at..].first_chunk_mut::<BRAID>().expect("a braid");
            let own = _mm512_add_epi32(squares, _mm512_set1_epi32(query.offset as i32));
            let distance = _mm512_sub_epi32(own, _mm512_slli_epi32::<1>(*sum));
            // SAFETY: 16 numbers.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), distance) };
            near[q * braids + braid] =
                _mm512_cmplt_epu32_mask(distance, _mm512_set1_epi32(query.limit as i32));
        }
    }
    B
}
