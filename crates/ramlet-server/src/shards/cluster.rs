//! What is told of shards, in the API's shape.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::ask::Divided;
use crate::answers::answer::Answer;
use crate::error::ApiResult;
use crate::nodes::peer::{PeerNode, nodes_json, peer_of};

impl Divided {
    /// The nodes of a shard, this one among them where it is its own.
    fn nodes_of(&self, shard: u32) -> Vec<PeerNode> {
        let shards = self.shards();
        let mut nodes = shards.map.nodes(shard);
        if shard == shards.own {
            nodes.insert(0, self.node.log.status().peer());
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
        shards.push(nodes_json(shard, &nodes));
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
