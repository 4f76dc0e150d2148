//! Several queries against interleaved codes: four queries share what is loaded and widened of an interleaved block.

use std::arch::x86_64::*;
use std::ops::Range;

use super::interleaved::{Halves, INTERLEAVED_BLOCKS, sums};
use crate::interleaved::{INTERLEAVED_CODES, interleaved_bytes};
use crate::operands::{InterleavedBall, InterleavedCodes, InterleavedLimit, InterleavedQuery, Nearest};
use crate::table::NearestKernels;

pub(super) const KERNELS: NearestKernels = NearestKernels {
    nearest,
    within,
    closer,
};

/// Queries at a time.
const QUERIES: usize = 4;

/// Numbers of a half of an interleaved block.
const HALF: usize = INTERLEAVED_CODES / 2;

/// `base + per_product * scale * (product - less)`
#[inline]
#[target_feature(enable = "avx2")]
fn score(query: &InterleavedQuery<'_>, base: __m256, scale: __m256, product: __m256i) -> __m256 {
    let product = _mm256_cvtepi32_ps(_mm256_sub_epi32(product, _mm256_set1_epi32(query.less)));
    let factor = _mm256_mul_ps(_mm256_set1_ps(query.per_product), scale);
    _mm256_add_ps(base, _mm256_mul_ps(factor, product))
}

/// An interleaved block's numbers; behind the last one zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn floats(from: &[f32], interleaved_block: usize) -> [__m256; 2] {
    let from = &from[interleaved_block * INTERLEAVED_CODES..];
    let mut padded = [0.0; INTERLEAVED_CODES];
    let sixteen = from.first_chunk::<INTERLEAVED_CODES>().unwrap_or_else(|| {
        padded[..from.len()].copy_from_slice(from);
        &padded
    });
    // SAFETY: 8 numbers each.
    let [low, high] = [0, HALF].map(|at| unsafe { _mm256_loadu_ps(sixteen.as_ptr().add(at)) });
    [low, high]
}

#[target_feature(enable = "avx2")]
fn nearest(
    queries: &[InterleavedQuery<'_>],
    interleaved_blocks: &InterleavedCodes<'_>,
    range: Range<usize>,
    nearest: &mut [Nearest],
) {
    let (fours, rest) = queries.as_chunks::<QUERIES>();
    let (near_fours, near_rest) = nearest.as_chunks_mut::<QUERIES>();
    for (queries, nearest) in fours.iter().zip(near_fours) {
        nearest_of::<QUERIES, 1>(queries, interleaved_blocks, &range, nearest);
    }
    for (query, nearest) in rest.iter().zip(near_rest) {
        nearest_of::<1, INTERLEAVED_BLOCKS>(
            &[*query],
            interleaved_blocks,
            &range,
            std::array::from_mut(nearest),
        );
    }
}

/// The least score of each lane, and the interleaved block that has it.
#[derive(Clone, Copy)]
struct Least {
    scores: [__m256; 2],
    interleaved_blocks: [__m256i; 2],
}

/// Compares with `B` interleaved blocks at a time.
#[inline]
#[target_feature(enable = "avx2")]
fn nearest_of<const Q: usize, const B: usize>(
    queries: &[InterleavedQuery<'_>; Q],
    interleaved_blocks: &InterleavedCodes<'_>,
    range: &Range<usize>,
    nearest: &mut [Nearest; Q],
) {
    let mut least = nearest.map(|nearest| Least {
        scores: [_mm256_set1_ps(nearest.score); 2],
        interleaved_blocks: [_mm256_setzero_si256(); 2],
    });
    let bytes = interleaved_bytes(queries[0].levels.len());
    let (mut first, last) = (
        range.start / INTERLEAVED_CODES,
        range.end.div_ceil(INTERLEAVED_CODES),
    );
    while first < last {
        let codes = &interleaved_blocks.codes[first * bytes..];
        let levels = queries.map(|query| query.levels);
        let meet = |interleaved_block, sums: &[Halves; Q], least: &mut [Least; Q]| {
            nearer(
                queries,
                interleaved_blocks,
                (interleaved_block, range),
                sums,
                least,
            );
        };
        if last - first >= B {
            // SAFETY: so many interleaved blocks of the range are left, and its interleaved blocks lie in the codes.
            let sums = unsafe { sums::<Q, B>(levels, codes) };
            (first..)
                .zip(&sums)
                .for_each(|(interleaved_block, sums)| meet(interleaved_block, sums, &mut least));
            first += B;
        } else {
            // SAFETY: as above.
            let [sums] = unsafe { sums::<Q, 1>(levels, codes) };
            meet(first, &sums, &mut least);
            first += 1;
        }
    }
    for (least, nearest) in least.iter().zip(nearest) {
        take_least(least, nearest);
    }
}

/// What is nearer in an interleaved block than what each lane has.
#[inline]
#[target_feature(enable = "avx2")]
fn nearer<const Q: usize>(
    queries: &[InterleavedQuery<'_>; Q],
    interleaved_blocks: &InterleavedCodes<'_>,
    (interleaved_block, range): (usize, &Range<usize>),
    sums: &[Halves; Q],
    least: &mut [Least; Q],
) {
    let (scales, mut bases) = (
        floats(interleaved_blocks.scales, interleaved_block),
        floats(interleaved_blocks.bases, interleaved_block),
    );
    let number = _mm256_set1_epi32(interleaved_block as i32);
    if interleaved_block * INTERLEAVED_CODES < range.start
        || (interleaved_block + 1) * INTERLEAVED_CODES > range.end
    {
        // What isn't a number is never nearer.
        let within = |lane: usize| range.contains(&(interleaved_block * INTERLEAVED_CODES + lane));
        for (half, base) in bases.iter_mut().enumerate() {
            let beyond: [i32; HALF] = std::array::from_fn(|lane| match within(half * HALF + lane) {
                true => 0,
                false => -1,
            });
            // SAFETY: 8 numbers.
            let beyond = unsafe { _mm256_loadu_si256(beyond.as_ptr().cast()) };
            *base = _mm256_or_ps(*base, _mm256_castsi256_ps(beyond));
        }
    }
    for ((query, sums), least) in queries.iter().zip(sums).zip(least) {
        for half in 0..2 {
            let score = score(query, bases[half], scales[half], sums[half]);
            let less = _mm256_cmp_ps::<_CMP_LT_OQ>(score, least.scores[half]);
            least.scores[half] = _mm256_blendv_ps(least.scores[half], score, less);
            let (before, less) = (least.interleaved_blocks[half], _mm256_castps_si256(less));
            least.interleaved_blocks[half] = _mm256_blendv_epi8(before, number, less);
        }
    }
}

/// The least of all lanes, if it is less than what there was; of equals the first code.
#[target_feature(enable = "avx2")]
fn take_least(least: &Least, nearest: &mut Nearest) {
    let (mut scores, mut interleaved_blocks) = ([0.0f32; INTERLEAVED_CODES], [0u32; INTERLEAVED_CODES]);
    for half in 0..2 {
        // SAFETY: 8 numbers behind each place.
        unsafe {
            _mm256_storeu_ps(scores.as_mut_ptr().add(half * HALF), least.scores[half]);
            _mm256_storeu_si256(
                interleaved_blocks.as_mut_ptr().add(half * HALF).cast(),
                least.interleaved_blocks[half],
            );
        }
    }
    let before = nearest.score;
    for ((score, interleaved_block), lane) in scores.into_iter().zip(interleaved_blocks).zip(0u32..) {
        let code = interleaved_block * INTERLEAVED_CODES as u32 + lane;
        let nearer = score < nearest.score || (score == nearest.score && code < nearest.code);
        if score < before && nearer {
            *nearest = Nearest { score, code };
        }
    }
}

#[target_feature(enable = "avx2")]
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
#[target_feature(enable = "avx2")]
fn within_of<const Q: usize>(
    queries: &[InterleavedQuery<'_>; Q],
    limits: &[InterleavedLimit; Q],
    codes: &[u8],
    scales: &[f32],
    out: &mut [u16],
) {
    let interleaved_blocks = scales.len().div_ceil(INTERLEAVED_CODES);
    let levels = queries.map(|query| query.levels);
    let each = codes.chunks_exact(interleaved_bytes(levels[0].len()));
    for (interleaved_block, codes) in each.take(interleaved_blocks).enumerate() {
        // SAFETY: a whole interleaved block.
        let [sums] = unsafe { sums::<Q, 1>(levels, codes) };
        let there = u16::MAX
            >> (INTERLEAVED_CODES
                - (scales.len() - interleaved_block * INTERLEAVED_CODES).min(INTERLEAVED_CODES));
        let scales = floats(scales, interleaved_block);
        for (query, sums) in sums.iter().enumerate() {
            let limit = &limits[query];
            let near = |half: usize| {
                let base = _mm256_set1_ps(limit.base);
                let score = score(&queries[query], base, scales[half], sums[half]);
                let near = _mm256_cmp_ps::<_CMP_NGT_UQ>(score, _mm256_set1_ps(limit.most));
                _mm256_movemask_ps(near) as u16
            };
            out[query * interleaved_blocks + interleaved_block] = (near(0) | near(1) << HALF) & there;
        }
    }
}

#[target_feature(enable = "avx2")]
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
        closer_of::<QUERIES, 1>(queries, codes, squares, distances, near);
    }
    let out = distances_rest.chunks_exact_mut(squares.len());
    let out = out.zip(near_rest.chunks_exact_mut(squares.len() / INTERLEAVED_CODES));
    for (query, (distances, near)) in rest.iter().zip(out) {
        closer_of::<1, INTERLEAVED_BLOCKS>(&[*query], codes, squares, distances, near);
    }
}

/// With `B` interleaved blocks at a time.
#[inline]
#[target_feature(enable = "avx2")]
fn closer_of<const Q: usize, const B: usize>(
    queries: &[InterleavedBall<'_>; Q],
    codes: &[u8],
    squares: &[u32],
    distances: &mut [u32],
    near: &mut [u16],
) {
    let levels = queries.map(|query| query.levels);
    let (bytes, interleaved_blocks) = (
        interleaved_bytes(levels[0].len()),
        squares.len() / INTERLEAVED_CODES,
    );
    let mut meet = |interleaved_block: usize, sums: &[Halves; Q]| {
        let squares = squares[interleaved_block * INTERLEAVED_CODES..]
            .first_chunk::<INTERLEAVED_CODES>()
            .expect("an interleaved block");
        for (q, (query, sums)) in queries.iter().zip(sums).enumerate() {
            let at = (q * interleaved_blocks + interleaved_block) * INTERLEAVED_CODES;
            let out = distances[at..]
                .first_chunk_mut::<INTERLEAVED_CODES>()
                .expect("an interleaved block");
            let mut far = [0; 2];
            for half in 0..2 {
                // SAFETY: 8 numbers behind each place.
                unsafe {
                    let own = _mm256_loadu_si256(squares.as_ptr().add(half * HALF).cast());
                    let own = _mm256_add_epi32(own, _mm256_set1_epi32(query.offset as i32));
                    let distance = _mm256_sub_epi32(own, _mm256_slli_epi32::<1>(sums[half]));
                    _mm256_storeu_si256(out.as_mut_ptr().add(half * HALF).cast(), distance);
                    let more = _mm256_max_epu32(distance, _mm256_set1_epi32(query.limit as i32));
                    let more = _mm256_castsi256_ps(_mm256_cmpeq_epi32(more, distance));
                    far[half] = _mm256_movemask_ps(more) as u16;
                }
            }
            near[q * interleaved_blocks + interleaved_block] = !(far[0] | far[1] << HALF);
        }
    };
    let mut first = 0;
    while first < interleaved_blocks {
        let codes = &codes[first * bytes..];
        if interleaved_blocks - first >= B {
            // SAFETY: so many interleaved blocks of the squares are left, and theirs lie in the codes.
            let sums = unsafe { sums::<Q, B>(levels, codes) };
            (first..)
                .zip(&sums)
                .for_each(|(interleaved_block, sums)| meet(interleaved_block, sums));
            first += B;
        } else {
            // SAFETY: as above.
            let [sums] = unsafe { sums::<Q, 1>(levels, codes) };
            meet(first, &sums);
            first += 1;
        }
    }
}
