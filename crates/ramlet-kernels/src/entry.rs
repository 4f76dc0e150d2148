//! Kernels that make a query ready for the rows around one centroid.

use crate::operands::{COLUMN_BYTES, Extent};
use crate::table::Kernels;

impl Kernels {
    /// `out = query - step * (levels - 128)`, and its sizes.
    pub fn difference(&self, query: &[f32], step: f32, levels: &[u8], out: &mut [f32]) -> Extent {
        assert_eq!(query.len(), levels.len(), "a difference of different lengths");
        assert_eq!(query.len(), out.len(), "a difference of different lengths");
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.entry.difference)(query, step, levels, out) }
    }

    /// `out = values * per_unit` in whole numbers, the nearest or of two the even one; their sum, and that of their sizes.
    /// Products beyond -127 to 127 become anything.
    pub fn round(&self, values: &[f32], per_unit: f32, out: &mut [i8]) -> (i32, i32) {
        assert_eq!(
            values.len(),
            out.len(),
            "rounding between slices of different lengths"
        );
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.entry.round)(values, per_unit, out) }
    }

    /// What [`Kernels::fast_scan_sums`] looks up to sum the levels that sign bits select: entry `b` of column `c` is the sum over
    /// the bits `j` set in `b` of `levels[4 c + j]`, less the least such sum. Levels are of -127 to 127, and sums of four
    /// sizes at most 255. `table` has 16 bytes for each column.
    pub fn tabulate(&self, levels: &[i8], table: &mut [u8]) {
        assert_eq!(table.len() % COLUMN_BYTES, 0, "a part of a column");
        let wanted = table.len() / COLUMN_BYTES * 4;
        assert!(wanted <= levels.len(), "{wanted} levels in {}", levels.len());
        // SAFETY: the table proves the features; the length was just checked.
        unsafe { (self.entry.tabulate)(&levels[..wanted], table) }
    }
}
