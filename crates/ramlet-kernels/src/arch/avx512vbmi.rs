//! AVX-512 with VBMI and GFNI: as AVX-512, but for bit planes.

use std::arch::x86_64::*;

use super::avx512;
use crate::Kernels;
use crate::scan::fetch;
use crate::table::PlanesKernel;

pub(super) static TABLE: Kernels = Kernels {
    name: "avx512vbmi",
    planes: PlanesKernel {
        one: row_dot,
        many: row_dots,
    },
    ..avx512::KERNELS
};

/// Rows in flight.
const ROWS: usize = 4;

/// Rows of at most so many bytes lie in two registers: 5 planes of 200 dimensions, 7 of 144.
const SMALL: usize = 128;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,gfni")]
fn row_dot(query: &[i8], planes: u32, plane_bytes: usize, row: &[u8]) -> i32 {
    if row.len() > SMALL {
        return avx512::planes_row_dot(query, planes, plane_bytes, row);
    }
    let [sums] = Small::new(planes, plane_bytes).sums(query, [row]);
    _mm512_reduce_add_epi32(sums)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,gfni")]
fn row_dots(query: &[i8], planes: u32, plane_bytes: usize, rows: &[&[u8]], out: &mut [i32]) {
    if planes as usize * plane_bytes > SMALL {
        return avx512::planes_row_dots(query, planes, plane_bytes, rows, out);
    }
    let small = Small::new(planes, plane_bytes);
    let (blocks, rest) = rows.as_chunks::<ROWS>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<ROWS>();
    for (i, (rows, out)) in blocks.iter().zip(out_blocks).enumerate() {
        for ahead in blocks.get(i + 1).into_iter().flatten() {
            // A small row lies in at most three lines; its first byte and its last are in two of them.
            fetch(ahead.as_ptr());
            fetch(ahead.as_ptr().wrapping_add(ahead.len() - 1));
        }
        let sums = avx512::sum_each(small.sums(query, *rows));
        // SAFETY: four numbers.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), sums) };
    }
    for (row, out) in rest.iter().zip(out_rest) {
        let [sums] = small.sums(query, [*row]);
        *out = _mm512_reduce_add_epi32(sums);
    }
}

/// How the planes of a small row are turned into levels.
///
/// Eight dimensions are one byte of each plane. Permuted into a quadword, the least significant plane last, they are a
/// matrix of bits; multiplied with the eight vectors that have one bit each, it yields the eight levels.
#[derive(Clone, Copy)]
struct Small {
    /// For each quadword of 64 dimensions, where its bytes lie in a row.
    bytes: __m512i,
    /// Which of them are planes.
    planes: __mmask64,
}

impl Small {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new(planes: u32, plane_bytes: usize) -> Small {
        let (mut starts, mut mask) = (0u64, 0u64);
        for plane in 0..planes {
            let byte = 8 - planes + plane;
            starts |= ((plane as usize * plane_bytes) as u64) << (byte * 8);
            mask |= 1 << byte;
        }
        let each = 0x0101_0101_0101_0101;
        let quads = _mm512_setr_epi64(
            0,
            each,
            each * 2,
            each * 3,
            each * 4,
            each * 5,
            each * 6,
            each * 7,
        );
        Small {
            bytes: _mm512_add_epi8(_mm512_set1_epi64(starts as i64), quads),
            planes: mask * each as u64,
        }
    }

    /// Behind a plane's end another plane is taken, or the row's beginning again: there the query is zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx512vbmi,gfni")]
    fn sums<const R: usize>(&self, query: &[i8], rows: [&[u8]; R]) -> [__m512i; R] {
        let unit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
        let rows: [[__m512i; 2]; R] = std::array::from_fn(|i| load_small(rows[i]));
        let mut sums = [_mm512_setzero_si512(); R];
        let mut bytes = self.bytes;
        for query in query.as_chunks::<64>().0 {
            // SAFETY: 64 entries.
            let query = unsafe { _mm512_loadu_si512(query.as_ptr().cast()) };
            for (sum, [low, high]) in sums.iter_mut().zip(rows) {
                let matrix = _mm512_maskz_permutex2var_epi8(self.planes, low, bytes, high);
                let levels = _mm512_gf2p8affine_epi64_epi8::<0>(unit, matrix);
                *sum = _mm512_dpbusd_epi32(*sum, levels, query);
            }
            bytes = _mm512_add_epi8(bytes, _mm512_set1_epi8(8));
        }
        sums
    }
}

/// A row of at most 128 bytes, and zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_small(row: &[u8]) -> [__m512i; 2] {
    let low = avx512::bytes(row.len());
    let high = avx512::bytes(row.len().saturating_sub(64));
    // SAFETY: masked-off bytes are not read; the others are the row's.
    unsafe {
        [
            avx512::load_bytes(row.as_ptr(), 0, low),
            _mm512_maskz_loadu_epi8(high, row.as_ptr().wrapping_add(64).cast()),
        ]
    }
}
