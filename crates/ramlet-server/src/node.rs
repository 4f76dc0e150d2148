//! A node of several over one shared log: its role, how it stands to the log, and what that lets through.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::error::{ApiError, ApiResult};

/// The last slot of the log that the answering node has applied.
pub const SLOT: HeaderName = HeaderName::from_static("ramlet-slot");
/// How old a reader's knowledge of the end of the log is, in milliseconds.
pub const STALENESS: HeaderName = HeaderName::from_static("ramlet-staleness-ms");
/// Of a request: a read waits until the node has applied this slot.
const SLOT_MIN: &str = "ramlet-slot-min";
const SLOT_POLL: Duration = Duration::from_millis(5);

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
    /// The store, as messages call it.
    pub store: String,
    /// Where the writer is reached, as its seal says.
    pub writer: Option<String>,
    pub epoch: u64,
    /// The last slot that was applied.
    pub slot: u64,
    /// Since a reader saw the end of the log, or applied what was there.
    pub staleness: Option<Duration>,
    /// The slot up to which the newest backup in the store reaches.
    pub covered: u64,
    /// Slots of the log up to this one are deleted, but for those that stay for ever.
    pub deleted: u64,
    /// Why it takes no more writes, or doesn't follow any more.
    pub fault: Option<String>,
}

/// The shared log, as the server sees it.
pub trait SharedLog: Send + Sync {
    fn status(&self) -> NodeStatus;
    /// Puts a change into the log; blocks until it is there, and says its slot. The error is a sentence for the user.
    fn append(&self, change: Vec<u8>) -> Result<u64, String>;
    /// The change in this slot is made here. An error stops writes.
    fn made(&self, slot: u64) -> Result<(), String>;
    /// A change that is in the log can't be made here: nothing more is written.
    fn fail(&self, why: String);
}

/// A node over a shared log.
pub struct Node {
    pub log: Arc<dyn SharedLog>,
    /// Held from the moment that a change goes into the log until it is made.
    pub(crate) changing: Mutex<()>,
}

impl Node {
    pub fn new(log: Arc<dyn SharedLog>) -> Node {
        Node {
            log,
            changing: Mutex::new(()),
        }
    }

    /// Tells a reader, and a writer that writes no more.
    pub(crate) fn check_writes(&self) -> ApiResult<()> {
        let status = self.log.status();
        match (status.role, status.fault) {
            (Role::Writer, None) => Ok(()),
            (Role::Writer, Some(why)) => Err(stopped(&why)),
            (Role::Reader, _) => {
                let writer = status.writer.unwrap_or_else(|| "no writer has begun".to_owned());
                let what = format!("Forbidden: this node only reads; writes go to the writer: {writer}");
                Err(ApiError::new(StatusCode::FORBIDDEN, what))
            }
        }
    }

    /// Waits until the slot that a read asks for is applied.
    pub(crate) async fn await_slot(&self, headers: &HeaderMap, deadline: Instant) -> ApiResult<()> {
        let Some(asked) = headers.get(SLOT_MIN) else {
            return Ok(());
        };
        let asked = asked.to_str().ok().and_then(|text| text.parse::<u64>().ok());
        let asked =
            asked.ok_or_else(|| ApiError::wrong_input(format!("{SLOT_MIN} is a number of a slot")))?;
        loop {
            let status = self.log.status();
            if status.slot >= asked {
                return Ok(());
            }
            if status.fault.is_some() || Instant::now() > deadline {
                let why = status.fault.map_or(String::new(), |why| format!(": {why}"));
                let what = format!("slot {asked} isn't here yet, {} is{why}", status.slot);
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, what));
            }
            tokio::time::sleep(SLOT_POLL).await;
        }
    }

    /// Headers of an answer.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let status = self.log.status();
        headers.insert(SLOT, HeaderValue::from(status.slot));
        if let Some(staleness) = status.staleness {
            headers.insert(STALENESS, HeaderValue::from(staleness.as_millis() as u64));
        }
    }

    /// For `/cluster`.
    pub(crate) fn json(&self) -> Value {
        let status = self.log.status();
        json!({
            "role": status.role.name(), "url": status.store, "writer": status.writer, "epoch": status.epoch, "slot": status.slot,
            "staleness_ms": status.staleness.map(|age| age.as_millis() as u64), "backup_slot": status.covered,
            "deleted_slot": status.deleted, "fault": status.fault,
        })
    }
}

/// 503: a writer that writes no more.
pub(crate) fn stopped(why: &str) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, format!("Writes stopped: {why}"))
}
