//! The shards of a collection, and a reader's view of them.

use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use ramlet_format::catalog::ShardEntry;

use super::{ShardInfo, ShardKey, ShardSelection};
use crate::error::{Error, Result};
use crate::faults::locks::whole;
use crate::read::view::{KeyedPart, View};
use crate::schema::Schema;
use crate::state::core::Core;

/// The points of one key.
pub struct Shard {
    pub key: Arc<ShardKey>,
    pub number: u32,
    pub core: Arc<Core>,
}

impl Shard {
    pub fn entry(&self) -> ShardEntry {
        ShardEntry {
            key: (*self.key).clone(),
            number: self.number,
            id: self.core.id.clone(),
        }
    }
}

/// All shards of a collection, in the order of their numbers.
#[derive(Default)]
pub struct ShardSet {
    list: ArcSwap<Vec<Arc<Shard>>>,
    /// Held by whoever changes the list, or settings that all shards share.
    changing: Mutex<()>,
}

impl ShardSet {
    pub fn new(list: Vec<Arc<Shard>>) -> ShardSet {
        ShardSet {
            list: ArcSwap::from_pointee(list),
            changing: Mutex::default(),
        }
    }

    pub fn list(&self) -> Arc<Vec<Arc<Shard>>> {
        self.list.load_full()
    }

    /// One change at a time. Each leaves whole lists, also where it panics.
    pub fn change(&self) -> MutexGuard<'_, ()> {
        whole(&self.changing)
    }

    /// For who holds [`ShardSet::change`].
    pub fn replace(&self, list: Vec<Arc<Shard>>) {
        self.list.store(Arc::new(list));
    }

    pub fn find(&self, key: &ShardKey) -> Option<Arc<Shard>> {
        self.list().iter().find(|shard| *shard.key == *key).cloned()
    }

    /// The shards that a request names, each once; `None`: all that there are.
    pub fn choose(&self, selection: &ShardSelection) -> Result<Option<Vec<Arc<Shard>>>> {
        match selection {
            ShardSelection::All => Ok(None),
            ShardSelection::Keys(keys) => {
                let mut chosen: Vec<Arc<Shard>> = Vec::with_capacity(keys.len());
                for key in keys {
                    let shard = self.find(key).ok_or_else(|| unknown(key))?;
                    if !chosen.iter().any(|other| other.number == shard.number) {
                        chosen.push(shard);
                    }
                }
                Ok(Some(chosen))
            }
            ShardSelection::WithFallback { target, fallback } => {
                let shard = self.find(target).or_else(|| self.find(fallback));
                let shard = shard.ok_or_else(|| {
                    Error::not_found(format!(
                        "Not found: Neither target shard key {target} nor fallback shard key {fallback} exist"
                    ))
                })?;
                Ok(Some(vec![shard]))
            }
        }
    }

    pub fn infos(&self) -> Vec<ShardInfo> {
        let list = self.list();
        let info = |shard: &Arc<Shard>| ShardInfo {
            number: shard.number,
            key: (*shard.key).clone(),
            points_count: shard.core.view.load().points(),
        };
        list.iter().map(info).collect()
    }

    /// What a reader is given of `chosen`, or of all. Not `live`: as far as it is there.
    pub fn view(&self, settings: &Core, chosen: Option<&[Arc<Shard>]>, live: bool) -> Result<Arc<View>> {
        let list = self.list();
        let shards = chosen.unwrap_or(&list);
        let mut parts = Vec::with_capacity(shards.len());
        for shard in shards {
            let view = match live {
                true => shard.core.live_view(),
                false => Ok(shard.core.view.load_full()),
            };
            match view {
                Ok(view) => parts.push((shard.key.clone(), view)),
                // Its key was dropped meanwhile: of who asks for all, nothing is missed.
                Err(e) if shard.core.is_dropped() && e.is_not_found() => {
                    if chosen.is_some() {
                        return Err(unknown(&shard.key));
                    }
                }
                Err(e) => return Err(e),
            }
        }
        // Behind those of the shards: where the whole collection is dropped, this one is marked first.
        let settings = match live {
            true => settings.live_view()?,
            false => settings.view.load_full(),
        };
        Ok(Arc::new(union(&settings, &parts)))
    }
}

/// In the API's words.
pub fn unknown(key: &ShardKey) -> Error {
    Error::bad_input(format!("Wrong input: Shard key {key} not found"))
}

/// In the API's words.
pub fn no_shard(number: u32) -> Error {
    Error::not_found(format!("Not found: Shard {number} not found"))
}

/// One view of several: their segments, then their memtables.
fn union(settings: &View, parts: &[(Arc<ShardKey>, Arc<View>)]) -> View {
    let mut view = View {
        schema: agreed(&settings.schema, parts.iter().map(|(_, part)| &part.schema)),
        segments: Vec::with_capacity(parts.iter().map(|(_, part)| part.segments.len()).sum()),
        memtables: Vec::with_capacity(parts.iter().map(|(_, part)| part.memtables.len()).sum()),
        operation: settings.operation,
        keyed: Vec::with_capacity(parts.len()),
    };
    for (key, part) in parts {
        view.segments.extend(part.segments.iter().cloned());
        view.memtables.extend(part.memtables.iter().cloned());
        view.operation = view.operation.max(part.operation);
        view.keyed.push(KeyedPart {
            key: key.clone(),
            segments_end: view.segments.len() as u32,
            memtables_end: view.memtables.len() as u32,
        });
    }
    view
}

/// The settings without the vectors and payload indexes that a shard hasn't in the same slot: it is about to get them, or to lose them. What isn't
/// indexed everywhere is answered without the index.
fn agreed<'a>(
    settings: &Arc<Schema>,
    mut parts: impl Iterator<Item = &'a Arc<Schema>> + Clone,
) -> Arc<Schema> {
    if parts.clone().all(|part| part.has_same_slots(settings)) {
        return settings.clone();
    }
    let mut schema = (**settings).clone();
    for part in &mut parts {
        schema.vectors.retain(|vector| {
            let mut theirs = part.vectors.iter();
            theirs.any(|other| other.name == vector.name && other.slot == vector.slot)
        });
        schema.fields.retain(|field| {
            let theirs = part.field(&field.path);
            theirs.is_some_and(|other| {
                (other.slot, other.kind, &other.text) == (field.slot, field.kind, &field.text)
            })
        });
    }
    Arc::new(schema)
}
