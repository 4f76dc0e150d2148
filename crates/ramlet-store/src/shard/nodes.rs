//! What nodes say of themselves: an object each, which its node alone writes, over and over.
//!
//! It tells whether the owner lives, who may take over, and what people want to see. The log alone says who owns the shard: a card that is old, lost or wrong
//! makes a takeover come early or late, never a wrong one.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::layout::{NODES, node_path};
use crate::limits::{CARD_BYTES_MAX, CARDS_MAX};
use crate::store::Store;

/// What a node does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    Owns,
    #[default]
    Follows,
    /// It has ended, and knows it.
    Left,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Its id, which its data directory keeps.
    pub node: String,
    /// Where it is reached; empty where it fills its directory, and answers nobody yet.
    pub url: String,
    pub work: Work,
    pub epoch: u64,
    pub slot: u64,
    /// Another one each time.
    pub beat: u64,
    pub memory_bytes: u64,
    /// It takes over when the owner is silent.
    pub is_candidate: bool,
    /// Of its copy of the data.
    #[serde(default)]
    pub disk_bytes: u64,
    /// Of a divided store: it looks whether this shard is to be its own.
    #[serde(default)]
    pub chooses: bool,
    /// Of a divided store: it goes to another shard that needs it more.
    #[serde(default)]
    pub moves: bool,
    /// It builds indexes and merges for the others of its log.
    #[serde(default)]
    pub builds: bool,
    /// The newest backup that it made since its start: where what it built is; 0: none yet.
    #[serde(default)]
    pub backup: u64,
}

/// Writes a node's card, over the one before.
pub fn write_card(store: &Store, card: &Card) -> Result<()> {
    let bytes = serde_json::to_vec(card).expect("a card has string keys only");
    store.put(&node_path(&card.node), Bytes::from(bytes))
}

/// The card of a node; `None` if there is none that can be read.
pub fn card(store: &Store, node: &str) -> Result<Option<Card>> {
    let found = store.find(&node_path(node), CARD_BYTES_MAX)?;
    Ok(found.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// The cards of all nodes, of so many at most, by their ids.
pub fn cards(store: &Store) -> Result<Vec<Card>> {
    let mut nodes = Vec::new();
    store.list(NODES, &mut |listed| {
        let node = listed.path.filename().map(str::to_owned);
        nodes.extend(node.filter(|_| nodes.len() < CARDS_MAX && listed.bytes <= CARD_BYTES_MAX));
        Ok(())
    })?;
    nodes.sort_unstable();
    let mut cards = Vec::new();
    for node in nodes {
        cards.extend(card(store, &node)?.filter(|card| card.node == node));
    }
    Ok(cards)
}

/// Removes the card of a node that is no more. One that lives writes another.
pub fn remove_card(store: &Store, node: &str) -> Result<()> {
    store.delete(&node_path(node))
}
