//! Into how many shards the data of a store are divided: an object that is created once, and a folder for each shard that is a store of its own.

use bytes::Bytes;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::layout::{LOG, SHARDS, shard_folder};
use crate::limits::SHARDS_MAX;
use crate::shard::newest_covered;
use crate::store::Store;

const SHARDS_BYTES_MAX: u64 = 1 << 10;

/// What the object says.
#[derive(Serialize, Deserialize)]
struct Divided {
    shards: u32,
}

/// The number of shards of a store; `None` where nobody said it: then it has one, if it has any.
pub fn shard_count(store: &Store) -> Result<Option<u32>> {
    let Some(bytes) = store.find(&Path::from(SHARDS), SHARDS_BYTES_MAX)? else {
        return Ok(None);
    };
    match serde_json::from_slice::<Divided>(&bytes) {
        Ok(Divided { shards }) if (1..=SHARDS_MAX).contains(&shards) => Ok(Some(shards)),
        _ => Err(StoreError::corrupt(format!(
            "{store}/{SHARDS}: it doesn't say into how many shards, 1 to {SHARDS_MAX}, the store is divided"
        ))),
    }
}

/// Says the number of shards, where nobody has, and gives the one that holds. A store that is used already has one.
pub fn settle_shards(store: &Store, wanted: Option<u32>) -> Result<u32> {
    if let Some(shards) = shard_count(store)? {
        return Ok(shards);
    }
    let shards = match is_used(store)? {
        true => 1,
        false => wanted.unwrap_or(1),
    };
    let bytes = serde_json::to_vec(&Divided { shards }).expect("it has string keys only");
    match store.create(&Path::from(SHARDS), Bytes::from(bytes)) {
        // Another node said it at the same moment, or this one did and the answer was lost.
        Err(e) if e.kind() == StoreErrorKind::Exists || e.is_unknown() => shard_count(store)?.ok_or(e),
        done => done.map(|()| shards),
    }
}

/// Whether there is a log that isn't divided.
fn is_used(store: &Store) -> Result<bool> {
    let mut has_log = false;
    store.list(LOG, &mut |_| {
        has_log = true;
        Ok(())
    })?;
    Ok(has_log || newest_covered(store)?.is_some())
}

/// The store of a shard.
pub fn shard_store(store: &Store, shard: u32) -> Store {
    store.within(&shard_folder(shard))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::{StoreUrl, open};

    fn empty() -> Store {
        let store = open(&StoreUrl::Memory, true).expect("a store in memory");
        store.claim().expect("it is empty");
        store
    }

    #[test]
    fn the_number_is_said_once() {
        let store = empty();
        assert_eq!(shard_count(&store), Ok(None));
        assert_eq!(settle_shards(&store, Some(3)), Ok(3));
        // Who says another number later learns which one holds.
        assert_eq!(settle_shards(&store, Some(5)), Ok(3));
        assert_eq!(settle_shards(&store, None), Ok(3));
        assert_eq!(shard_count(&store), Ok(Some(3)));
    }

    #[test]
    fn a_store_that_is_used_has_one_shard() {
        let store = empty();
        let slot = crate::layout::slot_path(1);
        store.put(&slot, Bytes::from_static(b"x")).expect("memory");
        assert_eq!(settle_shards(&store, Some(3)), Ok(1));
    }

    #[test]
    fn shards_are_stores_of_their_own() {
        let store = empty();
        let (one, other) = (shard_store(&store, 0), shard_store(&store, 1));
        one.claim().expect("an empty folder");
        assert_eq!(one.is_ours(), Ok(true));
        assert_eq!(other.is_ours(), Ok(false));
        let path = crate::layout::node_path("a");
        one.put(&path, Bytes::from_static(b"x")).expect("memory");
        assert_eq!(other.find(&path, 9), Ok(None));
        let whole = Path::from(format!("shard-0/{path}"));
        assert_eq!(store.find(&whole, 9), Ok(Some(Bytes::from_static(b"x"))));
    }

    #[test]
    fn a_number_that_makes_no_sense_is_refused() {
        let store = empty();
        for text in ["{}", "{\"shards\": 0}", "{\"shards\": 1000}"] {
            store.put(&Path::from(SHARDS), Bytes::from(text)).expect("memory");
            assert!(shard_count(&store).is_err(), "{text}");
        }
    }
}
