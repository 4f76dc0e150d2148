//! Idle-time loading of collections: those not opened yet, to find damage, and those that have something to merge.

use super::load::WithoutRoom;
use super::names::Found;
use crate::engine::{Engine, Names};

/// Collections that are not in RAM, and what they hold, as far as they were loaded once since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unloaded {
    pub collections: usize,
    pub points: u64,
    pub vectors: u64,
}

impl Engine {
    /// Loads up to `most` collections that should be looked at, one by one, and nothing where room would have to be waited for. To be called while nothing else is
    /// due.
    pub(crate) fn visit(&self, most: usize) {
        for _ in 0..most {
            if self.shared().is_closed() || self.shared().is_due() || !self.visit_next() {
                return;
            }
        }
    }

    fn visit_next(&self) -> bool {
        let mut names = self.names();
        // Somebody's request comes first.
        if names.loading > 0 {
            return false;
        }
        let Some(at) = next_place(&names) else {
            names.visited.clear();
            return false;
        };
        let entry = names.catalog.collections[at].clone();
        names.visited.clone_from(&entry.name);
        // What it meets is told of where it is met.
        let _ = self.load(names, &entry, WithoutRoom::GiveUp);
        true
    }

    /// How many collections this run has not opened yet.
    pub fn unseen_collections(&self) -> usize {
        let names = self.names();
        let all = names.catalog.collections.iter();
        all.filter(|entry| names.seen(entry).is_none() && !names.closed.contains_key(&entry.name))
            .count()
    }

    pub fn unloaded_collections(&self) -> Unloaded {
        let names = self.names();
        let entries = names.catalog.collections.iter();
        let unloaded = entries.filter(|entry| matches!(names.find(&entry.name), Found::Unloaded(_)));
        unloaded.fold(Unloaded::default(), |all, entry| {
            let seen = names.seen(entry).copied().unwrap_or_default();
            Unloaded {
                collections: all.collections + 1,
                points: all.points + seen.points,
                vectors: all.vectors + seen.vectors,
            }
        })
    }

    /// Names of those that are not in RAM and whose points are over at a time.
    pub(crate) fn expired_unloaded(&self, now_micros: i64, most: usize) -> Vec<String> {
        let names = self.names();
        let entries = names.catalog.collections.iter();
        let is_over = |name: &str| {
            let entry = names.entry(name).and_then(|entry| names.seen(entry));
            entry.is_some_and(|seen| seen.expires <= now_micros)
        };
        entries
            .filter(|entry| is_over(&entry.name))
            .filter(|entry| matches!(names.find(&entry.name), Found::Unloaded(_)))
            .take(most)
            .map(|entry| entry.name.clone())
            .collect()
    }
}

/// The next one in the order of names, behind the last.
fn next_place(names: &Names) -> Option<usize> {
    let all = &names.catalog.collections;
    let from = all.partition_point(|entry| entry.name <= names.visited);
    let wants = |entry: &&ramlet_format::catalog::CollectionEntry| {
        let is_unseen = names.seen(entry).is_none_or(|seen| seen.is_due);
        is_unseen && matches!(names.find(&entry.name), Found::Unloaded(_))
    };
    let found = all[from..].iter().position(|entry| wants(&entry));
    found.map(|at| from + at)
}
