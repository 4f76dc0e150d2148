//! NumPy `.npz`: a ZIP archive of `.npy` arrays, stored (`savez`) or deflated (`savez_compressed`).
//! Source: APPNOTE.TXT of ZIP, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14 to 4.3.16 (its end), 4.5.3 (ZIP64).

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::read::DeflateDecoder;

use super::npy::{self, Head};
use super::rows::{RowLayout, Rows};

const END_BYTES: u64 = 22;
const END_SIGNATURE: &[u8; 4] = b"PK\x05\x06";
const COMMENT_BYTES_MAX: u64 = 65_535;
const LOCATOR_BYTES: u64 = 20;
const LOCATOR_SIGNATURE: &[u8; 4] = b"PK\x06\x07";
const END64_SIGNATURE: &[u8; 4] = b"PK\x06\x06";
const ENTRY_BYTES: usize = 46;
const ENTRY_SIGNATURE: &[u8; 4] = b"PK\x01\x02";
const LOCAL_BYTES: usize = 30;
const LOCAL_SIGNATURE: &[u8; 4] = b"PK\x03\x04";
/// Of the extra field that holds what doesn't fit in 32 bits.
const ZIP64_TAG: usize = 1;
/// A directory of arrays is short; a longer one is another kind of archive.
const DIRECTORY_BYTES_MAX: u64 = 16 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// Names of arrays of ids.
const IDS: [&str; 2] = ["id", "ids"];

const STORED: usize = 0;
const DEFLATED: usize = 8;

/// An array in the archive.
#[derive(Debug, Clone)]
struct Member {
    /// Without `.npy`.
    name: String,
    method: usize,
    packed_bytes: u64,
    bytes: u64,
    /// Of its local header.
    offset: u64,
}

/// Opens the array `key`, or the only one that has rows.
pub fn open(path: &Path, key: &str) -> Result<Box<dyn Rows>> {
    let mut file = File::open(path)?;
    let members = members(&mut file)?;
    let names = members
        .iter()
        .map(|m| m.name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    if !key.is_empty() {
        let named = members.iter().find(|m| m.name == key);
        let member = named
            .with_context(|| format!("it has no array '{key}', it has: {names} (choose one with --key)"))?;
        return open_member(path, member).with_context(|| format!("array '{key}'"));
    }
    let mut arrays: Vec<_> = members.iter().map(|m| (m, open_member(path, m))).collect();
    if let [(member, _)] = arrays.as_slice() {
        let place = format!("array '{}'", member.name);
        return arrays.remove(0).1.context(place);
    }
    let mut opened = arrays
        .into_iter()
        .filter_map(|(member, rows)| rows.ok().map(|rows| (member, rows)));
    match (opened.next(), opened.next()) {
        // Numbers in place of the ids that are there would be noticed late.
        (Some((member, _)), None) if members.iter().any(|m| IDS.contains(&m.name.as_str())) => bail!(
            "it has the arrays {names}, and ids aren't read from arrays: --key {} numbers the rows",
            member.name
        ),
        (Some((_, rows)), None) => Ok(rows),
        _ => bail!("it has the arrays {names}: --key chooses one of those that are rows of numbers"),
    }
}

fn open_member(path: &Path, member: &Member) -> Result<Box<dyn Rows>> {
    let mut file = File::open(path)?;
    let start = data_start(&mut file, member)?;
    file.seek(SeekFrom::Start(start))?;
    match member.method {
        STORED => {
            let mut head = npy::read_head(&mut file)?;
            head.layout.check(member.bytes)?;
            head.layout.start += start;
            npy::open_at(file, head)
        }
        DEFLATED => Ok(Box::new(DeflatedRows::new(path, start, member)?)),
        other => bail!("it is packed by method {other} of ZIP; 0 (stored) and 8 (deflated) are read"),
    }
}

/// Little endian, of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Behind the local header, whose extra field may differ from the directory's.
fn data_start(file: &mut File, member: &Member) -> Result<u64> {
    let mut head = [0; LOCAL_BYTES];
    file.seek(SeekFrom::Start(member.offset))?;
    file.read_exact(&mut head)
        .context("the archive ends inside an array's head")?;
    if !head.starts_with(LOCAL_SIGNATURE) {
        bail!("its place in the archive is no array's head");
    }
    let start = member.offset + LOCAL_BYTES as u64 + number(&head[26..28]) + number(&head[28..30]);
    let end = start.checked_add(member.packed_bytes);
    let length = file.metadata()?.len();
    match end {
        Some(end) if end <= length => Ok(start),
        _ => bail!(
            "it needs {} bytes behind {start}, but the archive has {length}: it is cut short",
            member.packed_bytes
        ),
    }
}

/// All arrays that the directory at the archive's end lists.
fn members(file: &mut File) -> Result<Vec<Member>> {
    let (offset, bytes) = directory(file)?;
    if bytes > DIRECTORY_BYTES_MAX {
        bail!("its directory has {bytes} bytes, and at most {DIRECTORY_BYTES_MAX} are read");
    }
    // Before memory is taken for what the end says.
    let length = file.metadata()?.len();
    if offset.checked_add(bytes).is_none_or(|end| end > length) {
        bail!("its directory is cut short");
    }
    let mut directory = vec![0; bytes as usize];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut directory)
        .context("its directory is cut short")?;
    let (mut rest, mut members) = (directory.as_slice(), Vec::new());
    while rest.len() >= ENTRY_BYTES {
        let (member, entry_bytes) = entry(rest)?;
        rest = &rest[entry_bytes..];
        if let Some(name) = member.name.strip_suffix(".npy") {
            members.push(Member {
                name: name.to_string(),
                ..member
            });
        }
    }
    if members.is_empty() {
        bail!("there is no array (.npy) in it");
    }
    Ok(members)
}

/// An entry of the directory, and its length.
fn entry(bytes: &[u8]) -> Result<(Member, usize)> {
    if !bytes.starts_with(ENTRY_SIGNATURE) {
        bail!("its directory makes no sense");
    }
    let word = |at: usize, width: usize| number(&bytes[at..at + width]);
    let (name_end, extra_end) = {
        let name = ENTRY_BYTES + word(28, 2) as usize;
        (name, name + word(30, 2) as usize)
    };
    let end = extra_end + word(32, 2) as usize;
    let (Some(name), Some(extra)) = (bytes.get(ENTRY_BYTES..name_end), bytes.get(name_end..extra_end)) else {
        bail!("its directory is cut short");
    };
    if end > bytes.len() {
        bail!("its directory is cut short");
    }
    let mut wide = zip64(extra);
    // Only what is all ones in 32 bits stands in the extra field, in this order.
    let mut of = |at: usize| match word(at, 4) {
        0xffff_ffff => wide.next().context("its directory lacks a length of 64 bits"),
        short => Ok(short),
    };
    let (bytes_unpacked, packed_bytes, offset) = (of(24)?, of(20)?, of(42)?);
    let member = Member {
        name: String::from_utf8_lossy(name).into_owned(),
        method: word(10, 2) as usize,
        packed_bytes,
        bytes: bytes_unpacked,
        offset,
    };
    Ok((member, end))
}

/// The numbers of 64 bits in an extra field.
fn zip64(mut extra: &[u8]) -> impl Iterator<Item = u64> {
    let mut found: &[u8] = &[];
    while extra.len() >= 4 {
        let (tag, length) = (number(&extra[..2]) as usize, number(&extra[2..4]) as usize);
        let Some(value) = extra.get(4..4 + length) else {
            break;
        };
        if tag == ZIP64_TAG {
            found = value;
        }
        extra = &extra[4 + length..];
    }
    found
        .as_chunks::<8>()
        .0
        .iter()
        .map(|chunk| u64::from_le_bytes(*chunk))
}

/// Offset and length of the directory, which the archive's end tells.
fn directory(file: &mut File) -> Result<(u64, u64)> {
    let length = file.metadata()?.len();
    let tail_start = length.saturating_sub(END_BYTES + COMMENT_BYTES_MAX);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(tail_start))?;
    file.take(END_BYTES + COMMENT_BYTES_MAX).read_to_end(&mut tail)?;
    let is_end = |at: &usize| tail[*at..].starts_with(END_SIGNATURE) && tail.len() - at >= END_BYTES as usize;
    let Some(at) = (0..tail.len()).rev().find(is_end) else {
        bail!("it does not end as an .npz file does: it is cut short, or another format");
    };
    let end = &tail[at..];
    let (bytes, offset) = (number(&end[12..16]), number(&end[16..20]));
    if offset != 0xffff_ffff && bytes != 0xffff_ffff {
        return Ok((offset, bytes));
    }
    directory64(file, tail_start + at as u64)
}

fn directory64(file: &mut File, end_offset: u64) -> Result<(u64, u64)> {
    let at = end_offset
        .checked_sub(LOCATOR_BYTES)
        .context("its ZIP64 locator is missing")?;
    let mut locator = [0; LOCATOR_BYTES as usize];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut locator)?;
    let mut end = [0; 56];
    file.seek(SeekFrom::Start(number(&locator[8..16])))?;
    let read = file.read_exact(&mut end);
    if !locator.starts_with(LOCATOR_SIGNATURE) || read.is_err() || !end.starts_with(END64_SIGNATURE) {
        bail!("its ZIP64 directory makes no sense");
    }
    Ok((number(&end[48..56]), number(&end[40..48])))
}

type Unpacked = BufReader<DeflateDecoder<std::io::Take<File>>>;

/// Rows of a deflated array: read in order, and from the beginning again to go back. Memory: 256 KiB, 32 KiB to unpack, a row.
struct DeflatedRows {
    path: PathBuf,
    start: u64,
    packed_bytes: u64,
    layout: RowLayout,
    reader: Unpacked,
    row: u64,
    bytes: Vec<u8>,
}

impl DeflatedRows {
    fn new(path: &Path, start: u64, member: &Member) -> Result<DeflatedRows> {
        let mut reader = unpacked(path, start, member.packed_bytes)?;
        let Head { layout, by_columns } = npy::read_head(&mut reader)?;
        if by_columns {
            bail!(
                "it is compressed and stored column by column; save numpy.ascontiguousarray(array), or by numpy.savez"
            );
        }
        layout.check(member.bytes)?;
        Ok(DeflatedRows {
            path: path.to_owned(),
            start,
            packed_bytes: member.packed_bytes,
            layout,
            reader,
            row: 0,
            bytes: vec![0; layout.stride() as usize],
        })
    }
}

fn unpacked(path: &Path, start: u64, packed_bytes: u64) -> Result<Unpacked> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let packed = DeflateDecoder::new(file.take(packed_bytes));
    Ok(BufReader::with_capacity(BUFFER_BYTES, packed))
}

impl Rows for DeflatedRows {
    fn rows(&self) -> u64 {
        self.layout.rows
    }
    fn dim(&self) -> usize {
        self.layout.dim
    }
    fn is_u8(&self) -> bool {
        self.layout.element.is_u8()
    }

    fn seek(&mut self, row: u64) -> Result<()> {
        let row = row.min(self.layout.rows);
        if row < self.row {
            self.reader = unpacked(&self.path, self.start, self.packed_bytes)?;
            npy::read_head(&mut self.reader)?;
            self.row = 0;
        }
        let over = (row - self.row) * self.layout.stride();
        let skipped = std::io::copy(&mut (&mut self.reader).take(over), &mut std::io::sink())?;
        if skipped < over {
            bail!("it ends before row {row}");
        }
        self.row = row;
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<f32>) -> Result<bool> {
        if self.row >= self.layout.rows {
            return Ok(false);
        }
        self.reader
            .read_exact(&mut self.bytes)
            .with_context(|| format!("unpacking row {}", self.row))?;
        out.clear();
        self.layout.element.decode(self.layout.order, &self.bytes, out);
        self.row += 1;
        Ok(true)
    }
}
