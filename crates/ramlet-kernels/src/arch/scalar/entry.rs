//! Making a query ready for a cluster: the reference.

use crate::operands::Extent;
use crate::table::EntryKernels;

pub(crate) const KERNELS: EntryKernels = EntryKernels {
    difference,
    round,
    tabulate,
};

/// 1.5 * 2^23: what is added to it is rounded to a whole number, whose lowest bits are then those of the sum.
const WHOLE: f32 = 12_582_912.0;

#[inline]
pub(crate) fn difference(query: &[f32], step: f32, levels: &[u8], out: &mut [f32]) -> Extent {
    for ((out, query), level) in out.iter_mut().zip(query).zip(levels) {
        *out = query - step * (f32::from(*level) - 128.0);
    }
    let mut extent = Extent::default();
    let mut squares = [0.0f32; 4];
    for column in out.chunks(4) {
        let mut sum = 0.0;
        for (value, squares) in column.iter().zip(&mut squares) {
            let size = value.abs();
            extent.largest = if size > extent.largest {
                size
            } else {
                extent.largest
            };
            sum += size;
            *squares += size * size;
        }
        extent.column = if sum > extent.column { sum } else { extent.column };
    }
    extent.squares = squares.iter().sum();
    extent
}

#[inline]
pub(crate) fn round(values: &[f32], per_unit: f32, out: &mut [i8]) -> (i32, i32) {
    let (mut total, mut size) = (0, 0);
    for (out, value) in out.iter_mut().zip(values) {
        *out = (value * per_unit + WHOLE).to_bits() as i8;
        total += i32::from(*out);
        size += i32::from(*out).abs();
    }
    (total, size)
}

#[inline]
pub(crate) fn tabulate(levels: &[i8], table: &mut [u8]) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Bytes 0..8 of a word stand for table entries; those of entries with bit `j` set.
    const SET: [u64; 3] = [
        0xff00_ff00_ff00_ff00,
        0xffff_0000_ffff_0000,
        0xffff_ffff_0000_0000,
    ];
    let columns = levels.as_chunks::<4>().0.iter();
    for (column, out) in columns.zip(table.as_chunks_mut::<16>().0) {
        // A negative level is taken by the entries without its bit, as its size.
        let taken = |j: usize| {
            let negative = i64::from(column[j] >> 7) as u64;
            (u64::from(column[j].unsigned_abs()).wrapping_mul(ONES), negative)
        };
        let mut low = 0u64;
        for (j, set) in SET.iter().enumerate() {
            let (size, negative) = taken(j);
            low = low.wrapping_add(size & (set ^ negative));
        }
        let (size, negative) = taken(3);
        let (first, second) = out.split_at_mut(8);
        first.copy_from_slice(&low.wrapping_add(size & negative).to_le_bytes());
        second.copy_from_slice(&low.wrapping_add(size & !negative).to_le_bytes());
    }
}
