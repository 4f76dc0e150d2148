//! Which chunks make which file: the list that a backup's manifest names, itself kept in chunks.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic `RAMLETSI` |
//! | 8..10 | version u16 = 1 |
//! | 10..16 | 0 |
//! | 16..24 | files u64 |
//! | then each file | length of its name u16, the name, bytes u64, chunks u32, the chunks |
//! | a chunk | SHA-256, 32 bytes; epoch u64; bytes u32 |
//!
//! Little endian. A name is `file` or `directory/file`, both plain.

use serde::{Deserialize, Serialize};

use crate::error::{Result, StoreError};
use crate::hash::Sha;
use crate::limits::{CHUNK_BYTES_MAX, CHUNK_ENTRY_BYTES, FILE_ENTRY_BYTES};

const MAGIC: &[u8; 8] = b"RAMLETSI";
const VERSION: u16 = 1;
const CHUNK_BYTES: usize = 44;

/// An object that holds a piece of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chunk {
    pub sha: Sha,
    /// Of its name, see [`layout`](crate::layout).
    pub epoch: u64,
    pub bytes: u32,
}

/// A file and its chunks, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIndex {
    pub name: String,
    pub bytes: u64,
    pub chunks: Vec<Chunk>,
}

impl FileIndex {
    /// What it holds in RAM.
    pub fn held_bytes(&self) -> u64 {
        FILE_ENTRY_BYTES + self.name.len() as u64 + self.chunks.len() as u64 * CHUNK_ENTRY_BYTES
    }
}

/// As JSON, for manifests.
#[derive(Serialize, Deserialize)]
struct ChunkText {
    sha256: String,
    epoch: u64,
    bytes: u32,
}

impl Serialize for Chunk {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let text = ChunkText {
            sha256: self.sha.to_string(),
            epoch: self.epoch,
            bytes: self.bytes,
        };
        text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Chunk, D::Error> {
        let text = ChunkText::deserialize(from)?;
        let sha = Sha::parse(&text.sha256).ok_or_else(|| serde::de::Error::custom("it is no SHA-256"))?;
        Ok(Chunk {
            sha,
            epoch: text.epoch,
            bytes: text.bytes,
        })
    }
}

/// The whole list.
pub fn encode(files: &[FileIndex]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 6]);
    out.extend_from_slice(&(files.len() as u64).to_le_bytes());
    for file in files {
        out.extend_from_slice(&(file.name.len() as u16).to_le_bytes());
        out.extend_from_slice(file.name.as_bytes());
        out.extend_from_slice(&file.bytes.to_le_bytes());
        out.extend_from_slice(&(file.chunks.len() as u32).to_le_bytes());
        for chunk in &file.chunks {
            out.extend_from_slice(&chunk.sha.0);
            out.extend_from_slice(&chunk.epoch.to_le_bytes());
            out.extend_from_slice(&chunk.bytes.to_le_bytes());
        }
    }
    out
}

/// Reads a list. Names that could lead elsewhere, or files that don't add up, are refused.
pub fn decode(bytes: &[u8]) -> Result<Vec<FileIndex>> {
    let mut reader = Reader(bytes);
    if reader.take(8)? != MAGIC {
        return Err(StoreError::corrupt("the list of files has no magic number"));
    }
    let version = u16::from_le_bytes(reader.array()?);
    if version != VERSION {
        let message = format!("the list of files has version {version}, this program reads {VERSION}");
        return Err(StoreError::corrupt(message));
    }
    reader.take(6)?;
    let count = u64::from_le_bytes(reader.array()?);
    let mut files = Vec::new();
    for _ in 0..count {
        files.push(reader.file()?);
    }
    match reader.0.is_empty() {
        true => Ok(files),
        false => Err(StoreError::corrupt("the list of files is longer than it says")),
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let taken = self.0.split_at_checked(bytes);
        let (taken, rest) = taken.ok_or_else(|| StoreError::corrupt("the list of files is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("so many were taken"))
    }

    fn file(&mut self) -> Result<FileIndex> {
        let length = u16::from_le_bytes(self.array()?);
        let name = self.take(length.into())?;
        let name = str::from_utf8(name).ok().filter(|name| is_name(name));
        let name =
            name.ok_or_else(|| StoreError::corrupt("a name in the list of files isn't one of ours"))?;
        let bytes = u64::from_le_bytes(self.array()?);
        let count = u32::from_le_bytes(self.array()?) as usize;
        let chunks: Vec<Chunk> = self
            .take(count.saturating_mul(CHUNK_BYTES))?
            .chunks_exact(CHUNK_BYTES)
            .map(chunk)
            .collect();
        let sum: u64 = chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
        let are_sound = chunks
            .iter()
            .all(|chunk| (1..=CHUNK_BYTES_MAX).contains(&(chunk.bytes as usize)));
        if sum != bytes || !are_sound {
            return Err(StoreError::corrupt(format!(
                "{name} has {bytes} bytes in the list of files, its chunks {sum}"
            )));
        }
        Ok(FileIndex {
            name: name.to_owned(),
            bytes,
            chunks,
        })
    }
}

fn chunk(bytes: &[u8]) -> Chunk {
    let part = |from: usize, to: usize| &bytes[from..to];
    Chunk {
        sha: Sha(part(0, 32).try_into().expect("32 bytes")),
        epoch: u64::from_le_bytes(part(32, 40).try_into().expect("8 bytes")),
        bytes: u32::from_le_bytes(part(40, 44).try_into().expect("4 bytes")),
    }
}

/// `file` or `directory/file`: leads to no other place.
pub fn is_name(name: &str) -> bool {
    let mut parts = name.split('/');
    let is_plain = |part: Option<&str>| part.is_none_or(ramlet_format::is_plain_name);
    !name.is_empty() && is_plain(parts.next()) && is_plain(parts.next()) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<FileIndex> {
        let chunk = |text: &str, bytes| Chunk {
            sha: Sha::of(text.as_bytes()),
            epoch: 3,
            bytes,
        };
        vec![
            FileIndex {
                name: "CATALOG-000000000001".into(),
                bytes: 0,
                chunks: vec![],
            },
            FileIndex {
                name: "c00000001/00000001.v0".into(),
                bytes: 30,
                chunks: vec![chunk("a", 10), chunk("b", 20)],
            },
        ]
    }

    #[test]
    fn lists_are_read_back() {
        assert_eq!(decode(&encode(&sample())), Ok(sample()));
    }

    /// Stores have lists of before: a change of the layout is a new version.
    #[test]
    fn the_layout_stays() {
        let fingerprint = Sha::of(&encode(&sample())).to_string();
        assert_eq!(&fingerprint[..16], "5cda06607273d15f");
    }

    #[test]
    fn damaged_lists_are_refused() {
        let bytes = encode(&sample());
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        assert!(decode(&[&bytes[..], b"x"].concat()).is_err());
        for name in ["../a", "a/b/c", "/a", "", "a/", ".a", "a\0"] {
            let mut files = sample();
            files[1].name = name.into();
            assert!(decode(&encode(&files)).is_err(), "{name}");
        }
        let mut files = sample();
        files[1].bytes = 31;
        assert!(decode(&encode(&files)).is_err());
    }
}
