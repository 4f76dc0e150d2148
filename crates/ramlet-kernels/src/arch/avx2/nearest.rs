//! Several queries against braided codes: four queries share what is loaded and widened of a braid.

use std::arch::x86_64::*;
use std::ops::Range;

use super::braid::{BRAIDS, Halves, sums};
use crate::braid::{BRAID, braid_bytes};
use crate::nearest::{BraidLimit, BraidQuery, Braids, Nearest, NearestKernels};

pub(super) const KERNELS: NearestKernels = NearestKernels { nearest, within };

/// Queries at a time.
const QUERIES: usize = 4;

/// Numbers of a half of a braid.
const HALF: usize = BRAID / 2;

/// `base + per_product * scale * (product - less)`
#[inline]
#[target_feature(enable = "avx2")]
fn score(query: &BraidQuery<'_>, base: __m256, scale: __m256, product: __m256i) -> __m256 {
    let product = _mm256_cvtepi32_ps(_mm256_sub_epi32(product, _mm256_set1_epi32(query.less)));
    let factor = _mm256_mul_ps(_mm256_set1_ps(query.per_product), scale);
    _mm256_add_ps(base, _mm256_mul_ps(factor, product))
}

/// A braid's numbers; behind the last one zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn floats(from: &[f32], braid: usize) -> [__m256; 2] {
    let from = &from[braid * BRAID..];
    let mut padded = [0.0; BRAID];
    let sixteen = from.first_chunk::<BRAID>().unwrap_or_else(|| {
        padded[..from.len()].copy_from_slice(from);
        &padded
    });
    // SAFETY: 8 numbers each.
    let [low, high] = [0, HALF].map(|at| unsafe { _mm256_loadu_ps(sixteen.as_ptr().add(at)) });
    [low, high]
}

#[target_feature(enable = "avx2")]
fn nearest(queries: &[BraidQuery<'_>], braids: &Braids<'_>, range: Range<usize>, nearest: &mut [Nearest]) {
    let (fours, rest) = queries.as_chunks::<QUERIES>();
    let (near_fours, near_rest) = nearest.as_chunks_mut::<QUERIES>();
    for (queries, nearest) in fours.iter().zip(near_fours) {
        nearest_of::<QUERIES, 1>(queries, braids, &range, nearest);
    }
    for (query, nearest) in rest.iter().zip(near_rest) {
        nearest_of::<1, BRAIDS>(&[*query], braids, &range, std::array::from_mut(nearest));
    }
}

/// The least score of each lane, and the braid that has it.
#[derive(Clone, Copy)]
struct Least {
    scores: [__m256; 2],
    braids: [__m256i; 2],
}

/// Compares with `B` braids at a time.
#[inline]
#[target_feature(enable = "avx2")]
fn nearest_of<const Q: usize, const B: usize>(
    queries: &[BraidQuery<'_>; Q],
    braids: &Braids<'_>,
    range: &Range<usize>,
    nearest: &mut [Nearest; Q],
) {
    let mut least = nearest.map(|nearest| Least {
        scores: [_mm256_set1_ps(nearest.score); 2],
        braids: [_mm256_setzero_si256(); 2],
    });
    let bytes = braid_bytes(queries[0].digits.len());
    let (mut first, last) = (range.start / BRAID, range.end.div_ceil(BRAID));
    while first < last {
        let codes = &braids.codes[first * bytes..];
        let digits = queries.map(|query| query.digits);
        let meet = |braid, sums: &[Halves; Q], least: &mut [Least; Q]| {
            nearer(queries, braids, (braid, range), sums, least);
        };
        if last - first >= B {
            // SAFETY: so many braids of the range are left, and its braids lie in the codes.
            let sums = unsafe { sums::<Q, B>(digits, codes) };
            (first..)
                .zip(&sums)
                .for_each(|(braid, sums)| meet(braid, sums, &mut least));
            first += B;
        } else {
            // SAFETY: as above.
            let [sums] = unsafe { sums::<Q, 1>(digits, codes) };
            meet(first, &sums, &mut least);
            first += 1;
        }
    }
    for (least, nearest) in least.iter().zip(nearest) {
        take_least(least, nearest);
    }
}

/// What is nearer in a braid than what each lane has.
#[inline]
#[target_feature(enable = "avx2")]
fn nearer<const Q: usize>(
    queries: &[BraidQuery<'_>; Q],
    braids: &Braids<'_>,
    (braid, range): (usize, &Range<usize>),
    sums: &[Halves; Q],
    least: &mut [Least; Q],
) {
    let (scales, mut bases) = (floats(braids.scales, braid), floats(braids.bases, braid));
    let number = _mm256_set1_epi32(braid as i32);
    if braid * BRAID < range.start || (braid + 1) * BRAID > range.end {
        // What isn't a number is never nearer.
        let within = |lane: usize| range.contains(&(braid * BRAID + lane));
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
            let (before, less) = (least.braids[half], _mm256_castps_si256(less));
            least.braids[half] = _mm256_blendv_epi8(before, number, less);
        }
    }
}

/// The least of all lanes, if it is less than what there was; of equals the first code.
#[target_feature(enable = "avx2")]
fn take_least(least: &Least, nearest: &mut Nearest) {
    let (mut scores, mut braids) = ([0.0f32; BRAID], [0u32; BRAID]);
    for half in 0..2 {
        // SAFETY: 8 numbers behind each place.
        unsafe {
            _mm256_storeu_ps(scores.as_mut_ptr().add(half * HALF), least.scores[half]);
            _mm256_storeu_si256(braids.as_mut_ptr().add(half * HALF).cast(), least.braids[half]);
        }
    }
    let before = nearest.score;
    for ((score, braid), lane) in scores.into_iter().zip(braids).zip(0u32..) {
        let code = braid * BRAID as u32 + lane;
        let nearer = score < nearest.score || (score == nearest.score && code < nearest.code);
        if score < before && nearer {
            *nearest = Nearest { score, code };
        }
    }
}

#[target_feature(enable = "avx2")]
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
#[target_feature(enable = "avx2")]
fn within_of<const Q: usize>(
    queries: &[BraidQuery<'_>; Q],
    limits: &[BraidLimit; Q],
    codes: &[u8],
    scales: &[f32],
    out: &mut [u16],
) {
    let braids = scales.len().div_ceil(BRAID);
    let digits = queries.map(|query| query.digits);
    let each = codes.chunks_exact(braid_bytes(digits[0].len()));
    for (braid, codes) in each.take(braids).enumerate() {
        // SAFETY: a whole braid.
        let [sums] = unsafe { sums::<Q, 1>(digits, codes) };
        let there = u16::MAX >> (BRAID - (scales.len() - braid * BRAID).min(BRAID));
        let scales = floats(scales, braid);
        for (query, sums) in sums.iter().enumerate() {
            let limit = &limits[query];
            let near = |half: usize| {
                let base = _mm256_set1_ps(limit.base);
                let score = score(&queries[query], base, scales[half], sums[half]);
                let near = _mm256_cmp_ps::<_CMP_NGT_UQ>(score, _mm256_set1_ps(limit.most));
                _mm256_movemask_ps(near) as u16
            };
            out[query * braids + braid] = (near(0) | near(1) << HALF) & there;
        }
    }
}
