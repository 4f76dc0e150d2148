//! The routes of a cluster, as a server answers them that is none, or a node over a store; and shard keys.

use axum::http::StatusCode;
use ramlet::filter::format_datetime;
use ramlet::{Engine, ShardInfo, ShardKey};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::answers::answer::Answer;
use crate::app::now_micros;
use crate::error::{ApiError, ApiResult};
use crate::nodes::node::Role;
use crate::nodes::peer::{nodes_json, peer_of};
use crate::request::call::Call;

/// 405, in the API's words.
fn standalone() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "Qdrant is running in standalone mode",
    )
}

/// `GET /cluster`. Nodes over a store are told of as peers: the term is the epoch of the log, what is committed its last slot here, the leader its owner.
pub async fn status(call: Call) -> ApiResult<Answer> {
    let Some(node) = &call.app.node else {
        return call.answer(&json!({ "status": "disabled" }));
    };
    let (status, others) = (node.log.status(), node.log.peers());
    let mut store = node.json();
    // One shard, where the store isn't divided.
    let own = std::iter::once(status.clone().peer());
    let nodes: Vec<_> = own.chain(others).collect();
    store["shards"] = json!([nodes_json(0, &nodes)]);
    let peers: Map<String, Value> = nodes
        .iter()
        .map(|peer| (peer_of(&peer.node).to_string(), json!({ "uri": peer.url })))
        .collect();
    let role = match status.role {
        Role::Writer => "Leader",
        Role::Reader => "Follower",
    };
    let working = match &status.fault {
        None => json!({ "consensus_thread_status": "working", "last_update": format_datetime(now_micros()) }),
        Some(why) => json!({ "consensus_thread_status": "stopped_with_err", "err": why }),
    };
    call.answer(&json!({
        "status": "enabled",
        "peer_id": peer_of(&status.node),
        "peers": peers,
        "raft_info": {
            "term": status.epoch,
            "commit": status.slot,
            "pending_operations": 0,
            "leader": status.owner.as_deref().map(peer_of),
            "role": role,
            "is_voter": status.is_candidate,
        },
        "consensus_thread_status": working,
        "message_send_failures": {},
        "store": store,
    }))
}

/// `GET /cluster/telemetry`: the nodes, and the collections that are here.
pub async fn telemetry(call: Call) -> ApiResult<Answer> {
    call.request.query.number("details_level")?;
    let collections: Map<String, Value> = call
        .collection_names()
        .into_iter()
        .map(|name| (name.clone(), json!({ "id": name })))
        .collect();
    let others = call.app.node.as_ref().map(|node| node.log.peers());
    let shards = call.app.node.as_ref().and_then(|node| node.shards.as_ref());
    let elsewhere = shards.map_or(0, |shards| shards.nodes_elsewhere());
    let count = others.as_ref().map_or(0, |others| others.len() + 1 + elsewhere);
    call.answer(&json!({
        "collections": collections,
        "cluster": { "enabled": others.is_some(), "number_of_peers": count, "peers": {} },
    }))
}

/// `POST /cluster/recover`.
pub async fn recover(_: Call) -> ApiResult<Answer> {
    Err(standalone())
}

/// `DELETE /cluster/peer/{peer}`.
pub async fn remove_peer(call: Call) -> ApiResult<Answer> {
    call.request.query.boolean("force")?;
    let peer = call.request.param("peer");
    if peer.parse::<u64>().is_err() {
        let message = format!("Deserialize error in path parameters: `{peer}` is not a number of a peer");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, message));
    }
    Err(standalone())
}

/// The number of this node, which is the only one.
const PEER: u64 = 0;

/// `GET /collections/{collection}/cluster`: its shards, all here; without shard keys it is one.
pub async fn of_collection(call: Call) -> ApiResult<Answer> {
    let collection = call.collection().await?;
    let shards: Vec<Value> = match collection.shard_infos() {
        None => {
            let points = collection.info().points_count;
            vec![json!({ "shard_id": 0, "points_count": points, "state": "Active" })]
        }
        Some(infos) => infos.iter().map(shard_json).collect(),
    };
    let (own, others) = match &call.app.node {
        None => (PEER, Vec::new()),
        Some(node) => {
            let others = node.log.peers();
            let others = others.iter().map(|peer| peer_of(&peer.node)).collect();
            (peer_of(&node.log.status().node), others)
        }
    };
    // Every node has all shards.
    let remote: Vec<Value> = others
        .iter()
        .flat_map(|peer| {
            shards.iter().map(move |shard| {
                json!({
                    "shard_id": shard["shard_id"], "shard_key": shard.get("shard_key"), "peer_id": peer, "state": "Active",
                })
            })
        })
        .collect();
    call.answer(&json!({
        "peer_id": own,
        "shard_count": shards.len(),
        "local_shards": shards,
        "remote_shards": remote,
        "shard_transfers": [],
    }))
}

fn shard_json(info: &ShardInfo) -> Value {
    json!({
        "shard_id": info.number, "shard_key": info.key, "points_count": info.points_count, "state": "Active",
    })
}

/// The kinds of change: exactly one is given.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Operation {
    MoveShard(WirePlaces),
    ReplicateShard(WirePlaces),
    ReplicatePoints(Ignored),
    AbortTransfer(WirePlaces),
    DropReplica(WirePlaces),
    CreateShardingKey(WireNewKey),
    DropShardingKey(WireKey),
    RestartTransfer(WirePlaces),
    StartResharding(Ignored),
    FinishMigratingPoints(Ignored),
    CommitReadHashRing(Ignored),
    CommitWriteHashRing(Ignored),
    FinishResharding(Ignored),
    AbortResharding(Ignored),
}

type Ignored = serde::de::IgnoredAny;

/// A shard, and the peers that something is to be done between.
#[derive(Deserialize)]
struct WirePlaces {
    shard_id: Option<u32>,
    peer_id: Option<u64>,
    from_peer_id: Option<u64>,
    to_peer_id: Option<u64>,
}

impl WirePlaces {
    /// Why it can't be done where there is one peer.
    fn refusal(&self, shards: &[ShardInfo]) -> ApiError {
        if let Some(shard) = self
            .shard_id
            .filter(|id| shards.iter().all(|shard| shard.number != *id))
        {
            return bad(format!("Shard {shard} does not exist"));
        }
        let peers = [self.peer_id, self.from_peer_id, self.to_peer_id];
        if let Some(peer) = peers.into_iter().flatten().find(|peer| *peer != PEER) {
            return bad(format!("Peer {peer} does not exist"));
        }
        bad("the only replica of each shard is on the only peer".to_owned())
    }
}

/// A shard key to be created. One node holds all of its points once, in one shard.
#[derive(Deserialize)]
struct WireNewKey {
    shard_key: ShardKey,
    shards_number: Option<u32>,
    replication_factor: Option<u32>,
    placement: Option<Vec<u64>>,
    initial_state: Option<WireState>,
}

/// What is told of a shard's replicas.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
enum WireState {
    Active,
    Dead,
    Partial,
    Initializing,
    Listener,
    PartialSnapshot,
    Recovery,
    Resharding,
    ReshardingScaleDown,
    ActiveRead,
    ManualRecovery,
}

impl WireNewKey {
    fn check(&self) -> ApiResult<()> {
        for (name, number) in [
            ("shards_number", self.shards_number),
            ("replication_factor", self.replication_factor),
        ] {
            if number == Some(0) {
                return Err(ApiError::validation(name, "value 0 invalid, must be 1 or larger"));
            }
        }
        let key = &self.shard_key;
        if let Some(placement) = &self.placement {
            let unknown: Vec<&u64> = placement.iter().filter(|peer| **peer != PEER).collect();
            if placement.is_empty() {
                return Err(bad(format!("Shard key {key} placement cannot be empty")));
            }
            if !unknown.is_empty() {
                return Err(bad(format!(
                    "Shard Key {key} placement contains unknown peers: {unknown:?}"
                )));
            }
        }
        match self.initial_state {
            // A new shard is begun and then active; there is nobody to fill it for.
            None | Some(WireState::Active | WireState::Initializing) => Ok(()),
            Some(other) => Err(ApiError::unsupported(format!("`initial_state: {other:?}`"))),
        }
    }
}

fn bad(what: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, format!("Bad request: {what}"))
}

/// A shard key to be dropped.
#[derive(Deserialize)]
struct WireKey {
    shard_key: ShardKey,
}

/// `POST /collections/{collection}/cluster`.
pub async fn change(mut call: Call) -> ApiResult<Answer> {
    let operation: Operation = call.parse().await?;
    let shards = call.collection().await?.shard_infos();
    match (operation, shards) {
        (Operation::CreateShardingKey(new), _) => create(call, new).await,
        (Operation::DropShardingKey(of), _) => drop_key(call, of).await,
        // A collection with shard keys is told of as in a cluster of one peer, any other as without a cluster.
        (
            Operation::MoveShard(of)
            | Operation::ReplicateShard(of)
            | Operation::AbortTransfer(of)
            | Operation::DropReplica(of)
            | Operation::RestartTransfer(of),
            Some(shards),
        ) => Err(of.refusal(&shards)),
        _ => Err(standalone()),
    }
}

/// `GET /collections/{collection}/shards`: null where there are no shard keys.
pub async fn shard_keys(call: Call) -> ApiResult<Answer> {
    let infos = call.collection().await?.shard_infos();
    let keys = infos.map(|infos| {
        let keys = infos.into_iter().map(|info| json!({ "key": info.key }));
        keys.collect::<Vec<Value>>()
    });
    call.answer(&json!({ "shard_keys": keys }))
}

/// `PUT /collections/{collection}/shards`.
pub async fn create_shard_key(mut call: Call) -> ApiResult<Answer> {
    let new: WireNewKey = call.parse().await?;
    create(call, new).await
}

/// `POST /collections/{collection}/shards/delete`: of a key that isn't there too.
pub async fn delete_shard_key(mut call: Call) -> ApiResult<Answer> {
    let of: WireKey = call.parse().await?;
    drop_key(call, of).await
}

async fn create(call: Call, new: WireNewKey) -> ApiResult<Answer> {
    new.check()?;
    let collection = call.request.param("collection").to_owned();
    let job = move |engine: &Engine| Ok(engine.create_shard_key(&collection, &new.shard_key)?);
    call.block(&call.app.managing, job).await?;
    call.answer(&true)
}

async fn drop_key(call: Call, of: WireKey) -> ApiResult<Answer> {
    let collection = call.request.param("collection").to_owned();
    let job = move |engine: &Engine| Ok(engine.delete_shard_key(&collection, &of.shard_key)?);
    call.block(&call.app.managing, job).await?;
    call.answer(&true)
}
