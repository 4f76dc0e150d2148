//! The rows that a search may return.

use ramlet_io::IoContext;
use roaring::RoaringBitmap;

use crate::error::Result;

/// A condition that is dear to check: it may read the row's payload.
pub trait RowFilter {
    /// Whether this row may be found. A failure ends the search.
    fn admits(&mut self, row: u32, io: &mut IoContext) -> Result<bool>;
}

/// A set of rows that is in memory: asking it costs nanoseconds.
pub trait RowSet {
    fn contains(&self, row: u32) -> bool;
    fn len(&self) -> u64;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl RowSet for RoaringBitmap {
    fn contains(&self, row: u32) -> bool {
        RoaringBitmap::contains(self, row)
    }
    fn len(&self) -> u64 {
        RoaringBitmap::len(self)
    }
}

/// The rows that a search may find; a row must pass all that is given.
///
/// A scan scores first and asks afterwards, and only for rows whose score would enter the result: few do, and a
/// `RowFilter` may cost a read each, while a score costs ten nanoseconds. The bitmaps are asked before the filter.
#[derive(Default)]
pub struct Allowed<'a> {
    /// Rows that don't exist any more.
    pub deleted: Option<&'a dyn RowSet>,
    /// If given, no other row may be found. When it is sparse, only the blocks of its rows are read.
    pub only: Option<&'a RoaringBitmap>,
    pub filter: Option<&'a mut dyn RowFilter>,
    /// Estimated share (above 0, at most 1) of the rows passing the bitmaps that `filter` will admit; the effort of
    /// approximate indexes grows with its inverse. Without an estimate, `None` counts as 1.
    pub filter_share: Option<f32>,
}

impl Allowed<'_> {
    /// Whether a row may be found, cheapest check first.
    pub fn admits(&mut self, row: u32, io: &mut IoContext) -> Result<bool> {
        if !self.admits_by_bitmaps(row) {
            return Ok(false);
        }
        match &mut self.filter {
            Some(filter) => filter.admits(row, io),
            None => Ok(true),
        }
    }

    /// Whether any row may be found.
    pub(crate) fn is_free(&self) -> bool {
        self.deleted.is_none() && self.only.is_none() && self.filter.is_none()
    }

    /// Whether the bitmaps let a row be found; the filter isn't asked.
    pub fn admits_by_bitmaps(&self, row: u32) -> bool {
        !self.deleted.is_some_and(|deleted| deleted.contains(row))
            && self.only.is_none_or(|only| only.contains(row))
    }

    /// Estimated share of `rows` that may be found, above 0 and at most 1.
    pub(crate) fn share(&self, rows: u64) -> f64 {
        let rows = rows.max(1) as f64;
        let only = self.only.map_or(1.0, |only| only.len() as f64 / rows);
        let live = self
            .deleted
            .map_or(1.0, |deleted| 1.0 - deleted.len() as f64 / rows);
        let filter = f64::from(self.filter_share.unwrap_or(1.0));
        (only * live * filter).clamp(1.0 / rows, 1.0)
    }
}
