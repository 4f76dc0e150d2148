//! Ids of points: the file's, or generated ones.

use std::hash::{BuildHasher, RandomState};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha1::{Digest, Sha1};

/// Namespace of object identifiers, RFC 9562 section 6.6.
const NAMESPACE_OID: [u8; 16] = [
    0x6b, 0xa7, 0xb8, 0x12, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8,
];

/// How points get their ids: the same for the same row each time that an import goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Numbering {
    /// Every row has its own.
    Own,
    /// The row's number, counted from this one on.
    From(u64),
    /// The UUID of the id's text, or of the row where there is none.
    Hash,
    /// A UUID of the row's number in this namespace, which nobody else has.
    Fresh([u8; 16]),
}

impl Default for Numbering {
    fn default() -> Numbering {
        Numbering::From(0)
    }
}

impl Numbering {
    pub fn fresh() -> Numbering {
        let random = || RandomState::new().hash_one(0u8).to_le_bytes();
        let mut namespace = [0; 16];
        namespace[..8].copy_from_slice(&random());
        namespace[8..].copy_from_slice(&random());
        Numbering::Fresh(namespace)
    }

    /// Point `row`'s id as JSON, and the row's own one when that is another. `text`: the row as it is.
    pub fn id<'a>(
        &self,
        own: Option<&'a RawValue>,
        row: u64,
        text: &[u8],
    ) -> Result<(String, Option<&'a RawValue>)> {
        match (self, own) {
            (Numbering::Own, None) => bail!("it has no id"),
            (Numbering::Own, Some(id)) => Ok((of_file(id.get())?, None)),
            (Numbering::From(first), id) => {
                let number = first.checked_add(row).context("no number is left for it")?;
                Ok((number.to_string(), id))
            }
            (Numbering::Hash, None) => Ok((quoted(uuid_of(&NAMESPACE_OID, text)), None)),
            (Numbering::Hash, Some(id)) => {
                // A text is hashed without its quotes, anything else as it is written.
                let text = serde_json::from_str(id.get()).unwrap_or_else(|_| id.get().to_string());
                Ok((quoted(uuid_of(&NAMESPACE_OID, text.as_bytes())), Some(id)))
            }
            (Numbering::Fresh(namespace), id) => {
                let uuid = uuid_of(namespace, row.to_string().as_bytes());
                Ok((quoted(uuid), id))
            }
        }
    }

    /// What `--ids` goes on with, after `row` rows, where the row's number tells.
    pub fn going_on(&self, row: u64) -> String {
        match self {
            Numbering::Own => format!("--offset {row}"),
            Numbering::Hash => format!("--offset {row} --ids hash"),
            Numbering::From(0) => format!("--offset {row} --ids line"),
            Numbering::From(first) => format!("--offset {row} --ids line --first-id {first}"),
            Numbering::Fresh(_) => format!(
                "--offset {row} --ids uuid, but later rows may be stored already and would be stored twice; --resume from the first run on avoids that"
            ),
        }
    }
}

/// A row has an id and another one none. Rows that had their own ids can't be followed by others under one rule.
#[derive(Debug)]
pub struct MixedIds(pub String);

impl std::fmt::Display for MixedIds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MixedIds {}

fn quoted(uuid: String) -> String {
    format!("\"{uuid}\"")
}

fn of_file(text: &str) -> Result<String> {
    if serde_json::from_str::<ramlet::PointId>(text).is_ok() {
        return Ok(text.to_string());
    }
    let quoted: Option<u64> = serde_json::from_str::<String>(text)
        .ok()
        .and_then(|inner| inner.parse().ok());
    match quoted {
        Some(number) => Ok(number.to_string()),
        None => bail!(
            "the id {text} is neither an unsigned integer nor a UUID; --ids hash makes a UUID of any text, --ids line numbers the rows"
        ),
    }
}

/// What can be done about a file without ids, for a collection that has points.
pub fn choice(collection: &str, points: u64) -> String {
    let ways = [
        "--ids append numbers the new points after the highest id",
        "--ids line replaces points from 0 on",
        "--ids hash makes UUIDs from the rows' contents, so that the same row replaces itself",
        "--ids uuid makes new ones",
        "--id-field names the field that has them",
    ];
    format!(
        "the file has no ids, and '{collection}' already has {points} points. Choose one:\n  {}",
        ways.join("\n  ")
    )
}

/// Version 5 (RFC 9562 section 5.5): what Python calls `uuid5(namespace, text)`.
fn uuid_of(namespace: &[u8; 16], text: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(namespace);
    hash.update(text);
    let digest = hash.finalize();
    let mut bytes: [u8; 16] = std::array::from_fn(|at| digest[at]);
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| &hex[from..to];
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_those_of_others() {
        // By Python's uuid module.
        assert_eq!(
            uuid_of(&NAMESPACE_OID, b"MED-10"),
            "d7af0ce8-0691-5ac9-b086-3bff373caa71"
        );
        assert_eq!(
            uuid_of(&NAMESPACE_OID, b""),
            "0a68eb57-c88a-5f34-9e9d-27f85e68af4f"
        );
    }
}
