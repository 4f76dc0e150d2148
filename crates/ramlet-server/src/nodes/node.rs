//! A node of several over one shared log: its role, how it stands to the log, and what that lets through.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::forwarder::Forwarder;
use super::peer::{PeerNode, role_name};
use crate::error::{ApiError, ApiResult};
use crate::limits::RETRY_AFTER_SECONDS;
use crate::shards::known::Shards;

/// The last slot of the log that the answering node has applied.
pub const SLOT: HeaderName = HeaderName::from_static("ramlet-slot");
/// How old a reader's knowledge of the end of the log is, in milliseconds.
pub const STALENESS: HeaderName = HeaderName::from_static("ramlet-staleness-ms");
/// Of a request: a read waits until the node has applied this slot.
pub(crate) const SLOT_MIN: &str = "ramlet-slot-min";
/// In place of a slot that was written: those of all shards are told.
pub(crate) const ALL_SHARDS: u64 = u64::MAX;
const SLOT_POLL: Duration = Duration::from_millis(5);
const LOOK_TURNS: u32 = 10;

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Takes writes, and puts them into the log.
    Writer,
    /// Follows the log.
    Reader,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Writer => "writer",
            Role::Reader => "reader",
        }
    }
}

/// How a node stands to the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    pub role: Role,
    /// It takes over when the owner is silent.
    pub is_candidate: bool,
    /// It builds indexes and merges for the others.
    pub builds: bool,
    /// Another node builds for it.
    pub builds_elsewhere: bool,
    /// Its id, and where it is reached.
    pub node: String,
    pub url: String,
    /// The store, as messages call it.
    pub store: String,
    /// Where the writer is reached, and its id, as its seal says.
    pub writer: Option<String>,
    pub owner: Option<String>,
    pub epoch: u64,
    /// The last slot that was applied.
    pub slot: u64,
    /// Since this node looked at the end of the log the last time, and had applied what was there.
    pub seen: Option<Duration>,
    /// The slot up to which the newest backup in the store reaches.
    pub covered: u64,
    /// Slots of the log up to this one are deleted, but for those that stay for ever.
    pub deleted: u64,
    pub memory_bytes: u64,
    /// Of its copy of the data.
    pub disk_bytes: u64,
    /// Why it takes no more writes, or doesn't follow any more.
    pub fault: Option<String>,
}

impl NodeStatus {
    /// What it does, in a word.
    pub(crate) fn role_name(&self) -> &'static str {
        role_name(self.role == Role::Writer, self.builds)
    }

    /// This node, as others see it.
    pub(crate) fn peer(self) -> PeerNode {
        PeerNode {
            owns: self.owner.as_ref() == Some(&self.node),
            node: self.node,
            url: self.url,
            slot: self.slot,
            memory_bytes: self.memory_bytes,
            disk_bytes: self.disk_bytes,
            builds: self.builds,
            quiet: Duration::ZERO,
        }
    }

    /// How old a reader's knowledge of the end of the log is.
    pub fn staleness(&self) -> Option<Duration> {
        self.seen.filter(|_| self.role == Role::Reader)
    }
}

/// The shared log, as the server sees it.
pub trait SharedLog: Send + Sync {
    fn status(&self) -> NodeStatus;
    /// The other nodes that are known to live.
    fn peers(&self) -> Vec<PeerNode>;
    /// Looks at the end of the log soon, before its time.
    fn look(&self);
    /// Puts a change into the log; blocks until it is there, and says its slot. The error is a sentence for the user.
    fn append(&self, change: Vec<u8>) -> Result<u64, String>;
    /// The change in this slot is made here. An error stops writes.
    fn made(&self, slot: u64) -> Result<(), String>;
    /// The change in this slot can't be made here: nothing more is written.
    fn fail(&self, slot: u64, why: &str);
}

/// Where a write goes.
pub(crate) enum Place {
    Here,
    /// To the node that owns the log, at this URL.
    At(String),
}

/// A node over a shared log.
pub struct Node {
    pub log: Arc<dyn SharedLog>,
    /// `None`: clients are told where writes go.
    pub(crate) forwarder: Option<Forwarder>,
    /// Held from the moment that a change goes into the log until it is made.
    pub(crate) changing: Mutex<()>,
    /// Set where collections are divided: this node holds one of the shards.
    pub(crate) shards: Option<Shards>,
}

impl Node {
    pub fn new(log: Arc<dyn SharedLog>, forwarder: Option<Forwarder>) -> Node {
        Node {
            log,
            forwarder,
            changing: Mutex::new(()),
            shards: None,
        }
    }

    /// The same node where collections are divided.
    pub fn divided(self, shards: Shards) -> Node {
        Node {
            shards: Some(shards),
            ..self
        }
    }

    /// Where a write goes now; 503 where nobody takes it.
    pub(crate) fn place(&self) -> ApiResult<Place> {
        let status = self.log.status();
        match (status.role, status.fault) {
            (Role::Writer, None) => Ok(Place::Here),
            (Role::Writer, Some(why)) => Err(stopped(&why)),
            (Role::Reader, _) if status.owner.as_ref() == Some(&status.node) => Err(away(
                "this node has given it up, and looks what became of its last write".to_owned(),
            )),
            (Role::Reader, _) => status
                .writer
                .map(Place::At)
                .ok_or_else(|| away("no node has begun to write yet".to_owned())),
        }
    }

    /// Waits until this node has applied a slot that it is to see soon; says whether it has.
    pub(crate) async fn has_slot(&self, slot: u64, deadline: Instant) -> bool {
        self.log.look();
        loop {
            let status = self.log.status();
            if status.slot >= slot {
                return true;
            }
            if status.fault.is_some() || Instant::now() > deadline {
                return false;
            }
            tokio::time::sleep(SLOT_POLL).await;
        }
    }

    /// Waits until this node has applied all that was in the log when it was asked.
    pub(crate) async fn await_end(&self, deadline: Instant) -> ApiResult<()> {
        let asked = Instant::now();
        for turn in 0u32.. {
            // Now and then again: a look of the owner is passed over while it writes.
            if turn.is_multiple_of(LOOK_TURNS) {
                self.log.look();
            }
            let status = self.log.status();
            if status.seen.is_some_and(|age| age <= asked.elapsed()) {
                return Ok(());
            }
            if status.fault.is_some() || Instant::now() > deadline {
                let why = status.fault.map_or(String::new(), |why| format!(": {why}"));
                let what = format!("the end of the log isn't here yet, slot {} is{why}", status.slot);
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, what));
            }
            tokio::time::sleep(SLOT_POLL).await;
        }
        Ok(())
    }

    /// Waits until the slot that a read asks for is applied.
    pub(crate) async fn await_slot(&self, headers: &HeaderMap, deadline: Instant) -> ApiResult<()> {
        let Some(asked) = headers.get(SLOT_MIN) else {
            return Ok(());
        };
        let asked = asked.to_str().ok().and_then(|text| text.parse::<u64>().ok());
        let asked =
            asked.ok_or_else(|| ApiError::wrong_input(format!("{SLOT_MIN} is a number of a slot")))?;
        if self.has_slot(asked, deadline).await {
            return Ok(());
        }
        let status = self.log.status();
        let why = status.fault.map_or(String::new(), |why| format!(": {why}"));
        let what = format!("slot {asked} isn't here yet, {} is{why}", status.slot);
        Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, what))
    }

    /// Headers of an answer. `written`: a slot that another node wrote for it.
    pub(crate) fn tell(&self, headers: &mut HeaderMap, written: u64) {
        // Of what was asked of this shard alone: the asker has said so, and reads one slot.
        if let Some(shards) = &self.shards
            && written == ALL_SHARDS
        {
            headers.insert(SLOT, shards.slots());
            return;
        }
        let status = self.log.status();
        headers.insert(SLOT, HeaderValue::from(status.slot.max(written)));
        if let Some(staleness) = status.staleness() {
            headers.insert(STALENESS, HeaderValue::from(staleness.as_millis() as u64));
        }
    }

    /// For `/cluster`.
    pub(crate) fn json(&self) -> Value {
        let status = self.log.status();
        let staleness = status.staleness();
        json!({
            "role": status.role_name(), "builds_elsewhere": status.builds_elsewhere, "url": status.store, "writer": status.writer, "epoch": status.epoch, "slot": status.slot,
            "staleness_ms": staleness.map(|age| age.as_millis() as u64), "backup_slot": status.covered,
            "deleted_slot": status.deleted, "fault": status.fault,
        })
    }
}

/// 503: nobody takes the write here, and somebody may soon.
pub(crate) fn away(why: String) -> ApiError {
    ApiError {
        retry_after: Some(RETRY_AFTER_SECONDS),
        ..ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("No node takes writes now: {why}"),
        )
    }
}

/// 503: a writer that writes no more.
pub(crate) fn stopped(why: &str) -> ApiError {
    ApiError {
        retry_after: Some(RETRY_AFTER_SECONDS),
        ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, format!("Writes stopped: {why}"))
    }
}
