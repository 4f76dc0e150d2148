//! A group that isn't in the log yet, and what it makes of single points.

use std::collections::BTreeMap;

use ramlet_format::log;

use crate::types::PointId;
use crate::write::change::{self, Change};

/// Points of a group among which one is looked up: 0.3 MB of ids. A group that is looked into is closed where it changes more.
pub const POINTS_LOOKED_UP_MAX: usize = 4096;

/// Collects changes: ops framed one after another, in the log's record from the start. So the longest of buffers isn't copied for its 33 bytes of header.
#[derive(Default)]
pub struct Group {
    /// Empty, or room for the header and then ops.
    record: Vec<u8>,
    points: LastChanges,
}

/// Where in the group the last change of each point begins, of its first `seen` bytes.
#[derive(Default)]
struct LastChanges {
    places: BTreeMap<PointId, u32>,
    seen: usize,
}

impl Group {
    pub fn push(&mut self, operation: u64, changes: &[u8]) {
        if self.record.is_empty() {
            log::begin(&mut self.record);
        }
        change::encode_op(&mut self.record, operation, changes);
    }

    /// Takes memory for a first op and those that fit beside it in `bytes`: at once and exactly, since doubling would hold three times as much for a moment.
    pub fn reserve(&mut self, bytes: usize) {
        if self.is_empty() {
            self.record.reserve_exact(log::HEADER_BYTES + bytes);
        }
    }

    /// The ops.
    pub fn bytes(&self) -> &[u8] {
        self.record.get(log::HEADER_BYTES..).unwrap_or_default()
    }

    /// The record, its header still to be written.
    pub fn record(&mut self) -> &mut Vec<u8> {
        &mut self.record
    }

    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Whether `more` bytes of changes would make it too long.
    pub fn is_full(&self, more: usize, limit: usize) -> bool {
        !self.is_empty() && self.bytes().len() + change::OP_HEADER_BYTES + more > limit
    }

    /// Whether [`Group::last_change`] knows all of it: false where it changes too many points.
    pub fn is_looked_through(&mut self) -> bool {
        let bytes = self.record.get(log::HEADER_BYTES..).unwrap_or_default();
        let LastChanges { places, seen } = &mut self.points;
        for (id, place) in change::places_from(bytes, *seen) {
            if places.len() >= POINTS_LOOKED_UP_MAX {
                return false;
            }
            places.insert(id, place as u32);
        }
        *seen = bytes.len();
        true
    }

    /// What it makes of a point, as far as it was looked through; `None`: it doesn't change it.
    pub fn last_change(&self, id: PointId) -> Option<Change<'_>> {
        let place = *self.points.places.get(&id)?;
        change::change_at(self.bytes(), place as usize)
    }

    /// Takes back all behind the first `bytes`, which end with an op.
    pub fn truncate(&mut self, bytes: usize) {
        if bytes < self.bytes().len() {
            self.record.truncate(log::HEADER_BYTES + bytes);
            self.points = LastChanges::default();
        }
    }

    /// Begins anew; memory beyond `kept` bytes is given back.
    pub fn clear(&mut self, kept: usize) {
        self.truncate(0);
        self.record.clear();
        self.record.shrink_to(log::HEADER_BYTES + kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::change::{encode_delete, encode_put};

    fn put(group: &mut Group, id: u64, payload: &[u8]) {
        let mut change = Vec::new();
        encode_put(&mut change, PointId::Num(id), std::iter::empty(), payload);
        group.push(1, &change);
    }

    fn payload(group: &mut Group, id: u64) -> Option<Vec<u8>> {
        assert!(group.is_looked_through());
        match group.last_change(PointId::Num(id))? {
            Change::Put(_, row) => Some(row.payload.to_vec()),
            Change::Delete(_) => Some(b"deleted".to_vec()),
        }
    }

    #[test]
    fn the_last_change_of_a_point_counts() {
        let mut group = Group::default();
        put(&mut group, 1, b"{}");
        put(&mut group, 2, b"{\"a\":1}");
        let kept = group.bytes().len();
        assert_eq!(payload(&mut group, 1), Some(b"{}".to_vec()));
        put(&mut group, 1, b"{\"b\":2}");
        assert_eq!(payload(&mut group, 1), Some(b"{\"b\":2}".to_vec()));
        let mut change = Vec::new();
        encode_delete(&mut change, PointId::Num(2));
        group.push(2, &change);
        assert_eq!(payload(&mut group, 2), Some(b"deleted".to_vec()));
        assert_eq!(payload(&mut group, 3), None);
        group.truncate(kept);
        assert_eq!(payload(&mut group, 1), Some(b"{}".to_vec()));
        assert_eq!(payload(&mut group, 2), Some(b"{\"a\":1}".to_vec()));
        group.clear(0);
        assert_eq!(payload(&mut group, 1), None);
    }

    /// The record that the log writes is the buffer that the ops were collected in.
    #[test]
    fn a_group_lies_in_its_record() {
        let mut group = Group::default();
        group.reserve(4096);
        let buffer = group.record().as_ptr();
        for id in 0..3 {
            put(&mut group, id, b"{}");
        }
        let ops = group.bytes().to_vec();
        log::end(group.record(), 0, 7, 2, 1, 1).expect("it is short");
        assert_eq!(group.record().as_ptr(), buffer);
        let log::Decoded::Record(record) = log::decode(group.record(), 7) else {
            panic!("no record");
        };
        assert_eq!(record.payload, ops);
        assert_eq!(group.bytes(), ops);
        group.clear(0);
        assert!(group.is_empty() && group.bytes().is_empty());
        put(&mut group, 9, b"");
        assert_eq!(payload(&mut group, 9), Some(Vec::new()));
    }

    #[test]
    fn a_group_of_too_many_points_is_not_looked_into() {
        let mut group = Group::default();
        for id in 0..POINTS_LOOKED_UP_MAX as u64 {
            put(&mut group, id, b"");
        }
        assert!(group.is_looked_through());
        put(&mut group, u64::MAX, b"");
        assert!(!group.is_looked_through());
    }
}
