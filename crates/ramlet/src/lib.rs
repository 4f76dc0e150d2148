//! Ramlet's engine: collections of points on disk inside a RAM budget.
//!
//! Only one [`Engine`] can open a directory, in this process or another. It starts threads for
//! writes and background jobs. Searches run on the caller's thread, each with its own [`Scratch`], or on search threads ([`Engine::run`]).
//! An update is durable and searchable when [`Collection::update`] returns.
//!
//! ```
//! use ramlet::*;
//!
//! # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! # let directory = std::env::temp_dir().join(format!("ramlet-example-{}", std::process::id()));
//! let (storage, _) = open_best(&directory, Backend::Auto)?;
//! let engine = Engine::open(storage, EngineOptions::in_process(64_000_000, 2)?)?;
//!
//! // Settings are those of the API, in its JSON; `""` names the default vector.
//! let config = serde_json::json!({"vectors": {"": {"size": 3, "distance": "Cosine"}}});
//! engine.create_collection("docs", serde_json::from_value(config)?)?;
//! let docs = engine.collection("docs")?;
//! docs.create_payload_index("lang", FieldIndex { kind: FieldKind::Keyword, params: None })?;
//!
//! let points = vec![Point {
//!     id: PointId::Num(1),
//!     vectors: vec![(DEFAULT_VECTOR.to_string(), vec![0.1, 0.9, 0.3].into())],
//!     payload: br#"{"lang": "en"}"#.to_vec(),
//! }];
//! docs.update(UpdateOp::Upsert { points, filter: None, mode: UpdateMode::Upsert })?;
//!
//! let mut scratch = engine.scratch()?;
//! let request = SearchRequest {
//!     query: QueryVector::Vector(vec![0.2, 0.8, 0.3].into()),
//!     using: DEFAULT_VECTOR.to_string(),
//!     filter: Some(serde_json::from_str(r#"{"must": [{"key": "lang", "match": {"value": "en"}}]}"#)?),
//!     params: SearchParams::default(),
//!     limit: 5,
//!     offset: 0,
//!     score_threshold: None,
//!     with_payload: PayloadSelector::All,
//!     with_vectors: VectorSelector::None,
//! };
//! let found = docs.search(&request, &mut scratch)?;
//! assert_eq!(found.hits[0].id, PointId::Num(1));
//!
//! docs.update(UpdateOp::Delete(PointsSelector::Ids(vec![PointId::Num(1)])))?;
//! assert_eq!(docs.count(None, true, &mut scratch)?, 0);
//! // Dropping the last handle of the engine releases the lock. A collection's handle then refuses writes.
//! drop(engine);
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok(())
//! # }
//! ```

mod collection;
mod engine;
mod error;
mod faults;
pub mod filter;
mod jobs;
pub mod limits;
mod memory;
pub mod payload;
pub mod plan;
mod query;
mod ranking;
mod read;
mod recall;
mod recovery;
mod request;
mod residency;
mod schema;
mod segment;
pub mod settings;
mod sharding;
mod snapshot;
mod state;
mod strict;
pub mod text;
mod types;
mod write;

pub use collection::Collection;
pub use engine::{Engine, EngineOptions, Slot, SlotJob};
pub use error::{BudgetBytes, Error, ErrorKind, Result};
pub use filter::index::FacetValue;
pub use jobs::NewVector;
pub use jobs::progress::{JobKind, JobStep, JobUnderWay};
pub use jobs::watch::{JOB_KINDS, JobDone, JobTimes, SYNC_BUCKETS_US, SyncTimes, Watch};
pub use memory::index_report::{SegmentReport, VectorReport};
pub use memory::quotas::QuotaConfig;
pub use memory::words::SMALLER_BATCHES;
pub use query::expression::{Decay, DecayKind, Expression};
pub use query::request::*;
pub use query::{GROUPS_GROWTH, Ranked, Scratch, fused, group_ids, query_inputs, widen_for_groups};
pub use ramlet_index::{Calibrated, IndexReport, PartUse};
/// Where an engine lies, and what it is given: all that [`Engine::open`] wants.
pub use ramlet_io::{Backend, Clock, SearchStage, StageUse, Stages, Storage, open_best};
pub use ramlet_memory::{BudgetRequest, BudgetTable, Ledger};
pub use read::facet::{FacetHit, FacetRequest};
pub use read::info::{CollectionInfo, CollectionStatus, ComponentMemory};
pub use read::matrix::{Matrix, MatrixRequest};
pub use recall::monitor::MeasuredRecall;
pub use recovery::catalog::AliasOp;
pub use recovery::directory_check::{CheckReport, Checked, check};
pub use recovery::inventory::{DataFile, Inventory, inventory};
pub use request::*;
pub use residency::Unloaded;
pub use sharding::{ShardInfo, ShardKey, ShardSelection};
pub use snapshot::{Salvaged, SnapshotDescription, SnapshotFile, SnapshotScope, SnapshotUpload, salvage};
pub use strict::strict_checks::{Strict, UnindexedField};
pub use types::vector::{MultiVector, SparseVector, Vector};
pub use types::*;
pub use write::adoption::{Adoption, Offered};
pub use write::disk_room::too_little_disk;
pub use write::replica::{CopiedFile, Follower};
pub use write::shared_log::{Followed, GroupLog};
