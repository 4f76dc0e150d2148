//! Settings of collections, in both directions: messages and JSON have the same names for them.

use ramlet_proto::qdrant as q;
use serde_json::Value;

use super::node::{Fields, Key, Node};
use super::requests::word;
use super::value;

pub const MEMORY: &[&str] = &["", "cold", "cached", "pinned"];
pub const DATATYPE: &[&str] = &["", "float32", "uint8", "float16", "turbo4", "turbo8", "turbo16"];
pub const DISTANCE: &[&str] = &["", "Cosine", "Euclid", "Dot", "Manhattan"];
pub const MODIFIER: &[&str] = &["none", "idf"];
pub const SHARDING: &[&str] = &["auto", "custom"];
pub const COMPARATOR: &[&str] = &["max_sim"];
const COMPRESSION: &[&str] = &["x4", "x8", "x16", "x32", "x64"];
const BITS: &[&str] = &["bits1", "bits1_5", "bits2", "bits4", "bits8"];
const ENCODING: &[&str] = &["one_bit", "two_bits", "one_and_half_bits"];
const QUERY_ENCODING: &[&str] = &["default", "binary", "scalar4bits", "scalar8bits"];

/// A setting's word; one that stands for nothing is null.
pub fn setting(value: i32, words: &'static [&'static str]) -> Node {
    if value == 0 && words[0].is_empty() {
        return Node::Null;
    }
    word(value, words, "a setting")
}

/// The number of the word at `name` in `json`.
pub fn word_of(json: &Value, name: &str, words: &[&str]) -> Option<i32> {
    let word = json.get(name)?.as_str()?;
    words
        .iter()
        .position(|w| *w == word)
        .and_then(|at| i32::try_from(at).ok())
}

/// A plain value in a message.
pub trait Plain: Sized {
    fn node(self) -> Node;
    fn of(json: &Value) -> Option<Self>;
}

macro_rules! plain {
    ($($type:ty: $node:expr, $of:expr;)*) => {
        $(impl Plain for $type {
            fn node(self) -> Node {
                ($node)(self)
            }
            fn of(json: &Value) -> Option<Self> {
                ($of)(json)
            }
        })*
    };
}

plain! {
    u64: Node::Uint, Value::as_u64;
    u32: |n: u32| Node::Uint(n.into()), |v: &Value| v.as_u64().and_then(|n| n.try_into().ok());
    f64: Node::Float, Value::as_f64;
    f32: |x: f32| Node::Float(x.into()), |v: &Value| v.as_f64().map(|x| x as f32);
    bool: Node::Bool, Value::as_bool;
    String: Node::Text, |v: &Value| v.as_str().map(str::to_owned);
}

/// The plain value at `name` in `json`.
pub fn plain_of<T: Plain>(json: &Value, name: &str) -> Option<T> {
    T::of(json.get(name)?)
}

/// The object or list at `name`, if it is there.
pub fn part<'a>(json: &'a Value, name: &str) -> Option<&'a Value> {
    json.get(name).filter(|v| !v.is_null())
}

/// A message of optional fields whose names are those of the JSON: `plain` ones, then `words` by their tables.
macro_rules! both_ways {
    ($(#[$doc:meta])* $fields:ident, $message:ident: $type:ident { $($plain:ident),* $(; $($word:ident: $words:expr),*)? }) => {
        $(#[$doc])*
        #[allow(deprecated)]
        pub fn $fields(of: $type) -> Fields {
            Fields::new()
                $(.maybe(stringify!($plain), of.$plain, Plain::node))*
                $($(.maybe(stringify!($word), of.$word, |v| setting(v, $words)))*)?
        }

        #[allow(deprecated, clippy::needless_update)]
        pub fn $message(json: &Value) -> $type {
            $type {
                $($plain: plain_of(json, stringify!($plain)),)*
                $($($word: word_of(json, stringify!($word), $words),)*)?
                ..Default::default()
            }
        }
    };
}

use q::{
    BoolIndexParams, DatetimeIndexParams, FloatIndexParams, GeoIndexParams, HnswConfigDiff, IdTrackerParams,
    IntegerIndexParams, KeywordIndexParams, OptimizersConfigDiff, PayloadStorageParams, SparseIndexConfig,
    StrictModeConfig, TextIndexParams, UuidIndexParams, WalConfigDiff,
};

both_ways!(hnsw, encode_hnsw: HnswConfigDiff {
    m, ef_construct, full_scan_threshold, max_indexing_threads, on_disk, payload_m, inline_storage; memory: MEMORY
});
both_ways!(wal, encode_wal: WalConfigDiff { wal_capacity_mb, wal_segments_ahead, wal_retain_closed });
both_ways!(optimizers_plain, encode_optimizers_plain: OptimizersConfigDiff {
    deleted_threshold, vacuum_min_vector_number, default_segment_number, max_segment_size, memmap_threshold,
    indexing_threshold, flush_interval_sec, prevent_unoptimized
});
both_ways!(sparse_index, encode_sparse_index: SparseIndexConfig {
    full_scan_threshold, on_disk; datatype: DATATYPE, memory: MEMORY
});
both_ways!(payload_storage, encode_payload_storage: PayloadStorageParams {; memory: MEMORY });
both_ways!(id_tracker, encode_id_tracker: IdTrackerParams {; memory: MEMORY });
both_ways!(strict_plain, encode_strict_plain: StrictModeConfig {
    enabled, max_query_limit, max_timeout, unindexed_filtering_retrieve, unindexed_filtering_update, search_max_hnsw_ef,
    search_allow_exact, search_max_oversampling, upsert_max_batchsize, search_max_batchsize,
    max_collection_vector_size_bytes, read_rate_limit, write_rate_limit, max_collection_payload_size_bytes,
    filter_max_conditions, condition_max_size, max_points_count, max_payload_index_count, max_resident_memory_percent
});
both_ways!(keyword, encode_keyword: KeywordIndexParams { is_tenant, on_disk, enable_hnsw, nested; memory: MEMORY });
both_ways!(integer, encode_integer: IntegerIndexParams {
    lookup, range, is_principal, on_disk, enable_hnsw, nested; memory: MEMORY
});
both_ways!(float, encode_float: FloatIndexParams { on_disk, is_principal, enable_hnsw, nested; memory: MEMORY });
both_ways!(geo, encode_geo: GeoIndexParams { on_disk, enable_hnsw, nested; memory: MEMORY });
both_ways!(boolean, encode_boolean: BoolIndexParams { on_disk, enable_hnsw, nested; memory: MEMORY });
both_ways!(datetime, encode_datetime: DatetimeIndexParams { on_disk, is_principal, enable_hnsw, nested; memory: MEMORY });
both_ways!(uuid, encode_uuid: UuidIndexParams { is_tenant, on_disk, enable_hnsw, nested; memory: MEMORY });
both_ways!(text_plain, encode_text_plain: TextIndexParams {
    lowercase, min_token_len, max_token_len, on_disk, phrase_matching, ascii_folding, enable_hnsw, nested; memory: MEMORY
});

pub fn optimizers(of: OptimizersConfigDiff) -> Node {
    use q::max_optimization_threads::Variant::{Setting, Value};
    let threads = match of.max_optimization_threads.and_then(|t| t.variant) {
        Some(Value(n)) => Some(Node::Uint(n)),
        Some(Setting(_)) => Some(Node::Word("auto")),
        None => of.deprecated_max_optimization_threads.map(Node::Uint),
    };
    optimizers_plain(of)
        .maybe("max_optimization_threads", threads, |t| t)
        .node()
}

pub fn encode_optimizers(json: &Value) -> OptimizersConfigDiff {
    use q::max_optimization_threads::Variant;
    let variant = match json.get("max_optimization_threads") {
        Some(Value::Number(n)) => n.as_u64().map(Variant::Value),
        Some(Value::String(_)) => Some(Variant::Setting(0)),
        _ => None,
    };
    OptimizersConfigDiff {
        deprecated_max_optimization_threads: plain_of(json, "max_optimization_threads"),
        max_optimization_threads: variant.map(|v| q::MaxOptimizationThreads { variant: Some(v) }),
        ..encode_optimizers_plain(json)
    }
}

pub fn strict(of: StrictModeConfig) -> Node {
    let multi = of.multivector_config.clone().map(|config| {
        let entry = |entry: q::strict_mode_multivector_config::MultivectorConfigEntry| {
            let limit = Fields::new().uint("max_vectors", entry.value.and_then(|v| v.max_vectors));
            (Key::Owned(entry.key), limit.node())
        };
        Node::Map(config.multivector_config.into_iter().map(entry).collect())
    });
    let sparse = of.sparse_config.clone().map(|config| {
        let entry = |entry: q::strict_mode_sparse_config::SparseConfigEntry| {
            let limit = Fields::new().uint("max_length", entry.value.and_then(|v| v.max_length));
            (Key::Owned(entry.key), limit.node())
        };
        Node::Map(config.sparse_config.into_iter().map(entry).collect())
    });
    strict_plain(of)
        .maybe("multivector_config", multi, |m| m)
        .maybe("sparse_config", sparse, |s| s)
        .node()
}

pub fn encode_strict(json: &Value) -> StrictModeConfig {
    let object = |name| part(json, name).and_then(Value::as_object);
    let multi = object("multivector_config").map(|map| q::StrictModeMultivectorConfig {
        multivector_config: map
            .iter()
            .map(
                |(key, v)| q::strict_mode_multivector_config::MultivectorConfigEntry {
                    key: key.clone(),
                    value: Some(q::StrictModeMultivector {
                        max_vectors: plain_of(v, "max_vectors"),
                    }),
                },
            )
            .collect(),
    });
    let sparse = object("sparse_config").map(|map| q::StrictModeSparseConfig {
        sparse_config: map
            .iter()
            .map(|(key, v)| q::strict_mode_sparse_config::SparseConfigEntry {
                key: key.clone(),
                value: Some(q::StrictModeSparse {
                    max_length: plain_of(v, "max_length"),
                }),
            })
            .collect(),
    });
    StrictModeConfig {
        multivector_config: multi,
        sparse_config: sparse,
        ..encode_strict_plain(json)
    }
}

#[allow(deprecated)]
fn scalar(of: q::ScalarQuantization) -> Node {
    Fields::new()
        .put("type", setting(of.r#type, &["", "int8"]))
        .float("quantile", of.quantile)
        .flag("always_ram", of.always_ram)
        .maybe("memory", of.memory, |v| setting(v, MEMORY))
        .node()
}

#[allow(deprecated)]
fn product(of: q::ProductQuantization) -> Node {
    Fields::new()
        .put("compression", setting(of.compression, COMPRESSION))
        .flag("always_ram", of.always_ram)
        .maybe("memory", of.memory, |v| setting(v, MEMORY))
        .node()
}

#[allow(deprecated)]
fn binary(of: q::BinaryQuantization) -> Node {
    use q::binary_quantization_query_encoding::Variant::Setting;
    let query = of.query_encoding.and_then(|e| e.variant).map(|Setting(v)| v);
    Fields::new()
        .flag("always_ram", of.always_ram)
        .maybe("encoding", of.encoding, |v| setting(v, ENCODING))
        .maybe("query_encoding", query, |v| setting(v, QUERY_ENCODING))
        .maybe("memory", of.memory, |v| setting(v, MEMORY))
        .node()
}

#[allow(deprecated)]
fn turbo(of: q::TurboQuantization) -> Node {
    Fields::new()
        .flag("always_ram", of.always_ram)
        .maybe("bits", of.bits, |v| setting(v, BITS))
        .maybe("memory", of.memory, |v| setting(v, MEMORY))
        .node()
}

pub fn quantization(of: q::QuantizationConfig) -> Node {
    use q::quantization_config::Quantization as Is;
    let (name, node) = match of.quantization {
        Some(Is::Scalar(of)) => ("scalar", scalar(of)),
        Some(Is::Product(of)) => ("product", product(of)),
        Some(Is::Binary(of)) => ("binary", binary(of)),
        Some(Is::Turboquant(of)) => ("turbo", turbo(of)),
        None => return Node::Wrong("the quantization_config is empty".to_owned()),
    };
    Fields::new().put(name, node).node()
}

pub fn quantization_diff(of: q::QuantizationConfigDiff) -> Node {
    use q::quantization_config_diff::Quantization as Is;
    let (name, node) = match of.quantization {
        Some(Is::Scalar(of)) => ("scalar", scalar(of)),
        Some(Is::Product(of)) => ("product", product(of)),
        Some(Is::Binary(of)) => ("binary", binary(of)),
        Some(Is::Turboquant(of)) => ("turbo", turbo(of)),
        Some(Is::Disabled(_)) => return Node::Word("Disabled"),
        None => return Node::Wrong("the quantization_config is empty".to_owned()),
    };
    Fields::new().put(name, node).node()
}

#[allow(deprecated)]
pub fn encode_quantization(json: &Value) -> Option<q::QuantizationConfig> {
    use q::quantization_config::Quantization as Is;
    let memory = |v: &Value| word_of(v, "memory", MEMORY);
    let always_ram = |v: &Value| plain_of(v, "always_ram");
    let quantization = if let Some(v) = part(json, "scalar") {
        Is::Scalar(q::ScalarQuantization {
            r#type: 1,
            quantile: plain_of(v, "quantile"),
            always_ram: always_ram(v),
            memory: memory(v),
        })
    } else if let Some(v) = part(json, "product") {
        Is::Product(q::ProductQuantization {
            compression: word_of(v, "compression", COMPRESSION).unwrap_or(0),
            always_ram: always_ram(v),
            memory: memory(v),
        })
    } else if let Some(v) = part(json, "binary") {
        use q::binary_quantization_query_encoding::Variant::Setting;
        let query = word_of(v, "query_encoding", QUERY_ENCODING);
        Is::Binary(q::BinaryQuantization {
            always_ram: always_ram(v),
            encoding: word_of(v, "encoding", ENCODING),
            query_encoding: query.map(|v| q::BinaryQuantizationQueryEncoding {
                variant: Some(Setting(v)),
            }),
            memory: memory(v),
        })
    } else {
        let v = part(json, "turbo")?;
        Is::Turboquant(q::TurboQuantization {
            always_ram: always_ram(v),
            bits: word_of(v, "bits", BITS),
            memory: memory(v),
        })
    };
    Some(q::QuantizationConfig {
        quantization: Some(quantization),
    })
}

/// The entries of a `map<string, Value>`.
pub fn encode_values(json: Option<&Value>) -> Vec<bytes::Bytes> {
    let Some(map) = json.filter(|v| v.is_object()) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    // What came out of `to_string` is JSON.
    let _ = value::put_payload(&mut out, 1, map.to_string().as_bytes());
    ramlet_proto::wire::Fields::new(&out)
        .filter_map(|field| match field {
            Ok((1, ramlet_proto::wire::Field::Len(entry))) => Some(bytes::Bytes::copy_from_slice(entry)),
            _ => None,
        })
        .collect()
}
