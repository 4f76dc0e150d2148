//! Queries in JSON: older ones in the words of the query API, the places of vectors, and points of answers.

use ramlet::{PointId, QueryRequest, ShardSelection};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Form;
use super::answers::{Point, WirePoint};
use super::ask::{Divided, Part};
use crate::error::{ApiError, ApiResult};
use crate::wire::query::{
    IntoQuery, WireDiscoverRequest, WireQueryRequest, WireRecommendRequest, WireSearchRequest,
};

pub type Object = Map<String, Value>;

/// A query as it came: as the engine reads it, and as JSON of the query API.
pub struct Query {
    pub typed: QueryRequest,
    pub raw: Object,
    pub keys: ShardSelection,
}

fn typed<'a, T: IntoQuery + Deserialize<'a>>(json: &'a str) -> ApiResult<(QueryRequest, ShardSelection)> {
    let wire: T = serde_json::from_str(json).map_err(ApiError::format)?;
    let keys = wire.shards();
    Ok((wire.into_query()?, keys))
}

/// The limit of a recommendation by gRPC may be 0.
fn unlimited(form: Form, json: &str) -> ApiResult<Option<Object>> {
    #[derive(Deserialize)]
    struct Limited {
        limit: Option<u64>,
    }
    match (form, serde_json::from_str::<Limited>(json)) {
        (Form::Recommend, Ok(Limited { limit: Some(0) })) => {
            let raw = serde_json::from_str(json).map_err(ApiError::format)?;
            Ok(Some(raw))
        }
        _ => Ok(None),
    }
}

impl Query {
    /// With the shard keys that it is about.
    pub fn typed(asked: &Divided, form: Form, json: &str) -> ApiResult<(QueryRequest, ShardSelection)> {
        if asked.is_message
            && let Some(mut raw) = unlimited(form, json)?
        {
            raw.insert("limit".to_owned(), json!(1));
            let (mut typed, keys) = Query::typed_of(form, &Value::Object(raw).to_string())?;
            typed.limit = 0;
            return Ok((typed, keys));
        }
        Query::typed_of(form, json)
    }

    fn typed_of(form: Form, json: &str) -> ApiResult<(QueryRequest, ShardSelection)> {
        match form {
            Form::Query => typed::<WireQueryRequest>(json),
            Form::Search => typed::<WireSearchRequest>(json),
            Form::Recommend => typed::<WireRecommendRequest>(json),
            Form::Discover => typed::<WireDiscoverRequest>(json),
        }
    }

    pub fn read(asked: &Divided, form: Form, json: &str) -> ApiResult<Query> {
        let (typed, keys) = Query::typed(asked, form, json)?;
        let raw = serde_json::from_str(json).map_err(ApiError::format)?;
        let raw = in_words_of_query(form, raw);
        Ok(Query { typed, raw, keys })
    }
}

/// An older request as one of the query API.
pub fn in_words_of_query(form: Form, mut raw: Object) -> Object {
    for (theirs, ours) in [("with_vectors", "with_vector"), ("top", "limit")] {
        if let Some(value) = raw.remove(theirs) {
            raw.entry(ours).or_insert(value);
        }
    }
    let mut moved = |names: &[&str]| -> Object {
        let each = names.iter();
        each.filter_map(|name| raw.remove_entry(*name).filter(|(_, value)| !value.is_null()))
            .collect()
    };
    let query = match form {
        Form::Query => return raw,
        Form::Search => {
            let mut vector = moved(&["vector"]).remove("vector").unwrap_or(Value::Null);
            if let Some(named) = vector.as_object_mut()
                && let Some(name) = named.remove("name")
            {
                raw.insert("using".to_owned(), name);
                vector = named.remove("vector").unwrap_or(Value::Null);
            }
            json!({ "nearest": vector })
        }
        Form::Recommend => json!({ "recommend": moved(&["positive", "negative", "strategy"]) }),
        Form::Discover => {
            let mut fields = moved(&["target", "context"]);
            match fields.contains_key("target") {
                true => {
                    fields.entry("context").or_insert_with(|| json!([]));
                    json!({ "discover": fields })
                }
                false => json!({ "context": fields.remove("context").unwrap_or_else(|| json!([])) }),
            }
        }
    };
    raw.insert("query".to_owned(), query);
    raw
}

/// The points of a shard's answer.
pub fn points_of(part: &Part) -> ApiResult<Vec<WirePoint<'_>>> {
    #[derive(Deserialize)]
    struct Points<'a> {
        #[serde(borrow)]
        points: Vec<WirePoint<'a>>,
    }
    Ok(part.read::<Points<'_>>()?.points)
}

/// One object stands for a list of it.
pub fn objects(value: Option<&Value>) -> Vec<&Object> {
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_object).collect(),
        Some(Value::Object(one)) => vec![one],
        _ => Vec::new(),
    }
}

pub fn objects_mut(value: Option<&mut Value>) -> Vec<&mut Object> {
    match value {
        Some(Value::Array(list)) => list.iter_mut().filter_map(Value::as_object_mut).collect(),
        Some(Value::Object(one)) => vec![one],
        _ => Vec::new(),
    }
}

/// The places of a query where a vector stands, or the id of a point that has it.
pub fn inputs(query: Option<&mut Value>) -> Vec<&mut Value> {
    fn of_pairs<'v>(pairs: Option<&'v mut Value>, all: &mut Vec<&'v mut Value>) {
        for pair in objects_mut(pairs) {
            all.extend(pair.values_mut());
        }
    }
    let mut all = Vec::new();
    match query {
        None => {}
        Some(Value::Object(kinds)) => {
            for (kind, of) in kinds.iter_mut() {
                match (kind.as_str(), of) {
                    ("nearest", of) => all.push(of),
                    ("recommend", Value::Object(fields)) => {
                        for (name, examples) in fields.iter_mut() {
                            if let ("positive" | "negative", Value::Array(list)) = (name.as_str(), examples) {
                                all.extend(list);
                            }
                        }
                    }
                    ("discover", Value::Object(fields)) => {
                        for (name, of) in fields.iter_mut() {
                            match name.as_str() {
                                "target" => all.push(of),
                                "context" => of_pairs(Some(of), &mut all),
                                _ => {}
                            }
                        }
                    }
                    ("context", of) => of_pairs(Some(of), &mut all),
                    ("relevance_feedback", Value::Object(fields)) => {
                        for (name, of) in fields.iter_mut() {
                            match name.as_str() {
                                "target" => all.push(of),
                                "feedback" => {
                                    let items = objects_mut(Some(of)).into_iter();
                                    all.extend(items.filter_map(|item| item.get_mut("example")));
                                }
                                _ => {}
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        Some(of) => all.push(of),
    }
    all
}

pub fn id_of(input: &Value) -> Option<PointId> {
    match input {
        Value::Number(_) | Value::String(_) => serde_json::from_value(input.clone()).ok(),
        _ => None,
    }
}

/// A vector by itself, or by its name.
pub fn vector_of(point: &Point, name: &str) -> ApiResult<Option<Value>> {
    let Some(raw) = &point.vector else { return Ok(None) };
    let vector: Value = serde_json::from_str(raw.get()).map_err(ApiError::internal)?;
    Ok(match vector {
        Value::Object(mut by_name) => by_name.remove(name),
        vector => Some(vector).filter(|_| name.is_empty()),
    })
}
