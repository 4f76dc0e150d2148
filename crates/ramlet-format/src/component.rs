//! Components: what a file of a segment holds.

use serde::{Deserialize, Serialize};

/// What a file of a segment holds. `slot` is the number of the vector or of the payload index within the collection.
/// In manifests some have the names that they had in 0.1.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// Sorted table: encoded point id, then row (u32, big endian).
    Ids,
    /// Bloom filter over the encoded point ids.
    IdFilter,
    /// Rows: encoded point id by row.
    RowIds,
    /// Rows: vectors of one vector name.
    Vector { slot: u16 },
    /// Bitmap of the rows that have this vector.
    Presence { slot: u16 },
    /// Rows: from row to position in cluster order, or back.
    Position { slot: u16 },
    /// Centroids of the vector index.
    Centroids { slot: u16 },
    /// Rows: codes of the vectors in cluster order, for searching in RAM.
    Codes { slot: u16 },
    /// Rows: extended codes of the vectors in cluster order, for those that the codes don't rule out.
    #[serde(rename = "fine")]
    Extended { slot: u16 },
    /// Rows: extended codes of fewer bits, for when there is less RAM.
    #[serde(rename = "fine_low")]
    ExtendedLow { slot: u16 },
    /// Rows: product codes of the vectors in cluster order, for when there is less RAM still.
    Product { slot: u16 },
    /// Rows: what the extended codes leave over of the vectors in cluster order, for when there is more RAM.
    #[serde(rename = "rest")]
    Residual { slot: u16 },
    /// Rows: the vectors in cluster order once more, of a byte a dimension, for rows that codes leave to be rescored.
    #[serde(rename = "compact")]
    Sq8 { slot: u16 },
    /// Rows: the vectors by row once more, where rows lie in the order of their tenants and the index has another.
    VectorByTenant { slot: u16 },
    /// Rows: nodes of the graph index.
    Graph { slot: u16 },
    /// What the graph index holds in RAM: entry points, codebooks, calibration.
    GraphMeta { slot: u16 },
    /// Records: payload by row.
    Payload,
    /// Rows: version of the point by row.
    Versions,
    /// Sorted table: encoded value, then row (u32, big endian).
    FieldIndex { slot: u16 },
    /// Records: vectors of one vector name that differ in length, by row.
    VectorRecords { slot: u16 },
    /// Bitmap of the first parts of rows of several parts, for an index over parts.
    PartStarts { slot: u16 },
    /// Posting lists of a sparse vector.
    Postings { slot: u16 },
    /// Sorted table: dimension of a sparse vector, then where its posting list is.
    Terms { slot: u16 },
    /// Sorted table: a word of a payload index that ranks, and a part of its list.
    TextTerms { slot: u16 },
    /// Records: the parts of the words' posting lists.
    TextLists { slot: u16 },
    /// Rows: lengths of the texts by row.
    TextLengths { slot: u16 },
    /// Records: where the words of the parts of the lists stand in their texts.
    TextPositions { slot: u16 },
    /// Bitmap of the deleted rows, in an envelope; the only component that has versions.
    Deletes,
}

impl Component {
    /// Slots are below this, so that kind and slot fit the 16 bits that a block's seed has for them.
    pub const SLOTS: u16 = 1 << 12;

    /// One of every kind, of slot 0.
    pub const KINDS: [Component; 28] = [
        Self::Ids,
        Self::IdFilter,
        Self::RowIds,
        Self::Vector { slot: 0 },
        Self::Presence { slot: 0 },
        Self::Position { slot: 0 },
        Self::Centroids { slot: 0 },
        Self::Codes { slot: 0 },
        Self::Extended { slot: 0 },
        Self::ExtendedLow { slot: 0 },
        Self::Product { slot: 0 },
        Self::Residual { slot: 0 },
        Self::Sq8 { slot: 0 },
        Self::VectorByTenant { slot: 0 },
        Self::Graph { slot: 0 },
        Self::GraphMeta { slot: 0 },
        Self::Payload,
        Self::Versions,
        Self::FieldIndex { slot: 0 },
        Self::VectorRecords { slot: 0 },
        Self::PartStarts { slot: 0 },
        Self::Postings { slot: 0 },
        Self::Terms { slot: 0 },
        Self::TextTerms { slot: 0 },
        Self::TextLists { slot: 0 },
        Self::TextLengths { slot: 0 },
        Self::TextPositions { slot: 0 },
        Self::Deletes,
    ];

    /// Slots of vectors are below this: graphs, some codes and rows of a length of their own share a
    /// kind, and have half of its slots each.
    pub const VECTOR_SLOTS: u16 = Self::HALF;

    const HALF: u16 = Self::SLOTS / 2;

    /// Slots of payload indexes that rank are below this.
    pub const TEXT_SLOTS: u16 = Self::HALF;

    /// Slots below the half, in what two kinds without slots of their own leave there.
    fn quarter(kinds: [u16; 2], slot: u16) -> (u16, u16) {
        const QUARTER: u16 = Component::SLOTS / 4;
        match kinds.get(usize::from(slot / QUARTER)) {
            Some(&kind) => (kind, 1 + slot % QUARTER),
            None => (kinds[0], Self::SLOTS),
        }
    }

    /// Slots below the half, in what the quarters leave of the first three kinds: one slot less than a quarter in each.
    fn third(slot: u16) -> (u16, u16) {
        const SLOTS: u16 = Component::SLOTS / 4 - 1;
        let kind = 1 + slot / SLOTS;
        match slot < Self::HALF {
            true => (kind, Self::SLOTS / 4 + 1 + slot % SLOTS),
            false => (kind, Self::SLOTS),
        }
    }

    /// 16 bits for [`block::seed`](crate::block::seed): kind << 12 | slot. On disk: never renumber.
    ///
    /// # Panics
    /// If the slot isn't below [`Component::SLOTS`]; for a graph, records and posting lists, half of that.
    pub fn code(self) -> u16 {
        let (kind, slot) = self.kind_and_slot();
        assert!(slot < Self::SLOTS, "slot {slot} isn't below {}", Self::SLOTS);
        (kind << 12) | slot
    }

    /// The slot, if this component has one.
    pub fn slot(self) -> Option<u16> {
        match self {
            Self::Vector { slot }
            | Self::Presence { slot }
            | Self::Position { slot }
            | Self::Centroids { slot }
            | Self::Codes { slot }
            | Self::Extended { slot }
            | Self::ExtendedLow { slot }
            | Self::Product { slot }
            | Self::Residual { slot }
            | Self::Sq8 { slot }
            | Self::VectorByTenant { slot }
            | Self::Graph { slot }
            | Self::GraphMeta { slot }
            | Self::VectorRecords { slot }
            | Self::PartStarts { slot }
            | Self::Postings { slot }
            | Self::Terms { slot }
            | Self::TextTerms { slot }
            | Self::TextLists { slot }
            | Self::TextLengths { slot }
            | Self::TextPositions { slot }
            | Self::FieldIndex { slot } => Some(slot),
            Self::Ids | Self::IdFilter | Self::RowIds | Self::Payload | Self::Versions | Self::Deletes => {
                None
            }
        }
    }

    fn kind_and_slot(self) -> (u16, u16) {
        let half = |slot: u16| if slot < Self::HALF { slot } else { Self::SLOTS };
        match self {
            Self::Ids => (1, 0),
            Self::IdFilter => (2, 0),
            Self::RowIds => (3, 0),
            Self::Vector { slot } => (4, slot),
            Self::Presence { slot } => (5, slot),
            Self::Position { slot } => (6, slot),
            Self::Centroids { slot } => (7, slot),
            Self::Payload => (8, 0),
            Self::Versions => (9, 0),
            Self::FieldIndex { slot } => (10, slot),
            Self::Deletes => (11, 0),
            Self::Codes { slot } => (12, slot),
            Self::Extended { slot } => (13, slot),
            Self::ExtendedLow { slot } => (14, slot),
            Self::Product { slot } => (15, slot),
            // Kinds 8 and 9 need no slots themselves: each has room for half of these.
            Self::Residual { slot } if slot < Self::HALF => (8, Self::HALF + slot),
            Self::Residual { slot } if slot < Self::SLOTS => (9, slot),
            Self::Residual { .. } => (9, Self::SLOTS),
            // Vectors have half of the slots: from here on the kind of their codes has the other half free.
            Self::Sq8 { slot } => (12, Self::HALF + half(slot)),
            Self::VectorByTenant { slot } => (4, Self::HALF + half(slot)),
            // As kind 8.
            Self::VectorRecords { slot } => (1, Self::HALF + half(slot)),
            Self::PartStarts { slot } => (11, Self::HALF + half(slot)),
            Self::Postings { slot } => (2, Self::HALF + half(slot)),
            Self::Terms { slot } => (3, Self::HALF + half(slot)),
            Self::TextTerms { slot } => Self::quarter([1, 2], slot),
            Self::TextLists { slot } => Self::quarter([3, 11], slot),
            Self::TextLengths { slot } => Self::quarter([8, 9], slot),
            Self::TextPositions { slot } => Self::third(slot),
            // All other kinds are taken: the two share one, and half of its slots each.
            Self::Graph { slot } => (0, half(slot)),
            Self::GraphMeta { slot } => (0, Self::HALF + half(slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_kind_is_listed() {
        // `unknown variant `none`, expected one of `ids`, ...`
        let error = serde_json::from_str::<Component>("\"none\"").expect_err("no such kind");
        let error = error.to_string();
        let names: Vec<_> = error.split('`').skip(3).step_by(2).collect();
        let listed = Component::KINDS.map(|kind| {
            let told = serde_json::to_value(kind).expect("a name");
            let with_slot = told.as_object().and_then(|object| object.keys().next());
            with_slot
                .map(String::as_str)
                .or(told.as_str())
                .unwrap_or_default()
                .to_owned()
        });
        assert_eq!(names, listed);
    }

    #[test]
    fn no_two_components_have_one_code() {
        let mut known = HashMap::new();
        let mut check = |component: Component| {
            if let Some(other) = known.insert(component.code(), component) {
                panic!("{component:?} has the code of {other:?}");
            }
        };
        for component in [
            Component::Ids,
            Component::IdFilter,
            Component::RowIds,
            Component::Payload,
            Component::Versions,
            Component::Deletes,
        ] {
            check(component);
        }
        for slot in 0..Component::SLOTS {
            check(Component::FieldIndex { slot });
        }
        for slot in 0..Component::TEXT_SLOTS {
            check(Component::TextTerms { slot });
            check(Component::TextLists { slot });
            check(Component::TextLengths { slot });
            check(Component::TextPositions { slot });
        }
        for slot in 0..Component::VECTOR_SLOTS {
            check(Component::Vector { slot });
            check(Component::Presence { slot });
            check(Component::Position { slot });
            check(Component::Centroids { slot });
            check(Component::Codes { slot });
            check(Component::Extended { slot });
            check(Component::ExtendedLow { slot });
            check(Component::Product { slot });
            check(Component::Residual { slot });
            check(Component::Sq8 { slot });
            check(Component::VectorByTenant { slot });
            check(Component::Graph { slot });
            check(Component::GraphMeta { slot });
            check(Component::VectorRecords { slot });
            check(Component::PartStarts { slot });
            check(Component::Postings { slot });
            check(Component::Terms { slot });
        }
    }
}
