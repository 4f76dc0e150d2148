//! Where a new segment's rows come from: a memtable, or segments that are merged.
//!
//! Columns are read one after another, so that a job holds one column's buffers at a time.

use ramlet_index::{IndexError, IndexScratch, SeedCentroids};
use ramlet_io::IoContext;

use roaring::RoaringBitmap;

use super::streams::Renumbered;
use super::{SegmentView, VectorColumn};
use crate::error::{Error, Result};
use crate::types::PointId;
use crate::write::memtable::MemtableView;

/// What a source reads with.
pub struct Reads<'a> {
    pub io: &'a mut IoContext,
    pub scratch: &'a mut IndexScratch,
}

/// Live rows only, numbered as they will be in the new segment.
pub trait RowSource {
    fn rows(&self) -> u32;
    fn ids(&self, io: &mut IoContext, each: &mut dyn FnMut(PointId, u64) -> Result<()>) -> Result<()>;
    /// The encoded vectors of a slot with their rows, in whatever order reads them cheapest, the same every time.
    fn vectors(
        &self,
        slot: u16,
        job: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()>;
    /// The same in row order. Holds `bytes` at most where the source has another order.
    fn vectors_in_order(
        &self,
        slot: u16,
        bytes: usize,
        job: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()>;
    /// Rows that have the vector; `None`: all.
    fn present(&self, slot: u16) -> Option<RoaringBitmap>;

    /// Centroids that an index of these vectors may begin with.
    fn seeds(&self, _slot: u16) -> Option<&dyn SeedCentroids> {
        None
    }
    fn payloads(&self, io: &mut IoContext, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// The segments that the rows come from, one after another, if they come from segments: payload indexes are made of theirs.
    fn segments(&self) -> &[SegmentView] {
        &[]
    }
}

impl RowSource for MemtableView {
    fn rows(&self) -> u32 {
        self.live()
    }

    fn ids(&self, _: &mut IoContext, each: &mut dyn FnMut(PointId, u64) -> Result<()>) -> Result<()> {
        self.live_rows().try_for_each(|row| {
            let row = self.memtable.row(row);
            each(row.id, row.version)
        })
    }

    fn vectors(
        &self,
        slot: u16,
        _: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.live_rows()
            .zip(0..)
            .try_for_each(|(row, new)| match self.memtable.row(row).vector(slot) {
                Some(bytes) => each(new, bytes),
                None => Ok(()),
            })
    }

    fn vectors_in_order(
        &self,
        slot: u16,
        _: usize,
        job: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.vectors(slot, job, each)
    }

    fn present(&self, slot: u16) -> Option<RoaringBitmap> {
        let rows = self
            .live_rows()
            .zip(0..)
            .filter(|(row, _)| self.memtable.row(*row).has_vector(slot));
        let present: RoaringBitmap = rows.map(|(_, new)| new).collect();
        (present.len() < u64::from(self.live())).then_some(present)
    }

    fn payloads(&self, _: &mut IoContext, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.live_rows()
            .try_for_each(|row| each(self.memtable.row(row).payload))
    }
}

/// Segments one after another.
pub struct Merged<'a>(pub &'a [SegmentView]);

impl RowSource for Merged<'_> {
    fn rows(&self) -> u32 {
        self.0.iter().map(SegmentView::live).sum()
    }

    fn ids(&self, io: &mut IoContext, each: &mut dyn FnMut(PointId, u64) -> Result<()>) -> Result<()> {
        for view in self.0 {
            view.segment.for_each_id(io, &mut |row, id, version| {
                if view.deletes.contains(row) {
                    Ok(())
                } else {
                    each(id, version)
                }
            })?;
        }
        Ok(())
    }

    fn vectors(
        &self,
        slot: u16,
        job: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for (view, rows) in self.0.iter().zip(renumbered(self.0)) {
            let Some(column) = view.segment.vector(slot) else {
                continue;
            };
            let mut result = Ok(());
            let read = column
                .index
                .for_each_row(job.scratch, job.io, &mut |row, vector| match rows
                    .row(row)
                    .filter(|_| column.has(row))
                {
                    Some(row) => each(row, vector).map_err(|e| keep(e, &mut result)),
                    None => Ok(()),
                });
            result?;
            read?;
        }
        Ok(())
    }

    fn vectors_in_order(
        &self,
        slot: u16,
        bytes: usize,
        job: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for (view, rows) in self.0.iter().zip(renumbered(self.0)) {
            if let Some(column) = view.segment.vector(slot) {
                in_order(view, column, &rows, bytes, job, each)?;
            }
        }
        Ok(())
    }

    fn seeds(&self, slot: u16) -> Option<&dyn SeedCentroids> {
        let largest = self.0.iter().max_by_key(|view| view.live())?;
        largest.segment.vector(slot)?.index.seeds()
    }

    fn present(&self, slot: u16) -> Option<RoaringBitmap> {
        let all = |view: &SegmentView| view.segment.vector(slot).is_some_and(|c| c.present.is_none());
        if self.0.iter().all(all) {
            return None;
        }
        let mut present = RoaringBitmap::new();
        for (view, rows) in self.0.iter().zip(renumbered(self.0)) {
            if let Some(column) = view.segment.vector(slot) {
                let all = (0..view.segment.rows()).filter(|&row| column.has(row));
                present.extend(all.filter_map(|row| rows.row(row)));
            }
        }
        (present.len() < u64::from(self.rows())).then_some(present)
    }

    fn payloads(&self, io: &mut IoContext, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for view in self.0 {
            view.segment.for_each_payload(io, &mut |row, payload| {
                if view.deletes.contains(row) {
                    Ok(())
                } else {
                    each(payload)
                }
            })?;
        }
        Ok(())
    }

    fn segments(&self) -> &[SegmentView] {
        self.0
    }
}

/// What the rows of segments are called when they are merged.
pub fn renumbered(views: &[SegmentView]) -> Vec<Renumbered<'_>> {
    let (mut base, mut all) = (0, Vec::with_capacity(views.len()));
    for view in views {
        all.push(Renumbered::new(&view.deletes, base));
        base += view.live();
    }
    all
}

/// A segment's vectors by row: fetched in batches of rows, each put in order in memory.
fn in_order(
    view: &SegmentView,
    column: &VectorColumn,
    renumbered: &Renumbered<'_>,
    bytes: usize,
    job: &mut Reads<'_>,
    each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    const BATCH_ROWS_MAX: usize = 4096;
    let mut rows = (0..view.segment.rows())
        .filter(|&row| !view.deletes.contains(row) && column.has(row))
        .peekable();
    let mut fetched: Vec<(u32, std::ops::Range<usize>)> = Vec::new();
    let (mut vectors, mut wanted) = (Vec::new(), Vec::new());
    let (mut batch, mut widest) = (1, 0);
    while rows.peek().is_some() {
        wanted.clear();
        wanted.extend(rows.by_ref().take(batch));
        fetched.clear();
        vectors.clear();
        column
            .index
            .read_rows(&wanted, job.scratch, job.io, &mut |row, vector| {
                fetched.push((row, vectors.len()..vectors.len() + vector.len()));
                vectors.extend_from_slice(vector);
                Ok(())
            })?;
        // Rows of a length of their own: the longest of those seen is what the next ones are expected to take.
        widest = fetched.iter().map(|(_, at)| at.len()).fold(widest, usize::max);
        fetched.sort_unstable_by_key(|(row, _)| *row);
        for (row, at) in fetched.drain(..) {
            if let Some(row) = renumbered.row(row) {
                each(row, &vectors[at])?;
            }
        }
        batch = (bytes / widest.max(1)).clamp(1, BATCH_ROWS_MAX);
    }
    Ok(())
}

/// Carries an error of ours through a callback of the index crate.
pub(super) fn keep(e: Error, slot: &mut Result<()>) -> IndexError {
    *slot = Err(e);
    IndexError::Mismatch("stopped by its caller".into())
}
