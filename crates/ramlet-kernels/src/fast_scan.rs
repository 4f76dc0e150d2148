//! Scanning groups of codes, and keeping the few vectors that may be near.

use crate::operands::{COLUMN_BYTES, FACTOR_BYTES, FAST_SCAN_GROUPS, FastScan, FastScanned};
use crate::scan::MAX_COLUMNS;
use crate::table::Kernels;

/// What is compared instead of lower bounds, which saves the root of most vectors: one is dropped if
/// `t = distance - within` is above zero and `t^2` above `error^2 * max(f^2 - a, 0)`.
#[derive(Clone, Copy)]
pub(crate) struct Within {
    pub(crate) limit: f32,
    pub(crate) error_squared: f32,
}

impl FastScan<'_> {
    #[inline]
    pub(crate) fn within(&self) -> Within {
        Within {
            limit: self.limit + self.bounds.rounding,
            error_squared: self.bounds.error * self.bounds.error,
        }
    }
}

impl Kernels {
    /// Sums up the codes of whole groups as [`Kernels::fast_scan_sums`] does, and keeps the vectors whose least distances are at
    /// `limit` or below, or no numbers; near `limit`, rounding decides. Factors stand behind a group's columns.
    /// The bytes of `ahead[i]` are fetched while group `i` is scanned.
    ///
    /// Bit-equal in all tables, but for the bits of what isn't a number.
    #[inline]
    pub fn fast_scan(&self, fast_scan: &FastScan<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut FastScanned) {
        let columns = fast_scan.lut.len() / COLUMN_BYTES;
        assert!(columns <= MAX_COLUMNS && fast_scan.lut.len().is_multiple_of(COLUMN_BYTES));
        assert!(
            fast_scan.stride >= fast_scan.lut.len() + FACTOR_BYTES,
            "groups without factors"
        );
        assert!(
            groups.len().is_multiple_of(fast_scan.stride)
                && groups.len() <= fast_scan.stride * FAST_SCAN_GROUPS,
            "{FAST_SCAN_GROUPS} whole groups at most"
        );
        out.clear();
        // SAFETY: the table proves the features; lengths were just checked.
        unsafe { (self.fast_scan)(fast_scan, groups, ahead, out) }
    }
}
