//! Writes a sorted table front to back.

use super::{KEY_BYTES_MAX, RESTART_INTERVAL};
use crate::block::{PAGE, PAGE_CONTENT};
use crate::bytes::{put_varint, varint_len};
use crate::error::{FormatError, Result, ensure};
use crate::footer::{BlockFile, FileKind};

const WHAT: &str = "sorted writer";

/// Writes a sorted table. Holds one page, two keys, and the fences of the blocks already written (a few bytes each).
#[derive(Debug)]
pub struct SortedWriter {
    file: BlockFile,
    keys: u64,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    /// Fences as in the index region.
    fences: Vec<u8>,
    keeps_fences: bool,
    /// Entries of the block that isn't full yet.
    entries: Vec<u8>,
    count: usize,
    /// Offsets of the restarts in the block under way, as on disk.
    restarts: Vec<u8>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortedMeta {
    pub keys: u64,
    /// Empty if there are no keys.
    pub first_key: Vec<u8>,
    pub last_key: Vec<u8>,
    /// Blocks of one page each.
    pub blocks: u64,
    pub file_bytes: u64,
}

impl SortedWriter {
    pub fn new(seed: u64) -> Self {
        Self {
            file: BlockFile::new(seed),
            keys: 0,
            first_key: Vec::new(),
            last_key: Vec::new(),
            fences: Vec::new(),
            keeps_fences: true,
            entries: Vec::with_capacity(PAGE),
            count: 0,
            restarts: Vec::new(),
        }
    }

    /// For keys that are only read from front to back: fences of long keys that are much alike would be a tenth of the file.
    pub fn without_fences(seed: u64) -> Self {
        Self {
            keeps_fences: false,
            ..Self::new(seed)
        }
    }

    /// Keys pushed so far.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    pub fn heap_bytes(&self) -> usize {
        [
            &self.first_key,
            &self.last_key,
            &self.fences,
            &self.entries,
            &self.restarts,
        ]
        .iter()
        .map(|bytes| bytes.capacity())
        .sum()
    }

    /// Adds a key, greater than all before; appends a block to `out` when one is full.
    ///
    /// `Err`, and nothing changes, if the key isn't greater, is over 2,000 bytes, or the fences would exceed 4 GiB.
    pub fn push(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.ensure_next(key)?;
        let common = common_prefix(&self.last_key, key);
        if !self.fits(key, common) {
            self.flush(out);
        }
        if self.count == 0 {
            self.begin_block(key, common)?;
        }
        let shared = if self.count.is_multiple_of(RESTART_INTERVAL) {
            self.restarts
                .extend_from_slice(&(2 + self.entries.len() as u16).to_le_bytes());
            0
        } else {
            common
        };
        put_varint(&mut self.entries, shared as u32);
        put_varint(&mut self.entries, (key.len() - shared) as u32);
        self.entries.extend_from_slice(&key[shared..]);
        self.last_key.truncate(common);
        self.last_key.extend_from_slice(&key[common..]);
        self.count += 1;
        self.keys += 1;
        Ok(())
    }

    /// Writes the last block, the index region and the footer. Appends all fences to `out` at once.
    pub fn finish(mut self, out: &mut Vec<u8>) -> SortedMeta {
        if self.count > 0 {
            self.flush(out);
        }
        let mut index =
            Vec::with_capacity(self.first_key.len() + self.last_key.len() + 4 + self.fences.len());
        put_key(&mut index, &self.first_key);
        put_key(&mut index, &self.last_key);
        index.append(&mut self.fences);
        let footer = self
            .file
            .finish(FileKind::Sorted, &index, [self.keys, 0, 0, 0], out);
        SortedMeta {
            keys: self.keys,
            first_key: self.first_key,
            last_key: self.last_key,
            blocks: footer.data_pages,
            file_bytes: footer.file_bytes(),
        }
    }

    fn ensure_next(&self, key: &[u8]) -> Result<()> {
        ensure(key.len() <= KEY_BYTES_MAX, WHAT, || {
            format!("a key of {} bytes, at most {KEY_BYTES_MAX} fit", key.len())
        })?;
        ensure(self.keys == 0 || key > self.last_key.as_slice(), WHAT, || {
            format!("key {} isn't greater than the one before", self.keys)
        })
    }

    fn fits(&self, key: &[u8], common: usize) -> bool {
        let restarts = self.count / RESTART_INTERVAL + 1;
        let shared = if self.count.is_multiple_of(RESTART_INTERVAL) {
            0
        } else {
            common
        };
        let rest = key.len() - shared;
        let entry = varint_len(shared as u32) + varint_len(rest as u32) + rest;
        2 + self.entries.len() + entry + 2 * restarts + 2 <= PAGE_CONTENT
    }

    fn begin_block(&mut self, key: &[u8], common: usize) -> Result<()> {
        let fence = if self.keys == 0 {
            self.first_key.extend_from_slice(key);
            &[]
        } else {
            &key[..common + 1]
        };
        if !self.keeps_fences {
            return Ok(());
        }
        if self.fences.len() + 2 + fence.len() > u32::MAX as usize {
            return Err(FormatError::new(
                WHAT,
                format!("{} bytes of fences: full", self.fences.len()),
            ));
        }
        put_key(&mut self.fences, fence);
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&(self.count as u16).to_le_bytes());
        out.extend_from_slice(&self.entries);
        out.resize(start + PAGE_CONTENT - 2 - self.restarts.len(), 0);
        out.extend_from_slice(&self.restarts);
        out.extend_from_slice(&((self.restarts.len() / 2) as u16).to_le_bytes());
        self.file.seal_from(start, out);
        self.entries.clear();
        self.restarts.clear();
        self.count = 0;
    }
}

fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
