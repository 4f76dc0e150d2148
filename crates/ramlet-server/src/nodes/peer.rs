//! A node over a log, as it says of itself, and how it is told of.

use std::time::Duration;

use serde_json::{Value, json};

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerNode {
    pub node: String,
    pub url: String,
    /// It owns the log.
    pub owns: bool,
    /// The last slot of the log that it said to have applied.
    pub slot: u64,
    pub memory_bytes: u64,
    /// Of its copy of the data.
    pub disk_bytes: u64,
    /// It builds indexes and merges for the others.
    pub builds: bool,
    /// For how long it has said nothing new.
    pub quiet: Duration,
}

/// The number of a node: of its id so many bits as every client's numbers hold.
pub(crate) fn peer_of(node: &str) -> u64 {
    let digits = node
        .get(..12)
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    digits.unwrap_or_default()
}

/// What a node does, in a word.
pub(crate) fn role_name(owns: bool, builds: bool) -> &'static str {
    match (owns, builds) {
        (true, _) => "writer",
        (false, true) => "build",
        (false, false) => "reader",
    }
}

/// A shard and its nodes, as `/cluster` tells of them.
pub(crate) fn nodes_json(shard: u32, nodes: &[PeerNode]) -> Value {
    let newest = nodes.iter().map(|node| node.slot).max().unwrap_or_default();
    let listed: Vec<Value> = nodes
        .iter()
        .map(|node| {
            json!({
                "peer_id": peer_of(&node.node), "uri": node.url, "owns": node.owns, "role": role_name(node.owns, node.builds),
                "slot": node.slot, "slots_behind": newest - node.slot, "memory_bytes": node.memory_bytes, "disk_bytes": node.disk_bytes,
                "silent_ms": node.quiet.as_millis() as u64,
            })
        })
        .collect();
    let state = if nodes.is_empty() { "Dead" } else { "Active" };
    json!({ "shard_id": shard, "state": state, "nodes": listed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_with_their_lag() {
        let of = |node: &str, owns, slot| PeerNode {
            node: node.to_owned(),
            url: "http://a".to_owned(),
            owns,
            slot,
            memory_bytes: 64,
            disk_bytes: 7,
            builds: node.ends_with('0'),
            quiet: Duration::from_millis(1_500),
        };
        let told = nodes_json(
            2,
            &[of("000000000010ff", true, 9), of("00000000001100", false, 5)],
        );
        assert_eq!(
            told["nodes"][1],
            json!({
                "peer_id": 17, "uri": "http://a", "owns": false, "role": "build", "slot": 5, "slots_behind": 4, "memory_bytes": 64,
                "disk_bytes": 7, "silent_ms": 1_500,
            })
        );
        assert_eq!(
            (&told["state"], &told["nodes"][0]["role"]),
            (&json!("Active"), &json!("writer"))
        );
        assert_eq!(
            nodes_json(1, &[]),
            json!({ "shard_id": 1, "state": "Dead", "nodes": [] })
        );
    }
}
