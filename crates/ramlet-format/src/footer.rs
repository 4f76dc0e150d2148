//! The last page of a block file, and the index region before it.
//!
//! ```text
//! | data blocks: data_pages | index region: index_pages | footer: 1 page |
//! ```
//! Footer, a sealed block of one page:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic `RAMLETBF` |
//! | 8..10 | format version u16 |
//! | 10..12 | kind u16 ([`FileKind`]) |
//! | 12..16 | 0 |
//! | 16..24 | data_pages u64 |
//! | 24..32 | index_page u64: first page of the index region (= data_pages) |
//! | 32..40 | index_pages u64 |
//! | 40..48 | index_bytes u64: payload of the index region, without checksums and padding |
//! | 48..80 | four numbers u64, by kind |
//! | 80..4092 | 0 |
//! | 4092..4096 | crc32c |
//!
//! The index region is one sealed block per page, 4092 bytes of payload each, the last one padded with zeros.
//!
//! To open a file: read its last page, [`Footer::parse`]; read `index_pages` pages from `index_page`, [`index_payload`];
//! then the kind's own `open` or `parse`. Two reads; a rows file has no index region and needs only the first.

use crate::block::{self, PAGE, PAGE_CONTENT};
use crate::bytes::{u16_at, u64_at};
use crate::error::{FormatError, Result, ensure};

/// Version of all block files; a reader refuses others.
pub const VERSION: u16 = 1;

const MAGIC: &[u8; 8] = b"RAMLETBF";
const WHAT: &str = "footer";
const NUMBERS: usize = 4;

/// Which block file this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum FileKind {
    Rows = 1,
    Records = 2,
    Sorted = 3,
    Bloom = 4,
}

/// The parsed last page of a block file. 80 bytes; opening costs one read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    pub kind: FileKind,
    /// Pages of data blocks; they begin at page 0.
    pub data_pages: u64,
    /// First page of the index region.
    pub index_page: u64,
    /// Pages of the index region; 0 if there is none.
    pub index_pages: u64,
    /// Bytes of payload in the index region.
    pub index_bytes: u64,
    /// Meaning by kind; each kind's file says what.
    pub(crate) numbers: [u64; NUMBERS],
}

impl Footer {
    /// Verifies and parses `page`, the file's last one, whose number is `page_number`.
    pub fn parse(page: &[u8], seed: u64, page_number: u64) -> Result<Self> {
        ensure(page.len() == PAGE, WHAT, || {
            format!("{} bytes instead of a page", page.len())
        })?;
        ensure(page.starts_with(MAGIC), WHAT, || {
            "not a block file: the magic number is missing".into()
        })?;
        ensure(block::verify(seed, page_number, page), WHAT, || {
            "checksum mismatch".into()
        })?;
        let version = u16_at(page, 8).unwrap_or(0);
        ensure(version == VERSION, WHAT, || {
            format!("version {version}, this program reads {VERSION}")
        })?;
        let number = |at| u64_at(page, at).unwrap_or(0);
        let footer = Self {
            kind: FileKind::from_code(u16_at(page, 10).unwrap_or(0))?,
            data_pages: number(16),
            index_page: number(24),
            index_pages: number(32),
            index_bytes: number(40),
            numbers: std::array::from_fn(|i| number(48 + 8 * i)),
        };
        footer.ensure_regions_fit(page_number)?;
        Ok(footer)
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        (self.data_pages + self.index_pages + 1) * PAGE as u64
    }

    fn ensure_regions_fit(&self, page_number: u64) -> Result<()> {
        let fits = page_number < u64::MAX / PAGE as u64
            && self.index_page == self.data_pages
            && self.index_page.checked_add(self.index_pages) == Some(page_number)
            && self.index_bytes.div_ceil(PAGE_CONTENT as u64) == self.index_pages;
        ensure(fits, WHAT, || {
            format!("regions don't add up at page {page_number}: {self:?}")
        })
    }

    pub(crate) fn ensure_kind(&self, kind: FileKind) -> Result<()> {
        ensure(self.kind == kind, WHAT, || {
            format!("the file is {:?}, not {kind:?}", self.kind)
        })
    }

    fn encode(&self) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        page[..8].copy_from_slice(MAGIC);
        page[8..10].copy_from_slice(&VERSION.to_le_bytes());
        page[10..12].copy_from_slice(&(self.kind as u16).to_le_bytes());
        let fixed = [
            self.data_pages,
            self.index_page,
            self.index_pages,
            self.index_bytes,
        ];
        for (i, number) in fixed.iter().chain(&self.numbers).enumerate() {
            page[16 + 8 * i..24 + 8 * i].copy_from_slice(&number.to_le_bytes());
        }
        page
    }
}

impl FileKind {
    fn from_code(code: u16) -> Result<Self> {
        match code {
            1 => Ok(Self::Rows),
            2 => Ok(Self::Records),
            3 => Ok(Self::Sorted),
            4 => Ok(Self::Bloom),
            _ => Err(FormatError::new(WHAT, format!("unknown kind {code}"))),
        }
    }
}

/// Verifies the index region's pages and joins their payloads. Allocates `footer.index_bytes`.
pub fn index_payload(region: &[u8], footer: &Footer, seed: u64) -> Result<Vec<u8>> {
    let what = "index region";
    let pages = region.len() / PAGE;
    ensure(
        region.len().is_multiple_of(PAGE) && pages as u64 == footer.index_pages,
        what,
        || {
            format!(
                "{} bytes given, {} pages expected",
                region.len(),
                footer.index_pages
            )
        },
    )?;
    // Footer::parse saw that index_bytes fits index_pages, which is the region's length.
    let bytes = footer.index_bytes as usize;
    let mut payload = Vec::with_capacity(bytes);
    for (page, number) in region.chunks_exact(PAGE).zip(footer.index_page..) {
        ensure(block::verify(seed, number, page), what, || {
            format!("checksum mismatch in page {number}")
        })?;
        let rest = bytes - payload.len();
        payload.extend_from_slice(&page[..rest.min(PAGE_CONTENT)]);
    }
    Ok(payload)
}

/// Seals and counts the blocks of a file that is being written; knows where the next one goes.
#[derive(Debug)]
pub(crate) struct BlockFile {
    seed: u64,
    pages: u64,
}

impl BlockFile {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, pages: 0 }
    }

    /// Pages written so far: the number of the next block's first page.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Pads what `out` holds from `start` to whole pages with room for the checksum, and seals it.
    pub(crate) fn seal_from(&mut self, start: usize, out: &mut Vec<u8>) {
        let bytes = (out.len() - start + block::CRC_BYTES).next_multiple_of(PAGE);
        out.resize(start + bytes, 0);
        block::seal(self.seed, self.pages, &mut out[start..]);
        self.pages += (bytes / PAGE) as u64;
    }

    /// Writes index region and footer; returns the footer.
    pub(crate) fn finish(
        mut self,
        kind: FileKind,
        index: &[u8],
        numbers: [u64; NUMBERS],
        out: &mut Vec<u8>,
    ) -> Footer {
        let data_pages = self.pages;
        for chunk in index.chunks(PAGE_CONTENT) {
            let start = out.len();
            out.extend_from_slice(chunk);
            self.seal_from(start, out);
        }
        let footer = Footer {
            kind,
            data_pages,
            index_page: data_pages,
            index_pages: self.pages - data_pages,
            index_bytes: index.len() as u64,
            numbers,
        };
        let mut page = footer.encode();
        block::seal(self.seed, self.pages, &mut page);
        out.extend_from_slice(&page);
        footer
    }
}
