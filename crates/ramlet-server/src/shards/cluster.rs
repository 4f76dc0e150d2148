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
    // With shard keys each of them is in each shard of the store.
    let keys: Vec<&Value> = here["local_shards"].as_array().into_iter().flatten().collect();
    let is_keyed = keys.iter().any(|key| !key["shard_key"].is_null());
    let number = |key: &Value, shard: u32| match key["shard_id"].as_u64() {
        Some(of_key) if is_keyed => (of_key - 1) * u64::from(asked.count()) + u64::from(shard),
        _ => u64::from(shard),
    };
    let of = |shard: u32, more: Value| {
        let each = keys.iter().map(move |key| {
            let mut place = more.clone();
            place["shard_id"] = json!(number(key, shard));
            if is_keyed {
                place["shard_key"] = key["shard_key"].clone();
            }
            place
        });
        each.collect::<Vec<Value>>()
    };
    let mut local = of(own, json!({ "state": "Active" }));
    for (place, key) in local.iter_mut().zip(&keys) {
        place["points_count"] = key["points_count"].clone();
    }
    let mut remote = Vec::new();
    for shard in asked.all() {
        let nodes = asked.nodes_of(shard);
        let mut others = nodes
            .iter()
            .filter(|node| peer_of(&node.node) != here["peer_id"].as_u64().unwrap_or_default())
            .peekable();
        if others.peek().is_none() && shard != own {
            remote.extend(of(shard, json!({ "peer_id": 0, "state": "Dead" })));
        }
        for node in others {
            remote.extend(of(
                shard,
                json!({ "peer_id": peer_of(&node.node), "state": "Active" }),
            ));
        }
    }
    asked.answer(&json!({
        "peer_id": here["peer_id"],
        "shard_count": keys.len() as u64 * u64::from(asked.count()),
        "local_shards": local,
        "remote_shards": remote,
        "shard_transfers": [],
    }))
}
