//! The first page of a log file.

use crate::block::{self, PAGE};
use crate::bytes::{u16_at, u64_at};
use crate::error::{Result, ensure};

/// Version of log files; a reader refuses others.
pub const VERSION: u16 = 1;

const MAGIC: &[u8; 8] = b"RAMLETLG";
const SEED: u64 = u64::from_le_bytes(*MAGIC);
const WHAT: &str = "log header";

/// First page of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHeader {
    /// Random, new for every use of the file. Not 0.
    pub salt: u64,
    /// Of the first record.
    pub first_lsn: u64,
}

impl LogHeader {
    pub fn encode(&self) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        page[..8].copy_from_slice(MAGIC);
        page[8..10].copy_from_slice(&VERSION.to_le_bytes());
        page[16..24].copy_from_slice(&self.salt.to_le_bytes());
        page[24..32].copy_from_slice(&self.first_lsn.to_le_bytes());
        block::seal(SEED, 0, &mut page);
        page
    }

    /// From the file's first page; `page` may be longer.
    pub fn decode(page: &[u8]) -> Result<Self> {
        let page = page.get(..PAGE).unwrap_or(&[]);
        ensure(page.starts_with(MAGIC), WHAT, || {
            "cut off, or the magic number is missing".into()
        })?;
        ensure(block::verify(SEED, 0, page), WHAT, || "checksum mismatch".into())?;
        let version = u16_at(page, 8).unwrap_or(0);
        ensure(version == VERSION, WHAT, || {
            format!("version {version}, this program reads {VERSION}")
        })?;
        Ok(Self {
            salt: u64_at(page, 16).unwrap_or(0),
            first_lsn: u64_at(page, 24).unwrap_or(0),
        })
    }
}
