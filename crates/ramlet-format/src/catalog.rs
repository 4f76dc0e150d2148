//! Which collections a data directory has: `CATALOG-000000000042`, JSON in an [`envelope`]. Numbered and committed like a
//! [`manifest`](crate::manifest).

use crate::envelope::{self, EnvelopeKind};
use crate::error::{FormatError, Result, ensure};
use crate::name::{ensure_plain_name, numbered, parse_numbered};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

const WHAT: &str = "catalog";
const PREFIX: &str = "CATALOG";

/// All collections and aliases as of one commit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// Of this catalog: one more than the one before.
    pub number: u64,
    pub collections: Vec<CollectionEntry>,
    pub aliases: Vec<AliasEntry>,
    /// For generating the next collection's id: ids are never reused.
    pub next_id: u64,
    /// Quotas of the node, if any were set; opaque here.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub quotas: Value,
}

/// A collection's name, which the user chose, and its generated id, which is its directory's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollectionEntry {
    pub name: String,
    pub id: String,
    /// Where its points are, if users say by keys which go where: its own directory has only the settings then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardEntry>,
}

impl CollectionEntry {
    /// Its own directory and those of its shards.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.id.as_str()).chain(self.shards.iter().map(|shard| shard.id.as_str()))
    }
}

/// The points of one shard key: a directory like that of a collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardEntry {
    pub key: ShardKey,
    /// What the API calls the shard's id; at least 1, one of its own within the collection.
    pub number: u32,
    /// Its directory's name.
    pub id: String,
}

/// What users name a shard by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "a shard key is a word or an unsigned integer")]
pub enum ShardKey {
    Number(u64),
    Word(String),
}

impl fmt::Display for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardKey::Number(number) => number.fmt(f),
            ShardKey::Word(word) => write!(f, "\"{word}\""),
        }
    }
}

/// Another name for a collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AliasEntry {
    pub alias: String,
    /// The collection's name.
    pub collection: String,
}

/// `CATALOG-%012d`.
pub fn file_name(number: u64) -> String {
    numbered(PREFIX, number)
}

/// The number of a catalog's file name; `None` for any other name.
pub fn parse_file_name(name: &str) -> Option<u64> {
    parse_numbered(PREFIX, name)
}

impl Catalog {
    /// The whole file.
    pub fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).expect("a catalog has string keys only");
        envelope::encode(EnvelopeKind::Catalog, &body)
    }

    /// The directories of all collections and their shards.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.collections.iter().flat_map(CollectionEntry::directories)
    }

    /// Whether a directory is one of a collection's or a shard's.
    pub fn lists(&self, id: &str) -> bool {
        self.directories().any(|listed| listed == id)
    }

    /// `Err` too if a name, id, shard key or alias occurs twice, or an id isn't a plain directory name.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let body = envelope::decode(EnvelopeKind::Catalog, bytes)?;
        let catalog: Self =
            serde_json::from_slice(body).map_err(|error| FormatError::new(WHAT, error.to_string()))?;
        catalog.validate()?;
        Ok(catalog)
    }

    fn validate(&self) -> Result<()> {
        self.directories()
            .try_for_each(|id| ensure_plain_name(WHAT, id))?;
        ensure_unique(
            "collection",
            self.collections.iter().map(|entry| entry.name.as_str()),
        )?;
        ensure_unique("id", self.directories())?;
        for entry in &self.collections {
            ensure_unique("shard key", entry.shards.iter().map(|shard| &shard.key))?;
            ensure_unique("shard", entry.shards.iter().map(|shard| shard.number))?;
        }
        ensure_unique("alias", self.aliases.iter().map(|entry| entry.alias.as_str()))
    }
}

fn ensure_unique<T: Ord + fmt::Debug>(noun: &str, mut names: impl Iterator<Item = T>) -> Result<()> {
    let mut seen = BTreeSet::new();
    names.try_for_each(|name| {
        let what = format!("{noun} {name:?} is listed twice");
        ensure(seen.insert(name), WHAT, || what)
    })
}
