//! Fields that filters ask about without an index, as searches have met them: for `/issues`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ramlet::{Collection, UnindexedField};
use ramlet_memory::Consumer;

use crate::limits;
use crate::request::growing_reservation::GrowingReservation;

/// What searches have met, at most [`limits::UNINDEXED_FIELDS`] fields: more than a person looks at.
pub struct Unindexed {
    /// By the collection's id, which no other ever gets, and the field's path.
    fields: Mutex<Fields>,
    /// Pays for them.
    from: Consumer,
}

#[derive(Default)]
struct Fields {
    of: BTreeMap<(String, String), FieldUse>,
    held: GrowingReservation,
}

/// What a field takes beside its path, which is there twice.
const FIELD_BYTES: u64 = 256;

impl Fields {
    fn bytes(&self) -> u64 {
        let each = self.of.keys();
        each.map(|(id, key)| FIELD_BYTES + (id.len() + 2 * key.len()) as u64)
            .sum()
    }

    /// Forgets those that `stays` doesn't keep.
    fn retain(&mut self, stays: impl Fn(&str, &str) -> bool) {
        let before = self.of.len();
        self.of.retain(|(id, key), _| stays(id, key));
        if self.of.len() < before {
            let bytes = self.bytes();
            self.held.shrink_to(bytes);
        }
    }
}

/// One field of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldUse {
    pub field: UnindexedField,
    /// Most payloads that one search read for it, and others of the same filter.
    pub payloads_max: u64,
    pub searches: u64,
}

impl Unindexed {
    pub fn new(from: Consumer) -> Unindexed {
        Unindexed {
            fields: Mutex::default(),
            from,
        }
    }

    /// A search by these fields has read so many payloads; few aren't worth an index.
    pub fn note(&self, collection: &Collection, fields: &[UnindexedField], payloads: u64) {
        if payloads >= limits::UNINDEXED_PAYLOADS_MIN {
            self.note_fields(collection.id(), fields, payloads);
        }
    }

    fn note_fields(&self, id: &str, fields: &[UnindexedField], payloads: u64) {
        let mut all = self.lock();
        for field in fields {
            let key = (id.to_owned(), field.key.clone());
            if !all.of.contains_key(&key) {
                let more = FIELD_BYTES + (id.len() + 2 * field.key.len()) as u64;
                let bytes = all.bytes() + more;
                let has_room = all.of.len() < limits::UNINDEXED_FIELDS;
                if !has_room || all.held.at_least(bytes, &self.from).is_err() {
                    return;
                }
            }
            let met = all.of.entry(key).or_insert_with(|| FieldUse {
                field: field.clone(),
                payloads_max: 0,
                searches: 0,
            });
            // What another kind of condition wants of the same field is wanted too.
            for kind in &field.kinds {
                if !met.field.kinds.contains(kind) {
                    met.field.kinds.push(kind);
                }
            }
            met.payloads_max = met.payloads_max.max(payloads);
            met.searches += 1;
        }
    }

    /// Of a collection, in the order of the fields. `is_indexed`: there is an index by now, and the field is forgotten.
    pub fn of(&self, id: &str, is_indexed: impl Fn(&str) -> bool) -> Vec<FieldUse> {
        let mut all = self.lock();
        all.retain(|of, key| of != id || !is_indexed(key));
        let own = all.of.iter().filter(|((of, _), _)| of == id);
        own.map(|(_, met)| met.clone()).collect()
    }

    /// Of all collections: the number that the metrics tell.
    pub fn count(&self) -> usize {
        self.lock().of.len()
    }

    /// Keeps those of the collections with these ids.
    pub fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.lock().retain(|id, _| is_there(id));
    }

    pub fn clear(&self) {
        self.lock().retain(|_, _| false);
    }

    fn lock(&self) -> MutexGuard<'_, Fields> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ramlet_memory::Ledger;

    use super::*;

    fn unindexed(bytes: u64) -> Unindexed {
        Unindexed::new(Ledger::new(bytes).consumer("issues", bytes))
    }

    fn field(key: &str, kind: &'static str) -> UnindexedField {
        UnindexedField {
            key: key.to_owned(),
            kinds: vec![kind],
        }
    }

    #[test]
    fn fields_are_met_again_and_forgotten_once_there_is_an_index() {
        let met = unindexed(1 << 20);
        met.note_fields("1", &[field("a", "keyword"), field("b", "integer")], 2_000);
        met.note_fields("1", &[field("a", "text")], 1_500);
        met.note_fields("2", &[field("a", "keyword")], 9_000);
        let of = met.of("1", |_| false);
        assert_eq!(of.len(), 2);
        assert_eq!((of[0].payloads_max, of[0].searches), (2_000, 2));
        assert_eq!(of[0].field.kinds, ["keyword", "text"]);
        let of = met.of("1", |key| key == "a");
        assert_eq!((of.len(), of[0].field.key.as_str()), (1, "b"));
        let ledger = met.from.ledger().clone();
        let before = ledger.used();
        met.keep(|id| id == "2");
        assert_eq!(met.count(), 1);
        assert!(ledger.used() > 0 && ledger.used() < before);
        met.clear();
        assert_eq!(ledger.used(), 0);
    }

    #[test]
    fn there_is_an_end_to_it() {
        let met = unindexed(1 << 20);
        for n in 0..2 * limits::UNINDEXED_FIELDS {
            met.note_fields("1", &[field(&n.to_string(), "keyword")], 2_000);
        }
        assert_eq!(met.count(), limits::UNINDEXED_FIELDS);
        let few = unindexed(2 * (FIELD_BYTES + 3));
        few.note_fields("1", &[field("a", "x"), field("b", "x"), field("c", "x")], 2_000);
        assert_eq!(few.count(), 2, "as there is memory for");
    }
}
