//! One thing that needs somebody's hand; and which of them were there the last time somebody looked.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use crate::limits;

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
pub const CODES: [&str; 8] = [
    "COLLECTION_CLOSED",
    "WRITES_STOPPED",
    "OPTIMIZER_ERROR",
    "UNINDEXED_FIELD",
    "INDEX_MISSING",
    "INDEX_BEING_BUILT",
    "BUDGET_TOO_SMALL",
    "SLOW_DISK",
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

/// What a plan said of a collection's next step of memory, with as many points as it had.
struct Planned {
    collection: String,
    points: u64,
    at: Instant,
    said: Option<Issue>,
}

/// Which issues were there the last time, and how many of each code.
#[derive(Default)]
pub struct Known {
    of: Mutex<(BTreeSet<(&'static str, String)>, [u64; CODES.len()])>,
    planned: Mutex<Option<Planned>>,
}

impl Known {
    /// These are there now; what is new and what is over is told in the log.
    pub fn tell(&self, found: &[Issue]) {
        let now: BTreeSet<_> = found
            .iter()
            .map(|issue| (issue.code, issue.instance.clone()))
            .collect();
        let mut known = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        for issue in found {
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

    /// What `plan` says of a collection with so many points: asked anew when they are other ones by a twentieth, or it is long ago. A plan takes some
    /// milliseconds, and tells the same each time.
    pub fn planned(
        &self,
        collection: &str,
        points: u64,
        plan: impl FnOnce() -> Option<Issue>,
    ) -> Option<Issue> {
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |p: &Planned| {
            p.collection == collection
                && p.points.abs_diff(points) <= points / 20
                && p.at.elapsed() < limits::PLAN_KEPT
        };
        if let Some(known) = planned.as_ref().filter(|p| is_same(p)) {
            return known.said.clone();
        }
        let said = plan();
        *planned = Some(Planned {
            collection: collection.to_owned(),
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
    use super::*;

    fn issue(code: &'static str, name: &str) -> Issue {
        Issue::new(code, name, "it is so".to_owned(), Value::Null)
    }

    #[test]
    fn issues_are_counted_by_code_until_they_are_over() {
        let known = Known::default();
        known.tell(&[issue(CODES[3], "a"), issue(CODES[3], "b"), issue(CODES[7], "c")]);
        assert_eq!(known.counts(), [0, 0, 0, 2, 0, 0, 0, 1]);
        known.tell(&[issue(CODES[3], "b")]);
        assert_eq!(known.counts(), [0, 0, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_plan_is_asked_anew_when_there_are_other_points() {
        let known = Known::default();
        let asked = std::cell::Cell::new(0);
        let plan = |name: &str, points: u64| {
            known.planned(name, points, || {
                asked.set(asked.get() + 1);
                Some(issue(CODES[6], name))
            })
        };
        for (name, points, times) in [
            ("a", 1_000, 1),
            ("a", 1_040, 1),
            ("a", 1_100, 2),
            ("b", 1_100, 3),
            ("b", 1_100, 3),
        ] {
            assert_eq!(plan(name, points), Some(issue(CODES[6], name)));
            assert_eq!(asked.get(), times, "{name} {points}");
        }
    }
}
