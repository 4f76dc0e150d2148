//! Ids of points from the ids of a file.

use anyhow::{Result, bail};
use serde_json::value::RawValue;
use sha1::{Digest, Sha1};

use crate::args::Ids;

/// Namespace of object identifiers, RFC 9562 section 6.6.
const NAMESPACE_OID: [u8; 16] = [
    0x6b, 0xa7, 0xb8, 0x12, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8,
];

/// The point's id as JSON, and the file's own one when that is another; `row` counts lines from 0.
pub fn point_id(id: Option<&RawValue>, row: u64, ids: Ids) -> Result<(String, Option<&RawValue>)> {
    match (ids, id) {
        (Ids::Line, id) => Ok((row.to_string(), id)),
        (Ids::File, None) => Ok((row.to_string(), None)),
        (Ids::File, Some(id)) => Ok((of_file(id.get())?, None)),
        (Ids::Hash, None) => bail!("it has no id, and --ids hash needs one"),
        (Ids::Hash, Some(id)) => {
            // A text is hashed without its quotes, anything else as it is written.
            let text = serde_json::from_str(id.get()).unwrap_or_else(|_| id.get().to_string());
            Ok((format!("\"{}\"", uuid_of(&text)), Some(id)))
        }
    }
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
            "the id {text} is neither an unsigned integer nor a UUID; --ids line or --ids hash takes it"
        ),
    }
}

/// Version 5 (RFC 9562 section 5.5) in the namespace of object identifiers: what Python calls `uuid5(NAMESPACE_OID, text)`.
fn uuid_of(text: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(NAMESPACE_OID);
    hash.update(text.as_bytes());
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
        assert_eq!(uuid_of("MED-10"), "d7af0ce8-0691-5ac9-b086-3bff373caa71");
        assert_eq!(uuid_of(""), "0a68eb57-c88a-5f34-9e9d-27f85e68af4f");
    }
}
