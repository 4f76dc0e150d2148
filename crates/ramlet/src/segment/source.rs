//! The source of a new segment's rows: a memtable, or merged segments.
//!
//! Columns are read one after another, so that a job holds one column's buffers at a time.

use ramlet_index::{IndexError, IndexScratch, SeedCentroids};
use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;

use roaring::RoaringBitmap;

use super::files::EachRecord;
use super::job::Job;
use super::sorter::Sorter;
use super::streams::{Renumbered, merge};
use super::table::{lane_of, tables_of};
use super::{SegmentView, VectorColumn};
use crate::error::{Error, Result};
use crate::payload::Path;
use crate::schema::PayloadField;
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

    /// Whether rows are numbered by their tenants: those of segments are mixed then, and what is in the order of rows can't be merged.
    fn is_by_tenant(&self) -> bool {
        false
    }
}

/// A source that can be read in another order than its own.
pub trait RowsByNumber: RowSource {
    /// Shows `each` the keys of a payload index of all rows, ascending; false: they can't be had.
    fn field_keys(
        &self,
        id: u64,
        field: &PayloadField,
        job: &mut Job<'_>,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool>;

    /// Ids and versions of some rows, ascending.
    fn ids_of(
        &self,
        rows: &[u32],
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(PointId, u64) -> Result<()>,
    ) -> Result<()>;

    /// Payloads of some rows, ascending.
    fn payloads_of(
        &self,
        rows: &[u32],
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut EachRecord<'_>,
    ) -> Result<()>;

    /// Encoded vectors of some rows, which are given ascending, in any order.
    fn vectors_of(
        &self,
        slot: u16,
        rows: &[u32],
        job: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()>;
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

impl MemtableView {
    /// The rows of the memtable that are called so in the new segment, ascending.
    fn called<'a>(&'a self, rows: &'a [u32]) -> impl Iterator<Item = (u32, u32)> + 'a {
        let mut wanted = rows.iter().peekable();
        let live = self.live_rows().zip(0..);
        live.filter_map(move |(row, new)| wanted.next_if(|wanted| **wanted == new).map(|_| (row, new)))
    }
}

impl RowsByNumber for MemtableView {
    fn field_keys(
        &self,
        id: u64,
        field: &PayloadField,
        job: &mut Job<'_>,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let path = Path::parse(&field.path).map_err(|e| Error::bad_input(e.to_string()))?;
        let bytes = job.scratch_bytes / 2;
        let mut sorter = Sorter::new(job.storage.clone(), format!("{id}-tenants"), bytes, bytes);
        let mut key = Vec::new();
        for (row, new) in self.live_rows().zip(0u32..) {
            let mut result = Ok(());
            field.emit_keys(&path, self.memtable.row(row).payload, &mut |value| {
                key.clear();
                key.extend_from_slice(value);
                key.extend_from_slice(&new.to_be_bytes());
                if result.is_ok() {
                    result = sorter.push(&key);
                }
            });
            result?;
        }
        sorter.finish(job.io, each)?;
        Ok(true)
    }

    fn ids_of(
        &self,
        rows: &[u32],
        _: &mut IoContext,
        _: &mut AnonBuf,
        each: &mut dyn FnMut(PointId, u64) -> Result<()>,
    ) -> Result<()> {
        self.called(rows).try_for_each(|(row, _)| {
            let row = self.memtable.row(row);
            each(row.id, row.version)
        })
    }

    fn payloads_of(
        &self,
        rows: &[u32],
        io: &mut IoContext,
        _: &mut AnonBuf,
        each: &mut EachRecord<'_>,
    ) -> Result<()> {
        self.called(rows)
            .try_for_each(|(row, new)| each(io, new, self.memtable.row(row).payload))
    }

    fn vectors_of(
        &self,
        slot: u16,
        rows: &[u32],
        _: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.called(rows)
            .try_for_each(|(row, new)| match self.memtable.row(row).vector(slot) {
                Some(bytes) => each(new, bytes),
                None => Ok(()),
            })
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

/// Rows of a segment are read in runs where no fewer than one of so many is wanted.
const ROWS_PER_STREAMED: u64 = 16;

impl Merged<'_> {
    /// Calls `each` with each segment that some of the rows are of: with its rows, ascending, and what the first live one of it is called.
    fn by_segment(
        &self,
        rows: &[u32],
        each: &mut dyn FnMut(&SegmentView, &Renumbered<'_>, &[u32]) -> Result<()>,
    ) -> Result<()> {
        let (mut rest, mut end) = (rows, 0);
        for (view, renumbered) in self.0.iter().zip(renumbered(self.0)) {
            end += view.live();
            let here;
            (here, rest) = rest.split_at(rest.partition_point(|row| *row < end));
            if here.is_empty() {
                continue;
            }
            let all = view.segment.rows();
            let here: Vec<u32> = here.iter().map(|row| renumbered.row_before(*row, all)).collect();
            each(view, &renumbered, &here)?;
        }
        Ok(())
    }
}

impl RowsByNumber for Merged<'_> {
    fn field_keys(
        &self,
        _: u64,
        field: &PayloadField,
        job: &mut Job<'_>,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let rows = renumbered(self.0);
        let Some(tables) = tables_of(field, self.0, job.scratch_bytes / 2) else {
            return Ok(false);
        };
        let lanes = tables
            .into_iter()
            .zip(&rows)
            .map(|(table, rows)| lane_of(table, rows));
        merge(&mut lanes.collect::<Vec<_>>(), job.io, each)?;
        Ok(true)
    }

    fn ids_of(
        &self,
        rows: &[u32],
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(PointId, u64) -> Result<()>,
    ) -> Result<()> {
        self.by_segment(rows, &mut |view, _, rows| {
            rows.iter().try_for_each(|row| {
                let (id, version) = view.segment.row_id(*row, io, buf)?;
                each(id, version)
            })
        })
    }

    fn payloads_of(
        &self,
        rows: &[u32],
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut EachRecord<'_>,
    ) -> Result<()> {
        self.by_segment(rows, &mut |view, renumbered, rows| {
            let each = &mut |io: &mut IoContext, row, payload: &[u8]| {
                renumbered.row(row).map_or(Ok(()), |row| each(io, row, payload))
            };
            let span = rows
                .first()
                .zip(rows.last())
                .map_or(0, |(first, last)| last - first);
            if u64::from(span) > rows.len() as u64 * ROWS_PER_STREAMED {
                return view.segment.payloads(rows, io, buf, each);
            }
            // Nobody else asks for them: past what is kept.
            let mut stream = view.segment.payload_stream();
            rows.iter().try_for_each(|row| {
                let payload = stream.get(*row, io)?;
                each(io, *row, payload)
            })
        })
    }

    fn vectors_of(
        &self,
        slot: u16,
        rows: &[u32],
        job: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.by_segment(rows, &mut |view, renumbered, rows| {
            let Some(column) = view.segment.vector(slot) else {
                return Ok(());
            };
            let rows: Vec<u32> = rows.iter().copied().filter(|row| column.has(*row)).collect();
            let mut result = Ok(());
            let read = column
                .in_row_order()
                .read_rows(&rows, job.scratch, job.io, &mut |row, vector| {
                    let row = renumbered.row(row);
                    row.map_or(Ok(()), |row| each(row, vector).map_err(|e| keep(e, &mut result)))
                });
            result?;
            Ok(read?)
        })
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
