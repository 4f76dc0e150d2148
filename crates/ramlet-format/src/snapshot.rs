//! A snapshot: one file that holds a collection, or all of them, as of one moment. Written and read front to back.
//!
//! | header | what |
//! |---|---|
//! | 0..8 | magic `RAMLETSN` |
//! | 8..10 | format version u16 |
//! | 10..12 | contents u16 ([`Contents`]) |
//! | 12..16 | crc32c over bytes 8..12 and 16..32 |
//! | 16..24 | created u64: seconds since 1970, 0 when unknown |
//! | 24..32 | 0 |
//!
//! Then frames, each a head and its body, and zeros to the end of the page behind the last one:
//!
//! | head of a frame | what |
//! |---|---|
//! | 0..4 | crc32c over bytes 4..24 |
//! | 4..6 | kind u16 ([`FrameKind`]) |
//! | 6..8 | 0 |
//! | 8..12 | number u32, counted from 0: a frame that is missing or comes twice is noticed |
//! | 12..16 | crc32c of the body |
//! | 16..24 | length of the body u64 |
//!
//! The order of frames, `*` for any number:
//!
//! ```text
//! a collection   collection changes* file* finished end
//! with shards    catalog (collection changes* file* finished)* end
//! everything     catalog (collection changes* file* finished)* end
//! ```
//!
//! The body of `collection` is a [`Manifest`](crate::manifest::Manifest), that of `catalog` a
//! [`Catalog`](crate::catalog::Catalog) whose collections come in its order, each with
//! its shards behind it. Of a collection with shard keys the catalog lists it alone. Files come as the manifest lists them, the
//! deletes of a segment behind its other files; `changes` are groups of the log that are in no segment. `finished` and `end`
//! have no body.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::error::{FormatError, Result, ensure};

/// Version of all snapshots; a reader refuses others.
pub const VERSION: u16 = 1;
/// Bytes before the first frame.
pub const HEADER_BYTES: usize = 32;
/// Bytes before a frame's body.
pub const FRAME_BYTES: usize = 24;
/// Longest body of a catalog or a manifest.
pub const LIST_BYTES_MAX: u64 = 8 << 20;

const MAGIC: &[u8; 8] = b"RAMLETSN";
const WHAT: &str = "snapshot";

const _: () = assert!(HEADER_BYTES == 8 + 2 + 2 + 4 + 8 + 8 && FRAME_BYTES == 4 + 2 + 2 + 4 + 4 + 8);

/// What a snapshot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Contents {
    Collection = 1,
    /// All collections of a data directory, and their aliases.
    Everything = 2,
}

/// The first bytes of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub contents: Contents,
    /// Seconds since 1970.
    pub created: Option<u64>,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&(self.contents as u16).to_le_bytes());
        out[16..24].copy_from_slice(&self.created.unwrap_or(0).to_le_bytes());
        let crc = header_crc(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Header> {
        ensure(bytes.starts_with(MAGIC), WHAT, || {
            "the magic number is missing: this is not a Ramlet snapshot".into()
        })?;
        let cut = || FormatError::new(WHAT, format!("cut off at {} bytes", bytes.len()));
        let bytes = bytes.get(..HEADER_BYTES).ok_or_else(cut)?;
        let version = u16_at(bytes, 8).ok_or_else(cut)?;
        ensure(version == VERSION, WHAT, || {
            format!("version {version}, this program reads {VERSION}")
        })?;
        ensure(u32_at(bytes, 12) == Some(header_crc(bytes)), WHAT, || {
            "checksum mismatch in the header".into()
        })?;
        let contents = match u16_at(bytes, 10) {
            Some(1) => Contents::Collection,
            Some(2) => Contents::Everything,
            other => {
                let other = other.unwrap_or(0);
                return Err(FormatError::new(WHAT, format!("contents {other} are unknown")));
            }
        };
        Ok(Header {
            contents,
            created: u64_at(bytes, 16).filter(|created| *created > 0),
        })
    }
}

fn header_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[8..12]), &bytes[16..HEADER_BYTES])
}

/// What a frame's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum FrameKind {
    Catalog = 1,
    Collection = 2,
    /// A group of the log: at most what a group may be.
    Changes = 3,
    File = 4,
    Finished = 5,
    End = 6,
}

impl FrameKind {
    fn of(code: u16) -> Option<FrameKind> {
        use FrameKind::*;
        [Catalog, Collection, Changes, File, Finished, End]
            .into_iter()
            .find(|kind| *kind as u16 == code)
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    /// crc32c of the body.
    pub crc: u32,
    /// Length of the body.
    pub bytes: u64,
}

impl Frame {
    /// A frame around a body in memory.
    pub fn of(kind: FrameKind, body: &[u8]) -> Frame {
        Frame {
            kind,
            crc: crc32c::crc32c(body),
            bytes: body.len() as u64,
        }
    }

    pub fn encode(&self, number: u32) -> [u8; FRAME_BYTES] {
        let mut out = [0; FRAME_BYTES];
        out[4..6].copy_from_slice(&(self.kind as u16).to_le_bytes());
        out[8..12].copy_from_slice(&number.to_le_bytes());
        out[12..16].copy_from_slice(&self.crc.to_le_bytes());
        out[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        let crc = crc32c::crc32c(&out[4..]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The head that must be frame `number`.
    pub fn decode(bytes: &[u8], number: u32) -> Result<Frame> {
        let cut = || FormatError::new(WHAT, format!("cut off in the head of frame {number}"));
        let bytes = bytes.get(..FRAME_BYTES).ok_or_else(cut)?;
        ensure(
            u32_at(bytes, 0) == Some(crc32c::crc32c(&bytes[4..])),
            WHAT,
            || format!("checksum mismatch in the head of frame {number}"),
        )?;
        let found = u32_at(bytes, 8).ok_or_else(cut)?;
        ensure(found == number, WHAT, || {
            format!("frame {found} where {number} should be")
        })?;
        let code = u16_at(bytes, 4).ok_or_else(cut)?;
        let kind = FrameKind::of(code)
            .ok_or_else(|| FormatError::new(WHAT, format!("frame {number} is of kind {code}")))?;
        let frame = Frame {
            kind,
            crc: u32_at(bytes, 12).ok_or_else(cut)?,
            bytes: u64_at(bytes, 16).ok_or_else(cut)?,
        };
        let fits = match kind {
            FrameKind::Catalog | FrameKind::Collection => frame.bytes <= LIST_BYTES_MAX,
            FrameKind::Finished | FrameKind::End => frame.bytes == 0,
            FrameKind::Changes | FrameKind::File => true,
        };
        ensure(fits, WHAT, || {
            format!("frame {number} ({kind:?}) has {} bytes", frame.bytes)
        })?;
        Ok(frame)
    }

    /// `Err` unless `body` is what the head says.
    pub fn verify(&self, body: &[u8]) -> Result<()> {
        self.verify_crc(crc32c::crc32c(body))
    }

    /// `Err` unless the body's crc32c is what the head says.
    pub fn verify_crc(&self, crc: u32) -> Result<()> {
        ensure(crc == self.crc, WHAT, || {
            format!(
                "checksum {crc:08x} of a body ({:?}), its head says {:08x}",
                self.kind, self.crc
            )
        })
    }
}
