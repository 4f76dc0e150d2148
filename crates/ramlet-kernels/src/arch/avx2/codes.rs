//! Products with codes of one byte a dimension: four codes at once, which share the query's registers and the last sums.

use std::arch::x86_64::*;

use super::{load_32, sum_u32};

/// Entries of a query that are widened at a time.
const BLOCK: usize = 256;

/// Most that two products may be added of in 16 bits: `2 * 255 * 64 < 32,768`.
const NARROW: u8 = 64;

/// A query's entries, 32 to a step: as they are where none is beyond [`NARROW`], which takes a third of the instructions; else those at
/// even places and those at odd ones apart, in 16 bits each, since a pair of products of bytes would saturate.
struct Ready<const IS_NARROW: bool> {
    even: [__m256i; BLOCK / 32],
    odd: [__m256i; BLOCK / 32],
    steps: usize,
}

#[target_feature(enable = "avx2")]
pub(super) fn dot_codes8(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
    out.fill(0);
    let narrow = query.iter().fold(0, |most, entry| entry.unsigned_abs().max(most)) <= NARROW;
    for (block, at) in query.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
        match narrow {
            true => add_block(&Ready::<true>::new(block), block.len(), (rows, at, stride), out),
            false => add_block(&Ready::<false>::new(block), block.len(), (rows, at, stride), out),
        }
    }
}

/// Adds the products of a block of the query, which is `len` entries long, with what each row has from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
fn add_block<const IS_NARROW: bool>(
    query: &Ready<IS_NARROW>,
    len: usize,
    (rows, at, stride): (&[u8], usize, usize),
    out: &mut [i32],
) {
    // Whole steps are read: behind a code's end it is the next one's bytes, times zero. Of the last codes' there are none.
    let read = at + query.steps * 32;
    let whole = match rows.len().checked_sub(read) {
        None => 0,
        Some(readable) => readable / stride.max(1) + 1,
    };
    let (whole, last) = out.split_at_mut(whole.min(out.len()));
    let rest = whole.len();
    let (fours, ones) = whole.as_chunks_mut::<4>();
    let mut first = rows.as_ptr().wrapping_add(at);
    for four in fours {
        let codes = [0, 1, 2, 3].map(|i| first.wrapping_add(i * stride));
        // SAFETY: of each of these codes all steps can be read; four numbers.
        unsafe {
            let sums = sum_each(products(query, codes));
            let out: *mut __m128i = four.as_mut_ptr().cast();
            _mm_storeu_si128(out, _mm_add_epi32(_mm_loadu_si128(out), sums));
        }
        first = first.wrapping_add(4 * stride);
    }
    for out in ones {
        // SAFETY: as above.
        let [sums] = unsafe { products(query, [first]) };
        *out += sum_u32(sums) as i32;
        first = first.wrapping_add(stride);
    }
    for (row, out) in (rest..).zip(last) {
        let mut code = [0; BLOCK];
        code[..len].copy_from_slice(&rows[row * stride + at..][..len]);
        // SAFETY: a whole block.
        let [sums] = unsafe { products(query, [code.as_ptr()]) };
        *out += sum_u32(sums) as i32;
    }
}

/// Safety: as many bytes as the query's steps take can be read from each place.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn products<const IS_NARROW: bool, const N: usize>(
    query: &Ready<IS_NARROW>,
    codes: [*const u8; N],
) -> [__m256i; N] {
    let mut sums = [_mm256_setzero_si256(); N];
    for step in 0..query.steps {
        for (sum, codes) in sums.iter_mut().zip(codes) {
            // SAFETY: the caller's.
            let codes = unsafe { _mm256_loadu_si256(codes.add(step * 32).cast()) };
            *sum = _mm256_add_epi32(*sum, query.step(step, codes));
        }
    }
    sums
}

impl<const IS_NARROW: bool> Ready<IS_NARROW> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(query: &[i8]) -> Self {
        let mut padded = [0; BLOCK];
        padded[..query.len()].copy_from_slice(query);
        let (registers, _) = padded.as_chunks::<32>();
        let mut ready = Ready {
            even: [_mm256_setzero_si256(); BLOCK / 32],
            odd: [_mm256_setzero_si256(); BLOCK / 32],
            steps: query.len().div_ceil(32),
        };
        for (entries, (even, odd)) in registers.iter().zip(ready.even.iter_mut().zip(&mut ready.odd)) {
            let both = load_32(entries);
            (*even, *odd) = match IS_NARROW {
                true => (both, both),
                false => (
                    _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(both)),
                    _mm256_srai_epi16::<8>(both),
                ),
            };
        }
        ready
    }

    /// The products of a step's entries with 32 levels, summed in lanes of 32 bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn step(&self, step: usize, levels: __m256i) -> __m256i {
        let (even, odd) = (self.even[step], self.odd[step]);
        if IS_NARROW {
            return _mm256_madd_epi16(_mm256_maddubs_epi16(levels, even), _mm256_set1_epi16(1));
        }
        let low = _mm256_set1_epi16(255);
        let even = _mm256_madd_epi16(_mm256_and_si256(levels, low), even);
        let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(levels), odd);
        _mm256_add_epi32(even, odd)
    }
}

/// The sums of four registers' lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_each([a, b, c, d]: [__m256i; 4]) -> __m128i {
    let pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    _mm_add_epi32(
        _mm256_castsi256_si128(pairs),
        _mm256_extracti128_si256::<1>(pairs),
    )
}
