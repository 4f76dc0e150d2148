//! Points by id, in order, and counted.

use ramlet::{PayloadSelector, PointId, VectorSelector};

use crate::answers::answer::Answer;
use crate::answers::portions::{Portions, is_long};
use crate::answers::shown_parts::{Parts, fit};
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::call::Call;
use crate::wire::query::{WireCount, WireRetrieve, WireScroll};
use crate::wire::selectors::{payload_selector, vector_selector};

/// `GET /collections/{collection}/points/{id}`.
pub async fn get(call: Call) -> ApiResult<Answer> {
    let text = call.request.param("id");
    let id: PointId = text.parse().map_err(|e| {
        ApiError::new(
            axum::http::StatusCode::BAD_REQUEST,
            format!("Can not recognize \"{text}\" as point id: {e}"),
        )
    })?;
    let collection = call.collection().await?;
    let parts = Parts {
        payload: PayloadSelector::All,
        vectors: VectorSelector::All,
    };
    if let Some(strict) = call.strict(&collection) {
        strict.read(1)?;
    }
    let expected = parts.expected(&collection, 0, 1);
    call.read(expected.handed, move |scratch, out| {
        let found = collection.retrieve(&[id], &parts.payload, &parts.vectors, scratch)?;
        match found.first() {
            Some(record) => out.record(record),
            None => {
                return Err(ApiError::not_found(format!(
                    "Point with id {id} does not exists!"
                )));
            }
        }
        Ok(())
    })
    .await
}

/// `POST /collections/{collection}/points`.
pub async fn retrieve(mut call: Call) -> ApiResult<Answer> {
    let wire: WireRetrieve = call.parse().await?;
    let parts = Parts {
        payload: payload_selector(wire.with_payload, true),
        vectors: vector_selector(wire.with_vector),
    };
    let collection = call.collection().await?.within(&wire.shard_key.0)?;
    let ids = each_once(wire.ids);
    let n = ids.len();
    if let Some(strict) = call.strict(&collection) {
        strict.read(n as u64)?;
    }
    let expected = parts.expected(&collection, 0, n);
    call.list(expected, false, move |_, _, list| {
        list.push("", Portions::ids(collection, ids, parts), "");
        Ok(())
    })
    .await
}

/// A point comes once, where it is asked for first.
fn each_once(mut ids: Vec<PointId>) -> Vec<PointId> {
    let mut order: Vec<u32> = (0..ids.len() as u32).collect();
    order.sort_unstable_by_key(|&at| (ids[at as usize], at));
    let mut again = vec![false; ids.len()];
    for pair in order.windows(2) {
        again[pair[1] as usize] = ids[pair[0] as usize] == ids[pair[1] as usize];
    }
    let mut again = again.into_iter();
    ids.retain(|_| again.next() != Some(true));
    ids
}

/// `POST /collections/{collection}/points/scroll`.
pub async fn scroll(mut call: Call) -> ApiResult<Answer> {
    let wire: WireScroll = call.parse().await?;
    let shards = wire.shards();
    let scroll = wire.into_scroll()?;
    let collection = call.collection().await?.within(&shards)?;
    let reads = call.check_read(&collection, scroll.filter.as_ref())?;
    if let Some(strict) = call.strict(&collection) {
        strict.limit(scroll.limit)?;
    }
    let (limit, _) = fit(&collection, scroll.limit, 0);
    let mut expected = Parts::of_scroll(&scroll).expected(&collection, limit, limit);
    if is_long(&collection, &scroll) {
        expected.listing = limit.min(limits::PAGE_IDS) as u64 * limits::ID_BYTES;
    }
    call.list(expected, false, move |scratch, _, list| {
        let portions = reads.noted(scratch, |scratch| Portions::scroll(collection, scroll, scratch))?;
        list.push("{\"points\":", portions, "}");
        Ok(())
    })
    .await
}

/// `POST /collections/{collection}/points/count`.
pub async fn count(mut call: Call) -> ApiResult<Answer> {
    let wire: WireCount = call.parse().await?;
    let collection = call.collection().await?.within(&wire.shard_key.0)?;
    let reads = call.check_read(&collection, wire.filter.as_ref())?;
    if let Some(strict) = call.strict(&collection) {
        strict.exact(wire.exact.unwrap_or(true))?;
    }
    call.read(0, move |scratch, out| {
        let (filter, exact) = (wire.filter.as_ref(), wire.exact.unwrap_or(true));
        let count = reads.noted(scratch, |scratch| collection.count(filter, exact, scratch))?;
        out.raw("{\"count\":");
        out.value(&count);
        out.raw("}");
        Ok(())
    })
    .await
}
