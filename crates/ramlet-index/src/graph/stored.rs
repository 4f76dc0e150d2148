//! Temporary files of a build: written sequentially, then read at random.

use std::sync::Arc;

use ramlet_io::{ReadFile, Storage, WriteFile};

use crate::build::temporary::Temporary;
use crate::error::Result;

/// A temporary file being written through a buffer.
pub(super) struct Appender<'a> {
    temporary: Temporary<'a>,
    file: Box<dyn WriteFile>,
    buffer: Vec<u8>,
    buffer_bytes: usize,
}

/// A temporary file that is whole.
pub(super) struct Stored<'a> {
    file: Arc<dyn ReadFile>,
    _temporary: Temporary<'a>,
}

impl<'a> Appender<'a> {
    pub(super) fn create(storage: &'a dyn Storage, name: &'static str, buffer_bytes: usize) -> Result<Self> {
        let (temporary, file) = Temporary::create(storage, name)?;
        Ok(Appender {
            temporary,
            file,
            buffer: Vec::new(),
            buffer_bytes,
        })
    }

    /// Where the next bytes go.
    pub(super) fn offset(&self) -> u64 {
        self.file.len() + self.buffer.len() as u64
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > self.buffer_bytes {
            self.file.append(&self.buffer)?;
            self.buffer.clear();
        }
        self.buffer
            .reserve_exact(self.buffer_bytes.max(bytes.len()) - self.buffer.len());
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn push_words(&mut self, words: &[u32]) -> Result<()> {
        words.iter().try_for_each(|word| self.push(&word.to_le_bytes()))
    }

    pub(super) fn finish(mut self) -> Result<Stored<'a>> {
        self.file.append(&self.buffer)?;
        self.file.flush()?;
        drop(self.file);
        let file = self.temporary.open()?;
        Ok(Stored {
            file,
            _temporary: self.temporary,
        })
    }
}

/// Bytes between two records up to which both are read with what lies between them, and most bytes of such a read.
const GAP: u64 = 32 << 10;
const READ_MAX: u64 = 512 << 10;

impl Stored<'_> {
    /// Appends the records of ascending nodes. What lies close together is one read: where many nodes are wanted, that reads
    /// the file from front to back, at the disk's full speed.
    pub(super) fn gather(
        &self,
        nodes: &[u32],
        stride: usize,
        bytes: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.reserve_exact(nodes.len() * stride);
        let at = |node: u32| u64::from(node) * stride as u64;
        let mut rest = nodes;
        while let Some(first) = rest.first().copied() {
            let apart = rest
                .windows(2)
                .position(|pair| at(pair[1]) - at(pair[0]) > GAP || at(pair[1]) - at(first) > READ_MAX);
            let (now, later) = rest.split_at(apart.map_or(rest.len(), |apart| apart + 1));
            let last = now[now.len() - 1];
            bytes.resize((last - first + 1) as usize * stride, 0);
            self.read(bytes, at(first))?;
            for node in now {
                out.extend_from_slice(&bytes[(node - first) as usize * stride..][..stride]);
            }
            rest = later;
        }
        Ok(())
    }

    pub(super) fn file(&self) -> &dyn ReadFile {
        &*self.file
    }

    /// Fills `out` from `offset`.
    pub(super) fn read(&self, out: &mut [u8], offset: u64) -> Result<()> {
        Ok(self.file.read_at(out, offset)?)
    }

    /// Replaces `out` by `count` words from word number `first` on.
    pub(super) fn read_words(
        &self,
        first: u64,
        count: usize,
        bytes: &mut Vec<u8>,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        bytes.resize(count * 4, 0);
        self.read(bytes, first * 4)?;
        out.clear();
        let words = bytes.as_chunks::<4>().0;
        out.extend(words.iter().map(|word| u32::from_le_bytes(*word)));
        Ok(())
    }
}
