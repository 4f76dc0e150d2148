//! Requests: messages in the shape of the REST API's JSON. One file per noun of the API.

pub mod collections;
pub mod filter;
pub mod formula;
pub mod points;
pub mod query;
pub mod search;
pub mod updates;
pub mod vectors;

use std::time::Duration;

use ramlet_proto::{Shape, qdrant as q};

use super::node::{Fields, Node};
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::params::QueryParams;

/// A decoded request: what a route's handler takes.
pub struct DecodedRequest {
    /// Parameters that stand in the path of the REST API.
    pub params: Vec<(String, String)>,
    pub query: QueryParams,
    pub body: Node,
}

impl DecodedRequest {
    pub fn of(collection: String, body: Node) -> DecodedRequest {
        DecodedRequest {
            params: vec![("collection".to_owned(), collection)],
            query: QueryParams::default(),
            body,
        }
    }

    /// Without a collection.
    pub fn plain(body: Node) -> DecodedRequest {
        DecodedRequest {
            params: Vec::new(),
            query: QueryParams::default(),
            body,
        }
    }

    pub fn param(mut self, name: &str, value: String) -> DecodedRequest {
        self.params.push((name.to_owned(), value));
        self
    }

    pub fn wait(mut self, wait: Option<bool>) -> DecodedRequest {
        self.query.wait = wait.unwrap_or(false);
        self
    }

    /// Seconds, as REST has them in the query string: from 1.
    pub fn timeout(mut self, seconds: Option<u64>) -> ApiResult<DecodedRequest> {
        match seconds {
            None => {}
            Some(0) => {
                return Err(ApiError::validation(
                    "timeout",
                    "value 0 invalid, must be 1 or larger",
                ));
            }
            Some(n) => self.query.timeout = Some(Duration::from_secs(n).min(limits::TIMEOUT_MAX)),
        }
        Ok(self)
    }
}

impl DecodedRequest {
    /// Checked, and says nothing to a single node.
    pub fn ordering(self, of: Option<q::WriteOrdering>) -> ApiResult<DecodedRequest> {
        match of {
            Some(of) if !(0..KINDS).contains(&of.r#type) => Err(no_kind("ordering", of.r#type)),
            _ => Ok(self),
        }
    }

    /// The same.
    pub fn consistency(mut self, of: Option<q::ReadConsistency>) -> ApiResult<DecodedRequest> {
        use q::read_consistency::Value::{Factor, Type};
        match of.and_then(|of| of.value) {
            Some(Type(kind)) if !(0..KINDS).contains(&kind) => Err(no_kind("read_consistency", kind)),
            Some(Factor(0)) => {
                let what = "value 0 invalid, must be 1 or larger";
                Err(ApiError::validation("read_consistency.factor", what))
            }
            Some(Type(_) | Factor(2..)) => {
                self.query.is_consistent = true;
                Ok(self)
            }
            _ => Ok(self),
        }
    }
}

/// What is wrong with the timeout of one of several searches: the whole call's holds, and each is checked.
fn wrong_timeout(seconds: Option<u64>) -> Option<String> {
    (seconds == Some(0)).then(|| "timeout: value 0 invalid, must be 1 or larger".to_owned())
}

/// Orderings of writes (weak, medium, strong), and consistencies of reads (all, majority, quorum).
const KINDS: i32 = 3;

fn no_kind(name: &str, value: i32) -> ApiError {
    ApiError::wrong_input(format!("{value} is no value of `{name}`"))
}

/// What of a message's type the server must know before it decodes one.
pub type Decode = fn(bytes::Bytes) -> ApiResult<DecodedRequest>;

/// A request's size in memory, its decoder.
pub struct Request {
    pub shape: &'static Shape,
    pub decode: Decode,
}

/// A value that the message can't go without.
pub fn required<T>(value: Option<T>, name: &str, convert: impl FnOnce(T) -> Node) -> Node {
    match value {
        Some(value) => convert(value),
        None => Node::Wrong(format!("`{name}` is missing in the message")),
    }
}

/// The word at the place of an enum's value.
pub fn word(value: i32, words: &'static [&'static str], name: &str) -> Node {
    match usize::try_from(value)
        .ok()
        .and_then(|at| words.get(at))
        .filter(|word| !word.is_empty())
    {
        Some(word) => Node::Word(word),
        None => Node::Wrong(format!("{value} is no value of `{name}`")),
    }
}

pub fn id(id: q::PointId) -> Node {
    use q::point_id::PointIdOptions::{Num, Uuid};
    match id.point_id_options {
        Some(Num(n)) => Node::Uint(n),
        Some(Uuid(text)) => Node::Text(text),
        None => Node::Wrong("a point id is empty: neither `num` nor `uuid`".to_owned()),
    }
}

pub fn shard_key_one(key: q::ShardKey) -> Node {
    use q::shard_key::Key::{Keyword, Number};
    match key.key {
        Some(Keyword(text)) => Node::Text(text),
        Some(Number(n)) => Node::Uint(n),
        None => Node::Wrong("a shard key is empty".to_owned()),
    }
}

/// `shard_key`: a key, or several.
pub fn shard_key(selector: q::ShardKeySelector) -> Node {
    let mut keys = selector.shard_keys;
    match selector.fallback {
        Some(fallback) => {
            let target = required(keys.pop(), "shard_keys", shard_key_one);
            Fields::new()
                .put("target", target)
                .put("fallback", shard_key_one(fallback))
                .node()
        }
        None => Node::list(keys, shard_key_one),
    }
}

/// `with_payload`; nothing said is left to the route.
pub fn with_payload(selector: q::WithPayloadSelector) -> Node {
    use q::with_payload_selector::SelectorOptions::{Enable, Exclude, Include};
    match selector.selector_options {
        Some(Enable(on)) => Node::Bool(on),
        Some(Include(keys)) => Fields::new().put("include", Node::words(keys.fields)).node(),
        Some(Exclude(keys)) => Fields::new().put("exclude", Node::words(keys.fields)).node(),
        None => Node::Null,
    }
}

/// `with_vector`.
pub fn with_vectors(selector: q::WithVectorsSelector) -> Node {
    use q::with_vectors_selector::SelectorOptions::{Enable, Include};
    match selector.selector_options {
        Some(Enable(on)) => Node::Bool(on),
        Some(Include(names)) => Node::words(names.names),
        None => Node::Null,
    }
}
