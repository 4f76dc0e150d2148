//! What filters are refused, and with which words.

use ramlet::filter::{CompiledFilter, Filter, FilterLimits, parse_datetime};

fn refused(text: &str, words: &[&str]) {
    let read: Result<Filter, String> = serde_json::from_str(text).map_err(|e| e.to_string());
    let e = read
        .and_then(|f| CompiledFilter::new(&f).map(|_| f))
        .expect_err(text);
    for word in words {
        assert!(e.contains(word), "{text}: '{e}' lacks '{word}'");
    }
}

#[test]
fn wrong_filters_are_refused_with_what_and_where() {
    refused(
        r#"{"must": [{"keyy": "a"}]}"#,
        &["unknown field `keyy`", "column"],
    );
    refused(r#"{"musst": []}"#, &["unknown field `musst`"]);
    refused(
        r#"{"must": [{"key": "a"}]}"#,
        &["At least one field condition", "'a'"],
    );
    refused(r#"{"must": [{"match": {"value": 1}}]}"#, &["lacks its `key`"]);
    refused(
        r#"{"must": [{"key": "a", "match": {"value": 1.5}}]}"#,
        &["floating point", "line 1 column"],
    );
    refused(
        r#"{"must": [{"key": "a", "match": {"value": 1, "text": "x"}}]}"#,
        &["exactly one"],
    );
    refused(r#"{"must": [{"key": "a", "match": {}}]}"#, &["exactly one"]);
    refused(
        r#"{"must": [{"key": "a", "match": {"any": [1, "x"]}}]}"#,
        &["list of strings or a list of integers"],
    );
    refused(
        r#"{"must": [{"key": "a", "range": {"gt": "noon"}}]}"#,
        &["noon", "RFC 3339"],
    );
    refused(
        r#"{"must": [{"key": "a", "range": {"gt": 1, "lt": "2024-01-01"}}]}"#,
        &["mixes"],
    );
    refused(
        r#"{"must": [{"key": "a..b", "is_null": true}]}"#,
        &["a..b", "byte 2"],
    );
    refused(
        r#"{"must": [{"has_id": ["nonsense"]}]}"#,
        &["nonsense", "point ID"],
    );
    refused(
        r#"{"must": [{"key": "a", "is_empty": true, "has_id": [1]}]}"#,
        &["mixes several kinds"],
    );
    refused(
        r#"{"min_should": {"conditions": [], "min_count": 0}}"#,
        &["min_count"],
    );
    refused(
        r#"{"must": [{"slice": {"total": 2, "index": 2}}]}"#,
        &["slice index 2"],
    );
    refused(
        r#"{"must": [{"key": "a", "geo_radius": {"center": {"lon": 200, "lat": 0}, "radius": 1}}]}"#,
        &["lon 200"],
    );
    refused(
        r#"{"must": [{"key": "a", "geo_polygon": {"exterior": {"points": [{"lon": 1, "lat": 0}]}}}]}"#,
        &["at least 4 points, got 1"],
    );
    refused("7", &["a filter"]);
}

#[test]
fn nulls_are_as_absent_and_clauses_may_be_single() {
    let same = |a: &str, b: &str| {
        let read = |t: &str| serde_json::from_str::<Filter>(t).unwrap();
        assert_eq!(read(a), read(b));
    };
    same(
        r#"{"must": null, "should": null, "must_not": null, "min_should": null}"#,
        "{}",
    );
    same(r#"{"must": {"has_id": [1]}}"#, r#"{"must": [{"has_id": [1]}]}"#);
    same(
        r#"{"must": [{"key": "a", "match": null, "range": {"lt": 1, "gt": null}, "is_null": null}]}"#,
        r#"{"must": [{"key": "a", "range": {"lt": 1.0}}]}"#,
    );
    same(
        r#"{"must": [{"key": "a", "range": {"lt": 1}, "is_null": true}]}"#,
        r#"{"must": [{"should": [{"key": "a", "range": {"lt": 1}}, {"key": "a", "is_null": true}]}]}"#,
    );
}

#[test]
fn limits_state_the_limit() {
    let limits = FilterLimits {
        depth: 3,
        conditions: 4,
        values: 5,
    };
    let check = |text: &str| serde_json::from_str::<Filter>(text).unwrap().check(&limits);
    assert!(check(r#"{"must": [{"must": [{"must": [{"has_id": [1,2,3,4,5]}]}]}]}"#).is_ok());
    assert!(
        check(r#"{"must": [{"must": [{"must": [{"must": []}]}]}]}"#)
            .unwrap_err()
            .contains("3 levels")
    );
    assert!(
        check(r#"{"must": [{"has_id": [1,2,3,4,5,6]}]}"#)
            .unwrap_err()
            .contains("limit of 5")
    );
    let five = r#"{"should": [{},{},{},{},{}]}"#;
    assert!(check(five).unwrap_err().contains("limit of 4"));
    let deep = format!("{}{}", "{\"must\":".repeat(5_000), "}".repeat(5_000));
    assert!(serde_json::from_str::<Filter>(&deep).is_err());
}

#[test]
fn keys_name_every_path() {
    let text = r#"{"must": [{"key": "b.c", "is_null": true}, {"is_empty": {"key": "a"}},
        {"nested": {"key": "n[]", "filter": {"must_not": [{"key": "x", "match": {"value": 1}}]}}}],
        "min_should": {"min_count": 1, "conditions": [{"must": {"key": "z", "range": {"lt": 0}}}]}}"#;
    let filter: Filter = serde_json::from_str(text).unwrap();
    assert_eq!(filter.keys(), ["a", "b.c", "n[].x", "z"]);
}

#[test]
fn datetimes_in_all_their_spellings() {
    let base = parse_datetime("2024-02-29T10:30:00Z").unwrap();
    assert_eq!(base, 1_709_202_600_000_000);
    for text in [
        "2024-02-29 10:30",
        "2024-02-29T10:30:00",
        " 2024-02-29 10:30:00z",
        "2024-02-29T11:30:00+01:00",
        "2024-2-29 10:30:00.000",
        "2024-02-29T05:30:00-0500",
        "2024-02-29 10:30:00 UTC",
        "2024-02-29 08:30:00.0000009 -02",
        "2024-02-29T10:30:00.0000000001Z",
    ] {
        assert_eq!(parse_datetime(text), Some(base), "{text}");
    }
    for text in [
        "",
        "2024",
        "2024-02-30",
        "2024-02-29T",
        "2024-02-29T10",
        "2024-02-29T24:00",
        "2024-02-29T10:30Z",
        "2024-02-29 10:30:00 ",
        "2024-02-29 10:30:00.",
        "2024-02-29 10:30:60",
        "24-02-29",
        "2024-02-29T10:30:00+24:00",
        "2024-02-29T10:30:00+1",
        "x2024-02-29",
    ] {
        assert_eq!(parse_datetime(text), None, "{text}");
    }
    assert_eq!(parse_datetime("1969-12-31T23:59:59.999999"), Some(-1));
}
