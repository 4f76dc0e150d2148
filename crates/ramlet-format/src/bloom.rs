//! A blocked Bloom filter over 64-bit hashes: is this id perhaps in the segment?
//!
//! A filter is a number of lines of 512 bits; a key sets 6 bits of one line, so a test touches one cache line (Putze,
//! Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom Filters", 2007). 10 bits a key give about 1.2 % false
//! positives; an unblocked filter of that size would give 0.9 %.
//!
//! - line = high half of hash * lines (128 bits)
//! - bits: x = hash * 0x9E3779B97F4A7C15; x ^= x >> 32; x *= 0xD6E8FEB86659FD93; six times 9 bits of x, from bit 10 up;
//!   bit b is bit b % 64 of the line's word b / 64
//!
//! Every data block is one page, so a filter can also be read by single pages:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4032 | 63 lines of eight words u64; those past the last line are 0 |
//! | 4032..4092 | 0 |
//! | 4092..4096 | crc32c |
//!
//! No index region. Footer numbers: lines, keys, 0, 0.

use crate::block::{self, PAGE};
use crate::bytes::u64_at;
use crate::error::{Result, ensure};
use crate::footer::{BlockFile, FileKind, Footer};

pub use crate::hash::hash64;

const BITS_PER_KEY: u64 = 10;
const BITS_SET: u32 = 6;
const LINE_BITS: u64 = 512;
const LINE_BYTES: usize = 64;
const LINES_PER_PAGE: usize = 63;
const WHAT: &str = "bloom filter";

/// One cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(align(64))]
struct Line([u64; 8]);

const _: () = assert!(size_of::<Line>() == LINE_BYTES && LINES_PER_PAGE * LINE_BYTES < PAGE);

impl Line {
    fn add(&mut self, mask: &Self) {
        self.0
            .iter_mut()
            .zip(mask.0)
            .for_each(|(word, mask)| *word |= mask);
    }

    fn contains(&self, mask: &Self) -> bool {
        self.0.iter().zip(mask.0).all(|(word, mask)| word & mask == mask)
    }

    /// The bits that a key with this hash sets.
    fn mask(hash: u64) -> Self {
        let mut x = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let mut mask = Self::default();
        for i in 0..BITS_SET {
            let bit = (x >> (10 + 9 * i)) as usize % LINE_BITS as usize;
            mask.0[bit / 64] |= 1 << (bit % 64);
        }
        mask
    }
}

/// Collects keys: holds the whole filter, 1.25 bytes a key.
#[derive(Debug)]
pub struct BloomBuilder {
    filter: Bloom,
}

impl BloomBuilder {
    /// Room for `keys` keys; more make it less sharp, never wrong.
    pub fn new(keys: u64) -> Self {
        let lines = (keys.saturating_mul(BITS_PER_KEY)).div_ceil(LINE_BITS).max(1);
        Self {
            filter: Bloom {
                lines: vec![Line::default(); lines as usize],
                keys: 0,
            },
        }
    }

    pub fn insert(&mut self, hash: u64) {
        let line = self.filter.line_of(hash);
        self.filter.lines[line].add(&Line::mask(hash));
        self.filter.keys += 1;
    }

    pub fn heap_bytes(&self) -> usize {
        self.filter.heap_bytes()
    }

    /// The whole file.
    pub fn finish(self, seed: u64) -> Vec<u8> {
        let lines = &self.filter.lines;
        let mut out = Vec::with_capacity(file_bytes_for_lines(lines.len()));
        let mut file = BlockFile::new(seed);
        for page in lines.chunks(LINES_PER_PAGE) {
            let start = out.len();
            page.iter()
                .flat_map(|line| line.0)
                .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
            file.seal_from(start, &mut out);
        }
        file.finish(
            FileKind::Bloom,
            &[],
            [lines.len() as u64, self.filter.keys, 0, 0],
            &mut out,
        );
        out
    }
}

/// A filter in RAM: 1.25 bytes a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bloom {
    lines: Vec<Line>,
    keys: u64,
}

impl Bloom {
    /// Verifies and parses the bytes of a whole file.
    pub fn parse(seed: u64, bytes: &[u8]) -> Result<Self> {
        let pages = bytes.len() / PAGE;
        ensure(pages > 0 && bytes.len().is_multiple_of(PAGE), WHAT, || {
            format!("{} bytes", bytes.len())
        })?;
        let (data, last) = bytes.split_at(bytes.len() - PAGE);
        let footer = Footer::parse(last, seed, pages as u64 - 1)?;
        footer.ensure_kind(FileKind::Bloom)?;
        let [count, keys, ..] = footer.numbers;
        let fits = count > 0 && count.div_ceil(LINES_PER_PAGE as u64) == pages as u64 - 1;
        ensure(fits && footer.index_bytes == 0, WHAT, || {
            format!("{count} lines in {pages} pages")
        })?;
        let mut lines = Vec::with_capacity(count as usize);
        for (number, page) in data.chunks_exact(PAGE).enumerate() {
            ensure(block::verify(seed, number as u64, page), WHAT, || {
                format!("checksum mismatch in page {number}")
            })?;
            let rest = count as usize - lines.len();
            let here = page.chunks_exact(LINE_BYTES).take(rest.min(LINES_PER_PAGE));
            lines.extend(here.map(|line| Line(std::array::from_fn(|i| u64_at(line, 8 * i).unwrap_or(0)))));
        }
        Ok(Self { lines, keys })
    }

    /// False: certainly not inserted. True: inserted, or one of about 1.2 %. One cache line.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.lines[self.line_of(hash)].contains(&Line::mask(hash))
    }

    /// Keys inserted.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// RAM held beyond the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.lines.capacity() * LINE_BYTES
    }

    fn line_of(&self, hash: u64) -> usize {
        // lines > 0: the builder makes at least one, parse refuses none.
        ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize
    }
}

/// Bytes of a filter's file: for planning.
pub fn file_bytes(keys: u64) -> u64 {
    let lines = keys.saturating_mul(BITS_PER_KEY).div_ceil(LINE_BITS).max(1);
    file_bytes_for_lines(lines as usize) as u64
}

fn file_bytes_for_lines(lines: usize) -> usize {
    (lines.div_ceil(LINES_PER_PAGE) + 1) * PAGE
}
