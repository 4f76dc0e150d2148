//! The one loop of all float kernels, instantiated per instruction set, element and measure.

/// Defines `mod $name` with a `KERNEL: FloatKernel`.
///
/// The surrounding module supplies `LANES`, `zero`, `add`, `sum`, `query_at`, `query_tail`, and the named
/// functions which load a row's elements and add one step's terms to an accumulator.
///
/// A row is summed in four accumulators, so that additions don't wait for each other; `rows` keeps `$block`
/// rows in flight. The order of additions within a row is the same for both, hence so is the result.
macro_rules! float_kernel {
    ($name:ident, $features:literal, block: $block:literal, bytes: $bytes:literal,
     load: $load:ident, tail: $tail:ident, step: $step:ident) => {
        mod $name {
            use super::*;

            pub(super) const KERNEL: FloatKernel = FloatKernel { one, rows };

            /// Safety: each pointer is readable for `query.len() * $bytes` bytes.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn sums<const R: usize>(query: &[f32], rows: [*const u8; R]) -> [f32; R] {
                let n = query.len();
                let mut acc = [[zero(); 4]; R];
                let mut i = 0;
                while i + 4 * LANES <= n {
                    for j in 0..4 {
                        // SAFETY: `i + (j + 1) * LANES <= n`.
                        let q = unsafe { query_at(query, i + j * LANES) };
                        for r in 0..R {
                            // SAFETY: as above; the caller vouches for the rows.
                            let v = unsafe { $load(rows[r].add((i + j * LANES) * $bytes)) };
                            acc[r][j] = $step(acc[r][j], q, v);
                        }
                    }
                    i += 4 * LANES;
                }
                for j in 0..3 {
                    if i + LANES <= n {
                        // SAFETY: `i + LANES <= n`.
                        let q = unsafe { query_at(query, i) };
                        for r in 0..R {
                            // SAFETY: as above; the caller vouches for the rows.
                            let v = unsafe { $load(rows[r].add(i * $bytes)) };
                            acc[r][j] = $step(acc[r][j], q, v);
                        }
                        i += LANES;
                    }
                }
                if i < n {
                    // SAFETY: fewer than LANES elements are left, and exactly `n - i` are read.
                    let q = unsafe { query_tail(query, i) };
                    for r in 0..R {
                        // SAFETY: as above; the caller vouches for the rows.
                        let v = unsafe { $tail(rows[r].add(i * $bytes), n - i) };
                        acc[r][3] = $step(acc[r][3], q, v);
                    }
                }
                acc.map(|[a, b, c, d]| sum(add(add(a, b), add(c, d))))
            }

            #[target_feature(enable = $features)]
            unsafe fn one(query: &[f32], row: &[u8]) -> f32 {
                debug_assert_eq!(row.len(), query.len() * $bytes);
                // SAFETY: the row has the query's dimensions.
                unsafe { sums::<1>(query, [row.as_ptr()])[0] }
            }

            #[target_feature(enable = $features)]
            unsafe fn rows(query: &[f32], rows: &[u8], stride: usize, out: &mut [f32]) {
                let mut blocks = out.chunks_exact_mut($block);
                let mut start = rows.as_ptr();
                for block in &mut blocks {
                    let pointers: [*const u8; $block] =
                        std::array::from_fn(|r| start.wrapping_add(r * stride));
                    // SAFETY: the caller vouches for `out.len()` rows.
                    block.copy_from_slice(&unsafe { sums::<$block>(query, pointers) });
                    start = start.wrapping_add($block * stride);
                }
                for out in blocks.into_remainder() {
                    // SAFETY: the caller vouches for `out.len()` rows.
                    [*out] = unsafe { sums::<1>(query, [start]) };
                    start = start.wrapping_add(stride);
                }
            }
        }
    };
}
