//! Where a new segment's rows come from: a write buffer, or segments that are merged.
//!
//! Columns are read one after another, so that a job holds one column's buffers at a time.

use ramlet_io::IoContext;

use super::SegmentView;
use crate::buffer::BufferView;
use crate::error::Result;
use crate::types::PointId;

/// Rows in their order, live ones only: every method gives the same rows.
pub trait RowSource {
    fn rows(&self) -> u32;
    fn ids(&self, io: &mut IoContext, each: &mut dyn FnMut(PointId, u64) -> Result<()>) -> Result<()>;
    /// The encoded vectors of a slot; `None` for rows without.
    fn vectors(&self, slot: u16, io: &mut IoContext, each: &mut dyn FnMut(Option<&[u8]>) -> Result<()>)
    -> Result<()>;
    fn payloads(&self, io: &mut IoContext, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
}

impl RowSource for BufferView {
    fn rows(&self) -> u32 {
        self.live()
    }

    fn ids(&self, _: &mut IoContext, each: &mut dyn FnMut(PointId, u64) -> Result<()>) -> Result<()> {
        self.live_rows().try_for_each(|row| {
            let row = self.buffer.row(row);
            each(row.id, row.version)
        })
    }

    fn vectors(
        &self,
        slot: u16,
        _: &mut IoContext,
        each: &mut dyn FnMut(Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let Some(index) = self.buffer.schema().vectors.iter().position(|v| v.slot == slot) else {
            return self.live_rows().try_for_each(|_| each(None));
        };
        self.live_rows().try_for_each(|row| each(self.buffer.row(row).vector(index)))
    }

    fn payloads(&self, _: &mut IoContext, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.live_rows().try_for_each(|row| each(self.buffer.row(row).payload))
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
                if view.deletes.contains(row) { Ok(()) } else { each(id, version) }
            })?;
        }
        Ok(())
    }

    fn vectors(
        &self,
        slot: u16,
        io: &mut IoContext,
        each: &mut dyn FnMut(Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        for view in self.0 {
            view.segment.for_each_vector(slot, io, &mut |row, vector| {
                if view.deletes.contains(row) { Ok(()) } else { each(vector) }
            })?;
        }
        Ok(())
    }

    fn payloads(&self, io: &mut IoContext, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for view in self.0 {
            view.segment.for_each_payload(io, &mut |row, payload| {
                if view.deletes.contains(row) { Ok(()) } else { each(payload) }
            })?;
        }
        Ok(())
    }
}
