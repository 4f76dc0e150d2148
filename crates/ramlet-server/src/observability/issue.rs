//! One thing that needs somebody's hand; and which of them were there the last time somebody looked.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ramlet_memory::Consumer;
use serde_json::{Value, json};

use crate::limits;
use crate::request::growing_reservation::GrowingReservation;

/// One thing that is wrong, until it isn't.
#[derive(Debug, Clone, PartialEq)]
pub struct Issue {
    /// One of [`CODES`].
    pub code: &'static str,
    /// What tells it from others of the code.
    pub instance: String,
    /// None: the whole server.
    pub collection: Option<String>,
    pub description: String,
    /// In the API's form.
    pub solution: Value,
}

/// All codes; `UNINDEXED_FIELD` is the API's, and so is its form.
pub const CODES: [&str; 11] = [
    "COLLECTION_CLOSED",
    "WRITES_STOPPED",
    "OPTIMIZER_ERROR",
    "DATA_DAMAGED",
    "UNINDEXED_FIELD",
    "INDEX_MISSING",
    "INDEX_BEING_BUILT",
    "BUDGET_TOO_SMALL",
    "SLOW_DISK",
    "SHARD_WITHOUT_NODE",
    "DISK_FULL",
];

impl Issue {
    pub fn new(code: &'static str, collection: &str, description: String, solution: Value) -> Issue {
        Issue {
            code,
            instance: collection.to_owned(),
            collection: Some(collection.to_owned()),
            description,
            solution,
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "code": self.code,
            "instance_id": self.instance,
            "related_collection": self.collection,
            "description": self.description,
            "solution": self.solution,
        })
    }
}

/// What a plan said of the next stair of memory, with as many collections and points as there were.
struct Planned {
    collections: usize,
    points: u64,
    at: Instant,
    said: Option<Issue>,
}

/// Which issues were there the last time, and how many of each code.
pub struct Known {
    of: Mutex<(BTreeSet<(&'static str, String)>, [u64; CODES.len()])>,
    /// What is held for the set.
    held: Mutex<GrowingReservation>,
    from: Consumer,
    planned: Mutex<Option<Planned>>,
}

/// What an issue takes in the set, beside its name.
const KNOWN_BYTES: u64 = 128;

impl Known {
    /// `from`: pays for the names of what is known.
    pub fn new(from: Consumer) -> Known {
        Known {
            of: Mutex::default(),
            held: Mutex::default(),
            from,
            planned: Mutex::default(),
        }
    }

    /// Of these issues the first that there is memory for: of the others the log says nothing.
    fn held<'a>(&self, found: &'a [Issue]) -> &'a [Issue] {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut bytes, mut count) = (0, 0);
        for issue in found {
            let more = bytes + KNOWN_BYTES + issue.instance.len() as u64;
            if held.at_least(more, &self.from).is_err() {
                break;
            }
            (bytes, count) = (more, count + 1);
        }
        held.shrink_to(bytes);
        &found[..count]
    }

    /// These are there now; what is new and what is over is told in the log.
    pub fn log_changes(&self, found: &[Issue]) {
        let told = self.held(found);
        let now: BTreeSet<_> = told
            .iter()
            .map(|issue| (issue.code, issue.instance.clone()))
            .collect();
        let mut known = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        for issue in told {
            if !known.0.contains(&(issue.code, issue.instance.clone())) {
                let collection = issue.collection.as_deref().unwrap_or_default();
                tracing::warn!(code = issue.code, collection, "issue: {}", issue.description);
            }
        }
        for (code, instance) in known.0.difference(&now) {
            tracing::info!(code, of = %instance, "issue is over");
        }
        let count = |code| found.iter().filter(|issue| issue.code == code).count() as u64;
        *known = (now, CODES.map(count));
    }

    /// What `plan` says of so many collections and points: asked anew when they are other ones by a twentieth, or it is long ago. A plan takes some
    /// milliseconds, and tells the same each time.
    pub fn planned(
        &self,
        collections: usize,
        points: u64,
        plan: impl FnOnce() -> Option<Issue>,
    ) -> Option<Issue> {
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |p: &Planned| {
            p.collections == collections
                && p.points.abs_diff(points) <= points / 20
                && p.at.elapsed() < limits::PLAN_KEPT
        };
        if let Some(known) = planned.as_ref().filter(|p| is_same(p)) {
            return known.said.clone();
        }
        let said = plan();
        *planned = Some(Planned {
            collections,
            points,
            at: Instant::now(),
            said: said.clone(),
        });
        said
    }

    /// How many there are of each code, in the order of [`CODES`].
    pub fn counts(&self) -> [u64; CODES.len()] {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

#[cfg(test)]
mod tests {
    use ramlet_memory::Ledger;

    use super::*;

    fn known(bytes: u64) -> Known {
        Known::new(Ledger::new(bytes).consumer("issues", bytes))
    }

    #[test]
    fn what_there_is_no_memory_for_is_counted_alone() {
        let known = known(300);
        let all = ["a", "b", "c"].map(|name| issue(CODES[3], name));
        known.log_changes(&all);
        assert_eq!(known.counts()[3], 3);
        let ledger = known.from.ledger().clone();
        assert_eq!(ledger.used(), 2 * (KNOWN_BYTES + 1));
        known.log_changes(&[]);
        assert_eq!(ledger.used(), 0);
    }

    fn issue(code: &'static str, name: &str) -> Issue {
        Issue::new(code, name, "it is so".to_owned(), Value::Null)
    }

    #[test]
    fn issues_are_counted_by_code_until_they_are_over() {
        let known = known(1 << 20);
        known.log_changes(&[issue(CODES[3], "a"), issue(CODES[3], "b"), issue(CODES[7], "c")]);
        assert_eq!(known.counts(), [0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
        known.log_changes(&[issue(CODES[3], "b")]);
        assert_eq!(known.counts(), [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_plan_is_asked_anew_when_there_are_other_points() {
        let known = known(1 << 20);
        let asked = std::cell::Cell::new(0);
        let plan = |collections: usize, points: u64| {
            known.planned(collections, points, || {
                asked.set(asked.get() + 1);
                Some(issue(CODES[6], "a"))
            })
        };
        for (collections, points, times) in [
            (1, 1_000, 1),
            (1, 1_040, 1),
            (1, 1_100, 2),
            (2, 1_100, 3),
            (2, 1_100, 3),
        ] {
            assert_eq!(plan(collections, points), Some(issue(CODES[6], "a")));
            assert_eq!(asked.get(), times, "{collections} {points}");
        }
    }
}
