//! An external bucket sort by a temporary file, in bounded memory.

use ramlet_io::{BatchRead, IoContext, PAGE, ReadFile, Storage, WriteFile};
use ramlet_memory::AnonBuf;

use crate::build::temporary::Temporary;
use crate::error::Result;

/// Parts that are written side by side; more of them are made in two steps.
const FAN: usize = 32;

/// Pieces of a part are as large as there is room for, and no larger.
const PIECE_MAX: usize = 256 << 10;

/// Parts being written: each fills a buffer, which goes to the end of the one file when full.
pub(super) struct Spread<'a> {
    temporary: Temporary<'a>,
    file: Box<dyn WriteFile>,
    parts: Vec<Part>,
    piece_bytes: usize,
    owners: Owners,
}

/// One part: its length, what isn't written yet, and in which page of the file its last piece begins, the only one that is shorter.
#[derive(Default)]
struct Part {
    bytes: u64,
    buffer: Vec<u8>,
    last: u32,
}

/// Whose the whole pieces are, in the order in which they were written. Of a file of gigabytes that takes too much memory where
/// pieces are pages, so that after so many pieces a page that tells their owners goes to the file as well.
#[derive(Default)]
struct Owners {
    latest: Vec<u16>,
    /// Pages of the file that tell of the pieces before them.
    emitted: Vec<u32>,
}

/// Pieces that a page tells the owners of.
const OWNERS: usize = PAGE / size_of::<u16>();

/// Parts that are whole.
pub(super) struct Parts<'a> {
    file: std::sync::Arc<dyn ReadFile>,
    parts: Vec<Part>,
    piece_bytes: usize,
    owners: Owners,
    _temporary: Temporary<'a>,
}

impl<'a> Spread<'a> {
    /// Panics above 65,536 parts, whose owners two bytes couldn't tell apart; callers have some thousands.
    pub(super) fn create(
        storage: &'a dyn Storage,
        name: &'static str,
        parts: usize,
        buffer_bytes: usize,
    ) -> Result<Spread<'a>> {
        assert!(parts <= 1 << u16::BITS, "{parts} parts written side by side");
        let (temporary, file) = Temporary::create(storage, name)?;
        let piece = buffer_bytes / parts.max(1) / PAGE * PAGE;
        Ok(Spread {
            temporary,
            file,
            parts: std::iter::repeat_with(Part::default).take(parts).collect(),
            piece_bytes: piece.clamp(PAGE, PIECE_MAX),
            owners: Owners::default(),
        })
    }

    /// Adds bytes to the end of a part.
    pub(super) fn push(&mut self, part: usize, mut bytes: &[u8]) -> Result<()> {
        let owner = part as u16;
        let part = &mut self.parts[part];
        part.bytes += bytes.len() as u64;
        if part.buffer.capacity() == 0 {
            part.buffer.reserve_exact(self.piece_bytes);
        }
        loop {
            let room = self.piece_bytes - part.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            part.buffer.extend_from_slice(now);
            bytes = later;
            if part.buffer.len() < self.piece_bytes {
                return Ok(());
            }
            self.file.append(&part.buffer)?;
            part.buffer.clear();
            self.owners.push(owner, &mut *self.file)?;
        }
    }

    pub(super) fn finish(mut self) -> Result<Parts<'a>> {
        for part in &mut self.parts {
            let mut buffer = std::mem::take(&mut part.buffer);
            if !buffer.is_empty() {
                buffer.resize(buffer.len().next_multiple_of(PAGE), 0);
                part.last = page_of(&*self.file);
                self.file.append(&buffer)?;
            }
        }
        self.file.flush()?;
        drop(self.file);
        Ok(Parts {
            file: self.temporary.open()?,
            parts: self.parts,
            piece_bytes: self.piece_bytes,
            owners: self.owners,
            _temporary: self.temporary,
        })
    }
}

/// The page of a file that is written next.
fn page_of(file: &dyn WriteFile) -> u32 {
    (file.len() / PAGE as u64) as u32
}

impl Owners {
    /// The owner of the piece that was just written.
    fn push(&mut self, owner: u16, file: &mut dyn WriteFile) -> Result<()> {
        self.latest.push(owner);
        if self.latest.len() == OWNERS {
            self.emitted.push(page_of(file));
            let page: Vec<u8> = self.latest.drain(..).flat_map(u16::to_le_bytes).collect();
            file.append(&page)?;
        }
        Ok(())
    }

    /// The page in which the first piece begins that the page `emitted[at]` tells of, or the latest owners where there is none.
    fn first_page(&self, at: usize) -> u32 {
        at.checked_sub(1).map_or(0, |before| self.emitted[before] + 1)
    }
}

impl Parts<'_> {
    /// Shows the bytes of a part in order, as many pieces at once as `buf` holds.
    pub(super) fn stream(
        &self,
        part: usize,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let (owner, bytes, last) = (part as u16, self.parts[part].bytes, self.parts[part].last);
        buf.ensure(PAGE + self.piece_bytes)?;
        let (page, data) = buf.split_at_mut(PAGE);
        let at_once = data.len() / self.piece_bytes;
        let mut places: Vec<u32> = Vec::with_capacity(at_once.min(OWNERS));
        let mut show = |places: &mut Vec<u32>, bytes: usize, io: &mut IoContext| {
            self.read(places, &mut data[..bytes.next_multiple_of(PAGE)], io)?;
            places.clear();
            each(&data[..bytes])
        };
        let piece_pages = (self.piece_bytes / PAGE) as u32;
        // Those of whole pieces are found among all of them.
        let whole = bytes / self.piece_bytes as u64;
        let mut found = 0;
        for at in 0..=self.owners.emitted.len() {
            if found == whole {
                break;
            }
            let mut find = |i: usize, io: &mut IoContext| {
                places.push(self.owners.first_page(at) + i as u32 * piece_pages);
                found += 1;
                match places.len() == at_once {
                    true => show(&mut places, at_once * self.piece_bytes, io),
                    false => Ok(()),
                }
            };
            if let Some(emitted) = self.owners.emitted.get(at) {
                self.read(&[*emitted], page, io)?;
                let owners = page.as_chunks().0.iter().map(|owner| u16::from_le_bytes(*owner));
                let mut own = owners.enumerate().filter(|(_, other)| *other == owner);
                own.try_for_each(|(i, _)| find(i, io))?;
            } else {
                let mut own = self.owners.latest.iter().enumerate();
                own.try_for_each(|(i, other)| if *other == owner { find(i, io) } else { Ok(()) })?;
            }
        }
        let mut rest = places.len() * self.piece_bytes;
        let shorter = (bytes % self.piece_bytes as u64) as usize;
        if shorter > 0 {
            places.push(last);
            rest += shorter;
        }
        match places.is_empty() {
            true => Ok(()),
            false => show(&mut places, rest, io),
        }
    }

    /// Reads pieces one behind the other.
    fn read(&self, places: &[u32], out: &mut [u8], io: &mut IoContext) -> Result<()> {
        let outs = out.chunks_mut(self.piece_bytes);
        let mut reads: Vec<BatchRead<'_>> = places
            .iter()
            .zip(outs)
            .map(|(place, out)| BatchRead {
                file: &*self.file,
                offset: u64::from(*place) * PAGE as u64,
                out,
            })
            .collect();
        Ok(io.read_batch(&mut reads)?)
    }

    /// Shows a part whole, or in pieces alike of at most `most` records if it has more.
    fn pieces(
        &self,
        part: usize,
        (record_bytes, most): (usize, usize),
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let records = self.parts[part].bytes as usize / record_bytes;
        let pieces = records.div_ceil(most).max(1);
        let bytes = records.div_ceil(pieces) * record_bytes;
        let mut out: Vec<u8> = Vec::with_capacity(bytes);
        self.stream(part, io, buf, &mut |mut rest| {
            while !rest.is_empty() {
                let (now, later) = rest.split_at((bytes - out.len()).min(rest.len()));
                out.extend_from_slice(now);
                rest = later;
                if out.len() == bytes {
                    each(&mut out)?;
                    out.clear();
                }
            }
            Ok(())
        })?;
        match out.is_empty() {
            true => Ok(()),
            false => each(&mut out),
        }
    }
}

/// Records of one size in many parts: in two steps where they are more than can be written side by side.
pub(super) struct Sorter<'a> {
    storage: &'a dyn Storage,
    spread: Spread<'a>,
    parts: usize,
    /// Parts that share one of the first step.
    group: usize,
    record_bytes: usize,
    buffer_bytes: usize,
    again: &'static str,
}

impl<'a> Sorter<'a> {
    /// `names` are those of the files of both steps.
    pub(super) fn create(
        storage: &'a dyn Storage,
        names: [&'static str; 2],
        parts: usize,
        record_bytes: usize,
        buffer_bytes: usize,
    ) -> Result<Sorter<'a>> {
        let group = match parts {
            0..=FAN => 1,
            _ => parts.isqrt().max(parts.div_ceil(FAN * 2)),
        };
        Ok(Sorter {
            storage,
            spread: Spread::create(storage, names[0], parts.div_ceil(group), buffer_bytes)?,
            parts,
            group,
            record_bytes,
            buffer_bytes,
            again: names[1],
        })
    }

    /// Adds a record to a part.
    pub(super) fn push(&mut self, part: usize, record: &[u8]) -> Result<()> {
        self.spread.push(part / self.group, record)
    }

    /// Shows part after part, those with more than `most` records in pieces; `part_of` tells a record's part again. The
    /// file is gone afterwards.
    pub(super) fn for_each(
        self,
        most: usize,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        part_of: &dyn Fn(&[u8]) -> usize,
        each: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let size = (self.record_bytes, most);
        let first = self.spread.finish()?;
        for step in 0..self.parts.div_ceil(self.group) {
            if self.group == 1 {
                first.pieces(step, size, io, buf, &mut |bytes| each(step, bytes))?;
                continue;
            }
            let own = step * self.group..self.parts.min((step + 1) * self.group);
            let mut second = Spread::create(self.storage, self.again, own.len(), self.buffer_bytes)?;
            let mut cut: Vec<u8> = Vec::new();
            first.stream(step, io, buf, &mut |mut bytes| {
                if !cut.is_empty() {
                    let (rest, later) = bytes.split_at((self.record_bytes - cut.len()).min(bytes.len()));
                    cut.extend_from_slice(rest);
                    bytes = later;
                    if cut.len() == self.record_bytes {
                        second.push(part_of(&cut) - own.start, &cut)?;
                        cut.clear();
                    }
                }
                let records = bytes.chunks_exact(self.record_bytes);
                cut.extend_from_slice(records.remainder());
                records
                    .into_iter()
                    .try_for_each(|record| second.push(part_of(record) - own.start, record))
            })?;
            let second = second.finish()?;
            for part in own.clone() {
                second.pieces(part - own.start, size, io, buf, &mut |bytes| each(part, bytes))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ramlet_io::RamStorage;

    use super::*;
    use crate::build::random::Random;

    /// Records of 10 bytes, the first of which says the part.
    fn check(parts: usize, count: usize, most: usize, buffer_bytes: usize) {
        let storage = RamStorage::new(None);
        let mut sorter = Sorter::create(&storage, ["one", "two"], parts, 10, buffer_bytes).expect("a file");
        let mut random = Random::new(7);
        let mut expected: Vec<Vec<u8>> = vec![Vec::new(); parts];
        for i in 0..count as u64 {
            // Most are in a few parts.
            let among = 1 + random.below(parts as u64);
            let part = random.below(among);
            let mut record = [0; 10];
            record[..2].copy_from_slice(&(part as u16).to_le_bytes());
            record[2..].copy_from_slice(&i.to_le_bytes());
            expected[part as usize].extend_from_slice(&record);
            sorter.push(part as usize, &record).expect("room");
        }
        let mut io = IoContext::for_storage(&storage, 4).expect("a reader");
        let mut got: Vec<Vec<u8>> = vec![Vec::new(); parts];
        let part_of = |record: &[u8]| usize::from(u16::from_le_bytes([record[0], record[1]]));
        sorter
            .for_each(
                most,
                &mut io,
                &mut AnonBuf::new(PAGE),
                &part_of,
                &mut |part, bytes| {
                    assert!(bytes.len() <= most.saturating_mul(10) && bytes.len().is_multiple_of(10));
                    got[part].extend_from_slice(bytes);
                    Ok(())
                },
            )
            .expect("parts");
        assert!(got == expected, "{parts} parts of {count} records");
        assert!(storage.list().expect("names").is_empty());
    }

    #[test]
    fn parts_have_what_was_put_in_and_in_that_order() {
        for (parts, count) in [(1, 0), (1, 3000), (5, 20_000), (33, 20_000), (1000, 30_000)] {
            for buffer_bytes in [1, 100_000] {
                check(parts, count, usize::MAX, buffer_bytes);
                check(parts, count, 100, buffer_bytes);
            }
        }
        // More pages than one tells the owners of.
        check(5, 1_000_000, usize::MAX, 1);
    }
}
