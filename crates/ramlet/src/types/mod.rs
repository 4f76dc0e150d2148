//! The engine's basic types: ids, vectors, collections' settings.

pub mod vector;

use ramlet_format::catalog::ShardKey;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use vector::Vector;

/// A point's external id. Integers sort before UUIDs, as the API's scroll order has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PointId {
    Num(u64),
    Uuid(u128),
}

impl PointId {
    /// Longest encoding of [`PointId::encode`].
    pub const ENCODED_MAX: usize = 17;

    /// Order-preserving bytes: tag, then big endian.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.encode_into(&mut [0; PointId::ENCODED_MAX]));
    }

    /// The same at the beginning of `out`: writes and look-ups do it for every point.
    pub fn encode_into(self, out: &mut [u8; PointId::ENCODED_MAX]) -> &[u8] {
        match self {
            PointId::Num(n) => {
                out[0] = 0;
                out[1..9].copy_from_slice(&n.to_be_bytes());
                &out[..9]
            }
            PointId::Uuid(u) => {
                out[0] = 1;
                out[1..].copy_from_slice(&u.to_be_bytes());
                out
            }
        }
    }

    /// XXH64 of the encoded id. Collections are divided by it, so it is the same for ever.
    pub fn stable_hash(self) -> u64 {
        ramlet_format::hash::hash64(self.encode_into(&mut [0; PointId::ENCODED_MAX]))
    }

    /// Reads what [`PointId::encode`] wrote; returns the id and the bytes it took.
    pub fn decode(bytes: &[u8]) -> Option<(PointId, usize)> {
        match *bytes.first()? {
            0 => Some((
                PointId::Num(u64::from_be_bytes(bytes.get(1..9)?.try_into().ok()?)),
                9,
            )),
            1 => Some((
                PointId::Uuid(u128::from_be_bytes(bytes.get(1..17)?.try_into().ok()?)),
                17,
            )),
            _ => None,
        }
    }
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PointId::Num(n) => write!(f, "{n}"),
            PointId::Uuid(u) => uuid::Uuid::from_u128(*u).fmt(f),
        }
    }
}

impl FromStr for PointId {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        if let Ok(n) = s.parse::<u64>() {
            return Ok(PointId::Num(n));
        }
        uuid::Uuid::try_parse(s)
            .map(|u| PointId::Uuid(u.as_u128()))
            .map_err(|_| format!("'{s}' is neither an unsigned integer nor a UUID"))
    }
}

impl Serialize for PointId {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            PointId::Num(n) => s.serialize_u64(*n),
            PointId::Uuid(_) => s.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for PointId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = PointId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a point id: an unsigned integer or a UUID")
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<PointId, E> {
                Ok(PointId::Num(v))
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<PointId, E> {
                u64::try_from(v)
                    .map(PointId::Num)
                    .map_err(|_| E::custom(format!("point id {v} is negative")))
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<PointId, E> {
                uuid::Uuid::try_parse(v).map(|u| PointId::Uuid(u.as_u128())).map_err(|_| {
                    E::custom(format!("value {v} is not a valid point ID, valid values are either an unsigned integer or a UUID"))
                })
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// How two vectors are compared. Scores: Cosine and Dot, larger is nearer; Euclid and Manhattan, smaller is nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Distance {
    Cosine,
    Dot,
    Euclid,
    Manhattan,
}

impl Distance {
    /// Whether a larger score is a nearer point.
    pub fn larger_is_nearer(self) -> bool {
        matches!(self, Distance::Cosine | Distance::Dot)
    }
}

/// Element type of stored vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Datatype {
    #[default]
    Float32,
    Float16,
    Uint8,
    /// Kept as halves, and searched by codes of 4 bits a dimension unless the settings ask for others.
    Turbo4,
    /// The same with 8 bits.
    Turbo8,
    /// Kept as halves.
    Turbo16,
}

impl Datatype {
    pub fn bytes(self) -> usize {
        match self {
            Datatype::Float32 => 4,
            Datatype::Float16 | Datatype::Turbo4 | Datatype::Turbo8 | Datatype::Turbo16 => 2,
            Datatype::Uint8 => 1,
        }
    }
}

/// One dense vector of a collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VectorParams {
    pub size: usize,
    pub distance: Distance,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datatype: Option<Datatype>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disk: Option<bool>,
    /// Set: several vectors of `size` numbers stand for a point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multivector_config: Option<MultiVectorConfig>,
    /// Settings of the API that are kept and shown as they came (hnsw_config, quantization_config, memory, ...); what the
    /// engine reads of them: [`crate::settings`].
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// How the parts of two multivectors are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MultiVectorConfig {
    pub comparator: MultiVectorComparator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultiVectorComparator {
    /// The sum over the query's parts of the best score among the point's parts.
    MaxSim,
}

/// One sparse vector of a collection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SparseVectorParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifier: Option<Modifier>,
    /// Settings of the API that are kept and shown as they came (index, ...).
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// What becomes of the weights of a sparse query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Modifier {
    #[default]
    None,
    /// Each is multiplied by the inverse document frequency of its dimension.
    Idf,
}

/// The name of the unnamed vector.
pub const DEFAULT_VECTOR: &str = "";

/// Everything a collection was created with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CollectionConfig {
    /// By name; `""` is the default vector.
    pub vectors: BTreeMap<String, VectorParams>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sparse_vectors: BTreeMap<String, SparseVectorParams>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disk_payload: Option<bool>,
    /// `optimizers_config.indexing_threshold` in kB of vectors: segments below are searched flat. 0 = never index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexing_threshold: Option<usize>,
    /// Settings of the API that are kept and shown as they came, by their top-level key
    /// (hnsw_config, optimizers_config, quantization_config, strict_mode_config, metadata, shard_number, ...).
    #[serde(default)]
    pub other: BTreeMap<String, serde_json::Value>,
    /// Payload indexes by field path.
    #[serde(default)]
    pub payload_schema: BTreeMap<String, FieldIndex>,
}

/// What a payload index holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldKind {
    Keyword,
    Integer,
    Float,
    Bool,
    Geo,
    Datetime,
    Uuid,
    Text,
}

/// A payload index of a collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldIndex {
    pub kind: FieldKind,
    /// The parameters as the API got them (`{"type": "integer", "lookup": true, ...}`), for `info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<serde_json::Value>,
}

/// Vectors of a point by name.
pub type NamedVectors = Vec<(String, Vector)>;

/// A point as it comes in.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub id: PointId,
    pub vectors: NamedVectors,
    /// A JSON object as text; empty = no payload. Checked by the engine with `payload::validate`.
    pub payload: Vec<u8>,
}

/// A point as it goes out.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub id: PointId,
    /// JSON object text, selected; `None` when not asked for.
    pub payload: Option<Vec<u8>>,
    /// `None` when not asked for.
    pub vectors: Option<NamedVectors>,
    /// Set by `scroll` with `order_by`.
    pub order_value: Option<OrderValue>,
    /// The key of the shard it is in, where the collection has some.
    pub shard_key: Option<Arc<ShardKey>>,
}

/// A hit of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredPoint {
    pub id: PointId,
    pub score: f32,
    /// The log position of the point's last change, shown as `version`.
    pub version: u64,
    pub payload: Option<Vec<u8>>,
    pub vectors: Option<NamedVectors>,
    /// Set by queries that order by a field.
    pub order_value: Option<OrderValue>,
    /// JSON object text: by field, the fragments in which words of the query are marked.
    pub highlights: Option<Vec<u8>>,
    /// The key of the shard it is in, where the collection has some.
    pub shard_key: Option<Arc<ShardKey>>,
}

/// The value a scroll was ordered by.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OrderValue {
    Int(i64),
    Float(f64),
}

/// Which payload keys a reader gets.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum PayloadSelector {
    #[default]
    None,
    All,
    Include(Vec<String>),
    Exclude(Vec<String>),
}

/// Which vectors a reader gets.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum VectorSelector {
    #[default]
    None,
    All,
    Names(Vec<String>),
}
