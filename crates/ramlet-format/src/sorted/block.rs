//! One block of sorted keys, and walking it.

use super::{KEY_BYTES_MAX, RESTART_INTERVAL};
use crate::block::{PAGE, PAGE_CONTENT};
use crate::bytes::{take_varint, u16_at};
use crate::error::{FormatError, Result, ensure};

const WHAT: &str = "sorted block";

/// A view over one block. The caller has verified the checksum.
#[derive(Debug, Clone, Copy)]
pub struct SortedBlock<'a> {
    count: usize,
    /// Count and entries; offsets in `restarts` count from its start.
    entries: &'a [u8],
    restarts: &'a [u8],
}

impl<'a> SortedBlock<'a> {
    /// `block` is one page, with its checksum.
    pub fn parse(block: &'a [u8]) -> Result<Self> {
        ensure(block.len() == PAGE, WHAT, || {
            format!("{} bytes instead of a page", block.len())
        })?;
        let count = usize::from(u16_at(block, 0).unwrap_or(0));
        let restarts = usize::from(u16_at(block, PAGE_CONTENT - 2).unwrap_or(0));
        let table = (PAGE_CONTENT - 2)
            .checked_sub(2 * restarts)
            .filter(|&table| table >= 2);
        match table {
            Some(table) if count > 0 && restarts == count.div_ceil(RESTART_INTERVAL) => Ok(Self {
                count,
                entries: &block[..table],
                restarts: &block[table..PAGE_CONTENT - 2],
            }),
            _ => Err(FormatError::new(
                WHAT,
                format!("{count} keys with {restarts} restarts"),
            )),
        }
    }

    /// Keys in this block.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Calls `each` with the last four bytes of every key, in order, as a number (big endian): of keys that end in a row its
    /// row. Nothing is compared and no key given out: some nanoseconds a key.
    pub fn trailing_numbers(&self, each: &mut impl FnMut(u32)) -> Result<()> {
        let (mut key, mut at) = ([0; KEY_BYTES_MAX], 2);
        let mut before = 0;
        for number in 0..self.count {
            let length = self.next_key(&mut key, before, &mut at);
            before = length.ok_or_else(|| broken("key", number))?;
            let tail = key[..before].last_chunk::<4>();
            each(u32::from_be_bytes(*tail.ok_or_else(|| broken("key", number))?));
        }
        Ok(())
    }

    /// Reads the entry at `at` over the key before it, of so many bytes; the bytes of the new one.
    #[inline]
    fn next_key(&self, key: &mut [u8; KEY_BYTES_MAX], before: usize, at: &mut usize) -> Option<usize> {
        let (shared, rest) = self.entry(at)?;
        if shared > before {
            return None;
        }
        let end = shared + rest.len();
        let place = key.get_mut(shared..end)?;
        // Mostly a byte or two, for which a call to copy them is the dearest part.
        match rest.len() {
            0..=8 => place.iter_mut().zip(rest).for_each(|(to, from)| *to = *from),
            _ => place.copy_from_slice(rest),
        }
        Some(end)
    }

    /// Reads the entry at `at`: how many bytes its key shares with the one before it, and its other bytes.
    #[inline]
    fn entry(&self, at: &mut usize) -> Option<(usize, &'a [u8])> {
        let shared = take_varint(self.entries, at)? as usize;
        let length = take_varint(self.entries, at)? as usize;
        let rest = self.entries.get(*at..)?.get(..length)?;
        *at += length;
        Some((shared, rest))
    }

    /// Offset of the entry `restart * RESTART_INTERVAL`.
    fn restart_offset(&self, restart: usize) -> Option<usize> {
        u16_at(self.restarts, 2 * restart)
            .map(usize::from)
            .filter(|&offset| offset >= 2)
    }

    /// The whole key at a restart.
    fn restart_key(&self, restart: usize) -> Option<&'a [u8]> {
        let mut at = self.restart_offset(restart)?;
        let (shared, key) = self.entry(&mut at)?;
        (shared == 0).then_some(key)
    }

    /// The last restart whose key is <= `key`; the first one if none is.
    fn restart_for(&self, key: &[u8]) -> Result<usize> {
        let (mut low, mut high) = (0, self.restarts.len() / 2);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = self.restart_key(middle);
            if at.ok_or_else(|| broken("restart", middle))? <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.saturating_sub(1))
    }
}

/// Walks a block's keys in ascending order. The key lies in a buffer that the caller owns and reuses: no allocation per
/// key once it has grown to 2,000 bytes.
#[derive(Debug)]
pub struct SortedCursor<'a> {
    block: SortedBlock<'a>,
    key: &'a mut Vec<u8>,
    /// Offset of the next entry.
    at: usize,
    /// Number of the next entry.
    next: usize,
    /// `key` was found by a seek and hasn't been given out yet.
    pending: bool,
}

/// Where a walk over a block is, for one that lets go of the block between two keys.
#[derive(Debug, Clone, Copy)]
pub struct SortedPlace {
    at: usize,
    next: usize,
}

impl Default for SortedPlace {
    /// Before the first key.
    fn default() -> Self {
        Self { at: 2, next: 0 }
    }
}

impl<'a> SortedCursor<'a> {
    /// Goes on where `place` is; `key` is still what [`next`](Self::next) gave there, or empty before the first key.
    pub fn resume(block: SortedBlock<'a>, key: &'a mut Vec<u8>, place: SortedPlace) -> Self {
        Self {
            block,
            key,
            at: place.at,
            next: place.next,
            pending: false,
        }
    }

    /// Behind the key that `next` gave last. Not for a cursor that was moved by a seek.
    pub fn place(&self) -> SortedPlace {
        SortedPlace {
            at: self.at,
            next: self.next,
        }
    }

    /// Before the first key.
    pub fn new(block: SortedBlock<'a>, key: &'a mut Vec<u8>) -> Self {
        key.clear();
        Self::resume(block, key, SortedPlace::default())
    }

    /// Keys of the block before the one that `next` will give.
    pub fn passed(&self) -> usize {
        self.next - usize::from(self.pending)
    }

    /// The next key; `None` after the last, from then on. `Err` if the entry is broken.
    #[expect(
        clippy::should_implement_trait,
        reason = "its keys borrow its buffer, which Iterator can't"
    )]
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        if self.pending {
            self.pending = false;
            return Ok(Some(self.key));
        }
        Ok(if self.advance()? { Some(self.key) } else { None })
    }

    /// Moves so that `next` gives the first key >= `key` of this block, or `None` if there is none. Forward or backward;
    /// a binary search over the restarts and up to 32 steps.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let restart = self.block.restart_for(key)?;
        self.at = self
            .block
            .restart_offset(restart)
            .ok_or_else(|| broken("restart", restart))?;
        self.next = restart * RESTART_INTERVAL;
        self.key.clear();
        self.pending = false;
        while self.advance()? {
            if self.key.as_slice() >= key {
                self.pending = true;
                break;
            }
        }
        Ok(())
    }

    /// Reads the next entry into the buffer; false at the end.
    fn advance(&mut self) -> Result<bool> {
        if self.next == self.block.count {
            return Ok(false);
        }
        self.step().ok_or_else(|| broken("key", self.next))?;
        self.next += 1;
        Ok(true)
    }

    fn step(&mut self) -> Option<()> {
        let mut at = self.at;
        let (shared, rest) = self.block.entry(&mut at)?;
        if shared > self.key.len() || shared + rest.len() > KEY_BYTES_MAX {
            return None;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        self.at = at;
        Some(())
    }
}

fn broken(what: &str, number: usize) -> FormatError {
    FormatError::new(WHAT, format!("{what} {number} is broken"))
}
