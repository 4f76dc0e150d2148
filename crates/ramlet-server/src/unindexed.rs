//! Fields that filters ask about without an index, as searches have met them: for `/issues`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ramlet::{Collection, UnindexedField};

use crate::limits;

/// What searches have met, at most [`limits::UNINDEXED_FIELDS`] fields: more than a person looks at.
#[derive(Default)]
pub struct Unindexed {
    /// By the collection's id, which no other ever gets, and the field's path.
    fields: Mutex<BTreeMap<(String, String), Met>>,
}

/// One field of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Met {
    pub field: UnindexedField,
    /// Most payloads that one search read for it, and others of the same filter.
    pub payloads_max: u64,
    pub searches: u64,
}

impl Unindexed {
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
            if all.len() >= limits::UNINDEXED_FIELDS && !all.contains_key(&key) {
                return;
            }
            let met = all.entry(key).or_insert_with(|| Met {
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
    pub fn of(&self, id: &str, is_indexed: impl Fn(&str) -> bool) -> Vec<Met> {
        let mut all = self.lock();
        all.retain(|(of, key), _| of != id || !is_indexed(key));
        let own = all.iter().filter(|((of, _), _)| of == id);
        own.map(|(_, met)| met.clone()).collect()
    }

    /// Of all collections: the number that the metrics tell.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Keeps those of the collections with these ids.
    pub fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.lock().retain(|(id, _), _| is_there(id));
    }

    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Met>> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(key: &str, kind: &'static str) -> UnindexedField {
        UnindexedField {
            key: key.to_owned(),
            kinds: vec![kind],
        }
    }

    #[test]
    fn fields_are_met_again_and_forgotten_once_there_is_an_index() {
        let met = Unindexed::default();
        met.note_fields("1", &[field("a", "keyword"), field("b", "integer")], 2_000);
        met.note_fields("1", &[field("a", "text")], 1_500);
        met.note_fields("2", &[field("a", "keyword")], 9_000);
        let of = met.of("1", |_| false);
        assert_eq!(of.len(), 2);
        assert_eq!((of[0].payloads_max, of[0].searches), (2_000, 2));
        assert_eq!(of[0].field.kinds, ["keyword", "text"]);
        let of = met.of("1", |key| key == "a");
        assert_eq!((of.len(), of[0].field.key.as_str()), (1, "b"));
        met.keep(|id| id == "2");
        assert_eq!(met.count(), 1);
    }

    #[test]
    fn there_is_an_end_to_it() {
        let met = Unindexed::default();
        for n in 0..2 * limits::UNINDEXED_FIELDS {
            met.note_fields("1", &[field(&n.to_string(), "keyword")], 2_000);
        }
        assert_eq!(met.count(), limits::UNINDEXED_FIELDS);
    }
}
