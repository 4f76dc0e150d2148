//! As the reference, compiled for wider registers.

use crate::arch::scalar;
use crate::entry::{EntryKernels, Extent};

pub(super) const KERNELS: EntryKernels = EntryKernels {
    difference,
    round,
    tabulate: scalar::entry::tabulate,
};

#[target_feature(enable = "avx2,fma")]
fn difference(query: &[f32], step: f32, digits: &[u8], out: &mut [f32]) -> Extent {
    scalar::entry::difference(query, step, digits, out)
}

#[target_feature(enable = "avx2,fma")]
fn round(values: &[f32], per_unit: f32, out: &mut [i8]) -> (i32, i32) {
    scalar::entry::round(values, per_unit, out)
}
