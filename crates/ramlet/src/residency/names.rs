//! The table of names: all collections, and which of them are loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use ramlet_format::catalog::{Catalog, CollectionEntry};

use crate::error::{Error, Result};
use crate::recovery::catalog::number_of;
use crate::recovery::closed::ClosedCollection;
use crate::recovery::manifest_store::Generations;

/// A collection in RAM.
pub struct Loaded<H> {
    pub collection: H,
    /// When it was asked for last, in requests for collections; 0: never, it was only looked at.
    pub used: AtomicU64,
}

/// What is remembered of a collection that was loaded once since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    pub points: u64,
    pub vectors: u64,
    /// When its first point expires, in microseconds since 1970; `i64::MAX`: none does.
    pub expires: i64,
    /// Whether there was something to merge.
    pub is_due: bool,
}

/// Of collections that are held by an `H`.
pub struct Names<H> {
    /// Collections sorted by name, aliases by theirs.
    pub catalog: Catalog,
    pub catalogs: Generations<Catalog>,
    /// The next number as the catalog on disk has it.
    pub next_committed: u64,
    pub loaded: BTreeMap<String, Loaded<H>>,
    /// Listed in the catalog, and found damaged.
    pub closed: BTreeMap<String, ClosedCollection>,
    /// Being loaded or unloaded: whoever asks for one waits.
    pub moving: BTreeSet<String>,
    /// How many of these are being loaded.
    pub loading: usize,
    /// By the number of the directory.
    pub seen: BTreeMap<u64, Seen>,
    uses: AtomicU64,
    /// Where the visits of collections that nobody asked for go on.
    pub visited: String,
    /// A commit of the catalog failed so that nobody knows which is in force: nothing more is written, to those that are loaded later neither.
    pub stopped: Option<Error>,
    /// Updates of collections that are loaded later are refused.
    pub read_only: bool,
}

/// Where a collection is.
pub enum Found<'a, H> {
    Loaded(&'a Loaded<H>),
    Closed(&'a ClosedCollection),
    Moving,
    Unloaded(&'a CollectionEntry),
    Missing,
}

impl<H> Names<H> {
    pub fn new(mut catalog: Catalog, catalogs: Generations<Catalog>) -> Names<H> {
        sort(&mut catalog);
        Names {
            next_committed: catalog.next_id,
            catalog,
            catalogs,
            loaded: BTreeMap::new(),
            closed: BTreeMap::new(),
            moving: BTreeSet::new(),
            loading: 0,
            seen: BTreeMap::new(),
            uses: AtomicU64::new(0),
            visited: String::new(),
            stopped: None,
            read_only: false,
        }
    }

    /// The collection's own name, if `name` is an alias; `name` otherwise.
    pub fn target<'a>(&'a self, name: &'a str) -> &'a str {
        let aliases = &self.catalog.aliases;
        match aliases.binary_search_by(|a| a.alias.as_str().cmp(name)) {
            Ok(at) => &aliases[at].collection,
            Err(_) => name,
        }
    }

    pub fn entry(&self, name: &str) -> Option<&CollectionEntry> {
        let all = &self.catalog.collections;
        let at = all.binary_search_by(|c| c.name.as_str().cmp(name)).ok()?;
        Some(&all[at])
    }

    /// By its own name.
    pub fn find(&self, name: &str) -> Found<'_, H> {
        if let Some(loaded) = self.loaded.get(name) {
            return Found::Loaded(loaded);
        }
        if let Some(closed) = self.closed.get(name) {
            return Found::Closed(closed);
        }
        match self.entry(name) {
            _ if self.moving.contains(name) => Found::Moving,
            Some(entry) => Found::Unloaded(entry),
            None => Found::Missing,
        }
    }

    /// Counts a request for a collection that is loaded.
    pub fn touch(&self, loaded: &Loaded<H>) {
        let now = self.uses.fetch_add(1, Ordering::Relaxed) + 1;
        loaded.used.store(now, Ordering::Relaxed);
    }

    /// From here on `name` leads to the collection in directory `id`.
    pub fn insert(&mut self, name: &str, id: &str, collection: H) {
        self.remember(id, Seen::default());
        let used = AtomicU64::new(0);
        self.loaded.insert(name.to_owned(), Loaded { collection, used });
    }

    pub fn remember(&mut self, id: &str, seen: Seen) {
        if let Some(number) = number_of(id) {
            self.seen.insert(number, seen);
        }
    }

    pub fn seen(&self, entry: &CollectionEntry) -> Option<&Seen> {
        self.seen.get(&number_of(&entry.id)?)
    }

    /// Forgets what isn't listed any more.
    pub fn forget(&mut self, id: &str) {
        if let Some(number) = number_of(id) {
            self.seen.remove(&number);
        }
    }
}

/// So that a name is found by halving.
pub fn sort(catalog: &mut Catalog) {
    catalog.collections.sort_by(|a, b| a.name.cmp(&b.name));
    catalog.aliases.sort_by(|a, b| a.alias.cmp(&b.alias));
}

/// `NotFound` with the API's sentence.
pub fn missing<T>(name: &str) -> Result<T> {
    Err(Error::not_found(format!(
        "Not found: Collection `{name}` doesn't exist!"
    )))
}
