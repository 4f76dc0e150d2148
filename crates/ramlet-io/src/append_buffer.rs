//! Gathers appended bytes into large page-aligned writes.

use ramlet_memory::AnonBuf;

use crate::storage::{PAGE, Result};

/// The tail of a file being written front to back: bytes not yet handed on, and the padding of the last page.
///
/// After a flush the started page stays here and is written again, fuller, by the next one. That is safe on any disk:
/// the part that was there before is rewritten with the same bytes.
pub(crate) struct AppendBuffer {
    buf: AnonBuf,
    /// Size of the writes. The buffer is as long, or a page after a flush.
    bytes: usize,
    /// Offset in the file of the buffer's first byte; a multiple of PAGE.
    base: u64,
    filled: usize,
    /// Bytes were appended since the last flush.
    dirty: bool,
    /// A write failed: what lies in the file is unknown, so nothing is written any more.
    failed: bool,
}

/// Writes page-aligned bytes at a page-aligned offset.
type Write<'a> = &'a mut dyn FnMut(&[u8], u64) -> Result<()>;

impl AppendBuffer {
    /// `bytes`: the size of the writes, a multiple of PAGE.
    pub fn new(bytes: usize) -> AppendBuffer {
        debug_assert!(bytes > 0 && bytes.is_multiple_of(PAGE));
        AppendBuffer {
            buf: AnonBuf::new(bytes),
            bytes,
            base: 0,
            filled: 0,
            dirty: false,
            failed: false,
        }
    }

    /// Bytes appended so far.
    pub fn len(&self) -> u64 {
        self.base + self.filled as u64
    }

    pub fn append(&mut self, mut bytes: &[u8], write: Write<'_>) -> Result<()> {
        if self.buf.len() < self.bytes && !bytes.is_empty() {
            self.buf.ensure(self.bytes).expect("a buffer outside any budget");
        }
        while !bytes.is_empty() {
            let taken = bytes.len().min(self.buf.len() - self.filled);
            self.buf[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            self.dirty = true;
            bytes = &bytes[taken..];
            if self.filled == self.buf.len() {
                self.hand_on(self.filled, write)?;
            }
        }
        Ok(())
    }

    /// Hands on what is left, padded with zeros to a whole page. Gives the memory back but for a page: most files end here.
    pub fn flush(&mut self, write: Write<'_>) -> Result<()> {
        if !self.dirty {
            return Ok(());
        }
        let padded = self.filled.next_multiple_of(PAGE);
        self.buf[self.filled..padded].fill(0);
        self.hand_on(padded, write)?;
        self.buf.shrink_to(PAGE);
        Ok(())
    }

    /// For `Drop`: a flush unless a write failed before.
    pub fn needs_flush(&self) -> bool {
        self.dirty && !self.failed
    }

    fn hand_on(&mut self, padded: usize, write: Write<'_>) -> Result<()> {
        self.failed = true;
        write(&self.buf[..padded], self.base)?;
        self.failed = false;
        self.dirty = false;
        let whole = self.filled - self.filled % PAGE;
        self.buf.copy_within(whole..self.filled, 0);
        self.base += whole as u64;
        self.filled -= whole;
        Ok(())
    }
}
