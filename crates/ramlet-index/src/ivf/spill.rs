//! Temporary files of a build: one for lists, one for records by bucket.

use std::sync::Arc;

use ramlet_io::{ReadFile, Storage, WriteFile};

use crate::error::Result;
use crate::temporary::Temporary;

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
    _temporary: Temporary<'a>,
}

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
        let buckets = (0..buckets).map(|_| Bucket::default()).collect();
        Ok(BucketWriter {
            temporary,
            file,
            buckets,
            piece_bytes: (buffer_bytes / record_bytes).max(1) * record_bytes,
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
        let mut buffer = vec![0; if places.is_empty() { 0 } else { self.piece_bytes }];
        for (i, place) in places.iter().enumerate() {
            let bytes = if i + 1 == places.len() {
                *last_bytes
            } else {
                self.piece_bytes
            };
            let buffer = &mut buffer[..bytes];
            self.file
                .read_at(buffer, u64::from(*place) * self.piece_bytes as u64)?;
            each(buffer)?;
        }
        Ok(())
    }
}
