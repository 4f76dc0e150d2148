//! The choice of a table at run time.

use std::sync::OnceLock;

use crate::arch;
use crate::table::Kernels;

/// The best table for this processor, chosen once.
///
/// `RAMLET_KERNELS` = `scalar`, `avx2`, `avx512`, `avx512vbmi` or `neon` forces one; a table that is unknown or that this
/// processor lacks is ignored.
pub fn kernels() -> &'static Kernels {
    static CHOSEN: OnceLock<&'static Kernels> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let forced = std::env::var("RAMLET_KERNELS").unwrap_or_default();
        Kernels::by_name(&forced).unwrap_or_else(Kernels::best)
    })
}

impl Kernels {
    /// The reference: plain Rust, on every processor.
    pub fn scalar() -> &'static Kernels {
        &arch::scalar::TABLE
    }

    /// Every table that this processor can run, slowest first.
    pub fn all_available() -> impl Iterator<Item = &'static Kernels> {
        arch::detected().into_iter().flatten()
    }

    /// The table of that name, if this processor can run it.
    pub fn by_name(name: &str) -> Option<&'static Kernels> {
        Kernels::all_available().find(|table| table.name == name)
    }

    fn best() -> &'static Kernels {
        Kernels::all_available().last().unwrap_or(Kernels::scalar())
    }
}
