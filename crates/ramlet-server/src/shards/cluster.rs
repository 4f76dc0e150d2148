//! What is told of shards, in the API's shape.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::ask::Divided;
use super::map::ShardNode;
use crate::answers::answer::Answer;
use crate::error::ApiResult;
use crate::handlers::cluster::peer_of;

impl Divided {
    /// The nodes of a shard, this one among them where it is its own.
    fn nodes_of(&self, shard: u32) -> Vec<ShardNode> {
        let shards = self.shards();
        let mut nodes = shards.map.nodes(shard);
        if shard == shards.own {
            let status = self.node.log.status();
            nodes.insert(
                0,
                ShardNode {
                    owns: status.owner.as_ref() == Some(&status.node),
                    node: status.node,
                    url: status.url,
                    slot: status.slot,
                },
            );
        }
        nodes.retain(|node| !node.url.is_empty());
        nodes
    }
}

/// `GET /cluster`: all nodes as peers; the log's figures are those of the shard that is here.
pub async fn status(asked: &Divided) -> ApiResult<Answer> {
    let part = asked.ask(asked.shards().own, asked.same(Bytes::new())).await?;
    let mut status: Map<String, Value> = part.read()?;
    let mut peers = Map::new();
    let mut shards = Vec::new();
    for shard in asked.all() {
        let nodes = asked.nodes_of(shard);
        for node in &nodes {
            peers.insert(peer_of(&node.node).to_string(), json!({ "uri": node.url }));
        }
        let listed: Vec<Value> = nodes
            .iter()
            .map(|node| {
                json!({ "peer_id": peer_of(&node.node), "uri": node.url, "owns": node.owns, "slot": node.slot })
            })
            .collect();
        let state = if nodes.is_empty() { "Dead" } else { "Active" };
        shards.push(json!({ "shard_id": shard, "state": state, "nodes": listed }));
    }
    status.insert("peers".to_owned(), Value::Object(peers));
    if let Some(store) = status.get_mut("store") {
        store["shard"] = json!(asked.shards().own);
        store["shards"] = json!(shards);
    }
    asked.answer(&status)
}

/// `GET /collections/{collection}/cluster`: the shard that is here, and those of other nodes.
pub async fn of_collection(asked: &Divided) -> ApiResult<Answer> {
    let own = asked.shards().own;
    let part = asked.ask(own, asked.same(Bytes::new())).await?;
    let here: Value = part.read()?;
    let points = &here["local_shards"][0]["points_count"];
    let mut remote = Vec::new();
    for shard in asked.all() {
        let nodes = asked.nodes_of(shard);
        let mut others = nodes
            .iter()
            .filter(|node| peer_of(&node.node) != here["peer_id"].as_u64().unwrap_or_default())
            .peekable();
        if others.peek().is_none() && shard != own {
            remote.push(json!({ "shard_id": shard, "peer_id": 0, "state": "Dead" }));
        }
        for node in others {
            remote.push(json!({ "shard_id": shard, "peer_id": peer_of(&node.node), "state": "Active" }));
        }
    }
    asked.answer(&json!({
        "peer_id": here["peer_id"],
        "shard_count": asked.count(),
        "local_shards": [{ "shard_id": own, "points_count": points, "state": "Active" }],
        "remote_shards": remote,
        "shard_transfers": [],
    }))
}
