//! Temporary files of a build: one for lists, one for records by bucket.

use std::sync::{Arc, Mutex, PoisonError};

use ramlet_io::{BatchRead, BatchReader, PAGE, ReadFile, Storage, WriteFile};
use ramlet_memory::AnonBuf;

use crate::build::temporary::Temporary;
use crate::error::Result;

/// A list of `u32` that is written once and then read front to back, as often as wanted.
pub(crate) struct ListWriter<'a> {
    temporary: Temporary<'a>,
    file: Box<dyn WriteFile>,
    buffer: Vec<u8>,
    buffer_bytes: usize,
}

pub(crate) struct List<'a> {
    file: Arc<dyn ReadFile>,
    bytes: u64,
    buffer_bytes: usize,
    _temporary: Temporary<'a>,
}

impl<'a> ListWriter<'a> {
    pub(crate) fn create(storage: &'a dyn Storage, name: &'static str, buffer_bytes: usize) -> Result<Self> {
        let (temporary, file) = Temporary::create(storage, name)?;
        let buffer_bytes = buffer_bytes.next_multiple_of(4);
        Ok(ListWriter {
            temporary,
            file,
            buffer: Vec::with_capacity(buffer_bytes),
            buffer_bytes,
        })
    }

    pub(crate) fn push(&mut self, value: u32) -> Result<()> {
        self.buffer.extend_from_slice(&value.to_le_bytes());
        if self.buffer.len() >= self.buffer_bytes {
            self.file.append(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<List<'a>> {
        self.file.append(&self.buffer)?;
        self.file.flush()?; // so that what is still buffered can be read
        let bytes = self.file.len();
        drop(self.file);
        let file = self.temporary.open()?;
        Ok(List {
            file,
            bytes,
            buffer_bytes: self.buffer_bytes,
            _temporary: self.temporary,
        })
    }
}

impl List<'_> {
    pub(crate) fn values(&self) -> ListReader<'_> {
        ListReader {
            list: self,
            offset: 0,
            buffer: Vec::new(),
            at: 0,
        }
    }

    /// Calls `each` with every value, in order.
    pub(crate) fn for_each(&self, mut each: impl FnMut(u32)) -> Result<()> {
        let mut values = self.values();
        while let Some(value) = values.next()? {
            each(value);
        }
        Ok(())
    }
}

pub(crate) struct ListReader<'l> {
    list: &'l List<'l>,
    offset: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl ListReader<'_> {
    pub(crate) fn next(&mut self) -> Result<Option<u32>> {
        if self.at == self.buffer.len() {
            let left = self.list.bytes - self.offset;
            self.buffer
                .resize(left.min(self.list.buffer_bytes as u64) as usize, 0);
            self.list.file.read_at(&mut self.buffer, self.offset)?;
            self.offset += self.buffer.len() as u64;
            self.at = 0;
        }
        let value = self.buffer[self.at..]
            .first_chunk()
            .map(|bytes| u32::from_le_bytes(*bytes));
        self.at += 4;
        Ok(value)
    }
}

/// Records in buckets: each bucket fills a small buffer, which goes to the end of the one file when full.
pub(crate) struct BucketWriter<'a> {
    temporary: Temporary<'a>,
    file: Box<dyn WriteFile>,
    buckets: Vec<Bucket>,
    /// Bytes of a full buffer: whole records.
    piece_bytes: usize,
    pieces_at_once: usize,
}

#[derive(Default)]
struct Bucket {
    buffer: Vec<u8>,
    pieces: Pieces,
}

/// Where a bucket's pieces lie in the file, counted in pieces: 4 bytes each in RAM.
#[derive(Default)]
struct Pieces {
    places: Vec<u32>,
    /// Bytes of the last; the others are full.
    last_bytes: usize,
}

pub(crate) struct Buckets<'a> {
    file: Arc<dyn ReadFile>,
    buckets: Vec<Pieces>,
    piece_bytes: usize,
    pieces_at_once: usize,
    reader: Mutex<Box<dyn BatchReader>>,
    _temporary: Temporary<'a>,
}

/// Pieces read at once at most: one after another, pieces of 16 KiB took a fifth of an import's time.
const PIECES_AT_ONCE_MAX: usize = 32;

/// What reading takes of the memory that the buffers had, which are gone by then.
const READ_SHARE: usize = 16;

impl<'a> BucketWriter<'a> {
    /// Holds `buffer_bytes` a bucket, or one record.
    pub(crate) fn create(
        storage: &'a dyn Storage,
        name: &'static str,
        buckets: usize,
        buffer_bytes: usize,
        record_bytes: usize,
    ) -> Result<Self> {
        let (temporary, file) = Temporary::create(storage, name)?;
        let piece_bytes = (buffer_bytes / record_bytes).max(1) * record_bytes;
        let read_bytes = buffer_bytes * buckets / READ_SHARE;
        Ok(BucketWriter {
            temporary,
            file,
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            piece_bytes,
            pieces_at_once: (read_bytes / (piece_bytes + PAGE)).clamp(1, PIECES_AT_ONCE_MAX),
        })
    }

    /// Adds a record, given in parts.
    pub(crate) fn push(&mut self, bucket: usize, parts: &[&[u8]]) -> Result<()> {
        let bucket = &mut self.buckets[bucket];
        if bucket.buffer.len() == self.piece_bytes {
            bucket.flush(&mut *self.file, self.piece_bytes)?;
        }
        if bucket.buffer.is_empty() {
            bucket.buffer.reserve_exact(self.piece_bytes);
        }
        parts
            .iter()
            .for_each(|part| bucket.buffer.extend_from_slice(part));
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Buckets<'a>> {
        for bucket in &mut self.buckets {
            bucket.flush(&mut *self.file, self.piece_bytes)?;
            bucket.buffer = Vec::new();
        }
        self.file.flush()?; // so that what is still buffered can be read
        drop(self.file);
        let file = self.temporary.open()?;
        let buckets = self.buckets.into_iter().map(|bucket| bucket.pieces).collect();
        Ok(Buckets {
            file,
            buckets,
            piece_bytes: self.piece_bytes,
            pieces_at_once: self.pieces_at_once,
            reader: Mutex::new(self.temporary.reader(self.pieces_at_once)?),
            _temporary: self.temporary,
        })
    }
}

impl Bucket {
    /// Writes the buffer, filled up with zeros to a whole piece.
    fn flush(&mut self, file: &mut dyn WriteFile, piece_bytes: usize) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.pieces.last_bytes = self.buffer.len();
        self.pieces.places.push((file.len() / piece_bytes as u64) as u32);
        self.buffer.resize(piece_bytes, 0);
        file.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

impl Buckets<'_> {
    /// The bucket's records piece by piece, whole records each, in the order in which they were pushed.
    pub(crate) fn for_each_piece(
        &self,
        bucket: usize,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let Pieces { places, last_bytes } = &self.buckets[bucket];
        let Some(last) = places.len().checked_sub(1) else {
            return Ok(());
        };
        // Gone when the bucket is: others use the memory in between.
        let mut buffer = AnonBuf::new(0);
        for first in (0..=last).step_by(self.pieces_at_once) {
            let places = &places[first..(first + self.pieces_at_once).min(last + 1)];
            self.read(places, &mut buffer)?;
            let mut rest = &buffer[..];
            for (i, place) in places.iter().enumerate() {
                let (before, pages) = self.pages_of(*place);
                let (piece, later) = rest.split_at(pages);
                let bytes = if first + i == last {
                    *last_bytes
                } else {
                    self.piece_bytes
                };
                each(&piece[before..before + bytes])?;
                rest = later;
            }
        }
        Ok(())
    }

    /// How far into its first page a piece begins, and the bytes of all its pages.
    fn pages_of(&self, place: u32) -> (usize, usize) {
        let before = (u64::from(place) * self.piece_bytes as u64 % PAGE as u64) as usize;
        (before, (before + self.piece_bytes).next_multiple_of(PAGE))
    }

    /// The pages of pieces, one after another, in one batch.
    fn read(&self, places: &[u32], buffer: &mut AnonBuf) -> Result<()> {
        let bytes = places.iter().map(|place| self.pages_of(*place).1).sum();
        buffer.ensure(bytes)?;
        let (mut reads, mut rest) = (Vec::with_capacity(places.len()), &mut buffer[..bytes]);
        for place in places {
            let (before, pages) = self.pages_of(*place);
            let (out, later) = rest.split_at_mut(pages);
            let offset = u64::from(*place) * self.piece_bytes as u64 - before as u64;
            let file = &*self.file;
            reads.push(BatchRead { file, offset, out });
            rest = later;
        }
        match &mut reads[..] {
            // A ring isn't worth making for one.
            [read] => Ok(read.file.read_at(read.out, read.offset)?),
            reads => {
                let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(reader.read_batch(reads)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ramlet_io::{Backend, RamStorage, open_best};

    use super::*;

    /// Records of a length that no page is a multiple of, into a few buckets in turn: each bucket has its own, in their order.
    fn buckets_return_their_records(storage: &dyn Storage) {
        const RECORD: usize = 308;
        const BUCKETS: usize = 3;
        let mut writer =
            BucketWriter::create(storage, "tmp-buckets", BUCKETS, 64 << 10, RECORD).expect("a file");
        let record = |number: usize| [number.to_le_bytes().as_slice(), &[number as u8; RECORD - 8]].concat();
        for number in 0..5_000 {
            writer
                .push(number % BUCKETS, &[&record(number)])
                .expect("written");
        }
        let buckets = writer.finish().expect("a file");
        for bucket in 0..BUCKETS {
            let mut found = Vec::new();
            let kept = buckets.for_each_piece(bucket, |piece| {
                found.extend_from_slice(piece);
                Ok(())
            });
            kept.expect("read");
            let wanted: Vec<u8> = (bucket..5_000).step_by(BUCKETS).flat_map(record).collect();
            assert!(found == wanted, "bucket {bucket} of {}", storage.backend());
        }
    }

    #[test]
    fn buckets_return_their_records_whatever_reads_them() {
        buckets_return_their_records(&RamStorage::new(None));
        let folder = std::env::temp_dir().join(format!("ramlet-buckets-{}", std::process::id()));
        for backend in [Backend::Pread, Backend::Mmap, Backend::Auto] {
            let (storage, _) = open_best(&folder, backend).expect("a storage");
            buckets_return_their_records(&*storage);
        }
        std::fs::remove_dir_all(&folder).expect("a folder that was there");
    }
}
