//! Making a query ready for a cluster: 16 dimensions, or four columns, a step.

use std::arch::x86_64::*;

use super::lanes;
use crate::operands::Extent;
use crate::table::EntryKernels;

pub(super) const KERNELS: EntryKernels = EntryKernels {
    difference,
    round,
    tabulate,
};

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn difference(query: &[f32], step: f32, levels: &[u8], out: &mut [f32]) -> Extent {
    let mut squares = _mm512_setzero_ps();
    let (mut largest, mut most) = (squares, squares);
    let step = _mm512_set1_ps(step);
    for i in (0..query.len()).step_by(16) {
        let mask = lanes((query.len() - i).min(16));
        // SAFETY: masked-off lanes are neither read nor written; the slices have the same length.
        let (query, levels) = unsafe {
            (
                _mm512_maskz_loadu_ps(mask, query.as_ptr().add(i)),
                _mm_maskz_loadu_epi8(mask, levels.as_ptr().add(i).cast()),
            )
        };
        let levels = _mm512_sub_epi32(_mm512_cvtepu8_epi32(levels), _mm512_set1_epi32(128));
        let value = _mm512_maskz_mov_ps(mask, _mm512_fnmadd_ps(step, _mm512_cvtepi32_ps(levels), query));
        // SAFETY: as above.
        unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr().add(i), mask, value) };
        squares = _mm512_fmadd_ps(value, value, squares);
        let size = _mm512_abs_ps(value);
        largest = _mm512_max_ps(largest, size);
        let pairs = _mm512_add_ps(size, _mm512_permute_ps::<0b10_11_00_01>(size));
        let fours = _mm512_add_ps(pairs, _mm512_permute_ps::<0b01_00_11_10>(pairs));
        most = _mm512_max_ps(most, fours);
    }
    Extent {
        squares: _mm512_reduce_add_ps(squares),
        largest: _mm512_reduce_max_ps(largest),
        column: _mm512_reduce_max_ps(most),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn round(values: &[f32], per_unit: f32, out: &mut [i8]) -> (i32, i32) {
    let (mut total, mut size) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    let per_unit = _mm512_set1_ps(per_unit);
    for i in (0..values.len()).step_by(16) {
        let mask = lanes((values.len() - i).min(16));
        // SAFETY: masked-off lanes are not read.
        let values = unsafe { _mm512_maskz_loadu_ps(mask, values.as_ptr().add(i)) };
        let whole = _mm512_cvtps_epi32(_mm512_mul_ps(values, per_unit));
        total = _mm512_add_epi32(total, whole);
        size = _mm512_add_epi32(size, _mm512_abs_epi32(whole));
        // SAFETY: masked-off lanes are not written; the slices have the same length.
        unsafe { _mm512_mask_cvtepi32_storeu_epi8(out.as_mut_ptr().add(i).cast(), mask, whole) };
    }
    (_mm512_reduce_add_epi32(total), _mm512_reduce_add_epi32(size))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn tabulate(levels: &[i8], table: &mut [u8]) {
    // Table entries with bit `j` set, in each of four columns.
    const SET: [u64; 4] = [
        0xaaaa_aaaa_aaaa_aaaa,
        0xcccc_cccc_cccc_cccc,
        0xf0f0_f0f0_f0f0_f0f0,
        0xff00_ff00_ff00_ff00,
    ];
    // The first level of each lane's column.
    let first = _mm512_set_epi64(
        0x0c0c_0c0c_0c0c_0c0c,
        0x0c0c_0c0c_0c0c_0c0c,
        0x0808_0808_0808_0808,
        0x0808_0808_0808_0808,
        0x0404_0404_0404_0404,
        0x0404_0404_0404_0404,
        0,
        0,
    );
    let zero = _mm512_setzero_si512();
    for (levels, out) in levels.chunks(16).zip(table.chunks_mut(64)) {
        // SAFETY: masked-off bytes are not read.
        let levels = unsafe { _mm_maskz_loadu_epi8(lanes(levels.len()), levels.as_ptr()) };
        let levels = _mm512_broadcast_i32x4(levels);
        let positive = _mm512_max_epi8(levels, zero);
        let negative = _mm512_max_epi8(_mm512_sub_epi8(zero, levels), zero);
        let mut entries = zero;
        for (j, set) in SET.iter().enumerate() {
            let index = _mm512_add_epi8(first, _mm512_set1_epi8(j as i8));
            // A negative level is taken by the entries without its bit, as its size.
            let without = _mm512_shuffle_epi8(negative, index);
            let taken = _mm512_mask_shuffle_epi8(without, *set, positive, index);
            entries = _mm512_add_epi8(entries, taken);
        }
        let mask = u64::MAX >> (64 - out.len());
        // SAFETY: masked-off bytes are not written.
        unsafe { _mm512_mask_storeu_epi8(out.as_mut_ptr().cast(), mask, entries) };
    }
}
