//! Making a query ready for a cluster: 8 dimensions, or four columns, a step.

use std::arch::x86_64::*;

use super::{first, sum, sum_u32};
use crate::arch::scalar;
use crate::operands::{COLUMN_BYTES, Extent};
use crate::table::EntryKernels;

pub(super) const KERNELS: EntryKernels = EntryKernels {
    difference,
    round,
    tabulate,
};

#[target_feature(enable = "avx2,fma")]
fn difference(query: &[f32], step: f32, levels: &[u8], out: &mut [f32]) -> Extent {
    let mut sizes = Sizes::none();
    let ((query, query_tail), (levels, levels_tail)) = (query.as_chunks::<8>(), levels.as_chunks::<8>());
    let (out, out_tail) = out.as_chunks_mut::<8>();
    for ((out, query), levels) in out.iter_mut().zip(query).zip(levels) {
        // SAFETY: 8 numbers.
        let query = unsafe { _mm256_loadu_ps(query.as_ptr()) };
        let value = less(query, step, u64::from_le_bytes(*levels));
        // SAFETY: 8 numbers.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), value) };
        sizes.add(value);
    }
    if !query_tail.is_empty() {
        let mask = first(query_tail.len());
        let levels = levels_tail
            .iter()
            .rev()
            .fold(0, |word, level| word << 8 | u64::from(*level));
        // SAFETY: masked-off lanes are neither read nor written; there are as many numbers in `out`.
        unsafe {
            let query = _mm256_maskload_ps(query_tail.as_ptr(), mask);
            let value = _mm256_and_ps(less(query, step, levels), _mm256_castsi256_ps(mask));
            _mm256_maskstore_ps(out_tail.as_mut_ptr(), mask, value);
            sizes.add(value);
        }
    }
    Extent {
        squares: sum(sizes.squares),
        largest: greatest(sizes.largest),
        column: greatest(sizes.column),
    }
}

/// `query - step * (levels - 128)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn less(query: __m256, step: f32, levels: u64) -> __m256 {
    let levels = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(levels as i64));
    let levels = _mm256_sub_epi32(levels, _mm256_set1_epi32(128));
    _mm256_fnmadd_ps(_mm256_set1_ps(step), _mm256_cvtepi32_ps(levels), query)
}

/// What an [`Extent`] is made of, lane by lane.
#[derive(Clone, Copy)]
struct Sizes {
    squares: __m256,
    largest: __m256,
    column: __m256,
}

impl Sizes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn none() -> Sizes {
        let none = _mm256_setzero_ps();
        Sizes {
            squares: none,
            largest: none,
            column: none,
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn add(&mut self, value: __m256) {
        self.squares = _mm256_fmadd_ps(value, value, self.squares);
        let size = _mm256_andnot_ps(_mm256_set1_ps(-0.0), value);
        self.largest = _mm256_max_ps(self.largest, size);
        let pairs = _mm256_add_ps(size, _mm256_permute_ps::<0b10_11_00_01>(size));
        let fours = _mm256_add_ps(pairs, _mm256_permute_ps::<0b01_00_11_10>(pairs));
        self.column = _mm256_max_ps(self.column, fours);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn greatest(v: __m256) -> f32 {
    let v = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let v = _mm_max_ps(v, _mm_permute_ps::<0b01_00_11_10>(v));
    _mm_cvtss_f32(_mm_max_ps(v, _mm_permute_ps::<0b10_11_00_01>(v)))
}

#[target_feature(enable = "avx2,fma")]
fn round(values: &[f32], per_unit: f32, out: &mut [i8]) -> (i32, i32) {
    let ((values, values_tail), (out, out_tail)) = (values.as_chunks::<32>(), out.as_chunks_mut::<32>());
    let (zero, unit) = (_mm256_setzero_si256(), _mm256_set1_ps(per_unit));
    // Packing puts the halves of registers side by side.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    // As sums of bytes that were made positive, four 64-bit ones each.
    let (mut totals, mut sizes) = (zero, zero);
    for (values, out) in values.iter().zip(&mut *out) {
        let mut eights = [zero; 4];
        for (eight, values) in eights.iter_mut().zip(values.as_chunks::<8>().0) {
            // SAFETY: 8 numbers.
            let values = unsafe { _mm256_loadu_ps(values.as_ptr()) };
            *eight = _mm256_cvtps_epi32(_mm256_mul_ps(values, unit));
        }
        let low = _mm256_packs_epi32(eights[0], eights[1]);
        let high = _mm256_packs_epi32(eights[2], eights[3]);
        let whole = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
        // SAFETY: 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), whole) };
        let above = _mm256_xor_si256(whole, _mm256_set1_epi8(-128));
        totals = _mm256_add_epi64(totals, _mm256_sad_epu8(above, zero));
        sizes = _mm256_add_epi64(sizes, _mm256_sad_epu8(_mm256_abs_epi8(whole), zero));
    }
    let (total, size) = scalar::entry::round(values_tail, per_unit, out_tail);
    let raised = out.len() as i32 * 32 * 128;
    (
        sum_u32(totals) as i32 - raised + total,
        sum_u32(sizes) as i32 + size,
    )
}

/// Where entry `b` of a column's table finds what bit `j` of it takes: the level's positive part, if it is set, among
/// the first four bytes, else its negative part, as its size, among the next four.
const TAKEN: [[u8; COLUMN_BYTES]; 4] = {
    let mut taken = [[0; COLUMN_BYTES]; 4];
    let mut at = 0;
    while at < 4 * COLUMN_BYTES {
        let (j, entry) = (at / COLUMN_BYTES, at % COLUMN_BYTES);
        taken[j][entry] = (j + if entry >> j & 1 == 1 { 0 } else { 4 }) as u8;
        at += 1;
    }
    taken
};

#[target_feature(enable = "avx2")]
fn tabulate(levels: &[i8], table: &mut [u8]) {
    let ((levels, levels_tail), (table, table_tail)) = (
        levels.as_chunks::<16>(),
        table.as_chunks_mut::<{ COLUMN_BYTES * 4 }>(),
    );
    for (levels, out) in levels.iter().zip(table) {
        // SAFETY: 16 bytes.
        let [first, second] = parts(unsafe { _mm_loadu_si128(levels.as_ptr().cast()) });
        // A lane holds two columns: 0 and 1, 2 and 3.
        let parts = _mm256_set_m128i(second, first);
        let (mut even, mut odd) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for taken in &TAKEN {
            // SAFETY: 16 bytes.
            let taken = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(taken.as_ptr().cast()) });
            even = _mm256_add_epi8(even, _mm256_shuffle_epi8(parts, taken));
            let next = _mm256_add_epi8(taken, _mm256_set1_epi8(8));
            odd = _mm256_add_epi8(odd, _mm256_shuffle_epi8(parts, next));
        }
        // SAFETY: twice 32 bytes.
        unsafe {
            let out: *mut __m256i = out.as_mut_ptr().cast();
            _mm256_storeu_si256(out, _mm256_permute2x128_si256::<0x20>(even, odd));
            _mm256_storeu_si256(out.add(1), _mm256_permute2x128_si256::<0x31>(even, odd));
        }
    }
    let columns = levels_tail.as_chunks::<4>().0.iter();
    for (column, out) in columns.zip(table_tail.as_chunks_mut::<COLUMN_BYTES>().0) {
        let [parts, _] = parts(_mm_cvtsi32_si128(i32::from_le_bytes(
            column.map(|level| level as u8),
        )));
        let mut entries = _mm_setzero_si128();
        for taken in &TAKEN {
            // SAFETY: 16 bytes.
            let taken = unsafe { _mm_loadu_si128(taken.as_ptr().cast()) };
            entries = _mm_add_epi8(entries, _mm_shuffle_epi8(parts, taken));
        }
        // SAFETY: 16 bytes.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), entries) };
    }
}

/// Four bytes of positive parts and four of negative ones for each column: of the first two, and the others.
#[inline]
#[target_feature(enable = "avx2")]
fn parts(levels: __m128i) -> [__m128i; 2] {
    let zero = _mm_setzero_si128();
    let positive = _mm_max_epi8(levels, zero);
    let negative = _mm_max_epi8(_mm_sub_epi8(zero, levels), zero);
    [
        _mm_unpacklo_epi32(positive, negative),
        _mm_unpackhi_epi32(positive, negative),
    ]
}
