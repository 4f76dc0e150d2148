//! The specification that is planned: the data and its queries.

use serde::{Deserialize, Serialize};

use super::PlanError;
use crate::limits::DIM_MAX;
use crate::schema::{VectorField, VectorKind, element, metric};
use crate::settings::{IndexKind, Placement, VectorSettings};
use crate::types::{Datatype, Distance};

/// Points that a plan is made for at most: beyond it, a byte count might not fit 64 bits.
pub const POINTS_MAX: u64 = 1 << 36;
/// Payload bytes of a point at most.
const PAYLOAD_BYTES_MAX: u64 = 1 << 24;
/// Results of a query at most.
const K_MAX: u32 = 10_000;
/// Effort grows without bound towards 1.
const RECALL_MAX: f64 = 0.999;
const RECALL_MIN: f64 = 0.5;

/// A collection that may not exist yet, with one vector a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub points: u64,
    /// Dimensions of a vector.
    #[serde(alias = "dim", alias = "size")]
    pub dims: u64,
    #[serde(default, alias = "datatype")]
    pub element: Datatype,
    #[serde(default = "cosine", alias = "distance")]
    pub metric: Distance,
    /// JSON of a point, on average; 0: none.
    #[serde(default)]
    pub payload_bytes: u64,
    /// What identifies a point: numbers are packed into RAM, UUIDs are read for every result.
    #[serde(default)]
    pub ids: Ids,
    /// Share of the true nearest that a search finds.
    #[serde(default = "default_recall")]
    pub recall: f64,
    /// Results of a search.
    #[serde(default = "default_k", alias = "limit")]
    pub k: u32,
    /// Whether a search's answer carries payloads.
    #[serde(default)]
    pub with_payload: bool,
    #[serde(default)]
    pub index: IndexWish,
    #[serde(default)]
    pub hardness: Hardness,
    #[serde(default)]
    pub wishes: Wishes,
}

/// Ids of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ids {
    #[default]
    Numbers,
    Uuids,
}

/// Which index the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexWish {
    /// The one that is faster.
    #[default]
    Auto,
    Ivf,
    /// The graph.
    Hnsw,
}

/// How much work the data makes: before any is there, a guess. After the upload the index measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hardness {
    /// As word vectors (local intrinsic dimension about 36): neighbours hardly nearer than others.
    #[default]
    Hard,
    /// As images or clustered embeddings (about 28 and less).
    Easy,
}

/// Placements that the user asked for; unset means the planner chooses. A wish is kept or refused, never bent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wishes {
    /// `on_disk: true` of the vectors is `Cold`, `on_disk: false` is `Pinned`.
    #[serde(default)]
    pub vectors: Option<Wish>,
    /// `always_ram: true` of the quantization is `Pinned`.
    #[serde(default)]
    pub codes: Option<Wish>,
    /// `on_disk_payload: true` is `Cold`.
    #[serde(default)]
    pub payload: Option<Wish>,
}

/// One wish, in the API's words (`memory: pinned | cached | cold`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// In RAM, or the plan is refused.
    Pinned,
    /// In RAM if it pays.
    Cached,
    /// On disk, whatever room there is.
    Cold,
}

impl Spec {
    /// As the schema of a collection has it.
    pub(crate) fn vector(&self) -> VectorField {
        let placement = |wish| match wish {
            Wish::Pinned => Placement::Pinned,
            Wish::Cached => Placement::Cached,
            Wish::Cold => Placement::Cold,
        };
        let settings = VectorSettings {
            index: match self.index {
                IndexWish::Auto => IndexKind::Auto,
                IndexWish::Ivf => IndexKind::Ivf,
                IndexWish::Hnsw => IndexKind::Hnsw,
            },
            rows: self.wishes.vectors.map(placement),
            codes: self.wishes.codes.map(placement),
            ..VectorSettings::default()
        };
        VectorField {
            name: String::new(),
            slot: 0,
            kind: VectorKind::Dense,
            dim: self.dims as usize,
            metric: metric(self.metric),
            element: element(self.element),
            settings,
            modifier: None,
        }
    }

    /// Rows of one segment.
    pub(crate) fn segment_rows(&self) -> u32 {
        u32::try_from(self.points).unwrap_or(u32::MAX)
    }
}

fn cosine() -> Distance {
    Distance::Cosine
}
fn default_recall() -> f64 {
    0.95
}
fn default_k() -> u32 {
    10
}

impl Spec {
    /// f32, cosine, recall 0.95 of 10, no payload, hard data, no wishes.
    pub fn new(points: u64, dims: u64) -> Spec {
        Spec {
            points,
            dims,
            element: Datatype::Float32,
            metric: cosine(),
            payload_bytes: 0,
            ids: Ids::Numbers,
            recall: default_recall(),
            k: default_k(),
            with_payload: false,
            index: IndexWish::Auto,
            hardness: Hardness::Hard,
            wishes: Wishes::default(),
        }
    }

    /// Bytes of a stored vector.
    pub fn row_bytes(&self) -> u64 {
        self.dims * self.element.bytes() as u64
    }

    /// Whether a plan can be made: the error names the field, what it is and what it may be.
    pub fn check(&self) -> Result<(), PlanError> {
        let check = |name, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(PlanError::BadSpec(format!(
                "{name} is {value}; it may be {least} to {most}"
            ))),
        };
        check("points", self.points, 0, POINTS_MAX)?;
        check("dims", self.dims, 1, DIM_MAX as u64)?;
        check("payload_bytes", self.payload_bytes, 0, PAYLOAD_BYTES_MAX)?;
        check("k", u64::from(self.k), 1, u64::from(K_MAX))?;
        match (RECALL_MIN..=RECALL_MAX).contains(&self.recall) {
            true => Ok(()),
            false => Err(PlanError::BadSpec(format!(
                "recall is {}; it may be {RECALL_MIN} to {RECALL_MAX}",
                self.recall
            ))),
        }
    }
}
