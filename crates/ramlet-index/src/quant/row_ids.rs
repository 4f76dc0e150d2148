//! Product codes of 32 rows with their row ids.
//!
//! | bytes | what |
//! |---|---|
//! | 0..16 m | codes as they are scanned: byte `j` of column `c` has that of sub-quantizer `c` of row `j` in its low half and that of row `16 + j` in its high half |
//! | 96 or 128 | numbers of the rows in the segment, 3 bytes each, or 4 in a segment of 2^24 rows or more |
//!
//! What isn't filled at the end of the file is 0.

use super::group::{GROUP, number_bytes};

/// Where things lie in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowIdsLayout {
    pub(crate) subquantizers: usize,
    number_bytes: usize,
}

impl RowIdsLayout {
    pub(crate) fn new(subquantizers: u16, segment_rows: u32) -> RowIdsLayout {
        RowIdsLayout {
            subquantizers: usize::from(subquantizers),
            number_bytes: number_bytes(segment_rows),
        }
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.subquantizers * 16 + GROUP * self.number_bytes
    }

    #[inline]
    pub(crate) fn number(&self, group: &[u8], lane: usize) -> u32 {
        let mut bytes = [0; 4];
        let at = self.subquantizers * 16 + lane * self.number_bytes;
        bytes[..self.number_bytes].copy_from_slice(&group[at..][..self.number_bytes]);
        u32::from_le_bytes(bytes)
    }

    /// Puts a number in its lane of a group; what doesn't fit isn't a row of the segment.
    pub(crate) fn put_number(&self, group: &mut [u8], lane: usize, number: u32) {
        let at = self.subquantizers * 16 + lane * self.number_bytes;
        group[at..][..self.number_bytes].copy_from_slice(&number.to_le_bytes()[..self.number_bytes]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_behind_the_codes_in_three_bytes_or_four() {
        for (segment_rows, most, bytes) in [(1 << 24, u32::MAX, 128), ((1 << 24) - 1, (1 << 24) - 1, 96)] {
            let layout = RowIdsLayout::new(7, segment_rows);
            assert_eq!(layout.row_bytes(), 7 * 16 + bytes);
            let mut group = vec![0; layout.row_bytes()];
            let number = |lane: usize| most - 1_000_003 * lane as u32 % most;
            (0..GROUP).for_each(|lane| layout.put_number(&mut group, lane, number(lane)));
            assert!(
                group[..7 * 16].iter().all(|byte| *byte == 0),
                "codes are left alone"
            );
            for lane in 0..GROUP {
                assert_eq!(
                    layout.number(&group, lane),
                    number(lane),
                    "lane {lane} of {segment_rows} rows"
                );
            }
        }
    }
}
