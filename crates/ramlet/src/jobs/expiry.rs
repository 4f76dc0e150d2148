//! Deletes expired points by a filter, so that all answers agree and the next merge frees the disk.

use crate::collection::Collection;
use crate::engine::Engine;
use crate::error::Result;
use crate::faults::locks::whole;
use crate::limits::{EXPIRY_LOADS, EXPIRY_UNLISTED_MICROS};
use crate::query::Scratch;
use crate::request::{Direction, OrderBy, PointsSelector, ScrollRequest, UpdateOp};
use crate::settings::{Expiry, ExpiryAsOf};
use crate::types::{FieldKind, PayloadSelector, VectorSelector};

impl Engine {
    /// Deletes the points of all collections that are over at a time, in microseconds since 1970; says how many. Where the field has no index for it, all
    /// payloads are read: `unindexed` says whether these collections are looked at this time. Collections that are not in RAM are loaded when their first point
    /// is over.
    pub fn expire(&self, now_micros: i64, unindexed: bool, scratch: &mut Scratch) -> u64 {
        let has_expiry = |collection: &Collection| collection.view().schema.expiry.is_some();
        let loaded = self.loaded_collections().into_iter();
        let loaded = loaded.filter(|(_, collection)| has_expiry(collection));
        // None is held but the one in hand.
        let mut names: Vec<String> = loaded.map(|(name, _)| name).collect();
        names.extend(self.expired_unloaded(now_micros, EXPIRY_LOADS));
        let mut expired = 0;
        for name in names {
            let gone = self
                .collection(&name)
                .and_then(|collection| expire_one(&collection, now_micros, unindexed, scratch));
            match gone {
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
    let kind =
        kind.filter(|kind| matches!(kind, FieldKind::Integer | FieldKind::Float | FieldKind::Datetime));
    let as_of = (view.operation, expiry.clone(), kind);
    drop(view);
    // An index of integers lists no fractions, and those expire as well.
    let is_listed = matches!(kind, Some(FieldKind::Float | FieldKind::Datetime));
    if is_listed
        && collection
            .first_expiry(&as_of)
            .is_some_and(|first| first > now_micros)
    {
        return Ok(0);
    }
    if kind.is_none() && !unindexed {
        return Ok(0);
    }
    let filter = expiry.filter(kind, now_micros);
    let points = collection.count(Some(&filter), true, scratch)?;
    let later = now_micros.saturating_add(EXPIRY_UNLISTED_MICROS);
    let first = match (points, kind) {
        (0, Some(kind)) => {
            let first = first_over(collection, (&expiry, kind), scratch)?;
            if is_listed { first } else { first.min(later) }
        }
        (0, None) => later,
        // What is deleted now is over already: the next turn tells.
        _ => i64::MIN,
    };
    collection.note_expiry(as_of, first);
    if points > 0 {
        let gone = UpdateOp::Delete(PointsSelector::Filter(filter));
        collection.submit(gone, Box::new(|_| {}))?;
    }
    Ok(points)
}

/// When the first point will be over, in microseconds since 1970, by the index of the field.
fn first_over(
    collection: &Collection,
    (expiry, kind): (&Expiry, FieldKind),
    scratch: &mut Scratch,
) -> Result<i64> {
    let request = ScrollRequest {
        filter: None,
        limit: 1,
        offset: None,
        order_by: Some(OrderBy {
            key: expiry.field.clone(),
            direction: Direction::Asc,
            start_from: None,
        }),
        with_payload: PayloadSelector::None,
        with_vectors: VectorSelector::None,
    };
    let page = collection.scroll(&request, scratch)?;
    let first = page.points.first().and_then(|point| point.order_value.as_ref());
    Ok(first.map_or(i64::MAX, |value| expiry.over_at(value, kind)))
}

impl Collection {
    fn first_expiry(&self, as_of: &ExpiryAsOf) -> Option<i64> {
        let known = whole(&self.core().expiry);
        let current = known.as_ref().filter(|(known, _)| known == as_of);
        current.map(|(_, first)| *first)
    }

    /// Of shards the last change of all isn't known by one number: they are looked at each time.
    fn note_expiry(&self, as_of: ExpiryAsOf, first: i64) {
        if self.shards().is_empty() {
            let mut known = whole(&self.core().expiry);
            *known = Some((as_of, first));
        }
    }

    /// When its first point expires, for who can't look then: at once where that isn't known as of the last change.
    pub(crate) fn expires(&self) -> i64 {
        let view = self.whole_view();
        let Some(expiry) = view.schema.expiry.clone() else {
            return i64::MAX;
        };
        let kind = view.schema.field(&expiry.field).map(|field| field.kind);
        self.first_expiry(&(view.operation, expiry, kind))
            .unwrap_or(i64::MIN)
    }
}
