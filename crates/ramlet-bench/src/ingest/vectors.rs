//! The vectors, in order.

use anyhow::{Result, bail};

use super::options::{IngestOptions, Source};
use crate::clustered::RowScratch;
use crate::files::{Rows, open_rows};
use crate::{Clustered, Difficulty, Shape};

/// Clusters of made-up vectors: enough for a million, and 46 MB of centres at 768 dimensions.
const CLUSTERS: usize = 15_000;
/// Rows of a cluster at least, so that a small set isn't all centres.
const CLUSTER_ROWS: u64 = 20;

/// Vectors one after another, as many as were asked for.
pub(crate) struct Vectors {
    origin: Origin,
    dims: usize,
    next: u64,
    end: u64,
}

enum Origin {
    Made(Box<Clustered>, RowScratch),
    File(Box<dyn Rows>),
}

impl Vectors {
    /// Fails where the file can't be read.
    pub(crate) fn open(options: &IngestOptions) -> Result<Vectors> {
        let (origin, dims, rows) = match &options.source {
            Source::Made { dims } => {
                let shape = Shape {
                    dims: *dims,
                    seed: options.seed,
                    difficulty: Difficulty::Hard,
                    clusters: (options.points / CLUSTER_ROWS).clamp(1, CLUSTERS as u64) as usize,
                };
                let made = Box::new(Clustered::new(shape));
                (Origin::Made(made, RowScratch::default()), *dims, u64::MAX)
            }
            Source::File { path, key } => {
                let rows = open_rows(path, key)?;
                let (dims, count) = (rows.dim(), rows.rows());
                if count == 0 {
                    bail!("{} has no rows", path.display());
                }
                (Origin::File(rows), dims, count)
            }
        };
        let end = options.points.min(rows);
        Ok(Vectors {
            origin,
            dims,
            next: 0,
            end,
        })
    }

    pub(crate) fn dims(&self) -> usize {
        self.dims
    }

    /// Of all of them.
    pub(crate) fn count(&self) -> u64 {
        self.end
    }

    /// The next `rows` as one run of values, and the number of the first; None at the end.
    pub(crate) fn next(&mut self, rows: usize) -> Result<Option<(u64, Vec<f32>)>> {
        let first = self.next;
        let rows = (self.end - first).min(rows as u64) as usize;
        if rows == 0 {
            return Ok(None);
        }
        let mut values = vec![0.0; rows * self.dims];
        let mut row = Vec::new();
        for (number, out) in (first..).zip(values.chunks_exact_mut(self.dims)) {
            match &mut self.origin {
                Origin::Made(made, scratch) => made.row(number, scratch, out),
                Origin::File(file) => {
                    if !file.read(&mut row)? {
                        bail!("the file ends before row {number}");
                    }
                    out.copy_from_slice(&row);
                }
            }
        }
        self.next += rows as u64;
        Ok(Some((first, values)))
    }
}
