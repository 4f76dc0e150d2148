//! Which parts of a point to return, and which points an operation concerns.

use axum::http::StatusCode;
use ramlet::{PayloadSelector, PointId, PointsSelector, ShardSelection, VectorSelector};
use serde::Deserialize;

use super::filter::WireFilter;
use super::shard_key::WireShards;
use crate::error::{ApiError, ApiResult};

/// `with_payload`: true, false, a list of keys, or one of include and exclude.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "with_payload is a boolean, a list of keys, {\"include\": [..]} or {\"exclude\": [..]}"
)]
pub enum WithPayload {
    Bool(bool),
    Keys(Vec<String>),
    Include(Included),
    Exclude(Excluded),
}

/// Nothing beside it: of both together one would say nothing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Included {
    include: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excluded {
    exclude: Vec<String>,
}

/// The selector, where `default` holds when nothing was said.
pub fn payload_selector(with: Option<WithPayload>, default: bool) -> PayloadSelector {
    match with.unwrap_or(WithPayload::Bool(default)) {
        WithPayload::Bool(true) => PayloadSelector::All,
        WithPayload::Bool(false) => PayloadSelector::None,
        WithPayload::Keys(include) | WithPayload::Include(Included { include }) => {
            PayloadSelector::Include(include)
        }
        WithPayload::Exclude(Excluded { exclude }) => PayloadSelector::Exclude(exclude),
    }
}

/// `with_vector`: true, false or a list of names.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "with_vector is a boolean or a list of vector names")]
pub enum WithVector {
    Bool(bool),
    Names(Vec<String>),
}

pub fn vector_selector(with: Option<WithVector>) -> VectorSelector {
    match with {
        None | Some(WithVector::Bool(false)) => VectorSelector::None,
        Some(WithVector::Bool(true)) => VectorSelector::All,
        Some(WithVector::Names(names)) => VectorSelector::Names(names),
    }
}

/// `{"points": [...]}` or `{"filter": {...}}`.
#[derive(Debug, Clone, Deserialize)]
pub struct WirePoints {
    points: Option<Vec<PointId>>,
    filter: Option<WireFilter>,
    #[serde(default)]
    shard_key: WireShards,
}

impl WirePoints {
    /// The points, and the shards they are in.
    pub fn into_selector(self) -> ApiResult<(PointsSelector, ShardSelection)> {
        Ok((points_selector(self.points, self.filter)?, self.shard_key.0))
    }
}

/// Exactly one of the two: to guess which was meant could delete the wrong points. A list of none is no change (400, as the API has it).
pub fn points_selector(
    points: Option<Vec<PointId>>,
    filter: Option<WireFilter>,
) -> ApiResult<PointsSelector> {
    match (points, filter) {
        (Some(ids), None) if ids.is_empty() => Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "Bad request: Empty update request",
        )),
        (Some(ids), None) => Ok(PointsSelector::Ids(ids)),
        (None, Some(filter)) => Ok(PointsSelector::Filter(filter)),
        (None, None) => Err(ApiError::format(
            "either `points` (a list of ids) or `filter` must be given",
        )),
        (Some(_), Some(_)) => Err(ApiError::format(
            "`points` and `filter` are given, only one may be",
        )),
    }
}

#[cfg(test)]
mod tests {
    use ramlet::ShardKey;

    use super::*;

    #[test]
    fn with_payload_takes_its_forms() {
        let parse = |text: &str| payload_selector(serde_json::from_str(text).unwrap(), true);
        assert_eq!(parse("null"), PayloadSelector::All);
        assert_eq!(parse("false"), PayloadSelector::None);
        assert_eq!(parse(r#"["a"]"#), PayloadSelector::Include(vec!["a".into()]));
        assert_eq!(
            parse(r#"{"include":["a"]}"#),
            PayloadSelector::Include(vec!["a".into()])
        );
        assert_eq!(
            parse(r#"{"exclude":["a"]}"#),
            PayloadSelector::Exclude(vec!["a".into()])
        );
        for bad in ["3", r#"{"include":["a"],"exclude":["b"]}"#, "{}"] {
            assert!(serde_json::from_str::<WithPayload>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn points_need_exactly_one_selector() {
        let parse = |text: &str| serde_json::from_str::<WirePoints>(text).unwrap().into_selector();
        assert!(
            matches!(parse(r#"{"points":[1,2]}"#), Ok((PointsSelector::Ids(ids), ShardSelection::All)) if ids.len() == 2)
        );
        assert!(matches!(
            parse(r#"{"points":[3],"filter":null}"#),
            Ok((PointsSelector::Ids(_), _))
        ));
        let none = parse(r#"{"points":[]}"#).unwrap_err();
        assert_eq!(none.message, "Bad request: Empty update request");
        assert_eq!(parse("{}").unwrap_err().status.as_u16(), 400);
        let (_, shards) = parse(r#"{"points":[1],"shard_key":"a"}"#).unwrap();
        assert_eq!(shards, ShardSelection::Keys(vec![ShardKey::Word("a".into())]));
    }
}
