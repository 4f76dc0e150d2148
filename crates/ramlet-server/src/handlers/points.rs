//! Points by id, in order, and counted.

use ramlet::{Collection, PayloadSelector, PointId, VectorSelector};

use crate::call::Call;
use crate::dispatch::Answer;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::out::Out;
use crate::wire::query::{WireCount, WireRetrieve, WireScroll};
use crate::wire::selectors::{payload_selector, vector_selector};

/// Bytes that `n` records of the collection take at most, payloads aside: what is reserved before the engine reads.
pub fn expected_bytes(collection: &Collection, n: usize, with_vectors: &VectorSelector) -> u64 {
    let info = collection.info();
    let n = (n as u64).min(info.points_count);
    let floats: usize = match with_vectors {
        VectorSelector::None => 0,
        VectorSelector::All => info.config.vectors.values().map(|v| v.size).sum(),
        VectorSelector::Names(names) => names
            .iter()
            .filter_map(|name| info.config.vectors.get(name))
            .map(|v| v.size)
            .sum(),
    };
    n.saturating_mul(limits::RECORD_BYTES + floats as u64 * limits::FLOAT_BYTES)
}

/// `GET /collections/{collection}/points/{id}`.
pub async fn get(call: Call) -> ApiResult<Answer> {
    let text = call.param("id");
    let id: PointId = text.parse().map_err(|e| {
        ApiError::new(
            axum::http::StatusCode::BAD_REQUEST,
            format!("Can not recognize \"{text}\" as point id: {e}"),
        )
    })?;
    let collection = call.collection()?;
    let expected = expected_bytes(&collection, 1, &VectorSelector::All);
    call.read(expected, move |scratch, out| {
        let found = collection.retrieve(&[id], &PayloadSelector::All, &VectorSelector::All, scratch)?;
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
    wire.shard_key.refuse("`shard_key`")?;
    let with_payload = payload_selector(wire.with_payload, true);
    let with_vectors = vector_selector(wire.with_vector);
    let collection = call.collection()?;
    let expected = expected_bytes(&collection, wire.ids.len(), &with_vectors);
    call.read(expected, move |scratch, out| {
        let records = collection.retrieve(&wire.ids, &with_payload, &with_vectors, scratch)?;
        out.list(&records, Out::record);
        Ok(())
    })
    .await
}

/// `POST /collections/{collection}/points/scroll`.
pub async fn scroll(mut call: Call) -> ApiResult<Answer> {
    let wire: WireScroll = call.parse().await?;
    let scroll = wire.into_scroll()?;
    let collection = call.collection()?;
    let expected = expected_bytes(&collection, scroll.limit, &scroll.with_vectors);
    call.read(expected, move |scratch, out| {
        let page = collection.scroll(&scroll, scratch)?;
        out.raw("{\"points\":");
        out.list(&page.points, Out::record);
        out.raw(",\"next_page_offset\":");
        out.value(&page.next);
        out.raw("}");
        Ok(())
    })
    .await
}

/// `POST /collections/{collection}/points/count`.
pub async fn count(mut call: Call) -> ApiResult<Answer> {
    let wire: WireCount = call.parse().await?;
    wire.shard_key.refuse("`shard_key`")?;
    let collection = call.collection()?;
    call.read(0, move |scratch, out| {
        let count = collection.count(wire.filter.as_ref(), wire.exact.unwrap_or(true), scratch)?;
        out.raw("{\"count\":");
        out.value(&count);
        out.raw("}");
        Ok(())
    })
    .await
}
