//! The bytes of a slot of a shard's log, little endian. Each object is written once.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic `RAMLETSL` |
//! | 8..10 | version u16 = 1 |
//! | 10..12 | kind u16: 1 seal, 2 group, 3 request |
//! | 12..16 | 0 |
//! | 16..24 | epoch u64 of its writer |
//! | 24..40 | writer: 128 random bits, others for each start of a process |
//! | 40..48 | number u64 of the entry among those of its writer |
//! | 48.. | a seal: JSON. A group: lsn u64, length u16 of the collection's id, the id, the group as in the log file. A request: JSON |
//! | last 32 | SHA-256 of all before |

use bytes::Bytes;

use super::protocol::{Kind, Logged};
use crate::error::{Result, StoreError};
use crate::hash::Sha;

const MAGIC: &[u8; 8] = b"RAMLETSL";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 48;
const SHA_BYTES: usize = 32;

/// What a slot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub epoch: u64,
    pub writer: [u8; 16],
    /// Of the entry among those of its writer.
    pub number: u64,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Who took over: JSON.
    Seal(Bytes),
    /// A group of changes of one collection, as its log file has it.
    Group { id: String, lsn: u64, group: Bytes },
    /// A change of collections, aliases or settings: JSON.
    Request(Bytes),
}

impl Logged for Entry {
    fn kind(&self) -> Kind {
        let epoch = self.epoch;
        match self.body {
            Body::Seal(_) => Kind::Seal { epoch },
            Body::Group { .. } | Body::Request(_) => Kind::Record { epoch },
        }
    }
}

impl Entry {
    /// About what it holds in RAM.
    pub fn bytes(&self) -> u64 {
        let body = match &self.body {
            Body::Seal(json) | Body::Request(json) => json.len(),
            Body::Group { id, group, .. } => id.len() + group.len(),
        };
        (body + HEAD_BYTES + SHA_BYTES) as u64
    }

    pub fn encode(&self) -> Bytes {
        let (kind, head, rest): (u16, Vec<u8>, &[u8]) = match &self.body {
            Body::Seal(json) => (1, Vec::new(), json),
            Body::Group { id, lsn, group } => {
                let length = u16::try_from(id.len()).expect("ids are short");
                let head = [&lsn.to_le_bytes()[..], &length.to_le_bytes(), id.as_bytes()].concat();
                (2, head, group)
            }
            Body::Request(json) => (3, Vec::new(), json),
        };
        let mut out = Vec::with_capacity(HEAD_BYTES + head.len() + rest.len() + SHA_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.writer);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(rest);
        let sha = Sha::of(&out);
        out.extend_from_slice(&sha.0);
        out.into()
    }

    /// Fails, and never panics, on what [`Entry::encode`] didn't make.
    pub fn decode(bytes: &Bytes) -> Result<Entry> {
        let wrong = |why: &str| Err(StoreError::corrupt(why.to_owned()));
        let Some(end) = bytes
            .len()
            .checked_sub(SHA_BYTES)
            .filter(|end| *end >= HEAD_BYTES)
        else {
            return wrong("it is too short for an entry of a log");
        };
        if bytes[..8] != MAGIC[..] {
            return wrong("it is no entry of a log");
        }
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if u16_at(8) != VERSION {
            let found = u16_at(8);
            return wrong(&format!("version {found}, this program knows {VERSION}"));
        }
        if Sha::of(&bytes[..end]).0[..] != bytes[end..] {
            return wrong("its bytes are others than were written");
        }
        let body = bytes.slice(HEAD_BYTES..end);
        let body = match u16_at(10) {
            1 => Body::Seal(body),
            2 => match group(&body) {
                Some(group) => group,
                None => return wrong("a group without an id"),
            },
            3 => Body::Request(body),
            other => return wrong(&format!("an entry of the unknown kind {other}")),
        };
        Ok(Entry {
            epoch: u64_at(bytes, 16),
            writer: bytes[24..40].try_into().expect("sixteen bytes"),
            number: u64_at(bytes, 40),
            body,
        })
    }
}

fn group(body: &Bytes) -> Option<Body> {
    let length = usize::from(u16::from_le_bytes(body.get(8..10)?.try_into().ok()?));
    let id = std::str::from_utf8(body.get(10..10 + length)?).ok()?;
    Some(Body::Group {
        id: id.to_owned(),
        lsn: u64_at(body, 0),
        group: body.slice(10 + length..),
    })
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let bodies = [
            Body::Seal(Bytes::from_static(b"{}")),
            Body::Group {
                id: "c00000001".into(),
                lsn: 7,
                group: Bytes::from_static(b"changes"),
            },
            Body::Request(Bytes::from_static(b"{\"method\":\"PUT\"}")),
        ];
        let of = |body| Entry {
            epoch: 3,
            writer: [9; 16],
            number: 4,
            body,
        };
        bodies.into_iter().map(of).collect()
    }

    #[test]
    fn entries_are_read_back() {
        for entry in entries() {
            assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
        }
    }

    #[test]
    fn no_changed_byte_is_taken() {
        for entry in entries() {
            let good = entry.encode();
            for at in 0..good.len() {
                let mut bad = good.to_vec();
                bad[at] ^= 1;
                assert!(Entry::decode(&bad.into()).is_err(), "{entry:?}, byte {at}");
                assert!(Entry::decode(&good.slice(..at)).is_err(), "{entry:?}, {at} bytes");
            }
        }
    }
}
