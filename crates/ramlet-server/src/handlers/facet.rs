//! Facets and distance matrices.

use std::hash::{BuildHasher, RandomState};

use ramlet::Matrix;

use crate::answers::answer::Answer;
use crate::answers::out::Out;
use crate::error::ApiResult;
use crate::request::call::Call;
use crate::wire::facet::{WireFacet, WireMatrix, write_facet, write_offsets, write_pairs};

/// `POST /collections/{collection}/facet`.
pub async fn facet(mut call: Call) -> ApiResult<Answer> {
    let collection = call.collection().await?;
    let wire: WireFacet = call.parse().await?;
    let collection = collection.within(&wire.shards())?;
    let (request, _exact) = wire.into_request()?;
    let reads = call.check_read(&collection, request.filter.as_ref())?;
    if let Some(strict) = call.strict(&collection) {
        strict.limit(request.limit)?;
    }
    call.read(0, move |scratch, out| {
        let hits = reads.noted(scratch, |scratch| collection.facet(&request, scratch))?;
        write_facet(&hits, out);
        Ok(())
    })
    .await
}

/// `POST /collections/{collection}/points/search/matrix/pairs`.
pub async fn pairs(call: Call) -> ApiResult<Answer> {
    matrix(call, write_pairs).await
}

/// `POST /collections/{collection}/points/search/matrix/offsets`.
pub async fn offsets(call: Call) -> ApiResult<Answer> {
    matrix(call, write_offsets).await
}

async fn matrix(mut call: Call, write: fn(&Matrix, &mut Out)) -> ApiResult<Answer> {
    let collection = call.collection().await?;
    let wire: WireMatrix = call.parse().await?;
    let collection = collection.within(&wire.shards())?;
    let request = wire.into_request()?;
    let reads = call.check_read(&collection, request.filter.as_ref())?;
    if let Some(strict) = call.strict(&collection) {
        strict.limit(request.limit.saturating_mul(request.sample))?;
    }
    call.read(0, move |scratch, out| {
        let matrix = reads.noted(scratch, |scratch| {
            collection.search_matrix(&request, seed(), scratch)
        })?;
        write(&matrix, out);
        Ok(())
    })
    .await
}

/// Another one for every request.
fn seed() -> u64 {
    RandomState::new().hash_one(0)
}
