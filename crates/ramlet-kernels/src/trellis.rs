//! The cheapest chain of digits, where what a digit costs depends on the one before it.
//!
//! Viterbi, "Error bounds for convolutional codes and an asymptotically optimum decoding algorithm" (1967).

use crate::table::Kernels;

/// Values of a digit.
pub const TRELLIS_STATES: usize = 16;

/// What each value costs; or, with the value before in front, each pair of values.
pub type TrellisCosts = [f32; TRELLIS_STATES];

/// Safety: the processor has the table's features; all slices have the same length.
pub(crate) type TrellisKernel = unsafe fn(
    own: &[TrellisCosts],
    pairs: &[[TrellisCosts; TRELLIS_STATES]],
    before: &mut [[u32; TRELLIS_STATES]],
    digits: &mut [u8],
) -> f32;

impl Kernels {
    /// Writes the digits `d` for which `sum_j own[j][d_j] + pairs[j][d_(j-1)][d_j]` is least, and returns that sum; before the first
    /// digit stands a 0. Of equal chains it takes the lower digits, from the last on. `before` is overwritten.
    ///
    /// Bit-equal in all tables. About 300 additions and comparisons a digit.
    pub fn cheapest_chain(
        &self,
        own: &[TrellisCosts],
        pairs: &[[TrellisCosts; TRELLIS_STATES]],
        before: &mut [[u32; TRELLIS_STATES]],
        digits: &mut [u8],
    ) -> f32 {
        let digit_count = digits.len();
        assert!(
            own.len() == digit_count && pairs.len() == digit_count && before.len() == digit_count,
            "costs of another number of digits"
        );
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.trellis)(own, pairs, before, digits) }
    }
}

/// Inlined into a function of each instruction set, for which the compiler vectorizes it.
#[inline(always)]
pub(crate) fn chain(
    own: &[TrellisCosts],
    pairs: &[[TrellisCosts; TRELLIS_STATES]],
    before: &mut [[u32; TRELLIS_STATES]],
    digits: &mut [u8],
) -> f32 {
    let mut sums = [f32::INFINITY; TRELLIS_STATES];
    sums[0] = 0.0;
    for ((own, pairs), before) in own.iter().zip(pairs).zip(&mut *before) {
        let (mut least, mut from) = ([f32::INFINITY; TRELLIS_STATES], [0u32; TRELLIS_STATES]);
        for (state, pairs) in (0u32..).zip(pairs) {
            let sum = sums[state as usize];
            for to in 0..TRELLIS_STATES {
                let sum = sum + pairs[to];
                let nearer = sum < least[to];
                least[to] = if nearer { sum } else { least[to] };
                from[to] = if nearer { state } else { from[to] };
            }
        }
        for to in 0..TRELLIS_STATES {
            sums[to] = least[to] + own[to];
        }
        *before = from;
    }
    let (mut digit, mut least) = (0, sums[0]);
    for (state, sum) in (0u32..).zip(sums) {
        if sum < least {
            (digit, least) = (state, sum);
        }
    }
    for (place, before) in digits.iter_mut().zip(before).rev() {
        *place = digit as u8;
        digit = before[digit as usize % TRELLIS_STATES];
    }
    least
}
