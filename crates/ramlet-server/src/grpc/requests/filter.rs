//! Filters.

use prost_types::Timestamp;
use ramlet::filter::format_datetime;
use ramlet_proto::qdrant as q;

use super::super::node::{Fields, Node};
use super::{id, required};

pub fn filter(filter: q::Filter) -> Node {
    Fields::new()
        .maybe("should", some(filter.should), |list| Node::list(list, condition))
        .maybe("must", some(filter.must), |list| Node::list(list, condition))
        .maybe("must_not", some(filter.must_not), |list| {
            Node::list(list, condition)
        })
        .maybe("min_should", filter.min_should, |min| {
            Fields::new()
                .put("conditions", Node::list(min.conditions, condition))
                .put("min_count", Node::Uint(min.min_count))
                .node()
        })
        .node()
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

pub fn condition(condition: q::Condition) -> Node {
    use q::condition::ConditionOneOf as Is;
    let keyed = |name, key| {
        Fields::new()
            .put(name, Fields::new().put("key", Node::Text(key)).node())
            .node()
    };
    match condition.condition_one_of {
        Some(Is::Field(of)) => field(of),
        Some(Is::IsEmpty(of)) => keyed("is_empty", of.key),
        Some(Is::IsNull(of)) => keyed("is_null", of.key),
        Some(Is::HasId(of)) => Fields::new().put("has_id", Node::list(of.has_id, id)).node(),
        Some(Is::Filter(of)) => filter(of),
        Some(Is::Nested(of)) => {
            let nested = Fields::new()
                .put("key", Node::Text(of.key))
                .put("filter", required(of.filter, "nested.filter", filter));
            Fields::new().put("nested", nested.node()).node()
        }
        Some(Is::HasVector(of)) => Fields::new().put("has_vector", Node::Text(of.has_vector)).node(),
        Some(Is::Slice(of)) => {
            let slice = Fields::new()
                .put("total", Node::Uint(of.total.into()))
                .put("index", Node::Uint(of.index.into()));
            Fields::new().put("slice", slice.node()).node()
        }
        None => Node::Wrong("a condition of the filter is empty".to_owned()),
    }
}

fn field(of: q::FieldCondition) -> Node {
    let range = match (of.range, of.datetime_range) {
        (Some(range), None) => Some(numbers(range)),
        (None, Some(range)) => Some(dates(range)),
        (None, None) => None,
        (Some(_), Some(_)) => Some(Node::Wrong(
            "a condition has both `range` and `datetime_range`".to_owned(),
        )),
    };
    Fields::new()
        .put("key", Node::Text(of.key))
        .maybe("match", of.r#match, matching)
        .maybe("range", range, |range| range)
        .maybe("geo_bounding_box", of.geo_bounding_box, |area| {
            Fields::new()
                .put("top_left", required(area.top_left, "top_left", geo_point))
                .put(
                    "bottom_right",
                    required(area.bottom_right, "bottom_right", geo_point),
                )
                .node()
        })
        .maybe("geo_radius", of.geo_radius, |area| {
            Fields::new()
                .put("center", required(area.center, "center", geo_point))
                .put("radius", Node::Float(area.radius.into()))
                .node()
        })
        .maybe("geo_polygon", of.geo_polygon, |area| {
            Fields::new()
                .put("exterior", required(area.exterior, "exterior", line))
                .maybe("interiors", some(area.interiors), |list| Node::list(list, line))
                .node()
        })
        .maybe("values_count", of.values_count, |count| {
            Fields::new()
                .uint("lt", count.lt)
                .uint("gt", count.gt)
                .uint("gte", count.gte)
                .uint("lte", count.lte)
                .node()
        })
        .flag("is_empty", of.is_empty)
        .flag("is_null", of.is_null)
        .node()
}

fn numbers(range: q::Range) -> Node {
    Fields::new()
        .float("lt", range.lt)
        .float("gt", range.gt)
        .float("gte", range.gte)
        .float("lte", range.lte)
        .node()
}

fn dates(range: q::DatetimeRange) -> Node {
    Fields::new()
        .maybe("lt", range.lt, date)
        .maybe("gt", range.gt, date)
        .maybe("gte", range.gte, date)
        .maybe("lte", range.lte, date)
        .node()
}

/// Microseconds are what the API's dates have.
pub fn date(time: Timestamp) -> Node {
    let micros = time
        .seconds
        .checked_mul(1_000_000)
        .and_then(|us| us.checked_add(i64::from(time.nanos) / 1_000));
    match micros {
        Some(micros) => Node::Text(format_datetime(micros)),
        None => Node::Wrong(format!("{} seconds since 1970 are out of range", time.seconds)),
    }
}

fn matching(of: q::Match) -> Node {
    use q::r#match::MatchValue as Is;
    let (name, node) = match of.match_value {
        Some(Is::Keyword(text)) => ("value", Node::Text(text)),
        Some(Is::Integer(n)) => ("value", Node::Int(n)),
        Some(Is::Boolean(b)) => ("value", Node::Bool(b)),
        Some(Is::Text(text)) => ("text", Node::Text(text)),
        Some(Is::TextAny(text)) => ("text_any", Node::Text(text)),
        Some(Is::Phrase(text)) => ("phrase", Node::Text(text)),
        Some(Is::Prefix(text)) => ("prefix", Node::Text(text)),
        Some(Is::Substring(text)) => ("substring", Node::Text(text)),
        Some(Is::Keywords(list)) => ("any", Node::words(list.strings)),
        Some(Is::Integers(list)) => ("any", Node::list(list.integers, Node::Int)),
        Some(Is::ExceptKeywords(list)) => ("except", Node::words(list.strings)),
        Some(Is::ExceptIntegers(list)) => ("except", Node::list(list.integers, Node::Int)),
        None => return Node::Wrong("a `match` of the filter is empty".to_owned()),
    };
    Fields::new().put(name, node).node()
}

pub fn geo_point(point: q::GeoPoint) -> Node {
    Fields::new()
        .put("lon", Node::Float(point.lon))
        .put("lat", Node::Float(point.lat))
        .node()
}

fn line(line: q::GeoLineString) -> Node {
    Fields::new()
        .put("points", Node::list(line.points, geo_point))
        .node()
}
