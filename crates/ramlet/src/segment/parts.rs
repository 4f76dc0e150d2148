//! Multivectors with an index: each part is a row of an index of its own kind; what its search finds names the rows that are
//! compared whole.
//!
//! A part's number is its place among all parts of the segment, in the order of the rows. A bitmap of every row's first part
//! leads from one to the other: two bytes a row.

use ramlet_index::ivf::Centroids;
use ramlet_index::{
    Allowed, IndexReport, IndexScratch, MemoryUse, PartUse, Query, RowFilter, RowSet, SearchStats, TopK,
    VectorIndex, Want,
};
use ramlet_io::IoContext;
use ramlet_memory::Reservation;
use roaring::RoaringBitmap;

use super::records::RecordsColumn;
use super::source::{Reads, RowSource};
use crate::error::Result;
use crate::types::PointId;

/// Parts that the index is asked for, for each point wanted, at the usual effort: a point is among the nearest for several of
/// its parts, and for some that aren't the nearest to any part of the query.
const PARTS_PER_POINT: usize = 4;
/// The same at least, and at most: those who want more have all rows compared.
const PARTS_MIN: usize = 100;
const PARTS_MAX: usize = 16_384;
/// Rows compared whole, at most, as a share of all: from there on reading them in sequence is no slower.
const ROWS_SHARE: usize = 2;
/// The API's `hnsw_ef` that changes nothing.
const EFFORT_USUAL: usize = 128;

/// From parts to rows and back.
pub struct PartMap {
    /// The first part of each row that has the vector.
    starts: RoaringBitmap,
    /// Rows that have the vector; `None`: all.
    present: Option<RoaringBitmap>,
    parts: u32,
    _heap: Reservation,
}

impl PartMap {
    pub fn new(
        starts: RoaringBitmap,
        present: Option<RoaringBitmap>,
        parts: u32,
        heap: Reservation,
    ) -> PartMap {
        PartMap {
            starts,
            present,
            parts,
            _heap: heap,
        }
    }

    fn row_of(&self, part: u32) -> u32 {
        let place = self.starts.rank(part).saturating_sub(1) as u32;
        match &self.present {
            None => place,
            Some(present) => present.select(place).unwrap_or(u32::MAX),
        }
    }

    /// Parts of a row; none if it hasn't the vector.
    fn parts_of(&self, row: u32) -> std::ops::Range<u32> {
        let place = match &self.present {
            None => row,
            Some(present) if !present.contains(row) => return 0..0,
            Some(present) => present.rank(row) as u32 - 1,
        };
        match self.starts.select(place) {
            None => 0..0,
            Some(first) => first..self.starts.select(place + 1).unwrap_or(self.parts),
        }
    }
}

/// Rows that are gone, as parts.
struct GoneParts<'a> {
    rows: &'a dyn RowSet,
    map: &'a PartMap,
}

impl RowSet for GoneParts<'_> {
    fn contains(&self, part: u32) -> bool {
        self.rows.contains(self.map.row_of(part))
    }
    fn len(&self) -> u64 {
        let rows = self.map.starts.len().max(1);
        self.rows.len().min(rows) * u64::from(self.map.parts) / rows
    }
}

/// A filter of rows, asked of parts.
struct PartFilter<'a, 'b> {
    rows: &'a mut (dyn RowFilter + 'b),
    map: &'a PartMap,
}

impl RowFilter for PartFilter<'_, '_> {
    fn admits(&mut self, part: u32, io: &mut IoContext) -> ramlet_index::Result<bool> {
        self.rows.admits(self.map.row_of(part), io)
    }
}

/// Rows of several parts, and an index over the parts.
pub struct PartsColumn {
    records: RecordsColumn,
    parts: Box<dyn VectorIndex>,
    map: PartMap,
}

impl PartsColumn {
    pub fn new(records: RecordsColumn, parts: Box<dyn VectorIndex>, map: PartMap) -> PartsColumn {
        PartsColumn { records, parts, map }
    }

    /// Parts asked of the index for each part of the query; `None`: all rows are compared.
    fn parts_wanted(
        &self,
        query: &Query,
        want: &Want,
        allowed: &Allowed<'_>,
        points: usize,
    ) -> Option<usize> {
        let effort = want.effort.map_or(EFFORT_USUAL, |effort| effort as usize);
        let parts = points.saturating_mul(PARTS_PER_POINT).max(PARTS_MIN);
        let parts = parts.saturating_mul(effort) / EFFORT_USUAL;
        let rows = match allowed.only {
            Some(only) => only.len().min(u64::from(self.rows())) as usize,
            None => self.rows() as usize,
        };
        let most = parts.saturating_mul(query.parts());
        (!want.exact && parts <= PARTS_MAX && most <= rows / ROWS_SHARE).then_some(parts)
    }

    /// Rows with parts near to parts of the query.
    fn near(
        &self,
        query: &Query,
        (want, parts): (&Want, usize),
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
    ) -> ramlet_index::Result<(RoaringBitmap, SearchStats)> {
        let map = &self.map;
        let gone = allowed.deleted.map(|rows| GoneParts { rows, map });
        let only = allowed.only.map(|rows| {
            let mut only = RoaringBitmap::new();
            for row in rows {
                only.insert_range(map.parts_of(row));
            }
            only
        });
        let (mut near, mut stats) = (RoaringBitmap::new(), SearchStats::default());
        let mut top = TopK::new(parts);
        let mut one = Query::new(query.metric(), query.element(), &[]);
        for part in query.each_part() {
            one.prepare(query.metric(), query.element(), part);
            top.clear(parts);
            let mut filter = allowed.filter.as_deref_mut().map(|rows| PartFilter { rows, map });
            let mut parts_allowed = Allowed {
                deleted: gone.as_ref().map(|gone| gone as &dyn RowSet),
                only: only.as_ref(),
                filter: filter.as_mut().map(|filter| filter as &mut dyn RowFilter),
                filter_share: allowed.filter_share,
            };
            self.parts
                .search(&one, want, &mut parts_allowed, scratch, io, &mut top)?;
            stats.add(&scratch.stats);
            near.extend(top.sorted().iter().map(|hit| map.row_of(hit.row)));
        }
        Ok((near, stats))
    }
}

impl VectorIndex for PartsColumn {
    fn search(
        &self,
        query: &Query,
        want: &Want,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> ramlet_index::Result<()> {
        let Some(parts) = self.parts_wanted(query, want, allowed, top.k()) else {
            return self.records.search(query, want, allowed, scratch, io, top);
        };
        let (near, mut stats) = self.near(query, (want, parts), allowed, scratch, io)?;
        // They were asked for already, part by part; who is in the race with its whole row is asked again.
        let mut listed = Allowed {
            deleted: allowed.deleted,
            only: Some(&near),
            filter: allowed
                .filter
                .as_deref_mut()
                .map(|filter| filter as &mut dyn RowFilter),
            filter_share: allowed.filter_share,
        };
        self.records.search_listed(query, &mut listed, scratch, io, top)?;
        stats.rows_read += near.len();
        stats.add(&scratch.stats);
        scratch.stats = stats;
        Ok(())
    }

    fn read_rows(
        &self,
        rows: &[u32],
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> ramlet_index::Result<()>,
    ) -> ramlet_index::Result<()> {
        self.records.read_rows(rows, scratch, io, each)
    }

    fn for_each_row(
        &self,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> ramlet_index::Result<()>,
    ) -> ramlet_index::Result<()> {
        self.records.for_each_row(scratch, io, each)
    }

    fn rows(&self) -> u32 {
        self.records.rows()
    }

    fn centroids(&self) -> Option<Centroids> {
        self.parts.centroids()
    }

    fn memory(&self) -> MemoryUse {
        let (rows, parts) = (self.records.memory(), self.parts.memory());
        MemoryUse {
            heap_bytes: rows.heap_bytes + parts.heap_bytes + self.map._heap.bytes(),
            pinned_bytes: rows.pinned_bytes + parts.pinned_bytes,
            disk_bytes: rows.disk_bytes + parts.disk_bytes,
        }
    }

    fn report(&self) -> IndexReport {
        let rows = self.records.memory();
        let mut report = self.parts.report();
        report.parts.push(PartUse {
            name: "records",
            heap_bytes: rows.heap_bytes + self.map._heap.bytes(),
            pinned_bytes: rows.pinned_bytes,
            disk_bytes: rows.disk_bytes,
        });
        report
    }

    fn kind(&self) -> &'static str {
        "parts"
    }
}

/// Parts of multivectors as rows of their own, for the build of their index.
pub struct PartsSource<'a> {
    pub rows: &'a dyn RowSource,
    pub parts: u32,
    /// Bytes of a part.
    pub part_bytes: usize,
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
        self.rows.vectors(slot, job, &mut |_, row| {
            row.chunks_exact(self.part_bytes.max(1)).try_for_each(|bytes| {
                part += 1;
                each(part - 1, bytes)
            })
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

    fn present(&self, _: u16) -> Option<RoaringBitmap> {
        None
    }

    fn centroids(&self, slot: u16) -> Option<Centroids> {
        self.rows.centroids(slot)
    }

    fn payloads(&self, _: &mut IoContext, _: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Ok(())
    }
}
