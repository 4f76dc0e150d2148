//! Which collections a data directory has: `CATALOG-000000000042`, JSON in an [`envelope`]. Numbered and committed like a
//! [`manifest`](crate::manifest).

use crate::envelope::{self, EnvelopeKind};
use crate::error::{FormatError, Result, ensure};
use crate::name::{ensure_plain_name, numbered, parse_numbered};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

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

    /// `Err` too if a name, id or alias occurs twice, or an id isn't a plain directory name.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let body = envelope::decode(EnvelopeKind::Catalog, bytes)?;
        let catalog: Self =
            serde_json::from_slice(body).map_err(|error| FormatError::new(WHAT, error.to_string()))?;
        catalog.validate()?;
        Ok(catalog)
    }

    fn validate(&self) -> Result<()> {
        self.collections
            .iter()
            .try_for_each(|entry| ensure_plain_name(WHAT, &entry.id))?;
        ensure_unique(
            "collection",
            self.collections.iter().map(|entry| entry.name.as_str()),
        )?;
        ensure_unique("id", self.collections.iter().map(|entry| entry.id.as_str()))?;
        ensure_unique("alias", self.aliases.iter().map(|entry| entry.alias.as_str()))
    }
}

fn ensure_unique<'a>(noun: &str, mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = BTreeSet::new();
    names.try_for_each(|name| {
        ensure(seen.insert(name), WHAT, || {
            format!("{noun} {name:?} is listed twice")
        })
    })
}
