//! A column of vectors of different length, by row: sparse vectors and multivectors. Other files have their indexes.

use ramlet_index::{
    Allowed, IndexError, IndexScratch, IndexSearchParams, MemoryUse, Query, SearchStats, TopK, VectorIndex,
};
use ramlet_io::{IoContext, PAGE};
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use super::files::{EachRecord, RecordsFile};
use crate::error::Error;

/// Rows whose blocks are read at once.
const ROWS_AT_ONCE: usize = 64;

/// A row read alone is taken to cost as much as this many read in sequence.
const ALONE_COST: u64 = 4;

/// Encoded vectors by row; rows without one are empty.
pub struct RecordsColumn {
    file: RecordsFile,
    rows: u32,
}

impl RecordsColumn {
    /// `rows`: those that have the vector.
    pub fn new(file: RecordsFile, rows: u32) -> RecordsColumn {
        RecordsColumn { file, rows }
    }

    /// Offers `top` the rows that `allowed.only` names, reading only these.
    pub fn search_listed(
        &self,
        query: &Query,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> ramlet_index::Result<()> {
        self.compare(allowed.only, query, allowed, scratch, io, top)
    }

    /// Compares rows whole: those that are listed, or all.
    fn compare(
        &self,
        listed: Option<&RoaringBitmap>,
        query: &Query,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> ramlet_index::Result<()> {
        if !query.is_multi() && query.sparse().is_none() {
            return Err(IndexError::Mismatch(
                "a dense query over rows of other kinds".into(),
            ));
        }
        let mut stats = SearchStats::default();
        let before = (io.reads(), io.bytes());
        let mut offer = |io: &mut IoContext, row: u32, bytes: &[u8]| -> crate::error::Result<()> {
            // Rows without the vector have nothing here.
            if bytes.is_empty() || !allowed.admits_by_bitmaps(row) {
                return Ok(());
            }
            stats.rows_scored += 1;
            let distance = query.distance_of_row(bytes);
            // An infinite one shares no dimension with a sparse query.
            if distance < f32::INFINITY && top.would_enter(distance, row) {
                stats.rows_checked += 1;
                if allowed.admits(row, io)? {
                    stats.rows_admitted += 1;
                    top.push(distance, row);
                }
            }
            Ok(())
        };
        let read = match listed {
            Some(rows) => self.for_listed(rows, io, scratch.buffer(), &mut offer),
            None => self.file.scan(io, scratch.buffer(), &mut offer),
        };
        read.map_err(index_failure)?;
        stats.reads = io.reads() - before.0;
        stats.pages_read = (io.bytes() - before.1) / PAGE as u64;
        scratch.stats = stats;
        Ok(())
    }

    fn for_listed(
        &self,
        rows: &RoaringBitmap,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut EachRecord<'_>,
    ) -> crate::error::Result<()> {
        let (mut rows, mut some) = (rows.iter(), Vec::with_capacity(ROWS_AT_ONCE));
        loop {
            some.clear();
            some.extend(rows.by_ref().take(ROWS_AT_ONCE));
            if some.is_empty() {
                return Ok(());
            }
            self.file.for_rows(&some, io, buf, each)?;
        }
    }
}

pub(super) fn index_failure(e: Error) -> IndexError {
    IndexError::Filter(Box::new(e))
}

/// Carries an error of the index crate through a callback of ours.
fn stopped(e: IndexError, slot: &mut ramlet_index::Result<()>) -> Error {
    *slot = Err(e);
    Error::corrupt("stopped by its caller")
}

/// What an index that finds rows of records leaves to their [`RecordsColumn`], a field of its own: reading them.
macro_rules! rows_of_records {
    ($records:ident) => {
        fn read_rows(
            &self,
            rows: &[u32],
            scratch: &mut IndexScratch,
            io: &mut IoContext,
            each: &mut dyn FnMut(u32, &[u8]) -> ramlet_index::Result<()>,
        ) -> ramlet_index::Result<()> {
            self.$records.read_rows(rows, scratch, io, each)
        }

        fn for_each_row(
            &self,
            scratch: &mut IndexScratch,
            io: &mut IoContext,
            each: &mut dyn FnMut(u32, &[u8]) -> ramlet_index::Result<()>,
        ) -> ramlet_index::Result<()> {
            self.$records.for_each_row(scratch, io, each)
        }

        fn rows(&self) -> u32 {
            self.$records.rows()
        }
    };
}
pub(super) use rows_of_records;

impl VectorIndex for RecordsColumn {
    /// Rows of several parts, all of them or those that a bitmap names: exact.
    fn search(
        &self,
        query: &Query,
        _: &IndexSearchParams,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> ramlet_index::Result<()> {
        let few = |only: &RoaringBitmap| only.len() * ALONE_COST < u64::from(self.rows);
        let listed = allowed.only.filter(|only| few(only));
        self.compare(listed, query, allowed, scratch, io, top)
    }

    fn search_bytes(&self, _: &Query, _: &IndexSearchParams, _: &Allowed<'_>, _: usize) -> u64 {
        0
    }

    fn read_rows(
        &self,
        rows: &[u32],
        _: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> ramlet_index::Result<()>,
    ) -> ramlet_index::Result<()> {
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        let mut buf = AnonBuf::new(0);
        for rows in sorted.chunks(ROWS_AT_ONCE) {
            let mut result = Ok(());
            let read = self.file.for_rows(rows, io, &mut buf, &mut |_, row, bytes| {
                each(row, bytes).map_err(|e| stopped(e, &mut result))
            });
            result?;
            read.map_err(index_failure)?;
        }
        Ok(())
    }

    fn for_each_row(
        &self,
        _: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> ramlet_index::Result<()>,
    ) -> ramlet_index::Result<()> {
        let mut result = Ok(());
        let read = self.file.for_each(io, &mut |row, bytes| {
            each(row, bytes).map_err(|e| stopped(e, &mut result))
        });
        result?;
        read.map_err(index_failure)
    }

    fn rows(&self) -> u32 {
        self.rows
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse {
            heap_bytes: self.file.heap_bytes(),
            pinned_bytes: self.file.pinned_bytes(),
            disk_bytes: self.file.disk_bytes(),
        }
    }

    fn kind(&self) -> &'static str {
        "records"
    }
}
