//! Unloads the least recently used collections.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::names::{Loaded, Seen};
use crate::collection::Collection;
use crate::engine::{Engine, Names};
use crate::faults::locks::whole;
use crate::jobs::{self, Moment, maintenance};
use crate::limits::UNLOAD_LOG_BYTES;
use crate::memory::{capacity, descriptors};
use crate::state::core::Core;

/// Of the memory for segments so much stays free for those that are loaded next, where there are many. Few are large, and take long to be loaded: they
/// make way where they must, or two that are asked in turns would be loaded in turns.
const METADATA_FREE_SHARE: u64 = 4;
const FEW: usize = 8;

impl Engine {
    /// Unloads what isn't used until so many directories more have room; false where those in use leave none.
    pub(crate) fn make_room(&self, directories: usize) -> bool {
        while !self.has_room(directories) {
            if !self.unload_one() {
                return self.has_place(directories);
            }
        }
        true
    }

    /// Whether they fit and leave something for what they need to be searched.
    pub(crate) fn has_room(&self, directories: usize) -> bool {
        let metadata = self.metadata();
        let leaves_some = metadata.available() >= metadata.cap() / METADATA_FREE_SHARE;
        self.has_place(directories)
            && (leaves_some || self.names().loaded.len() <= FEW)
            && descriptors::has_room(
                self.storage().as_ref(),
                self.shared().one_by_one(),
                directories as u64,
            )
    }

    fn loaded_directories(&self) -> usize {
        let names = self.names();
        let each = names.loaded.values();
        each.map(|loaded| 1 + loaded.collection.shards().len()).sum()
    }

    fn has_place(&self, directories: usize) -> bool {
        self.loaded_directories() + directories <= capacity::fit(self.budget())
    }

    /// Gives up what nobody uses; how many collections that is. They are loaded again when they are asked for.
    pub fn unload_unused(&self) -> usize {
        std::iter::repeat_with(|| self.unload_one())
            .take_while(|went| *went)
            .count()
    }

    /// Gives up the one that was asked for least recently, of those that nobody uses; false: there is none.
    pub(crate) fn unload_one(&self) -> bool {
        let (name, collection) = match self.take_unused() {
            Ok(taken) => taken,
            Err(long) => {
                // What is flushed can go the next time.
                if long.is_some_and(|core| maintenance::freeze_to_unload(&core)) {
                    self.shared().wake_maintenance();
                }
                return false;
            }
        };
        let (id, seen) = (collection.id().to_owned(), remembered(&collection));
        let kept = match note_end(&collection) {
            // Files and memory are given back before somebody loads it anew.
            true => {
                drop(collection);
                None
            }
            // Its log or manifest can't be trusted any more: that is told until a restart.
            false => Some(collection),
        };
        let is_gone = kept.is_none();
        let mut names = self.names();
        match kept {
            None => names.remember(&id, seen),
            Some(collection) => {
                collection.cores().iter().for_each(|core| core.gate.open());
                names.insert(&name, &id, collection);
            }
        }
        names.moving.remove(&name);
        drop(names);
        self.moved.notify_all();
        is_gone
    }

    /// Takes one out of the table; its name is in `moving` from then on, and its gates are shut. `Err`: there is none; one that would be, were its log shorter.
    fn take_unused(&self) -> std::result::Result<(String, Arc<Collection>), Option<Arc<Core>>> {
        let mut names = self.names();
        let mut all: Vec<(u64, &String, &Loaded<Arc<Collection>>)> = names
            .loaded
            .iter()
            .map(|(name, loaded)| (loaded.used.load(Ordering::Relaxed), name, loaded))
            .collect();
        all.sort_unstable_by_key(|(used, name, _)| (*used, *name));
        let (mut long, mut due) = (None, None);
        let unused = all.iter().find(|(_, _, loaded)| {
            let of = &loaded.collection;
            if !is_unused(of) {
                return false;
            }
            long = long.take().or_else(|| long_log(of));
            if long_log(of).is_some() {
                return false;
            }
            if has_due(of) {
                due = due.or(Some(*loaded));
                return false;
            }
            shut(of)
        });
        // What is to be merged is remembered, and loaded again for it.
        let by_force = || {
            all.iter().find(|(_, _, loaded)| {
                due.is_some_and(|due| std::ptr::eq(due, *loaded)) && shut(&loaded.collection)
            })
        };
        let Some(name) = unused.or_else(by_force).map(|(_, name, _)| (*name).clone()) else {
            return Err(long);
        };
        let Names { loaded, moving, .. } = &mut *names;
        let taken = loaded.remove(&name).expect("it was there");
        moving.insert(name.clone());
        Ok((name, taken.collection))
    }
}

/// Whether the table has the only handle, nobody works at it, and it may be dropped.
fn is_unused(collection: &Arc<Collection>) -> bool {
    if Arc::strong_count(collection) > 1 || !collection.shards_unused() {
        return false;
    }
    // One handle is the collection's, one is in this list.
    let is_idle = |core: &Arc<Core>| Arc::strong_count(core) == 2 && core.is_idle();
    collection.cores().iter().all(is_idle)
}

/// A part whose log would take long to be replayed.
fn long_log(collection: &Collection) -> Option<Arc<Core>> {
    let mut cores = collection.cores().into_iter();
    cores.find(|core| core.writer().log_bytes() > UNLOAD_LOG_BYTES)
}

/// Whether nobody is within its gates, which are shut then.
fn shut(collection: &Collection) -> bool {
    let cores = collection.cores();
    let shut = cores.iter().take_while(|core| core.gate.shut()).count();
    let all = shut == cores.len();
    if !all {
        cores[..shut].iter().for_each(|core| core.gate.open());
    }
    all
}

/// Whether there is something to merge.
fn has_due(collection: &Collection) -> bool {
    collection.cores().iter().any(|core| {
        let writer = core.writer();
        // What is done in idle periods alone isn't worth a load, nor what another node does.
        !core.builds_elsewhere() && !jobs::candidates(core, &writer, Moment::Busy).is_empty()
    })
}

fn remembered(collection: &Collection) -> Seen {
    let vectors = collection.vectors_count();
    Seen {
        points: collection.whole_view().points(),
        vectors: vectors.iter().map(|(_, count)| count).sum(),
        expires: collection.expires(),
        is_due: has_due(collection),
    }
}

/// Notes in the manifests how far the logs go; false where one of them stopped at that.
fn note_end(collection: &Collection) -> bool {
    collection.cores().iter().all(|core| {
        let mut writer = core.writer();
        let noted = writer.note_durable(core.file_context.storage.as_ref());
        if let Err(error) = &noted {
            tracing::warn!(collection = core.name(), directory = %core.id, %error, "the end of the log was not recorded in the manifest");
        }
        writer.stopped.is_none()
    })
}

impl Core {
    /// Whether it can be dropped and loaded again without anybody noticing.
    fn is_idle(&self) -> bool {
        let waits = {
            let queue = whole(&self.queue);
            queue.scheduled || !queue.waiting.is_empty()
        };
        if waits || self.has_stopped.load(Ordering::Acquire) || self.backoff.first().is_some() {
            return false;
        }
        self.writer().frozen.is_none() && self.gave_way.get().is_none()
    }
}

#[cfg(test)]
mod tests {
    use ramlet_io::RamStorage;

    use super::*;
    use crate::{CollectionConfig, EngineOptions};

    #[test]
    fn few_make_way_only_where_they_must() {
        let options = EngineOptions::in_process(64_000_000, 2).expect("a budget");
        let engine = Engine::open(Arc::new(RamStorage::new(None)), options).expect("opens");
        let create = |from: usize, to: usize| {
            for i in from..to {
                let name = format!("c{i}");
                engine
                    .create_collection(&name, CollectionConfig::default())
                    .expect("creates");
            }
        };
        create(0, FEW);
        let metadata = engine.metadata();
        let _rest = metadata
            .reserve(metadata.available() - metadata.cap() / 8)
            .expect("is there");
        assert!(engine.make_room(1));
        assert_eq!(engine.names().loaded.len(), FEW);
        create(FEW, FEW + 1);
        assert!(engine.make_room(1));
        assert_eq!(engine.names().loaded.len(), FEW);
    }
}
