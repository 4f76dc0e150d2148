//! Loads a collection on demand.

use std::sync::{Arc, MutexGuard};

use ramlet_format::catalog::CollectionEntry;

use super::names::{Found, missing};
use crate::collection::Collection;
use crate::engine::{CREATE_TRIES, Engine, Names};
use crate::error::{Error, ErrorKind, Result};
use crate::faults::panics::guarded;
use crate::limits::LOADS_AT_ONCE;
use crate::read::info::CollectionInfo;
use crate::recovery::closed::ClosedCollection;
use crate::write::group_commit::ROOM_POLL;

/// What is done where there is no room at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WithoutRoom {
    /// Somebody waits for the collection: room is waited for, two seconds at most.
    Wait,
    /// Nobody asked: another time will do.
    GiveUp,
}

impl Engine {
    /// By name or alias; one that isn't in RAM is loaded, which takes some milliseconds of reading. `NotFound` with the API's sentence.
    pub fn collection(&self, name: &str) -> Result<Arc<Collection>> {
        let mut names = self.names();
        loop {
            let target = names.target(name);
            match names.find(target) {
                Found::Loaded(loaded) => {
                    names.touch(loaded);
                    return Ok(loaded.collection.clone());
                }
                Found::Closed(closed) => return Err(closed.error(target)),
                Found::Missing => return missing(name),
                Found::Unloaded(entry) if names.loading < LOADS_AT_ONCE => {
                    let entry = entry.clone();
                    return self.load(names, &entry, WithoutRoom::Wait);
                }
                Found::Moving | Found::Unloaded(_) => names = self.wait_moved(names),
            }
        }
    }

    /// The same where it needs no reading: `None` of one that would have to be loaded or waited for.
    pub fn collection_at_once(&self, name: &str) -> Option<Result<Arc<Collection>>> {
        self.in_ram(name, true)
    }

    /// The same for who only looks: it doesn't count as use.
    pub fn collection_in_ram(&self, name: &str) -> Option<Result<Arc<Collection>>> {
        self.in_ram(name, false)
    }

    fn in_ram(&self, name: &str, counts: bool) -> Option<Result<Arc<Collection>>> {
        let names = self.names();
        let target = names.target(name);
        match names.find(target) {
            Found::Loaded(loaded) => {
                if counts {
                    names.touch(loaded);
                }
                Some(Ok(loaded.collection.clone()))
            }
            Found::Closed(closed) => Some(Err(closed.error(target))),
            Found::Missing => Some(missing(name)),
            Found::Moving | Found::Unloaded(_) => None,
        }
    }

    /// Refused where there is none of the name or alias, or it is closed; loads nothing.
    pub fn check_collection(&self, name: &str) -> Result<()> {
        let names = self.names();
        let target = names.target(name);
        match names.find(target) {
            Found::Closed(closed) => Err(closed.error(target)),
            Found::Missing => missing(name),
            Found::Loaded(_) | Found::Moving | Found::Unloaded(_) => Ok(()),
        }
    }

    /// Whether there is one of the name or alias; loads nothing.
    pub fn has_collection(&self, name: &str) -> bool {
        let names = self.names();
        names.entry(names.target(name)).is_some()
    }

    /// Those in RAM, for who only looks: it doesn't count as use.
    pub fn loaded_collections(&self) -> Vec<(String, Arc<Collection>)> {
        let names = self.names();
        let all = names.loaded.iter();
        all.map(|(name, loaded)| (name.clone(), loaded.collection.clone()))
            .collect()
    }

    /// By name or alias; of a closed collection why it is.
    pub fn collection_info(&self, name: &str) -> Result<CollectionInfo> {
        let refused = match self.collection(name) {
            Ok(collection) => return Ok(collection.info()),
            Err(e) => e,
        };
        let names = self.names();
        let target = names.target(name);
        let closed = names.closed.get(target);
        closed.map(|closed| closed.info(target)).ok_or(refused)
    }

    /// Waits until some collection has been loaded or unloaded.
    pub(crate) fn wait_moved<'a>(&self, names: MutexGuard<'a, Names>) -> MutexGuard<'a, Names> {
        let woken = self.moved.wait(names);
        woken.unwrap_or_else(|_| Engine::end_of_names())
    }

    /// The table, once a collection is in no state between two.
    pub(crate) fn settled_names(&self, name: &str) -> MutexGuard<'_, Names> {
        let mut names = self.names();
        while names.moving.contains(name) {
            names = self.wait_moved(names);
        }
        names
    }

    pub(super) fn load(
        &self,
        mut names: MutexGuard<'_, Names>,
        entry: &CollectionEntry,
        without_room: WithoutRoom,
    ) -> Result<Arc<Collection>> {
        names.moving.insert(entry.name.clone());
        names.loading += 1;
        drop(names);
        // Whatever becomes of it, nobody is left waiting.
        let loaded = guarded(|| self.load_in_room(entry, without_room));
        let mut names = self.names();
        names.moving.remove(&entry.name);
        names.loading -= 1;
        let found = self.loaded(&mut names, entry, (loaded, without_room));
        drop(names);
        self.moved.notify_all();
        found
    }

    /// Notes what became of a load.
    fn loaded(
        &self,
        names: &mut Names,
        entry: &CollectionEntry,
        (loaded, without_room): (Result<Arc<Collection>>, WithoutRoom),
    ) -> Result<Arc<Collection>> {
        match loaded {
            Ok(collection) => {
                for core in collection.cores() {
                    if let Some(e) = &names.stopped {
                        core.writer().stop(e.clone());
                    }
                    if names.read_only {
                        core.close_queue();
                    }
                }
                names.insert(&entry.name, collection.id(), collection.clone());
                if let (WithoutRoom::Wait, Some(loaded)) = (without_room, names.loaded.get(&entry.name)) {
                    names.touch(loaded);
                }
                Ok(collection)
            }
            Err(e) if e.is_shortage() || e.kind() == ErrorKind::Busy => Err(e),
            Err(e) => {
                let closed = self.close_damaged(entry, e);
                let told = closed.error(&entry.name);
                names.closed.insert(entry.name.clone(), closed);
                Err(told)
            }
        }
    }

    /// What a collection becomes that can't be opened.
    pub(crate) fn close_damaged(&self, entry: &CollectionEntry, why: Error) -> ClosedCollection {
        tracing::error!(collection = entry.name, directory = entry.id, error = %why, "a collection stays closed, the others are served");
        let storage = self.storage().subdir(&entry.id).ok();
        ClosedCollection::new(entry, storage.as_deref(), why)
    }

    fn load_in_room(&self, entry: &CollectionEntry, without_room: WithoutRoom) -> Result<Arc<Collection>> {
        let mut lookup = self.lookup()?;
        let directories = 1 + entry.shards.len();
        for turn in 1.. {
            self.check_running()?;
            let has_room = self.make_room(directories);
            let refused = match has_room {
                true => match self.reopen(entry, &mut lookup) {
                    Err(e) if e.is_shortage() => e,
                    done => return done,
                },
                false => self.all_in_use(),
            };
            let made_way = self.unload_one();
            if made_way {
                continue;
            }
            if without_room == WithoutRoom::GiveUp || turn > CREATE_TRIES {
                return Err(refused);
            }
            self.ask_for_room();
            std::thread::sleep(ROOM_POLL);
        }
        unreachable!("it ends by then")
    }

    fn all_in_use(&self) -> Error {
        let loaded = self.names().loaded.len();
        let what = format!(
            "{loaded} collections are in use now, and no more fit in RAM. Waiting helps: try again in a second"
        );
        Error::new(ErrorKind::Busy, what)
    }
}
