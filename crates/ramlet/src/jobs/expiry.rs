//! Deletes points whose time is over: a delete by filter like any other, so that all answers agree, and the next merge frees the disk.

use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::Engine;
use crate::error::Result;
use crate::query::Scratch;
use crate::request::{PointsSelector, UpdateOp};
use crate::types::FieldKind;

impl Engine {
    /// Deletes the points of all collections that are over at a time, in microseconds since 1970; says how many. Where the field has no index for it, all
    /// payloads are read: `unindexed` says whether these collections are looked at this time.
    pub fn expire(&self, now_micros: i64, unindexed: bool, scratch: &mut Scratch) -> u64 {
        let collections: Vec<Arc<Collection>> = self.names().open.values().cloned().collect();
        let mut expired = 0;
        for collection in collections {
            match expire_one(&collection, now_micros, unindexed, scratch) {
                Ok(points) => expired += points,
                // It may have been deleted meanwhile, or have no memory left: the next turn comes soon.
                Err(error) => tracing::debug!(%error, "expired points couldn't be deleted"),
            }
        }
        expired
    }
}

fn expire_one(
    collection: &Collection,
    now_micros: i64,
    unindexed: bool,
    scratch: &mut Scratch,
) -> Result<u64> {
    let view = collection.live_view()?;
    let Some(expiry) = view.schema.expiry.clone() else {
        return Ok(0);
    };
    let kind = view.schema.field(&expiry.field).map(|field| field.kind);
    drop(view);
    let kind =
        kind.filter(|kind| matches!(kind, FieldKind::Integer | FieldKind::Float | FieldKind::Datetime));
    if kind.is_none() && !unindexed {
        return Ok(0);
    }
    let filter = expiry.filter(kind, now_micros);
    let points = collection.count(Some(&filter), true, scratch)?;
    if points > 0 {
        let gone = UpdateOp::Delete(PointsSelector::Filter(filter));
        collection.submit(gone, Box::new(|_| {}))?;
    }
    Ok(points)
}
