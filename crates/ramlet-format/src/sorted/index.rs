//! Which block may hold a key: the part of a sorted table that stays in RAM.

use super::KEY_BYTES_MAX;
use crate::bytes::u16_at;
use crate::error::{FormatError, Result, ensure};
use crate::footer::{FileKind, Footer};

const WHAT: &str = "sorted index";

/// Which block may hold which key. RAM: per block its fence (for ids about 6 bytes) and 4 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortedIndex {
    keys: u64,
    first_key: Box<[u8]>,
    last_key: Box<[u8]>,
    /// All fences, one after another.
    fences: Box<[u8]>,
    /// Where each block's fence begins, and one more for the end.
    offsets: Box<[u32]>,
}

impl SortedIndex {
    /// From the index region's payload ([`index_payload`](crate::footer::index_payload)).
    pub fn parse(footer: &Footer, payload: &[u8]) -> Result<Self> {
        footer.ensure_kind(FileKind::Sorted)?;
        let (keys, blocks) = (footer.numbers[0], footer.data_pages);
        // Each fence takes at least its length's two bytes: bounds what is allocated below.
        let plausible = blocks <= keys && (keys == 0) == (blocks == 0) && blocks <= payload.len() as u64 / 2;
        ensure(
            plausible && payload.len() < u32::MAX as usize + 4096,
            WHAT,
            || format!("{keys} keys in {blocks} blocks, index of {} bytes", payload.len()),
        )?;
        let mut at = 0;
        let first_key: Box<[u8]> = take_key(payload, &mut at)?.into();
        let last_key: Box<[u8]> = take_key(payload, &mut at)?.into();
        let mut fences = Vec::with_capacity((payload.len() - at).saturating_sub(2 * blocks as usize));
        let mut offsets = Vec::with_capacity(blocks as usize + 1);
        let mut before: Option<&[u8]> = None;
        for block in 0..blocks {
            let fence = take_key(payload, &mut at)?;
            let ascending = before.map_or(fence.is_empty(), |before| before < fence);
            ensure(ascending, WHAT, || {
                format!("fence of block {block} isn't greater than the one before")
            })?;
            offsets.push(fences.len() as u32);
            fences.extend_from_slice(fence);
            before = Some(fence);
        }
        offsets.push(fences.len() as u32);
        ensure(at == payload.len(), WHAT, || {
            format!("{} bytes too many", payload.len() - at)
        })?;
        ensure(first_key <= last_key, WHAT, || {
            "the first key is greater than the last".into()
        })?;
        Ok(Self {
            keys,
            first_key,
            last_key,
            fences: fences.into(),
            offsets: offsets.into(),
        })
    }

    /// Keys in the table.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Blocks of one page, pages 0 to `blocks() - 1`.
    pub fn blocks(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    /// The least key; `None` in an empty table.
    pub fn first_key(&self) -> Option<&[u8]> {
        (self.keys > 0).then_some(&self.first_key)
    }

    /// The greatest key; `None` in an empty table.
    pub fn last_key(&self) -> Option<&[u8]> {
        (self.keys > 0).then_some(&self.last_key)
    }

    /// Page of the first block that may hold a key >= `key`. If a seek finds none there, the next block's first key is
    /// the one, if there is a next block. In an empty table 0, which isn't below `blocks()`. No I/O.
    pub fn block_for(&self, key: &[u8]) -> u64 {
        let (mut low, mut high) = (0, self.offsets.len() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.fence(middle) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.saturating_sub(1) as u64
    }

    /// RAM held beyond the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.first_key.len() + self.last_key.len() + self.fences.len() + 4 * self.offsets.len()
    }

    fn fence(&self, block: usize) -> &[u8] {
        &self.fences[self.offsets[block] as usize..self.offsets[block + 1] as usize]
    }
}

fn take_key<'a>(payload: &'a [u8], at: &mut usize) -> Result<&'a [u8]> {
    let cut = || FormatError::new(WHAT, "it ends within a key");
    let length = usize::from(u16_at(payload, *at).ok_or_else(cut)?);
    ensure(length <= KEY_BYTES_MAX, WHAT, || {
        format!("a key of {length} bytes")
    })?;
    let key = payload.get(*at + 2..*at + 2 + length).ok_or_else(cut)?;
    *at += 2 + length;
    Ok(key)
}
