//! Vectors made as they are sent: a million of 768 dimensions would be 3 GB on disk.

use anyhow::Result;
use ramlet_testdata::{Clustered, Difficulty, RowScratch, Shape};

use crate::files::Rows;

/// Clusters: enough for a million, and 46 MB of centres at 768 dimensions.
const CLUSTERS: u64 = 15_000;
/// Rows of a cluster at least, so that a small set isn't all centres.
const CLUSTER_ROWS: u64 = 20;

/// Clustered vectors of unit length, the same for the same seed; 30 us each at 768 dimensions.
pub(crate) struct Made {
    made: Clustered,
    scratch: RowScratch,
    rows: u64,
    next: u64,
}

impl Made {
    pub(crate) fn new(dims: usize, rows: u64, seed: u64) -> Made {
        let shape = Shape {
            dims,
            seed,
            difficulty: Difficulty::Hard,
            clusters: (rows / CLUSTER_ROWS).clamp(1, CLUSTERS) as usize,
        };
        Made {
            made: Clustered::new(shape),
            scratch: RowScratch::default(),
            rows,
            next: 0,
        }
    }
}

impl Rows for Made {
    fn rows(&self) -> u64 {
        self.rows
    }

    fn dim(&self) -> usize {
        self.made.shape().dims
    }

    fn is_u8(&self) -> bool {
        false
    }

    fn seek(&mut self, row: u64) -> Result<()> {
        self.next = row;
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<f32>) -> Result<bool> {
        if self.next >= self.rows {
            return Ok(false);
        }
        out.resize(self.dim(), 0.0);
        self.made.row(self.next, &mut self.scratch, out);
        self.next += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_again() {
        let mut made = Made::new(20, 5, 3);
        let (mut first, mut row, mut count) = (Vec::new(), Vec::new(), 0);
        while made.read(&mut row).expect("made") {
            if count == 2 {
                first = row.clone();
            }
            count += 1;
        }
        assert_eq!((count, row.len()), (5, 20));
        made.seek(2).expect("there");
        assert!(made.read(&mut row).expect("made") && row == first);
    }
}
