//! Aligns shards with their collection: the same vectors and payload indexes, in the same slots, so that one view fits all.

use std::sync::Arc;

use super::ShardSet;
use crate::error::Result;
use crate::jobs::{self, NewVector, vector_names};
use crate::schema::Slots;
use crate::state::core::Core;
use crate::types::CollectionConfig;

impl ShardSet {
    /// Makes a change of settings in every shard, then in the collection's own. What fails on the way leaves the collection as it was; a shard that
    /// has it already is brought back by [`align`].
    pub fn change_first(&self, settings: &Core, change: &dyn Fn(&Core, &Slots) -> Result<()>) -> Result<()> {
        let _changing = self.change();
        let list = self.list();
        for shard in list.iter() {
            shard.core.guarded(|| align(settings, &shard.core))?;
        }
        let slots = settings.writer().slots.clone();
        for shard in list.iter() {
            shard.core.guarded(|| change(&shard.core, &slots))?;
        }
        settings.guarded(|| change(settings, &slots))
    }

    /// Makes a change of settings in the collection's own, and then brings the shards in line.
    pub fn change_after(&self, settings: &Core, change: impl FnOnce(&Core) -> Result<()>) -> Result<()> {
        let _changing = self.change();
        settings.guarded(|| change(settings))?;
        self.align_all(settings)
    }

    fn align_all(&self, settings: &Core) -> Result<()> {
        let list: Arc<Vec<_>> = self.list();
        list.iter()
            .try_for_each(|shard| shard.core.guarded(|| align(settings, &shard.core)))
    }
}

/// Gives a shard the settings of its collection. What was cut off between two shards ends here, at the next start or the next change.
pub fn align(settings: &Core, shard: &Core) -> Result<()> {
    let (config, slots) = settings_of(settings);
    let (own, own_slots) = settings_of(shard);
    if own == config && own_slots.vectors == slots.vectors && own_slots.fields == slots.fields {
        return Ok(());
    }
    if drop_others(shard, &own_slots, &slots)? {
        // A slot that is given anew must not be that of anything in the log or in the memtables.
        jobs::flush_all(shard)?;
    }
    add_missing(shard, &config, &slots)?;
    match settings_of(shard).0 == config {
        true => Ok(()),
        false => jobs::change_settings(shard, &mut |own| {
            *own = config.clone();
            Ok(())
        }),
    }
}

/// Whether a collection that was opened or restored has its points in so many shards. What was salvaged of one shard is an ordinary collection, whatever its
/// settings say.
pub fn is_keyed(settings: &Core, shards: usize) -> bool {
    let is_empty = settings.view.load().points() == 0;
    super::is_custom(&settings.writer().config) && (shards > 0 || is_empty)
}

fn settings_of(core: &Core) -> (CollectionConfig, Slots) {
    let writer = core.writer();
    (writer.config.clone(), writer.slots.clone())
}

/// Drops what the collection doesn't have, or has in another slot; whether there was any.
fn drop_others(shard: &Core, own: &Slots, wanted: &Slots) -> Result<bool> {
    let mut dropped = false;
    for (path, slot) in &own.fields {
        if wanted.fields.get(path) != Some(slot) {
            jobs::delete_field_index(shard, path)?;
            dropped = true;
        }
    }
    for (name, slot) in &own.vectors {
        if wanted.vectors.get(name) != Some(slot) {
            dropped |= vector_names::remove(shard, name)?;
        }
    }
    Ok(dropped)
}

fn add_missing(shard: &Core, config: &CollectionConfig, wanted: &Slots) -> Result<()> {
    let (_, own) = settings_of(shard);
    for (name, slot) in &wanted.vectors {
        let new = match (config.vectors.get(name), config.sparse_vectors.get(name)) {
            _ if own.vectors.contains_key(name) => continue,
            (Some(dense), _) => NewVector::Dense(Box::new(dense.clone())),
            (None, Some(sparse)) => NewVector::Sparse(sparse.clone()),
            (None, None) => continue,
        };
        vector_names::add(shard, name, &new, Some(*slot))?;
    }
    for (path, slot) in &wanted.fields {
        let index = config.payload_schema.get(path);
        if let Some(index) = index.filter(|_| !own.fields.contains_key(path)) {
            jobs::create_field_index(shard, path, index.clone(), Some(*slot))?;
        }
    }
    Ok(())
}
