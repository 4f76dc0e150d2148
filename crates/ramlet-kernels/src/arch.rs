//! One module per instruction set; each exports a `TABLE`, reachable only through [`detected`].

pub(crate) mod scalar;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[macro_use]
mod float;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512vbmi;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::Kernels;

/// The tables that this processor can run, slowest first.
#[cfg(target_arch = "x86_64")]
pub(crate) fn detected() -> [Option<&'static Kernels>; 4] {
    // Exactly the union of features that the functions of each module enable.
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("popcnt");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni");
    let vbmi = avx512 && is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("gfni");
    [
        Some(&scalar::TABLE),
        avx2.then_some(&avx2::TABLE),
        avx512.then_some(&avx512::TABLE),
        vbmi.then_some(&avx512vbmi::TABLE),
    ]
}

/// The tables that this processor can run, slowest first.
#[cfg(target_arch = "aarch64")]
pub(crate) fn detected() -> [Option<&'static Kernels>; 2] {
    let neon = std::arch::is_aarch64_feature_detected!("neon");
    [Some(&scalar::TABLE), neon.then_some(&neon::TABLE)]
}

/// The tables that this processor can run.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn detected() -> [Option<&'static Kernels>; 1] {
    [Some(&scalar::TABLE)]
}
