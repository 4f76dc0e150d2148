//! One block of records.

use crate::block::{CRC_BYTES, PAGE};
use crate::bytes::{u16_at, u32_at};
use crate::error::{FormatError, Result};

const WHAT: &str = "records block";

/// A view over one block; `get` is two reads of its table. The caller has verified the checksum.
#[derive(Debug, Clone, Copy)]
pub struct RecordsBlock<'a> {
    count: usize,
    /// Ends, u16 each; empty in a block of one large record.
    ends: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> RecordsBlock<'a> {
    /// `block` with its checksum, whole pages.
    pub fn parse(block: &'a [u8]) -> Result<Self> {
        if block.is_empty() || !block.len().is_multiple_of(PAGE) {
            return Err(FormatError::new(
                WHAT,
                format!("{} bytes aren't whole pages", block.len()),
            ));
        }
        let content = &block[..block.len() - CRC_BYTES];
        let parsed = if block.len() == PAGE {
            Self::parse_small(content)
        } else {
            Self::parse_large(content)
        };
        parsed.ok_or_else(|| FormatError::new(WHAT, "its table runs past its end"))
    }

    fn parse_small(content: &'a [u8]) -> Option<Self> {
        let count = usize::from(u16_at(content, 0)?);
        let (ends, bytes) = content[2..].split_at_checked(2 * count)?;
        Some(Self { count, ends, bytes })
    }

    fn parse_large(content: &'a [u8]) -> Option<Self> {
        let length = u32_at(content, 0)? as usize;
        Some(Self {
            count: 1,
            ends: &[],
            bytes: content[4..].get(..length)?,
        })
    }

    /// Records in this block.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Record `i` of this block: row `first_row + i`.
    pub fn get(&self, i: usize) -> Result<&'a [u8]> {
        if i >= self.count {
            return Err(FormatError::new(WHAT, format!("record {i} of {}", self.count)));
        }
        if self.ends.is_empty() {
            return Ok(self.bytes);
        }
        let end = |i| u16_at(self.ends, 2 * i).map(usize::from);
        let start = if i == 0 { Some(0) } else { end(i - 1) };
        let range = start.zip(end(i)).map(|(start, end)| start..end);
        let record = range.and_then(|range| self.bytes.get(range));
        record.ok_or_else(|| FormatError::new(WHAT, format!("record {i} runs past the block")))
    }

    /// All records in order of rows.
    pub fn iter(&self) -> impl Iterator<Item = Result<&'a [u8]>> + use<'a> {
        let block = *self;
        (0..block.count).map(move |i| block.get(i))
    }
}
