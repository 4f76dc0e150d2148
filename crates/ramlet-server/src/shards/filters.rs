//! Filters of the stages of a query, merged as the engine merges them: conditions of all that must hold, alternatives of all in one list.

use ramlet::PointId;
use serde_json::{Map, Value, json};

/// One filter of several, and conditions beside them; `None`: everything matches.
pub fn merged(filters: &[&Value], must: Vec<Value>, excluded: &[PointId]) -> Option<Value> {
    let mut out: Map<String, Value> = Map::new();
    let mut least: Option<(u64, Vec<Value>)> = None;
    for filter in filters.iter().filter_map(|filter| filter.as_object()) {
        for name in ["must", "should", "must_not"] {
            add(&mut out, name, listed(filter.get(name)));
        }
        if let Some(Value::Object(one)) = filter.get("min_should") {
            let count = one.get("min_count").and_then(Value::as_u64).unwrap_or_default();
            let conditions = listed(one.get("conditions"));
            let (most, mut all) = least.take().unwrap_or_default();
            all.extend(conditions);
            least = Some((most.max(count), all));
        }
    }
    add(&mut out, "must", must);
    if !excluded.is_empty() {
        add(&mut out, "must_not", vec![json!({ "has_id": excluded })]);
    }
    if let Some((count, conditions)) = least {
        out.insert(
            "min_should".to_owned(),
            json!({ "min_count": count, "conditions": conditions }),
        );
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// One condition stands for a list of it.
fn listed(conditions: Option<&Value>) -> Vec<Value> {
    match conditions {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) => list.clone(),
        Some(one) => vec![one.clone()],
    }
}

fn add(out: &mut Map<String, Value>, name: &str, more: Vec<Value>) {
    if more.is_empty() {
        return;
    }
    if let Value::Array(list) = out.entry(name).or_insert_with(|| json!([])) {
        list.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_join() {
        let one = json!({"must": {"key": "a"}, "should": [1]});
        let other = json!({"should": 2, "must_not": [3], "min_should": {"min_count": 2, "conditions": [4]}});
        let expected = json!({
            "must": [{"key": "a"}, 5],
            "should": [1, 2],
            "must_not": [3, {"has_id": [7]}],
            "min_should": {"min_count": 2, "conditions": [4]},
        });
        assert_eq!(
            merged(&[&one, &other], vec![json!(5)], &[PointId::Num(7)]),
            Some(expected)
        );
        assert_eq!(merged(&[&json!({})], Vec::new(), &[]), None);
    }
}
