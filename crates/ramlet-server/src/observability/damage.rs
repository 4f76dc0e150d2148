//! Damaged files, as answers have met them: for `/issues`. A streamed answer can't say why it ended; here it is said.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ramlet_memory::Consumer;

use super::slow_log::begin_of;
use crate::error::ApiError;
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;

/// The newest damage of each collection, of [`limits::DAMAGED_COLLECTIONS`] at most.
pub struct Damage {
    /// By the collection's id, which no other ever gets.
    met: Mutex<DamageRecord>,
    /// Pays for what is said.
    from: Consumer,
}

#[derive(Default)]
struct DamageRecord {
    of: BTreeMap<String, Damaged>,
    held: GrowingReservation,
}

/// What was met in one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The file and the place, in the engine's words.
    pub said: String,
    pub answers: u64,
}

/// What is kept of a collection, beside its id.
const DAMAGED_BYTES: u64 = limits::DAMAGE_SAID_BYTES as u64 + 128;

impl Damage {
    pub fn new(from: Consumer) -> Damage {
        Damage {
            met: Mutex::default(),
            from,
        }
    }

    /// An answer of the collection of this id failed; kept where it met damage.
    pub fn note(&self, id: &str, failed: &ApiError) {
        if !failed.is_damage {
            return;
        }
        let mut met = self.lock();
        if !met.of.contains_key(id) {
            let bytes = DAMAGED_BYTES * (met.of.len() as u64 + 1) + id.len() as u64;
            let has_room = met.of.len() < limits::DAMAGED_COLLECTIONS;
            if !has_room || met.held.at_least(bytes, &self.from).is_err() {
                return;
            }
        }
        let damaged = met.of.entry(id.to_owned()).or_insert_with(|| Damaged {
            said: String::new(),
            answers: 0,
        });
        damaged.said = begin_of(&failed.message, limits::DAMAGE_SAID_BYTES).to_owned();
        damaged.answers += 1;
    }

    pub fn of(&self, id: &str) -> Option<Damaged> {
        self.lock().of.get(id).cloned()
    }

    /// Keeps those of the collections with these ids.
    pub fn keep(&self, is_there: impl Fn(&str) -> bool) {
        let mut met = self.lock();
        met.of.retain(|id, _| is_there(id));
        let bytes = met.of.keys().map(|id| DAMAGED_BYTES + id.len() as u64).sum();
        met.held.shrink_to(bytes);
    }

    pub fn clear(&self) {
        self.keep(|_| false);
    }

    fn lock(&self) -> MutexGuard<'_, DamageRecord> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ramlet::{Error, ErrorKind};
    use ramlet_memory::Ledger;

    use super::*;

    fn failed(kind: ErrorKind, what: &str) -> ApiError {
        Error::new(kind, what).into()
    }

    #[test]
    fn the_newest_damage_of_each_collection_is_kept_within_bounds() {
        let ledger = Ledger::new(1 << 20);
        let damage = Damage::new(ledger.consumer("issues", u64::MAX));
        damage.note("c1", &failed(ErrorKind::NotFound, "nothing"));
        assert_eq!(damage.of("c1"), None);
        damage.note("c1", &failed(ErrorKind::Corrupt, "1.pay: page 3"));
        damage.note("c1", &failed(ErrorKind::Corrupt, &"é".repeat(1_000)));
        let met = damage.of("c1").expect("is kept");
        assert_eq!(met.answers, 2);
        assert!(met.said.ends_with('é') && met.said.len() <= limits::DAMAGE_SAID_BYTES);
        for n in 0..2 * limits::DAMAGED_COLLECTIONS {
            damage.note(&format!("c{n}"), &failed(ErrorKind::Corrupt, "x"));
        }
        assert_eq!(damage.lock().of.len(), limits::DAMAGED_COLLECTIONS);
        assert!(ledger.used() >= DAMAGED_BYTES * limits::DAMAGED_COLLECTIONS as u64);
        damage.clear();
        assert_eq!((damage.of("c1"), ledger.used()), (None, 0));
    }
}
