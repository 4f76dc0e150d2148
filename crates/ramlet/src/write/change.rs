//! Physical changes, as the log stores them and the memtable applies them.
//!
//! A change is a whole point or the deletion of one; filters and partial updates are resolved before. So replay needs nothing but
//! the log, and the deletes that a manifest keeps may be newer than its log position.
//!
//! | op of a group | bytes |
//! |---|---|
//! | operation number | u64 |
//! | length of the changes | u32 |
//! | changes | one after another |
//!
//! | change | bytes |
//! |---|---|
//! | tag | u8: 1 = put, 2 = delete |
//! | id | 9 or 17 (`PointId::encode`) |
//! | put: vector count | u8 |
//! | put: per vector | slot u16, length u32, encoded row |
//! | put: payload | length u32, JSON text |

use crate::error::{Error, Result};
use crate::types::PointId;

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// One point's change, borrowed from the bytes of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change<'a> {
    Put(PointId, Row<'a>),
    Delete(PointId),
}

/// Vectors and payload of a point as they are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row<'a> {
    count: u8,
    vectors: &'a [u8],
    pub payload: &'a [u8],
}

impl<'a> Row<'a> {
    /// (slot, encoded row), ascending by slot.
    pub fn vectors(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut reader = Reader(self.vectors);
        (0..self.count).map_while(move |_| reader.vector())
    }
}

/// Appends a put. `vectors`: (slot, encoded row), ascending by slot.
pub fn encode_put<'a>(
    out: &mut Vec<u8>,
    id: PointId,
    vectors: impl Iterator<Item = (u16, &'a [u8])>,
    payload: &[u8],
) {
    encode_put_head(out, id, 0);
    // The count is the head's last byte.
    let count_at = out.len() - 1;
    for (slot, row) in vectors {
        out[count_at] += 1;
        encode_vector_head(out, slot, row.len());
        out.extend_from_slice(row);
    }
    encode_payload(out, payload);
}

/// The beginning of a put: so many vectors follow, each a head and its row, and then the payload.
pub fn encode_put_head(out: &mut Vec<u8>, id: PointId, vectors: usize) {
    out.push(PUT);
    id.encode(out);
    out.push(u8::try_from(vectors).expect("a schema has fewer vectors"));
}

/// What stands before an encoded row of so many bytes.
pub fn encode_vector_head(out: &mut Vec<u8>, slot: u16, bytes: usize) {
    out.extend_from_slice(&slot.to_le_bytes());
    out.extend_from_slice(&(bytes as u32).to_le_bytes());
}

/// The end of a put.
pub fn encode_payload(out: &mut Vec<u8>, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload);
}

pub fn encode_delete(out: &mut Vec<u8>, id: PointId) {
    out.push(DELETE);
    id.encode(out);
}

/// Appends an op's frame around changes that are encoded already.
pub fn encode_op(out: &mut Vec<u8>, operation: u64, changes: &[u8]) {
    out.extend_from_slice(&operation.to_le_bytes());
    out.extend_from_slice(&(changes.len() as u32).to_le_bytes());
    out.extend_from_slice(changes);
}

/// Bytes of [`encode_op`] beside the changes.
pub const OP_HEADER_BYTES: usize = 12;

/// Calls `each(operation number, change)` for all of a group's payload.
pub fn for_each(group: &[u8], mut each: impl FnMut(u64, Change<'_>) -> Result<()>) -> Result<()> {
    let mut reader = Reader(group);
    while !reader.0.is_empty() {
        let (Some(operation), Some(changes)) = (reader.u64(), reader.bytes()) else {
            return Err(damaged());
        };
        let mut changes = Reader(changes);
        while !changes.0.is_empty() {
            each(operation, changes.change().ok_or_else(damaged)?)?;
        }
    }
    Ok(())
}

/// Splits a sequence of encoded changes where a part would exceed `bytes`; a single larger change stands alone.
pub fn split(changes: &[u8], bytes: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = changes;
    std::iter::from_fn(move || {
        let mut reader = Reader(rest);
        let mut taken = 0;
        while !reader.0.is_empty() && reader.change().is_some() {
            let end = rest.len() - reader.0.len();
            if taken > 0 && end > bytes {
                break;
            }
            taken = end;
        }
        let (part, left) = rest.split_at(taken);
        rest = left;
        (!part.is_empty()).then_some(part)
    })
}

/// Bytes of the longest put; `None` when there is none.
pub fn longest_put(changes: &[u8]) -> Option<usize> {
    let mut reader = Reader(changes);
    let mut longest = None;
    loop {
        let before = reader.0.len();
        match reader.change() {
            Some(Change::Put(..)) => longest = longest.max(Some(before - reader.0.len())),
            Some(Change::Delete(_)) => {}
            None => return longest,
        }
    }
}

/// Ids of all puts, in their order.
pub fn put_ids(changes: &[u8]) -> impl Iterator<Item = PointId> + Clone {
    let mut reader = Reader(changes);
    std::iter::from_fn(move || reader.change()).filter_map(|change| match change {
        Change::Put(id, _) => Some(id),
        Change::Delete(_) => None,
    })
}

/// The ids of all changes of a group's ops, from the op on that begins at `start`, and where in the group each change begins.
pub fn places_from(group: &[u8], start: usize) -> impl Iterator<Item = (PointId, usize)> {
    let mut ops = Reader(group.get(start..).unwrap_or_default());
    let mut changes = Reader(&[]);
    std::iter::from_fn(move || {
        while changes.0.is_empty() {
            ops.u64()?;
            changes = Reader(ops.bytes()?);
        }
        let place = group.len() - ops.0.len() - changes.0.len();
        changes.change().map(|change| match change {
            Change::Put(id, _) | Change::Delete(id) => (id, place),
        })
    })
}

/// The change that begins there.
pub fn change_at(group: &[u8], place: usize) -> Option<Change<'_>> {
    Reader(group.get(place..)?).change()
}

fn damaged() -> Error {
    Error::corrupt("a log group passes its checksum but doesn't decode")
}

#[derive(Clone)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(n as usize)
    }
    fn vector(&mut self) -> Option<(u16, &'a [u8])> {
        let slot = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
        Some((slot, self.bytes()?))
    }
    fn change(&mut self) -> Option<Change<'a>> {
        let tag = self.take(1)?[0];
        let (id, used) = PointId::decode(self.0)?;
        self.take(used)?;
        match tag {
            DELETE => Some(Change::Delete(id)),
            PUT => {
                let count = self.take(1)?[0];
                let start = self.0;
                for _ in 0..count {
                    self.vector()?;
                }
                let vectors = &start[..start.len() - self.0.len()];
                Some(Change::Put(
                    id,
                    Row {
                        count,
                        vectors,
                        payload: self.bytes()?,
                    },
                ))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_split() {
        let mut changes = Vec::new();
        encode_put(
            &mut changes,
            PointId::Num(7),
            [(0, &b"abcd"[..]), (3, b"xy")].into_iter(),
            b"{\"a\":1}",
        );
        encode_delete(&mut changes, PointId::Uuid(9));
        encode_put(&mut changes, PointId::Num(8), std::iter::empty(), b"");
        let mut group = Vec::new();
        encode_op(&mut group, 41, &changes);
        let mut seen = Vec::new();
        for_each(&group, |op, change| {
            assert_eq!(op, 41);
            if let Change::Put(id, row) = change {
                seen.push((
                    id,
                    row.vectors().map(|(s, v)| (s, v.to_vec())).collect::<Vec<_>>(),
                    row.payload.to_vec(),
                ));
            } else {
                assert_eq!(change, Change::Delete(PointId::Uuid(9)));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(seen[0].1, vec![(0, b"abcd".to_vec()), (3, b"xy".to_vec())]);
        assert_eq!(seen[0].2, b"{\"a\":1}");
        assert_eq!(seen[1], (PointId::Num(8), vec![], vec![]));
        let places: Vec<_> = places_from(&group, 0).collect();
        let ids = [PointId::Num(7), PointId::Uuid(9), PointId::Num(8)];
        assert!(places.iter().map(|(id, _)| *id).eq(ids));
        let again = change_at(&group, places[1].1);
        assert_eq!(again, Some(Change::Delete(PointId::Uuid(9))));
        assert_eq!(change_at(&group, group.len()), None);
        let parts: Vec<_> = split(&changes, 40).collect();
        assert_eq!(parts.concat(), changes);
        assert_eq!(parts.len(), 2);
        assert_eq!(split(&changes, 1).count(), 3);
        assert_eq!(longest_put(&changes), Some(40));
        assert_eq!(longest_put(&changes[40..58]), None);
        for cut in 1..group.len() {
            assert!(for_each(&group[..cut], |_, _| Ok(())).is_err());
        }
    }
}
