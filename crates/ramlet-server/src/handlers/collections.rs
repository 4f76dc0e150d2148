//! Collections: list, create, change, drop, tell.

use serde_json::json;

use crate::answers::answer::Answer;
use crate::error::ApiResult;
use crate::request::call::Call;
use crate::wire::collection::{WireCreate, WireUpdate};
use crate::wire::info::info_json;
use crate::wire::memory::memory_json;
use crate::wire::name_rules::check_name;

/// `GET /collections`.
pub async fn list(call: Call) -> ApiResult<Answer> {
    let names = call.collection_names();
    let collections: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
    call.answer(&json!({ "collections": collections }))
}

/// `GET /collections/{collection}`.
pub async fn info(call: Call) -> ApiResult<Answer> {
    let info = match call.collection().await {
        Ok(collection) => collection.info(),
        // One that is closed tells why.
        Err(refused) => call
            .app
            .engine
            .collection_info(call.request.param("collection"))
            .map_err(|_| refused)?,
    };
    call.answer(&info_json(&info))
}

/// `GET /collections/{collection}/exists`.
pub async fn exists(call: Call) -> ApiResult<Answer> {
    let exists = call.app.engine.has_collection(call.request.param("collection"));
    call.answer(&json!({ "exists": exists }))
}

/// `PUT /collections/{collection}`.
pub async fn create(mut call: Call) -> ApiResult<Answer> {
    let name = call.request.param("collection").to_owned();
    check_name("collection_name", &name)?;
    let wire: WireCreate = call.parse().await?;
    let config = wire.into_config()?;
    call.block(&call.app.managing, move |engine| {
        Ok(engine.create_collection(&name, config)?)
    })
    .await?;
    call.answer(&true)
}

/// `PATCH /collections/{collection}`.
pub async fn update(mut call: Call) -> ApiResult<Answer> {
    let name = call.request.param("collection").to_owned();
    let wire: WireUpdate = call.parse().await?;
    call.block(&call.app.managing, move |engine| {
        // The API's own sentence and code survive the engine's error.
        let mut refused = None;
        let result = engine.update_collection(&name, &mut |config| {
            wire.apply(config).map_err(|e| {
                let plain = ramlet::Error::bad_input(&e.message);
                refused = Some(e);
                plain
            })
        });
        match refused {
            Some(e) => Err(e),
            None => Ok(result?),
        }
    })
    .await?;
    call.answer(&true)
}

/// `DELETE /collections/{collection}`: false when there was none.
pub async fn delete(call: Call) -> ApiResult<Answer> {
    let name = call.request.param("collection").to_owned();
    let was_there = call
        .block(&call.app.managing, move |engine| {
            Ok(engine.delete_collection(&name)?)
        })
        .await?;
    call.app.stats.forget(call.request.param("collection"));
    call.answer(&was_there)
}

/// `GET /collections/{collection}/memory`: bytes by component and place, indexes by segment, recall as measured. Own
/// addition.
pub async fn memory(call: Call) -> ApiResult<Answer> {
    let collection = call.collection().await?;
    call.answer(&memory_json(&collection))
}
