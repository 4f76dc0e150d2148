//! Verifies that the files of a segment are undamaged and agree with each other.

use std::sync::Arc;

use ramlet_format::FileCrc;
use ramlet_format::manifest::{FileEntry, SegmentEntry};
use ramlet_index::{IndexError, IndexScratch};
use ramlet_io::{BlockCache, IoContext, Storage};
use ramlet_memory::{AnonBuf, Ledger};

use crate::error::{Error, Result};
use crate::memory::eviction::Caches;
use crate::schema::Schema;
use crate::segment::{FileContext, Segment, read_deletes};
use crate::types::PointId;
use crate::write::encoding::decode_vector;

/// Bytes of RAM that looking at files may take for what segments hold open; files are streamed.
pub const VERIFY_MEMORY: u64 = 256 << 20;

/// What segments are opened with to be looked at: no cache, and no RAM for speed.
pub fn file_context_of(storage: Arc<dyn Storage>) -> Result<FileContext> {
    let ledger = Ledger::new(VERIFY_MEMORY);
    Ok(FileContext {
        storage,
        cache: BlockCache::new(&ledger.consumer("block cache", 0), 0)?,
        metadata: ledger.consumer("segment metadata", u64::MAX),
        pinned: ledger.consumer("pinned files", 0),
        caches: Caches::new(&ledger, 0),
        graph_width: 1,
    })
}

/// Reads every block of a segment through the same code as a server, and compares its tables with each other.
pub fn segment_is_sound(
    entry: &SegmentEntry,
    file_context: &FileContext,
    schema: &Schema,
    io: &mut IoContext,
) -> Result<()> {
    let segment = Segment::open(entry.clone(), file_context, schema, io)?;
    if let Some(deletes) = &entry.deletes {
        let gone = read_deletes(file_context, deletes, entry.rows)?.len();
        if gone + u64::from(entry.live) != u64::from(entry.rows) {
            let (rows, live) = (entry.rows, entry.live);
            return Err(Error::corrupt(format!(
                "{rows} rows, {live} live, {gone} deleted"
            )));
        }
    }
    agree(&segment, io)?;
    rows_decode(&segment, schema, io)
}

pub fn whole_file(storage: &dyn Storage, entry: &FileEntry) -> Result<()> {
    let file = storage.open(&entry.name)?;
    if file.len() != entry.bytes {
        let found = file.len();
        return Err(Error::corrupt(format!(
            "{found} bytes, the manifest says {}",
            entry.bytes
        )));
    }
    let mut crc = FileCrc::new();
    let mut buf = AnonBuf::new(1 << 20);
    let mut at = 0;
    while at < entry.bytes {
        let n = buf.len().min((entry.bytes - at) as usize);
        file.read_at(&mut buf[..n], at)?;
        crc.update(&buf[..n]);
        at += n as u64;
    }
    match crc.value() == entry.crc {
        true => Ok(()),
        false => Err(Error::corrupt(format!(
            "checksum {:08x}, the manifest says {:08x}",
            crc.value(),
            entry.crc
        ))),
    }
}

/// Every id of the table leads to a row that has this id, and every row has a payload that is JSON.
fn agree(segment: &Segment, io: &mut IoContext) -> Result<()> {
    let mut by_row: Vec<Option<PointId>> = vec![None; segment.rows() as usize];
    segment.for_each_id(io, &mut |row, id, _| {
        by_row[row as usize] = Some(id);
        Ok(())
    })?;
    let mut buf = AnonBuf::new(ramlet_io::PAGE);
    let (mut seen, mut wrong) = (0u64, None);
    segment.ids_from(None, io, &mut buf, &mut |id, row| {
        seen += 1;
        if by_row.get(row as usize).copied().flatten() != Some(id) {
            wrong = Some((id, row));
        }
        wrong.is_none()
    })?;
    if let Some((id, row)) = wrong {
        return Err(Error::corrupt(format!(
            "id {id} leads to row {row}, which is another point's"
        )));
    }
    if seen != u64::from(segment.rows()) {
        return Err(Error::corrupt(format!("{seen} ids for {} rows", segment.rows())));
    }
    segment.for_each_payload(io, &mut |row, payload| {
        if payload.is_empty() {
            return Ok(());
        }
        crate::payload::validate(payload, usize::MAX)
            .map_err(|e| Error::corrupt(format!("payload of row {row}: {e}")))
    })
}

/// Every row of a length of its own is a vector.
fn rows_decode(segment: &Segment, schema: &Schema, io: &mut IoContext) -> Result<()> {
    let mut scratch = IndexScratch::new(AnonBuf::new(0));
    for field in schema
        .vectors
        .iter()
        .filter(|field| field.fixed_bytes().is_none())
    {
        let Some(column) = segment.vector(field.slot) else {
            continue;
        };
        let read = column.index.for_each_row(&mut scratch, io, &mut |row, bytes| {
            let decoded = match column.has(row) {
                true => decode_vector(field, bytes).map(drop),
                false => Ok(()),
            };
            decoded.map_err(|e| IndexError::Filter(Box::new(Error::corrupt(format!("row {row}: {e}")))))
        });
        read?;
    }
    Ok(())
}
