//! The cheapest chain of codes, where what a code costs depends on the one before it.
//!
//! Viterbi, "Error bounds for convolutional codes and an asymptotically optimum decoding algorithm" (1967).

use crate::operands::{OwnCosts, TRELLIS_STATES, TrellisCosts};
use crate::table::Kernels;

impl Kernels {
    /// Writes the codes `d` for which `sum_j own[j][d_j] + pairs[j][d_(j-1)][d_j]` is least, and returns that sum; before the first
    /// code stands a 0. Of equal chains it takes the lower codes, from the last on. `before` is overwritten.
    ///
    /// Bit-equal in all tables. About 300 additions and comparisons a code.
    pub fn cheapest_chain(
        &self,
        own: &OwnCosts<'_>,
        pairs: &[[TrellisCosts; TRELLIS_STATES]],
        before: &mut [[u32; TRELLIS_STATES]],
        codes: &mut [u8],
    ) -> f32 {
        let code_count = codes.len();
        let second = own.second.map_or(code_count, |(_, second)| second.len());
        assert!(
            own.first.len() == code_count
                && second == code_count
                && pairs.len() == code_count
                && before.len() == code_count,
            "costs of another number of codes"
        );
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.trellis.chain)(own, pairs, before, codes) }
    }

    /// For code `j`, `scale` times the sums over dimensions `edges[j]..edges[j + 1]` of values times its words, which `words[0]`
    /// has for each dimension, and over the next code's dimensions with `words[1]`. `out` has one less than there are edges.
    ///
    /// Bit-equal in all tables.
    pub fn chain_entries(
        &self,
        values: &[f32],
        edges: &[usize],
        words: [&[TrellisCosts]; 2],
        scale: f32,
        out: &mut [TrellisCosts],
    ) {
        assert!(
            edges.len() == out.len() + 1 && words.iter().all(|words| words.len() == values.len()),
            "words of another vector"
        );
        // SAFETY: the table proves the features.
        unsafe { (self.trellis.entries)(values, edges, words, scale, out) }
    }
}

/// The functions, inlined into those of an instruction set, for which the compiler vectorizes them.
macro_rules! trellis_kernels {
    ($($feature:literal)?) => {
        mod trellis {
            use crate::operands::{OwnCosts, TRELLIS_STATES, TrellisCosts};
            use crate::table::TrellisKernels;
            use crate::trellis;

            pub(super) const KERNELS: TrellisKernels = TrellisKernels { chain, entries };

            $(#[target_feature(enable = $feature)])?
            fn chain(
                own: &OwnCosts<'_>,
                pairs: &[[TrellisCosts; TRELLIS_STATES]],
                before: &mut [[u32; TRELLIS_STATES]],
                codes: &mut [u8],
            ) -> f32 {
                trellis::chain(own, pairs, before, codes)
            }

            $(#[target_feature(enable = $feature)])?
            fn entries(
                values: &[f32],
                edges: &[usize],
                words: [&[TrellisCosts]; 2],
                scale: f32,
                out: &mut [TrellisCosts],
            ) {
                trellis::entries(values, edges, words, scale, out);
            }
        }
    };
}

#[inline(always)]
pub(crate) fn chain(
    own: &OwnCosts<'_>,
    pairs: &[[TrellisCosts; TRELLIS_STATES]],
    before: &mut [[u32; TRELLIS_STATES]],
    codes: &mut [u8],
) -> f32 {
    let mut sums = [f32::INFINITY; TRELLIS_STATES];
    sums[0] = 0.0;
    match own.second {
        None => {
            for ((first, pairs), before) in own.first.iter().zip(pairs).zip(&mut *before) {
                step(&mut sums, pairs, before, |to| first[to]);
            }
        }
        Some((factor, second)) => {
            let own = own.first.iter().zip(second);
            for (((first, second), pairs), before) in own.zip(pairs).zip(&mut *before) {
                step(&mut sums, pairs, before, |to| first[to] + factor * second[to]);
            }
        }
    }
    trace(&sums, before, codes)
}

/// Writes the codes that led to the least of the sums, and returns it.
#[inline(always)]
pub(crate) fn trace(sums: &TrellisCosts, before: &[[u32; TRELLIS_STATES]], codes: &mut [u8]) -> f32 {
    let (mut code, mut least) = (0, sums[0]);
    for (state, sum) in (0u32..).zip(*sums) {
        if sum < least {
            (code, least) = (state, sum);
        }
    }
    for (place, before) in codes.iter_mut().zip(before).rev() {
        *place = code as u8;
        code = before[code as usize % TRELLIS_STATES];
    }
    least
}

/// One code more: the least sums that end in each of its values, and the values before.
#[inline(always)]
fn step(
    sums: &mut TrellisCosts,
    pairs: &[TrellisCosts; TRELLIS_STATES],
    before: &mut [u32; TRELLIS_STATES],
    own: impl Fn(usize) -> f32,
) {
    const HALF: usize = TRELLIS_STATES / 2;
    // Two halves of the states, so that one comparison doesn't wait for the other.
    let (mut least, mut from) = ([f32::INFINITY; TRELLIS_STATES], [0u32; TRELLIS_STATES]);
    let (mut upper_least, mut upper_from) = (least, from);
    for state in 0..HALF {
        let (sum, upper_sum) = (sums[state], sums[state + HALF]);
        for to in 0..TRELLIS_STATES {
            let sum = sum + pairs[state][to];
            let nearer = sum < least[to];
            least[to] = if nearer { sum } else { least[to] };
            from[to] = if nearer { state as u32 } else { from[to] };
        }
        for to in 0..TRELLIS_STATES {
            let sum = upper_sum + pairs[state + HALF][to];
            let nearer = sum < upper_least[to];
            upper_least[to] = if nearer { sum } else { upper_least[to] };
            upper_from[to] = if nearer {
                (state + HALF) as u32
            } else {
                upper_from[to]
            };
        }
    }
    for to in 0..TRELLIS_STATES {
        let nearer = upper_least[to] < least[to];
        least[to] = if nearer { upper_least[to] } else { least[to] };
        from[to] = if nearer { upper_from[to] } else { from[to] };
    }
    for to in 0..TRELLIS_STATES {
        sums[to] = least[to] + own(to);
    }
    *before = from;
}

#[inline(always)]
pub(crate) fn entries(
    values: &[f32],
    edges: &[usize],
    words: [&[TrellisCosts]; 2],
    scale: f32,
    out: &mut [TrellisCosts],
) {
    for (code, out) in out.iter_mut().enumerate() {
        let own = edges[code]..edges[code + 1];
        let next = own.end..edges.get(code + 2).copied().unwrap_or(own.end);
        // By value: the compiler keeps them in registers.
        let mut sums = [0.0; TRELLIS_STATES];
        for (dims, words) in [(own, words[0]), (next, words[1])] {
            for (value, words) in values[dims.clone()].iter().zip(&words[dims]) {
                for word in 0..TRELLIS_STATES {
                    sums[word] += value * words[word];
                }
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = scale * sum;
        }
    }
}
