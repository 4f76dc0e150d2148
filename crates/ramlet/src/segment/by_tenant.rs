//! Rows of a new segment in tenant order, so that a search of one tenant reads few blocks.
//!
//! The order is that of a payload index with `is_tenant`. Rows of one tenant stay as they came, and those without a value come last.
//! RAM: 4 bytes a row while the segment is written, and a batch of rows within the job's scratch. Why: [ADR 0068](../../../../docs/adr/0068-rows-by-tenant.md).

use std::cell::{RefCell, RefMut};
use std::ops::Range;

use ramlet_index::SeedCentroids;
use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, Reservation};
use roaring::RoaringBitmap;

use super::SegmentView;
use super::job::Job;
use super::source::{Reads, RowSource, RowsByNumber};
use super::table::split_row;
use crate::error::{Error, Result};
use crate::filter::index::is_value;
use crate::schema::PayloadField;
use crate::types::PointId;

/// Rows that are brought into their order at a time.
const BATCH_ROWS: usize = 4096;

/// Bytes that payloads of a batch are read through.
const BUFFER_BYTES: usize = 64 << 10;

/// Marks a row of a permutation that is being turned around: a segment has fewer rows.
const TURNED: u32 = 1 << 31;

/// A source whose rows are numbered by their tenants.
pub struct ByTenant<'a> {
    source: &'a dyn RowsByNumber,
    numbers: RefCell<Numbers>,
    buf: RefCell<AnonBuf>,
    /// What a batch may hold.
    batch_bytes: usize,
}

/// How rows are called in the source, and in the new segment.
pub struct Numbers {
    rows: Vec<u32>,
    /// Whether `rows` has the new number by the old one, or the old by the new.
    by_old: bool,
    _held: Reservation,
}

impl Numbers {
    /// RAM for those of so many rows.
    pub fn bytes(rows: u32) -> u64 {
        4 * u64::from(rows)
    }

    /// Numbers of a source's rows, of which keys come by tenant; `None`: there is no memory for them.
    fn new(
        source: &dyn RowsByNumber,
        id: u64,
        field: &PayloadField,
        job: &mut Job<'_>,
    ) -> Result<Option<Numbers>> {
        let count = source.rows();
        let held = job.file_context.spare(Numbers::bytes(count));
        let Some(_held) = held.filter(|_| count < TURNED) else {
            return Ok(None);
        };
        let (mut rows, mut next) = (vec![u32::MAX; count as usize], 0);
        let mut give = |row: &mut u32| {
            // A row of several tenants lies with the first.
            if *row == u32::MAX {
                *row = next;
                next += 1;
            }
        };
        let has_keys = source.field_keys(id, field, job, &mut |key| {
            let (value, row) = split_row(key).ok_or_else(|| Error::corrupt("a key without a row"))?;
            if let (true, Some(row)) = (is_value(value), rows.get_mut(row as usize)) {
                give(row);
            }
            Ok(())
        })?;
        rows.iter_mut().for_each(give);
        let numbers = Numbers {
            rows,
            by_old: true,
            _held,
        };
        Ok(has_keys.then_some(numbers))
    }

    /// The new number of a row.
    pub fn of(&mut self, old: u32) -> u32 {
        self.turn(true);
        self.rows[old as usize]
    }

    fn turn(&mut self, by_old: bool) {
        if self.by_old != by_old {
            invert(&mut self.rows);
            self.by_old = by_old;
        }
    }
}

/// Turns a permutation around, in place: cycle by cycle.
fn invert(rows: &mut [u32]) {
    for start in 0..rows.len() as u32 {
        let (mut at, mut next) = (start, rows[start as usize]);
        if next & TURNED != 0 {
            continue;
        }
        loop {
            let behind = rows[next as usize];
            rows[next as usize] = at | TURNED;
            (at, next) = (next, behind);
            if at == start {
                break;
            }
        }
    }
    rows.iter_mut().for_each(|row| *row &= !TURNED);
}

/// What became of a row of a batch.
#[derive(Clone)]
enum Fetched {
    /// It has nothing.
    Not,
    Held(Range<usize>),
    /// There was no more room: it is read when it is its turn.
    Left,
}

/// Reads some rows of a source, ascending.
type ReadRows<'r> = dyn FnMut(&[u32], &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> + 'r;

impl<'a> ByTenant<'a> {
    /// `None`: rows keep their order, since there is no memory for another.
    pub fn new(
        source: &'a dyn RowsByNumber,
        id: u64,
        field: &PayloadField,
        job: &mut Job<'_>,
    ) -> Result<Option<ByTenant<'a>>> {
        let numbers = Numbers::new(source, id, field, job)?;
        Ok(numbers.map(|numbers| ByTenant {
            source,
            numbers: RefCell::new(numbers),
            buf: RefCell::new(AnonBuf::new(BUFFER_BYTES)),
            // Beside those who sort what they are shown.
            batch_bytes: job.scratch_bytes / 8,
        }))
    }

    pub fn into_numbers(self) -> Numbers {
        self.numbers.into_inner()
    }

    /// New numbers by old ones.
    fn by_old(&self) -> RefMut<'_, Numbers> {
        let mut numbers = self.numbers.borrow_mut();
        numbers.turn(true);
        numbers
    }

    /// Calls `each` with the rows of one batch after another: the first new number, and the old ones.
    fn batches(&self, each: &mut dyn FnMut(u32, &[u32]) -> Result<()>) -> Result<()> {
        let mut numbers = self.numbers.borrow_mut();
        numbers.turn(false);
        let batches = numbers.rows.chunks(BATCH_ROWS);
        let firsts = (0..).step_by(BATCH_ROWS);
        batches
            .zip(firsts)
            .try_for_each(|(batch, first)| each(first, batch))
    }

    /// Shows `each` what rows have, by their new numbers: read a batch at a time, held as far as there is room.
    fn in_order(
        &self,
        bytes: usize,
        read: &mut ReadRows<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (mut held, mut fetched) = (Vec::new(), Vec::new());
        self.batches(&mut |first, batch| {
            let sorted = sorted(batch);
            let olds: Vec<u32> = sorted.iter().map(|(old, _)| *old).collect();
            fetched.clear();
            fetched.resize(batch.len(), Fetched::Not);
            held.clear();
            read(&olds, &mut |old, record| {
                let fetched = &mut fetched[place_of(&sorted, old)?];
                let start = held.len();
                *fetched = match start + record.len() <= bytes.max(record.len()) {
                    true => Fetched::Held(start..start + record.len()),
                    false => Fetched::Left,
                };
                if let Fetched::Held(_) = fetched {
                    held.extend_from_slice(record);
                }
                Ok(())
            })?;
            for ((fetched, old), new) in fetched.iter().zip(batch).zip(first..) {
                match fetched {
                    Fetched::Not => {}
                    Fetched::Held(at) => each(new, &held[at.clone()])?,
                    Fetched::Left => read(&[*old], &mut |_, record| each(new, record))?,
                }
            }
            Ok(())
        })
    }
}

/// Rows of a batch ascending, with their places in it.
fn sorted(batch: &[u32]) -> Vec<(u32, usize)> {
    let mut sorted: Vec<_> = batch.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    sorted
}

fn place_of(sorted: &[(u32, usize)], old: u32) -> Result<usize> {
    let at = sorted.binary_search_by_key(&old, |(old, _)| *old);
    at.map(|at| sorted[at].1)
        .map_err(|_| Error::corrupt(format!("row {old} wasn't asked for")))
}

impl RowSource for ByTenant<'_> {
    fn rows(&self) -> u32 {
        self.source.rows()
    }

    fn ids(&self, io: &mut IoContext, each: &mut dyn FnMut(PointId, u64) -> Result<()>) -> Result<()> {
        let mut buf = self.buf.borrow_mut();
        self.batches(&mut |_, batch| {
            let sorted = sorted(batch);
            let olds: Vec<u32> = sorted.iter().map(|(old, _)| *old).collect();
            let (mut ids, mut places) = (vec![None; batch.len()], sorted.iter());
            self.source.ids_of(&olds, io, &mut buf, &mut |id, version| {
                if let Some((_, place)) = places.next() {
                    ids[*place] = Some((id, version));
                }
                Ok(())
            })?;
            ids.into_iter()
                .flatten()
                .try_for_each(|(id, version)| each(id, version))
        })
    }

    fn vectors(
        &self,
        slot: u16,
        job: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let numbers = self.by_old();
        self.source.vectors(slot, job, &mut |old, bytes| {
            each(numbers.rows[old as usize], bytes)
        })
    }

    fn vectors_in_order(
        &self,
        slot: u16,
        bytes: usize,
        job: &mut Reads<'_>,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut read = |rows: &[u32], each: &mut dyn FnMut(u32, &[u8]) -> Result<()>| {
            self.source.vectors_of(slot, rows, job, each)
        };
        self.in_order(bytes, &mut read, each)
    }

    fn present(&self, slot: u16) -> Option<RoaringBitmap> {
        let present = self.source.present(slot)?;
        let numbers = self.by_old();
        Some(present.iter().map(|old| numbers.rows[old as usize]).collect())
    }

    fn seeds(&self, slot: u16) -> Option<&dyn SeedCentroids> {
        self.source.seeds(slot)
    }

    fn payloads(&self, io: &mut IoContext, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut buf = self.buf.borrow_mut();
        let mut read = |rows: &[u32], each: &mut dyn FnMut(u32, &[u8]) -> Result<()>| {
            self.source
                .payloads_of(rows, io, &mut buf, &mut |_, row, payload| each(row, payload))
        };
        self.in_order(self.batch_bytes, &mut read, &mut |_, payload| each(payload))
    }

    fn segments(&self) -> &[SegmentView] {
        self.source.segments()
    }

    fn is_by_tenant(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_turned_twice_is_itself() {
        for n in [0, 1, 2, 7, 1_000] {
            // Cycles of several lengths.
            let rows: Vec<u32> = (0..n).map(|i| (i * 7 + 3) % n.max(1)).collect();
            let rows = if n == 7 { (0..n).rev().collect() } else { rows };
            let mut turned = rows.clone();
            invert(&mut turned);
            for (old, new) in rows.iter().enumerate() {
                assert_eq!(turned[*new as usize] as usize, old);
            }
            invert(&mut turned);
            assert_eq!(turned, rows);
        }
    }
}
