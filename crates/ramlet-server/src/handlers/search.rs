//! Searches: the query API, and the older search routes.

use std::sync::Arc;

use ramlet::{Collection, Explained, Scratch, Strict};

use super::fetch::{Parts, Portions, fit, list_bytes};
use crate::call::{Call, Expected, List};
use crate::dispatch::Answer;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::out::Out;
use crate::wire::explain::beside_result;
use crate::wire::query::{Asked, WireQueryBatch, WireQueryRequest, WireSearchBatch, WireSearchRequest};

/// `POST /collections/{collection}/points/query`.
pub async fn query(mut call: Call) -> ApiResult<Answer> {
    let wire: WireQueryRequest = call.parse().await?;
    let asked = wire.into_asked()?;
    let collection = call.collection()?;
    check(&call, &collection, std::slice::from_ref(&asked), false)?;
    let expected = expected(&collection, &asked);
    call.list(expected, move |scratch, out| {
        let (portions, explained) = portions(&collection, asked, scratch)?;
        out.raw("{\"points\":[");
        Ok(List {
            portions,
            suffix: format!("]}}{}", beside_result(&[explained], false)),
        })
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
    batch(call, all, ("{\"points\":", "}")).await
}

/// `POST /collections/{collection}/points/search`.
pub async fn search(mut call: Call) -> ApiResult<Answer> {
    let wire: WireSearchRequest = call.parse().await?;
    let asked = Asked::Nearest(wire.into_search()?);
    let collection = call.collection()?;
    check(&call, &collection, std::slice::from_ref(&asked), false)?;
    let expected = expected(&collection, &asked);
    call.list(expected, move |scratch, out| {
        let (portions, explained) = portions(&collection, asked, scratch)?;
        out.raw("[");
        Ok(List {
            portions,
            suffix: format!("]{}", beside_result(&[explained], false)),
        })
    })
    .await
}

/// `POST /collections/{collection}/points/search/batch`.
pub async fn search_batch(mut call: Call) -> ApiResult<Answer> {
    let wire: WireSearchBatch = call.parse().await?;
    check_searches(wire.searches.len())?;
    let searches = wire.searches.into_iter().map(WireSearchRequest::into_search);
    let all = searches
        .map(|s| s.map(Asked::Nearest))
        .collect::<ApiResult<Vec<_>>>()?;
    batch(call, all, ("", "")).await
}

/// `[a, b, ...]`, each between `around`; one after the other on one slot: a batch takes its turn like any request.
async fn batch(call: Call, all: Vec<Asked>, around: (&'static str, &'static str)) -> ApiResult<Answer> {
    let collection = call.collection()?;
    check(&call, &collection, &all, true)?;
    // One search's points are in memory at a time.
    let most = all
        .iter()
        .map(|asked| expected(&collection, asked))
        .map(|e| e.listing + e.portion)
        .max();
    call.read(most.unwrap_or(0), move |scratch, out: &mut Out| {
        let mut list = out.open_list();
        let mut explained = Vec::with_capacity(all.len());
        for asked in all {
            let (mut portions, how) = portions(&collection, asked, scratch)?;
            explained.push(how);
            list.item(|out| {
                out.raw(around.0);
                let written = portions.write_all(scratch, out);
                out.raw(around.1);
                written
            })?;
        }
        list.close();
        out.raw(&beside_result(&explained, true));
        Ok(())
    })
    .await
}

/// What strict mode says.
fn check(call: &Call, collection: &Collection, all: &[Asked], batch: bool) -> ApiResult<()> {
    let Some(strict) = call.strict(collection) else {
        return Ok(());
    };
    if batch {
        strict.batch(all.len())?;
    }
    let mut cost = 0;
    for asked in all {
        let filter = match asked {
            Asked::Nearest(search) => {
                strict.search(search)?;
                &search.filter
            }
            Asked::Scroll { scroll, skip } => {
                strict.limit(scroll.limit.saturating_sub(*skip))?;
                strict.filter(scroll.filter.as_ref())?;
                &scroll.filter
            }
        };
        cost += Strict::cost_of_filter(filter.as_ref());
    }
    strict.read(cost)
}

fn check_searches(n: usize) -> ApiResult<()> {
    if n <= limits::SEARCHES_MAX {
        return Ok(());
    }
    let what = format!("has {n} elements, at most {} are taken", limits::SEARCHES_MAX);
    Err(ApiError::validation("searches", what))
}

fn expected(collection: &Collection, asked: &Asked) -> Expected {
    let (parts, limit, offset) = match asked {
        Asked::Nearest(search) => (Parts::of_search(search), search.limit, search.offset),
        Asked::Scroll { scroll, .. } => (Parts::of_scroll(scroll), scroll.limit, 0),
    };
    let (limit, offset) = fit(collection, limit, offset);
    Expected {
        listing: list_bytes(collection, limit.saturating_add(offset)),
        portion: parts.portion_bytes(collection, limit),
    }
}

fn portions(
    collection: &Arc<Collection>,
    asked: Asked,
    scratch: &mut Scratch,
) -> ApiResult<(Portions, Vec<Explained>)> {
    match asked {
        Asked::Nearest(search) => Portions::hits(collection.clone(), search, scratch),
        Asked::Scroll { scroll, skip } => {
            let (portions, _) =
                Portions::scroll(collection.clone(), scroll, skip, Out::record_as_hit, scratch)?;
            Ok((portions, Vec::new()))
        }
    }
}
