//! Small things that are read and written whole.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic `RAMLETEN` |
//! | 8..10 | format version u16 |
//! | 10..12 | kind u16 ([`EnvelopeKind`]) |
//! | 12..16 | crc32c over bytes 8..12, 16..24 and the body |
//! | 16..24 | length of the body u64 |
//! | 24 .. 24+length | body |
//! | .. | 0 to the end of the page |

use crate::block::PAGE;
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::error::{FormatError, Result, ensure};

/// Version of all envelopes; a reader refuses others.
pub const VERSION: u16 = 1;

/// Bytes before the body.
pub const HEADER_BYTES: usize = 24;

const MAGIC: &[u8; 8] = b"RAMLETEN";
const WHAT: &str = "envelope";

/// What an envelope holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum EnvelopeKind {
    /// Roaring bitmap: deleted rows of a segment.
    Deletes = 1,
    /// JSON: [`Manifest`](crate::manifest::Manifest).
    Manifest = 2,
    /// JSON: [`Catalog`](crate::catalog::Catalog).
    Catalog = 3,
    /// Roaring bitmap: rows that have a vector.
    Presence = 4,
    /// A vector index's centroids; the index's own layout.
    Centroids = 5,
    /// Anything else; the owner's own layout.
    Blob = 6,
}

/// The whole file, padded to pages.
pub fn encode(kind: EnvelopeKind, body: &[u8]) -> Vec<u8> {
    let mut out = begin(body.len());
    out.extend_from_slice(body);
    seal(kind, out)
}

/// Room for the header, behind which a body of about so many bytes is to be put: [`seal`] then needs no copy of it.
pub fn begin(body_bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity((HEADER_BYTES + body_bytes).next_multiple_of(PAGE));
    out.resize(HEADER_BYTES, 0);
    out
}

/// The whole file, of what was put behind [`begin`].
pub fn seal(kind: EnvelopeKind, mut out: Vec<u8>) -> Vec<u8> {
    let body_bytes = (out.len() - HEADER_BYTES) as u64;
    out[..8].copy_from_slice(MAGIC);
    out[8..10].copy_from_slice(&VERSION.to_le_bytes());
    out[10..12].copy_from_slice(&(kind as u16).to_le_bytes());
    out[12..16].fill(0);
    out[16..24].copy_from_slice(&body_bytes.to_le_bytes());
    let crc = checksum(&out);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    out.resize(out.len().next_multiple_of(PAGE), 0);
    out
}

/// The body. `bytes` may be longer than header and body: the padding isn't looked at.
pub fn decode(kind: EnvelopeKind, bytes: &[u8]) -> Result<&[u8]> {
    let cut = || FormatError::new(WHAT, format!("cut off at {} bytes", bytes.len()));
    ensure(bytes.starts_with(MAGIC), WHAT, || {
        "the magic number is missing".into()
    })?;
    let version = u16_at(bytes, 8).ok_or_else(cut)?;
    ensure(version == VERSION, WHAT, || {
        format!("version {version}, this program reads {VERSION}")
    })?;
    let length = u64_at(bytes, 16).ok_or_else(cut)?;
    let end = usize::try_from(length)
        .ok()
        .and_then(|length| length.checked_add(HEADER_BYTES));
    let whole = end.and_then(|end| bytes.get(..end)).ok_or_else(cut)?;
    ensure(u32_at(whole, 12) == Some(checksum(whole)), WHAT, || {
        "checksum mismatch".into()
    })?;
    let code = u16_at(whole, 10).unwrap_or(0);
    ensure(code == kind as u16, WHAT, || {
        format!("kind {code}, not {} ({kind:?})", kind as u16)
    })?;
    Ok(&whole[HEADER_BYTES..])
}

/// Over header and body, `whole`, without magic and checksum.
fn checksum(whole: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&whole[8..12]), &whole[16..])
}
