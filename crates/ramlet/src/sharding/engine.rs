//! Creating and dropping shard keys. A key exists from the catalog commit that lists it until the one that doesn't.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ramlet_format::catalog::{CollectionEntry, ShardEntry};

use super::{Shard, ShardKey, align, no_shard};
use crate::collection::Collection;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::SHARD_KEY_BYTES_MAX;
use crate::recovery::catalog::{directory_id, number_of};
use crate::recovery::recover;
use crate::schema::Slots;
use crate::state::core::Core;
use crate::types::CollectionConfig;

impl Engine {
    /// Adds an empty shard. `BadInput` where the collection has no keys, or this one already.
    pub fn create_shard_key(&self, collection: &str, key: &ShardKey) -> Result<()> {
        let name = self.resolve_alias(collection);
        let handle = self.collection(&name)?;
        let Some(shards) = handle.shard_set() else {
            return Err(Error::bad_input(format!(
                "Bad request: Shard Key {key} cannot be created with Auto sharding method"
            )));
        };
        check_key(key)?;
        let _changing = shards.change();
        if shards.find(key).is_some() {
            return Err(Error::bad_input(format!(
                "Bad request: Shard key {key} already exists"
            )));
        }
        let settings = {
            let writer = handle.core().writer();
            (writer.config.clone(), writer.slots.clone())
        };
        let list = shards.list();
        let number = list.iter().map(|shard| shard.number).max().unwrap_or(0) + 1;
        let core = self.new_shard((&name, handle.id()), (key, number), &settings)?;
        let mut longer = (*list).clone();
        longer.push(Arc::new(Shard {
            key: Arc::new(key.clone()),
            number,
            core,
        }));
        shards.replace(longer);
        Ok(())
    }

    /// The number that a key's shard got when it was created; `None` where the collection hasn't the key.
    pub fn number_of_shard_key(&self, collection: &str, key: &ShardKey) -> Option<u64> {
        let names = self.names();
        let entry = names.entry(names.target(collection))?;
        let shard = entry.shards.iter().find(|shard| shard.key == *key)?;
        number_of(&shard.id)
    }

    /// Creates an empty shard with these settings, and lists it behind the collection's others in one commit.
    fn new_shard(
        &self,
        collection: (&str, &str),
        (key, number): (&ShardKey, u32),
        settings: &(CollectionConfig, Slots),
    ) -> Result<Arc<Core>> {
        self.in_room(|| self.new_shard_in_room(collection, (key, number), settings.clone()))
    }

    fn new_shard_in_room(
        &self,
        (name, collection): (&str, &str),
        (key, number): (&ShardKey, u32),
        (config, slots): (CollectionConfig, Slots),
    ) -> Result<Arc<Core>> {
        let mut names = self.names();
        self.check_running()?;
        let id = directory_id(names.catalog.next_id);
        let mut catalog = names.catalog.clone();
        let mut entries = catalog.collections.iter_mut();
        let entry = entries.find(|entry| entry.name == name && entry.id == collection);
        let gone = || Error::not_found(format!("Not found: Collection `{name}` doesn't exist!"));
        entry.ok_or_else(gone)?.shards.push(ShardEntry {
            key: key.clone(),
            number,
            id: id.clone(),
        });
        // Before anything is written.
        self.hold_listed(&catalog)?;
        self.check_files(&self.shared().live_collections(), &config)?;
        catalog.next_id += 1;
        let core = self.created(&mut names, (catalog, name), |parts| {
            recover::create_with(parts, config, slots)
        })?;
        drop(names);
        Ok(self.enroll(core))
    }

    /// Drops a shard and its points; `false` when there was none.
    pub fn delete_shard_key(&self, collection: &str, key: &ShardKey) -> Result<bool> {
        let name = self.resolve_alias(collection);
        let handle = self.collection(&name)?;
        let Some(shards) = handle.shard_set() else {
            return Err(Error::bad_input(format!(
                "Bad request: shard key {key} cannot be removed with Auto sharding method"
            )));
        };
        let gone = {
            let _changing = shards.change();
            let Some(gone) = shards.find(key) else {
                return Ok(false);
            };
            let mut shorter = (*shards.list()).clone();
            shorter.retain(|shard| shard.number != gone.number);
            self.commit_shards(&name, &handle, &shorter)?;
            shards.replace(shorter);
            gone
        };
        self.retire(&gone.core);
        Ok(true)
    }

    /// Ends a collection with its shards, its own part first: who finds a shard gone looks there.
    pub(crate) fn retire_all(&self, collection: &Collection) {
        // Jobs end early; a key that is just coming or going does so first, and is then one of those that are listed.
        for core in collection.cores() {
            core.dropped.store(true, Ordering::Release);
        }
        let _changing = collection.shard_set().map(|shards| shards.change());
        for core in collection.cores() {
            self.retire(&core);
        }
    }

    /// What was restored and didn't get in goes again. Where it isn't known whether the catalog lists it (writes have stopped then), its
    /// directory is left to the next start: it may hold the only points that are left.
    pub(crate) fn discard(&self, restored: &[CollectionEntry]) {
        if self.names().stopped.is_none() {
            let directories = restored.iter().flat_map(CollectionEntry::directories);
            directories.for_each(|id| self.clear(id));
        }
    }

    /// Puts another core in the place of a shard's, in one commit; the old one goes.
    pub(crate) fn replace_shard(
        &self,
        (collection, number): (&str, u32),
        handle: &Collection,
        core: Core,
    ) -> Result<()> {
        let name = self.resolve_alias(collection);
        let old = {
            let shards = handle.shard_set().ok_or_else(|| no_shard(number))?;
            let _changing = shards.change();
            let old = handle.shard_of_number(number)?;
            let core = self.enroll(core.with_name(&name));
            let new = Arc::new(Shard {
                key: old.key.clone(),
                number,
                core,
            });
            let end = |e: Error| {
                new.core.dropped.store(true, Ordering::Release);
                e
            };
            new.core
                .guarded(|| align(handle.core(), &new.core))
                .map_err(end)?;
            let list = shards.list();
            let list = list.iter().map(|shard| match shard.number == number {
                true => new.clone(),
                false => shard.clone(),
            });
            let list: Vec<_> = list.collect();
            self.commit_shards(&name, handle, &list).map_err(end)?;
            shards.replace(list);
            old
        };
        old.core.replaced.store(true, Ordering::Release);
        self.retire(&old.core);
        Ok(())
    }

    /// Commits which shards a collection has.
    fn commit_shards(&self, name: &str, collection: &Collection, shards: &[Arc<Shard>]) -> Result<()> {
        let mut names = self.names();
        let mut catalog = names.catalog.clone();
        let mut entries = catalog.collections.iter_mut();
        let entry = entries.find(|entry| entry.name == name && entry.id == collection.id());
        let entry = entry
            .ok_or_else(|| Error::not_found(format!("Not found: Collection `{name}` doesn't exist!")))?;
        entry.shards = shards.iter().map(|shard| shard.entry()).collect();
        self.commit(&mut names, catalog)
    }
}

fn check_key(key: &ShardKey) -> Result<()> {
    let bytes = match key {
        ShardKey::Number(_) => 0,
        ShardKey::Word(word) => word.len(),
    };
    match bytes <= SHARD_KEY_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::bad_input(format!(
            "Wrong input: a shard key of {bytes} bytes, at most {SHARD_KEY_BYTES_MAX} are possible"
        ))),
    }
}
