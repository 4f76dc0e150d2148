//! One record of the log.

use crate::bytes::{u32_at, u64_at};
use crate::error::{Result, ensure};

/// Bytes of a record before its payload.
pub const HEADER_BYTES: usize = 33;

/// Largest record: what is longer is no record but garbage.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

/// Bytes that the length doesn't count: itself and the checksum.
const UNCOUNTED: usize = 8;

/// A decoded record, a view into the log's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub lsn: u64,
    /// All up to this lsn was synced when this record was written.
    pub durable_lsn: u64,
    pub kind: u8,
    pub payload: &'a [u8],
    /// Bytes of the whole record: the next one begins there.
    pub size: usize,
}

/// What lies at some place of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<'a> {
    Record(Record<'a>),
    /// It could be a record of so many bytes in all, counted from where decoding began: give as many. At the end of the
    /// file it is as good as `Invalid`.
    NeedMore(usize),
    /// No record of this log: its end, a torn write, or corruption; [`judge_tail`](super::judge_tail) tells which.
    Invalid,
}

/// Appends a record to `out`.
///
/// `Err`, and `out` is as before, if it would exceed 1 GiB.
pub fn encode(
    out: &mut Vec<u8>,
    salt: u64,
    lsn: u64,
    durable_lsn: u64,
    kind: u8,
    payload: &[u8],
) -> Result<()> {
    let start = begin(out);
    out.extend_from_slice(payload);
    end(out, start, salt, lsn, durable_lsn, kind)
}

/// Begins a record in place: the caller appends the payload to `out`, then calls [`end`] with what this returns.
pub fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    start
}

/// Ends the record that [`begin`] began at `start`.
///
/// `Err`, and `out` is as before `begin`, if it would exceed 1 GiB.
///
/// # Panics
/// If `out` is shorter than `begin` left it.
pub fn end(out: &mut Vec<u8>, start: usize, salt: u64, lsn: u64, durable_lsn: u64, kind: u8) -> Result<()> {
    let size = out.len() - start;
    if size > RECORD_BYTES_MAX {
        out.truncate(start);
    }
    ensure(size <= RECORD_BYTES_MAX, "log record", || {
        format!("{size} bytes, at most {RECORD_BYTES_MAX} fit")
    })?;
    let record = &mut out[start..];
    record[..4].copy_from_slice(&((size - UNCOUNTED) as u32).to_le_bytes());
    record[8..16].copy_from_slice(&salt.to_le_bytes());
    record[16..24].copy_from_slice(&lsn.to_le_bytes());
    record[24..32].copy_from_slice(&durable_lsn.to_le_bytes());
    record[32] = kind;
    let crc = crc32c::crc32c(&record[UNCOUNTED..]);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// What begins at `bytes[0]`. Whether the lsn follows the one before is for the caller to see.
pub fn decode(bytes: &[u8], salt: u64) -> Decoded<'_> {
    let Some(length) = u32_at(bytes, 0) else {
        return Decoded::NeedMore(HEADER_BYTES);
    };
    let size = length as usize + UNCOUNTED;
    if !(HEADER_BYTES..=RECORD_BYTES_MAX).contains(&size) {
        return Decoded::Invalid;
    }
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Decoded::NeedMore(HEADER_BYTES);
    };
    // Before asking for more: garbage must not make the caller read a gigabyte.
    if u64_at(header, 8) != Some(salt) {
        return Decoded::Invalid;
    }
    let Some(whole) = bytes.get(..size) else {
        return Decoded::NeedMore(size);
    };
    if u32_at(header, 4) != Some(crc32c::crc32c(&whole[UNCOUNTED..])) {
        return Decoded::Invalid;
    }
    Decoded::Record(Record {
        lsn: u64_at(header, 16).unwrap_or(0),
        durable_lsn: u64_at(header, 24).unwrap_or(0),
        kind: header[32],
        payload: &whole[HEADER_BYTES..],
        size,
    })
}

/// Where a record of this log may begin, at `from` or behind: where its salt would stand. Of the last 15 bytes nothing is told:
/// windows of a file overlap by as many.
pub fn find_possible(bytes: &[u8], salt: u64, from: usize) -> Option<usize> {
    let needle = salt.to_le_bytes();
    let mut from = from + UNCOUNTED;
    while let Some(rest) = bytes.get(from..) {
        // One byte first, which is fast, then all eight.
        let at = from + rest.iter().position(|&byte| byte == needle[0])?;
        if bytes[at..].starts_with(&needle) {
            return Some(at - UNCOUNTED);
        }
        from = at + 1;
    }
    None
}
