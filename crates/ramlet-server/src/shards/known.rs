//! The shards, as a node that holds one of them sees them.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ramlet_memory::{Consumer, OverBudget, Reservation};

use super::lanes::Lane;
use super::map::ShardMap;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::nodes::forwarder::{FORWARDED, SendOn};
use crate::nodes::peer::PeerNode;

/// Of a request: the number of the shard that it is about alone.
pub const SHARD: HeaderName = HeaderName::from_static("ramlet-shard");

/// The shards, as a node that holds one of them sees them.
pub struct Shards {
    pub(super) own: u32,
    pub(super) map: Arc<dyn ShardMap>,
    /// Of each shard but the own one: for reads, and for writes.
    pub(super) lanes: Vec<Option<[Lane; 2]>>,
    /// The highest slot of each shard that was written through this node: who reads through it sees that.
    pub(super) written: Vec<AtomicU64>,
    /// Nodes take turns.
    turn: AtomicUsize,
    /// Nodes that didn't answer, and when.
    silent: Mutex<Vec<(String, Instant)>>,
    /// Account of answers that are gathered.
    pub(super) gathered: Consumer,
    _connections: Reservation,
}

impl Shards {
    /// `own` of so many. `gathered`: the account of connections and of answers of other shards.
    pub fn new(
        (own, count): (u32, u32),
        map: Arc<dyn ShardMap>,
        send: &SendOn,
        gathered: Consumer,
    ) -> Result<Shards, NotDivided> {
        let bytes = u64::from(count - 1) * limits::SHARD_CONNECTIONS_BYTES;
        let connections = gathered.reserve(bytes).map_err(NotDivided::Memory)?;
        let mut lanes = Vec::with_capacity(count as usize);
        for shard in 0..count {
            lanes.push(match shard == own {
                true => None,
                false => {
                    let lane = |threads| Lane::new(send, threads).map_err(NotDivided::Threads);
                    let [reads, writes] = limits::SHARD_LANE_THREADS;
                    Some([lane(reads)?, lane(writes)?])
                }
            });
        }
        Ok(Shards {
            own,
            map,
            lanes,
            written: (0..count).map(|_| AtomicU64::new(0)).collect(),
            turn: AtomicUsize::new(0),
            silent: Mutex::default(),
            gathered,
            _connections: connections,
        })
    }

    pub(super) fn count(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// Whether a request is about the shard that is here, and nothing else.
    pub(crate) fn is_asked_alone(&self, headers: &HeaderMap) -> ApiResult<bool> {
        let Some(asked) = headers.get(SHARD) else {
            // A write that another node of the shard sends to its owner.
            return Ok(headers.contains_key(FORWARDED));
        };
        let asked = asked.to_str().ok().and_then(|text| text.parse::<u32>().ok());
        match asked {
            Some(asked) if asked == self.own => Ok(true),
            _ => {
                let what = format!("this node holds shard {} of {}", self.own, self.count());
                Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, what))
            }
        }
    }

    /// Slots of all shards that were written through this node, as headers have them.
    pub(crate) fn slots(&self) -> HeaderValue {
        let slots = self
            .written
            .iter()
            .map(|slot| slot.load(Ordering::Acquire).to_string());
        let text = slots.collect::<Vec<_>>().join(",");
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("0"))
    }

    pub(super) fn note_written(&self, shard: u32, slot: u64) {
        self.written[shard as usize].fetch_max(slot, Ordering::AcqRel);
    }

    pub(super) fn note_silent(&self, url: &str) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.retain(|(other, at)| other != url && at.elapsed() < limits::SHARD_AVOIDED);
        silent.push((url.to_owned(), Instant::now()));
        drop(silent);
        self.map.look();
    }

    /// The nodes of another shard in the order in which they are asked.
    pub(super) fn nodes(&self, shard: u32, is_read: bool) -> Vec<PeerNode> {
        let mut nodes = self.map.nodes(shard);
        nodes.retain(|node| !node.url.is_empty());
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        if !nodes.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % nodes.len();
            nodes.rotate_left(turn);
        }
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_silent = |node: &PeerNode| {
            let known = silent.iter().find(|(url, _)| *url == node.url);
            known.is_some_and(|(_, at)| at.elapsed() < limits::SHARD_AVOIDED)
        };
        nodes.sort_by_key(|node| (is_silent(node), !is_read && !node.owns));
        nodes
    }

    /// Until another node owns the shard's log: the one before may be stopped, and its answer far away. For a read, until one that wasn't asked yet could answer
    /// as well.
    pub(super) async fn replaced(
        &self,
        shard: u32,
        (node, tried): (&PeerNode, &[String]),
        is_read: bool,
    ) -> String {
        if is_read {
            tokio::time::sleep(limits::SHARD_READ_WAIT).await;
        }
        loop {
            tokio::time::sleep(limits::OWNER_POLL).await;
            let nodes = self.map.nodes(shard);
            let is_other = |other: &PeerNode| match is_read {
                true => !other.url.is_empty() && !tried.contains(&other.node),
                false => other.owns && other.node != node.node,
            };
            if nodes.iter().any(is_other) {
                return "another node is asked".to_owned();
            }
        }
    }

    /// How many nodes hold other shards.
    pub(crate) fn nodes_elsewhere(&self) -> usize {
        let others = (0..self.count()).filter(|shard| *shard != self.own);
        others.map(|shard| self.map.nodes(shard).len()).sum()
    }

    /// The shards that no node is known to hold.
    pub(crate) fn without_nodes(&self) -> Vec<u32> {
        let others = (0..self.count()).filter(|shard| *shard != self.own);
        others
            .filter(|shard| self.nodes(*shard, true).is_empty())
            .collect()
    }
}

/// Why a node can't hold a shard.
#[derive(Debug)]
pub enum NotDivided {
    Memory(OverBudget),
    Threads(io::Error),
}

impl std::fmt::Display for NotDivided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotDivided::Memory(e) => e.fmt(f),
            NotDivided::Threads(e) => write!(f, "starting threads: {e}"),
        }
    }
}

impl std::error::Error for NotDivided {}
