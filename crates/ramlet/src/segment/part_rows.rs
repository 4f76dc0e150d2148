//! Parts of multivectors as rows of their own, for the build of their index.

use ramlet_index::SeedCentroids;
use ramlet_io::IoContext;
use roaring::RoaringBitmap;

use super::source::{Reads, RowSource};
use crate::error::Result;
use crate::types::PointId;

/// Parts of multivectors as rows of their own, for the build of their index.
pub struct PartsSource<'a> {
    pub rows: &'a dyn RowSource,
    pub parts: u32,
    /// Bytes of a part.
    pub part_bytes: usize,
    /// What rows that come in another order than theirs may take.
    pub held_bytes: usize,
}

impl RowSource for PartsSource<'_> {
    fn rows(&self) -> u32 {
        self.parts
    }

    fn ids(&self, _: &mut IoContext, _: &mut dyn FnMut(PointId, u64) -> Result<()>) -> Result<()> {
        Ok(())
    }

    fn vectors(
        &self,
        slot: u16,
        job: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut part = 0;
        let mut parts_of = |_: u32, row: &[u8]| {
            row.chunks_exact(self.part_bytes.max(1)).try_for_each(|bytes| {
                part += 1;
                each(part - 1, bytes)
            })
        };
        // Rows of a length of their own lie in their order, unless they get another.
        match self.rows.is_by_tenant() {
            true => self
                .rows
                .vectors_in_order(slot, self.held_bytes, job, &mut parts_of),
            false => self.rows.vectors(slot, job, &mut parts_of),
        }
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

    fn present(&self, _: u16) -> Option<RoaringBitmap> {
        None
    }

    fn seeds(&self, slot: u16) -> Option<&dyn SeedCentroids> {
        self.rows.seeds(slot)
    }

    fn payloads(&self, _: &mut IoContext, _: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Ok(())
    }
}
