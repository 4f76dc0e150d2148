//! Searches: the query API, and the older search routes.

use ramlet::{Collection, Scratch};

use super::fetch;
use crate::call::Call;
use crate::dispatch::Answer;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::out::Out;
use crate::wire::query::{Asked, WireQueryBatch, WireQueryRequest, WireSearchBatch, WireSearchRequest};

/// `POST /collections/{collection}/points/query`.
pub async fn query(mut call: Call) -> ApiResult<Answer> {
    let wire: WireQueryRequest = call.parse().await?;
    let asked = wire.into_asked()?;
    let collection = call.collection()?;
    let expected = asked_bytes(&collection, &asked);
    call.read(expected, move |scratch, out| {
        one_query(&collection, &asked, scratch, out)
    })
    .await
}

/// `POST /collections/{collection}/points/query/batch`.
pub async fn query_batch(mut call: Call) -> ApiResult<Answer> {
    let wire: WireQueryBatch = call.parse().await?;
    check_searches(wire.searches.len())?;
    let all = wire
        .searches
        .into_iter()
        .map(WireQueryRequest::into_asked)
        .collect::<ApiResult<Vec<_>>>()?;
    let collection = call.collection()?;
    let expected = all
        .iter()
        .map(|asked| asked_bytes(&collection, asked))
        .fold(0, u64::saturating_add);
    call.read(expected, move |scratch, out| {
        batch(&all, out, |asked, out| {
            one_query(&collection, asked, scratch, out)
        })
    })
    .await
}

/// `POST /collections/{collection}/points/search`.
pub async fn search(mut call: Call) -> ApiResult<Answer> {
    let wire: WireSearchRequest = call.parse().await?;
    let search = wire.into_search()?;
    let collection = call.collection()?;
    let expected = fetch::hits_bytes(&collection, &search);
    call.read(expected, move |scratch, out| {
        fetch::hits(&collection, &search, scratch, out)
    })
    .await
}

/// `POST /collections/{collection}/points/search/batch`.
pub async fn search_batch(mut call: Call) -> ApiResult<Answer> {
    let wire: WireSearchBatch = call.parse().await?;
    check_searches(wire.searches.len())?;
    let all = wire
        .searches
        .into_iter()
        .map(WireSearchRequest::into_search)
        .collect::<ApiResult<Vec<_>>>()?;
    let collection = call.collection()?;
    let expected = all
        .iter()
        .map(|search| fetch::hits_bytes(&collection, search))
        .fold(0, u64::saturating_add);
    call.read(expected, move |scratch, out| {
        batch(&all, out, |search, out| {
            fetch::hits(&collection, search, scratch, out)
        })
    })
    .await
}

fn check_searches(n: usize) -> ApiResult<()> {
    if n <= limits::SEARCHES_MAX {
        return Ok(());
    }
    let what = format!("has {n} elements, at most {} are taken", limits::SEARCHES_MAX);
    Err(ApiError::validation("searches", what))
}

fn asked_bytes(collection: &Collection, asked: &Asked) -> u64 {
    match asked {
        Asked::Nearest(search) => fetch::hits_bytes(collection, search),
        Asked::Scroll { scroll, .. } => fetch::scroll_bytes(collection, scroll),
    }
}

/// `[a, b, ...]`, one after the other on one slot: a batch takes its turn like any other request.
fn batch<T>(all: &[T], out: &mut Out, mut one: impl FnMut(&T, &mut Out) -> ApiResult<()>) -> ApiResult<()> {
    out.raw("[");
    for (i, item) in all.iter().enumerate() {
        if i > 0 {
            out.raw(",");
        }
        one(item, out)?;
    }
    out.raw("]");
    Ok(())
}

fn one_query(collection: &Collection, asked: &Asked, scratch: &mut Scratch, out: &mut Out) -> ApiResult<()> {
    out.raw("{\"points\":");
    match asked {
        Asked::Nearest(search) => fetch::hits(collection, search, scratch, out)?,
        Asked::Scroll { scroll, skip } => {
            fetch::scroll(collection, scroll, *skip, scratch, out, Out::record_as_hit)?;
        }
    }
    out.raw("}");
    Ok(())
}
