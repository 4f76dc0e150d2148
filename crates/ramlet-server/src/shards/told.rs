//! How the shards did a search, gathered while it runs: for whoever asked (`params.explain`), and for the log of slow requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ramlet::{Explained, SearchCost, SearchStage, StageUse, Stages, UnindexedField};
use serde_json::Value;
use serde_json::value::RawValue;

use super::ask::{Divided, Part};
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::observability::steps::{Searched, ShardSearched, ShardsSearched};

/// See the module.
pub struct Told {
    /// By the client: else it is for the log alone, and no search fails for it.
    is_asked: bool,
    /// From how long on a shard tells.
    pub from: Duration,
    begun: Instant,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    shards: ShardsSearched,
    /// What was done here.
    parts: Vec<Explained>,
    /// What fetching payloads and vectors of the hits took.
    fetch: Duration,
}

impl Told {
    pub fn new(asked: &Divided, is_asked: bool) -> Told {
        Told {
            is_asked,
            from: match is_asked {
                true => Duration::ZERO,
                false => asked.told_from(),
            },
            begun: Instant::now(),
            so_far: Mutex::default(),
        }
    }

    /// A shard has answered, and told `explain` of one search, if it had much to do.
    pub fn note(&self, asked: &Divided, part: &Part, explain: Option<&RawValue>) -> ApiResult<()> {
        let text = explain.map_or(0, |explain| explain.get().len() * limits::TREE_OF_JSON as usize);
        let bytes = (text + size_of::<ShardSearched>() + part.node.len()) as u64;
        let mut so_far = self.lock();
        let all = so_far.shards.held.bytes() + bytes;
        match so_far.shards.held.at_least(all, &asked.shards().gathered) {
            Err(_) if !self.is_asked => return Ok(()),
            held => held?,
        }
        let told = explain.map(|explain| serde_json::from_str(explain.get()));
        let told: Value = told.transpose().map_err(ApiError::internal)?.unwrap_or_default();
        so_far.shards.asks.push(ShardSearched {
            shard: part.shard,
            node: part.node.clone(),
            waited: part.waited,
            told,
        });
        Ok(())
    }

    /// Lists of so many points were merged here since then, as a query of this kind says.
    pub fn note_merge(&self, index: &'static str, points: usize, begun: Instant) {
        let ns = begun.elapsed().as_nanos() as u64;
        let used = StageUse {
            ns,
            ..StageUse::default()
        };
        self.lock().parts.push(Explained {
            index,
            strategy: "ranks merged",
            rows: points as u64,
            stages: Some(Box::new(Stages::whole(SearchStage::Other, used))),
            total_ns: ns,
            ..Explained::default()
        });
    }

    pub fn note_fetch(&self, took: Duration) {
        self.lock().fetch += took;
    }

    /// All of it, when the search is done.
    pub fn take(&self, unindexed: Vec<UnindexedField>) -> Searched {
        let SoFar { shards, parts, fetch } = std::mem::take(&mut *self.lock());
        let cost = SearchCost {
            total_ns: self.begun.elapsed().as_nanos() as u64,
            collect_ns: fetch.as_nanos() as u64,
            payloads_checked: shards.payloads_checked(),
            ..SearchCost::default()
        };
        Searched {
            parts,
            cost,
            unindexed,
            shards: Some(Arc::new(shards)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
