//! The rows of a segment that match a filter: payload indexes first, payloads where necessary.

use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, Consumer, Reservation};
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::filter::CompiledFilter;
use crate::filter::index::{self, FieldIndexes, KeyRange, resolve};
use crate::read::lookup::Lookup;
use crate::read::view::{Place, SegmentRow, View};
use crate::schema::Schema;
use crate::segment::{SegmentView, TableFile};
use crate::types::{FieldKind, PointId};

/// A segment's payload indexes, with what reading them needs.
pub struct SegmentIndexes<'a> {
    pub schema: &'a Schema,
    pub view: &'a SegmentView,
    pub io: &'a mut IoContext,
    pub buf: &'a mut AnonBuf,
    pub held: &'a mut BitmapHold,
}

/// What is reserved for a filter's bitmaps: those made so far together, though some are gone again. Rows of a bitmap
/// come one by one, so it grows in steps, ahead of them.
pub struct BitmapHold {
    reservation: Reservation,
    /// Rows of the segment: no bitmap has more.
    rows: u32,
    /// For bitmaps that are complete, and for the one that grows.
    complete: u64,
    growing: u64,
}

impl BitmapHold {
    pub fn new(from: &Consumer, rows: u32) -> Result<BitmapHold> {
        Ok(BitmapHold {
            reservation: from.reserve(0)?,
            rows,
            complete: 0,
            growing: 0,
        })
    }

    /// At most what a bitmap of so many rows takes: 2 bytes a row or a bit for each, whichever is less, and a container's
    /// head for each 65,536.
    fn bytes_of(&self, rows: u64) -> u64 {
        let containers = u64::from(self.rows.div_ceil(1 << 16)) + 1;
        (2 * rows).min(containers * 8192) + 32 * containers.min(rows + 1)
    }

    /// A new bitmap begins.
    fn begin(&mut self) {
        self.complete += self.growing;
        self.growing = 0;
    }

    /// The bitmap that grows will soon have `rows`.
    fn grow_to(&mut self, rows: u64) -> Result<()> {
        self.growing = self.growing.max(self.bytes_of(rows));
        let more = (self.complete + self.growing).saturating_sub(self.reservation.bytes());
        Ok(self.reservation.grow(more)?)
    }

    /// A bitmap of at most `rows` is made at once.
    pub fn whole(&mut self, rows: u64) -> Result<()> {
        self.begin();
        self.grow_to(rows)
    }

    /// Only a bitmap of so many rows is left.
    fn into_rest(mut self, rows: u64) -> Reservation {
        let bytes = self.bytes_of(rows);
        self.reservation.shrink_to(bytes);
        self.reservation
    }
}

/// Blocks of a table, of some hundreds of rows each, from which on setting a bit for each row may be faster than inserting
/// it, ...
const DENSE_BLOCKS: u64 = 4;
/// ... and is, where each has as many rows of the segment as this to go through at the end, at most.
const DENSE_ROWS_PER_BLOCK: u64 = 1 << 18;

impl SegmentIndexes<'_> {
    /// Adds the rows of a wide range: a bit for each row of the segment, and a bitmap made of these at once. 500,000 of
    /// 1,000,000 rows, inserted one by one, take 10 ms.
    fn scan_dense(&mut self, table: &TableFile, range: &KeyRange, out: &mut RoaringBitmap) -> Result<()> {
        let all = self.view.segment.rows();
        // Beside the bits, what becomes of them.
        self.held.whole(u64::from(all))?;
        self.held.whole(u64::from(all))?;
        let mut bits = vec![0u8; (all as usize).div_ceil(8)];
        let mut set = |row: u32| match bits.get_mut(row as usize / 8) {
            Some(byte) => {
                *byte |= 1 << (row % 8);
                true
            }
            None => false,
        };
        let mut is_within = true;
        table.rows((&range.from, &range.to), self.io, self.buf, &mut |rows| {
            is_within = rows.iter().all(|row| set(*row));
            is_within
        })?;
        if !is_within {
            return Err(Error::corrupt("a payload index names a row beyond its segment's"));
        }
        let found = RoaringBitmap::from_lsb0_bytes(0, &bits);
        match out.is_empty() {
            true => *out = found,
            false => *out |= found,
        }
        Ok(())
    }
}

impl FieldIndexes for SegmentIndexes<'_> {
    fn kind(&self, field: &str) -> Option<FieldKind> {
        let field = self.schema.field(field)?;
        self.view.segment.field(field.slot).map(|_| field.kind)
    }

    fn scan(&mut self, field: &str, range: &KeyRange, out: &mut RoaringBitmap) -> Result<()> {
        let Some(table) = self
            .schema
            .field(field)
            .and_then(|f| self.view.segment.field(f.slot))
        else {
            return Ok(());
        };
        let blocks = table.blocks_of(&range.from, &range.to);
        let blocks = blocks.end - blocks.start;
        if blocks >= DENSE_BLOCKS.max(u64::from(self.view.segment.rows()) / DENSE_ROWS_PER_BLOCK) {
            return self.scan_dense(table, range, out);
        }
        let mut rows = out.len();
        if rows == 0 {
            self.held.begin();
        }
        let (held, mut over) = (&mut *self.held, Ok(()));
        table.rows((&range.from, &range.to), self.io, self.buf, &mut |found| {
            rows += found.len() as u64;
            over = held.grow_to(rows);
            if over.is_err() {
                return false;
            }
            for &row in found {
                // Ascending as long as the value is the same.
                if out.try_push(row).is_err() {
                    out.insert(row);
                }
            }
            true
        })?;
        over
    }

    fn hold(&mut self, rows: u64) -> Result<()> {
        self.held.whole(rows)
    }

    fn estimate(&mut self, field: &str, range: &KeyRange) -> Result<u64> {
        let table = self
            .schema
            .field(field)
            .and_then(|f| self.view.segment.field(f.slot));
        table.map_or(Ok(0), |table| {
            table.estimate(&range.from, &range.to, self.io, self.buf)
        })
    }

    fn rows(&self) -> u32 {
        self.view.segment.rows()
    }

    fn lookup_ids(&mut self, ids: &[PointId], out: &mut RoaringBitmap) -> Result<()> {
        self.held
            .whole((ids.len() as u64).min(u64::from(self.view.segment.rows())))?;
        for &id in ids {
            out.extend(self.view.segment.find(id, self.io, self.buf)?);
        }
        Ok(())
    }
}

/// What the indexes of a segment say of a filter.
pub struct Candidates {
    /// `None`: any row may match. May name deleted rows.
    pub rows: Option<RoaringBitmap>,
    /// Whether a candidate still has to be checked against the filter.
    pub recheck: bool,
    /// For `rows`.
    pub held: Option<Reservation>,
}

/// `from` pays for the bitmaps' bytes.
pub fn candidates(
    schema: &Schema,
    view: &SegmentView,
    filter: Option<&CompiledFilter>,
    io: &mut IoContext,
    buf: &mut AnonBuf,
    from: &Consumer,
) -> Result<Candidates> {
    let Some(filter) = filter else {
        return Ok(Candidates {
            rows: None,
            recheck: false,
            held: None,
        });
    };
    let mut held = BitmapHold::new(from, view.segment.rows())?;
    let resolved = resolve(
        filter,
        &mut SegmentIndexes {
            schema,
            view,
            io,
            buf,
            held: &mut held,
        },
    )?;
    let held = resolved.bitmap.as_ref().map(|rows| held.into_rest(rows.len()));
    Ok(Candidates {
        rows: resolved.bitmap,
        recheck: !resolved.exact,
        held,
    })
}

/// Live rows that match, all checked, and what is held for them.
pub fn matching_rows(
    schema: &Schema,
    view: &SegmentView,
    filter: Option<&CompiledFilter>,
    lookup: &mut Lookup,
) -> Result<(RoaringBitmap, Reservation)> {
    let Lookup {
        io,
        buf,
        rare,
        payloads_checked,
        ..
    } = lookup;
    let candidates = candidates(schema, view, filter, io, buf, rare)?;
    let Candidates { rows, recheck, held } = candidates;
    let mut hold = BitmapHold::new(rare, view.segment.rows())?;
    let Some(filter) = filter.filter(|_| recheck) else {
        hold.whole(
            rows.as_ref()
                .map_or(u64::from(view.segment.rows()), RoaringBitmap::len),
        )?;
        let mut rows = rows.unwrap_or_else(|| {
            let mut all = RoaringBitmap::new();
            all.insert_range(0..view.segment.rows());
            all
        });
        for row in view.deletes.iter() {
            rows.remove(row);
        }
        return Ok((rows, hold.reservation));
    };
    // As many as there are candidates: to the last, payloads are only read.
    let most = rows.as_ref().map_or(u64::from(view.live()), RoaringBitmap::len);
    hold.whole(most)?;
    *payloads_checked += most;
    let mut matching = RoaringBitmap::new();
    match rows {
        Some(rows) => {
            for row in rows.iter().filter(|&row| !view.deletes.contains(row)) {
                if row_matches(schema, view, row, filter, io, buf)? {
                    matching.insert(row);
                }
            }
        }
        None => scan_payloads(schema, view, filter, io, buf, &mut matching)?,
    }
    drop(held);
    let rows = matching.len();
    Ok((matching, hold.into_rest(rows)))
}

/// How many live rows match, where the indexes alone decide and there is memory for their bitmap.
pub fn counted_by_indexes(
    schema: &Schema,
    view: &SegmentView,
    filter: &CompiledFilter,
    io: &mut IoContext,
    buf: &mut AnonBuf,
    from: &Consumer,
) -> Result<Option<u64>> {
    let found = match candidates(schema, view, Some(filter), io, buf, from) {
        Err(e) if e.is_over_budget() => return Ok(None),
        found => found?,
    };
    let is_live = |row: &u32| !view.deletes.contains(*row);
    let count = |rows: &RoaringBitmap| rows.iter().filter(is_live).count() as u64;
    let decided = (!found.recheck).then_some(found.rows.as_ref());
    Ok(decided.map(|rows| rows.map_or(u64::from(view.live()), count)))
}

/// Checks every live row, reading the payloads in order.
fn scan_payloads(
    schema: &Schema,
    view: &SegmentView,
    filter: &CompiledFilter,
    io: &mut IoContext,
    buf: &mut AnonBuf,
    matching: &mut RoaringBitmap,
) -> Result<()> {
    if filter.needs_id() {
        // The payload's reader is busy while its rows are looked at, so ids can't be read beside it.
        for row in (0..view.segment.rows()).filter(|&row| !view.deletes.contains(row)) {
            if row_matches(schema, view, row, filter, io, buf)? {
                matching.insert(row);
            }
        }
        return Ok(());
    }
    view.segment.for_each_payload(io, &mut |row, payload| {
        let admitted = !view.deletes.contains(row)
            && filter.matches(&SegmentRow {
                id: PointId::Num(0),
                payload,
                row,
                schema,
                view,
            });
        if admitted {
            matching.insert(row);
        }
        Ok(())
    })
}

/// Checks one row: a read of its payload, and of its id where the filter asks for it.
pub fn row_matches(
    schema: &Schema,
    view: &SegmentView,
    row: u32,
    filter: &CompiledFilter,
    io: &mut IoContext,
    buf: &mut AnonBuf,
) -> Result<bool> {
    let id = if filter.needs_id() {
        view.segment.row_id(row, io, buf)?.0
    } else {
        PointId::Num(0)
    };
    let payload = view.segment.payload(row, io, buf)?;
    Ok(filter.matches(&SegmentRow {
        id,
        payload,
        row,
        schema,
        view,
    }))
}

/// Payload blocks that a sample looks at, and rows it takes at most.
const SAMPLE_BLOCKS: u32 = 8;
const SAMPLE_ROWS: u32 = 512;

/// Share of the live candidates (all live rows, if `None`) that a filter admits: from a sample of payload blocks spread
/// evenly. Eight reads unless cached.
pub fn share(
    schema: &Schema,
    view: &SegmentView,
    filter: &CompiledFilter,
    candidates: Option<&RoaringBitmap>,
    io: &mut IoContext,
    buf: &mut AnonBuf,
) -> Result<f32> {
    let total = candidates.map_or(u64::from(view.segment.rows()), RoaringBitmap::len) as u32;
    let is_candidate = |row: u32| candidates.is_none_or(|c| c.contains(row));
    let (mut looked_at, mut admitted) = (0u32, 0u32);
    let mut beyond = None;
    for step in 0..SAMPLE_BLOCKS.min(total) {
        let nth = (u64::from(total) * u64::from(step) / u64::from(SAMPLE_BLOCKS.min(total))) as u32;
        let row = candidates.map_or(Some(nth), |c| c.select(nth));
        let Some(row) = row.filter(|&row| beyond.is_none_or(|last| row > last)) else {
            continue;
        };
        let mut left = SAMPLE_ROWS / SAMPLE_BLOCKS;
        view.segment.payload_block(row, io, buf, &mut |row, payload| {
            beyond = Some(row);
            if left > 0 && is_candidate(row) && !view.deletes.contains(row) {
                left -= 1;
                looked_at += 1;
                // An id costs a read of its own: a filter on ids is taken to admit as its other conditions do.
                let row = SegmentRow {
                    id: PointId::Num(0),
                    payload,
                    row,
                    schema,
                    view,
                };
                admitted += u32::from(filter.matches(&row));
            }
        })?;
    }
    Ok((admitted as f32 + 0.5) / (looked_at as f32 + 1.0))
}

/// About how many live rows match, from what the indexes say.
pub fn estimate(
    schema: &Schema,
    view: &SegmentView,
    filter: &CompiledFilter,
    io: &mut IoContext,
    buf: &mut AnonBuf,
    from: &Consumer,
) -> Result<u64> {
    let mut held = BitmapHold::new(from, view.segment.rows())?;
    let cardinality = index::estimate(
        filter,
        &mut SegmentIndexes {
            schema,
            view,
            io,
            buf,
            held: &mut held,
        },
    )?;
    Ok(cardinality.expected.min(u64::from(view.live())))
}

pub fn place_matches(
    view: &View,
    place: Place,
    filter: &CompiledFilter,
    io: &mut IoContext,
    buf: &mut AnonBuf,
) -> Result<bool> {
    match place {
        Place::Memtable { index, row } => {
            Ok(filter.matches(&view.memtables[index as usize].memtable.row(row)))
        }
        Place::Segment { index, row } => {
            row_matches(&view.schema, &view.segments[index as usize], row, filter, io, buf)
        }
    }
}
