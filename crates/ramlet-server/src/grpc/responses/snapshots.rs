//! Messages about snapshots.

use ramlet_proto::qdrant as q;
use serde::Deserialize;

use super::collections::timestamp;
use super::{HandlerResult, message};
use crate::error::ApiResult;

#[derive(Deserialize)]
struct Snapshot {
    name: String,
    creation_time: Option<String>,
    #[serde(default)]
    size: i64,
    checksum: Option<String>,
}

impl Snapshot {
    fn message(self) -> q::SnapshotDescription {
        q::SnapshotDescription {
            name: self.name,
            creation_time: self.creation_time.as_deref().and_then(timestamp),
            size: self.size,
            checksum: self.checksum,
        }
    }
}

pub fn created(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let snapshot: Snapshot = handled.result()?;
    message(&q::CreateSnapshotResponse {
        snapshot_description: Some(snapshot.message()),
        time: handled.time,
    })
}

pub fn list(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let list: Vec<Snapshot> = handled.result()?;
    let snapshot_descriptions = list.into_iter().map(Snapshot::message).collect();
    message(&q::ListSnapshotsResponse {
        snapshot_descriptions,
        time: handled.time,
    })
}

pub fn deleted(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    message(&q::DeleteSnapshotResponse { time: handled.time })
}
