//! The routes of a cluster, as a server answers them that is none.

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::dispatch::Answer;
use crate::error::{ApiError, ApiResult};

/// 405, in the API's words.
fn standalone() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "Qdrant is running in standalone mode",
    )
}

/// `GET /cluster`.
pub async fn status(call: Call) -> ApiResult<Answer> {
    call.answer(&json!({ "status": "disabled" }))
}

/// `GET /cluster/telemetry`: no peers, and the collections that are here.
pub async fn telemetry(call: Call) -> ApiResult<Answer> {
    call.query.number("details_level")?;
    let collections: Map<String, Value> = call
        .collection_names()
        .into_iter()
        .map(|name| (name.clone(), json!({ "id": name })))
        .collect();
    call.answer(&json!({
        "collections": collections,
        "cluster": { "enabled": false, "number_of_peers": 0, "peers": {} },
    }))
}

/// `POST /cluster/recover`.
pub async fn recover(_: Call) -> ApiResult<Answer> {
    Err(standalone())
}

/// `DELETE /cluster/peer/{peer}`.
pub async fn remove_peer(call: Call) -> ApiResult<Answer> {
    call.query.boolean("force")?;
    let peer = call.param("peer");
    if peer.parse::<u64>().is_err() {
        let message = format!("Deserialize error in path parameters: `{peer}` is not a number of a peer");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, message));
    }
    Err(standalone())
}

/// `GET /collections/{collection}/cluster`: one shard, here.
pub async fn of_collection(call: Call) -> ApiResult<Answer> {
    let info = call.collection()?.info();
    call.answer(&json!({
        "peer_id": 0,
        "shard_count": 1,
        "local_shards": [{ "shard_id": 0, "points_count": info.points_count, "state": "Active" }],
        "remote_shards": [],
        "shard_transfers": [],
    }))
}

/// The kinds of change: exactly one is given.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Operation {
    MoveShard(Given),
    ReplicateShard(Given),
    ReplicatePoints(Given),
    AbortTransfer(Given),
    DropReplica(Given),
    CreateShardingKey(Given),
    DropShardingKey(Given),
    RestartTransfer(Given),
    StartResharding(Given),
    FinishMigratingPoints(Given),
    CommitReadHashRing(Given),
    CommitWriteHashRing(Given),
    FinishResharding(Given),
    AbortResharding(Given),
}

type Given = serde::de::IgnoredAny;

/// `POST /collections/{collection}/cluster`.
pub async fn change(mut call: Call) -> ApiResult<Answer> {
    let _: Operation = call.parse().await?;
    call.collection()?;
    Err(standalone())
}

/// `GET /collections/{collection}/shards`: points are told apart by their ids alone.
pub async fn shard_keys(call: Call) -> ApiResult<Answer> {
    call.collection()?;
    call.answer(&json!({ "shard_keys": null }))
}

#[derive(Deserialize)]
struct WireShardKey {
    /// A word or a number.
    #[serde(rename = "shard_key")]
    _shard_key: ShardKey,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "shard_key is a word or a number")]
enum ShardKey {
    Word(#[allow(dead_code)] String),
    Number(#[allow(dead_code)] u64),
}

/// `PUT /collections/{collection}/shards`, `POST /collections/{collection}/shards/delete`.
pub async fn change_shard_key(mut call: Call) -> ApiResult<Answer> {
    let _: WireShardKey = call.parse().await?;
    call.collection()?;
    Err(standalone())
}
