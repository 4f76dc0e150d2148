//! Filters from the API's JSON, to it and back, and asked of a payload; payloads themselves. There are no checksums.

use ramlet::filter::{CompiledFilter, Filter, FilterLimits, PointAccess};
use ramlet::payload::{self, Path};
use ramlet::{PayloadSelector, PointId};
use serde_json::Value;

use crate::Seed;

/// Of a request's body; more makes the fuzzer slow and finds nothing else.
const BYTES_MAX: usize = 64 << 10;

struct Point<'a>(&'a [u8]);

impl PointAccess for Point<'_> {
    fn id(&self) -> PointId {
        PointId::Num(7)
    }
    fn payload(&self) -> &[u8] {
        self.0
    }
    fn has_vector(&self, name: &str) -> bool {
        name.is_empty()
    }
}

/// Two parts with a line's end between them: JSON escapes it within texts.
fn parts(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    end.map_or((bytes, b"{}"), |end| (&bytes[..end], &bytes[end + 1..]))
}

/// The input is a line with a filter, then a payload.
pub fn filter(bytes: &[u8]) {
    let (filter, payload) = parts(bytes);
    let Ok(filter) = serde_json::from_slice::<Filter>(filter) else {
        return;
    };
    let Ok(compiled) = CompiledFilter::new(&filter) else {
        return;
    };
    filter
        .check(&FilterLimits::default())
        .expect("it was checked when it was compiled");
    let keys = filter.keys();
    assert!(keys.is_sorted_by(|a, b| a < b));
    let written = serde_json::to_string(&filter).expect("a filter is JSON");
    match serde_json::from_str::<Filter>(&written) {
        Ok(again) => assert_eq!(again, filter, "{written}"),
        // A condition that stood alone is in a list now: one level more.
        Err(e) => assert!(e.to_string().contains("recursion limit"), "{e}: {written}"),
    }
    if payload::validate(payload, BYTES_MAX).is_ok() {
        compiled.matches(&Point(payload));
    }
    compiled.matches(&Point(b""));
}

pub fn filter_seeds() -> Vec<Seed> {
    let of = |filter: &str, payload: &str| format!("{filter}\n{payload}\n").into_bytes();
    let places = r#"{"points":[{"lon":0,"lat":0},{"lon":1,"lat":0},{"lon":1,"lat":1},{"lon":0,"lat":0}]}"#;
    vec![
        (
            "matches",
            of(
                r#"{"must":[{"key":"a","match":{"value":1}},{"key":"b[].c","match":{"any":["x","y"]}}],"must_not":{"key":"t","match":{"text":"Two words"}}}"#,
                r#"{"a":1,"b":[{"c":"x"},{"c":null}],"t":"words"}"#,
            ),
        ),
        (
            "ranges",
            of(
                r#"{"should":[{"key":"n","range":{"gte":-1.5,"lt":1e300}},{"key":"d","range":{"gt":"2024-06-15T14:30:45.5+02:00"}},{"key":"l","values_count":{"lte":3}}]}"#,
                r#"{"n":0.1,"d":"2025-01-01","l":[1,2]}"#,
            ),
        ),
        (
            "places",
            of(
                &format!(
                    r#"{{"min_should":{{"min_count":2,"conditions":[{{"key":"p","geo_radius":{{"center":{{"lon":1,"lat":2}},"radius":100}}}},{{"key":"p","geo_bounding_box":{{"top_left":{{"lon":170,"lat":9}},"bottom_right":{{"lon":-170,"lat":-9}}}}}},{{"key":"p","geo_polygon":{{"exterior":{places},"interiors":[{places}]}}}}]}}}}"#
                ),
                r#"{"p":{"lon":1.0,"lat":2.0}}"#,
            ),
        ),
        (
            "nested",
            of(
                r#"{"must":[{"nested":{"key":"a[]","filter":{"must":[{"key":"b","is_null":true}]}}},{"has_id":[1,"6f9619ff-8b86-d011-b42d-00c04fc964ff"]},{"has_vector":""},{"is_empty":{"key":"z"}},{"slice":{"total":4,"index":3}}]}"#,
                r#"{"a":[{"b":null}]}"#,
            ),
        ),
    ]
}

/// The input is a line with a path, then a payload; it is changed by itself at that path.
pub fn payload(bytes: &[u8]) {
    let (path, payload) = parts(bytes);
    let path = std::str::from_utf8(path)
        .ok()
        .and_then(|path| Path::parse(path).ok());
    // No bytes are no payload.
    if payload.is_empty() || payload::validate(payload, BYTES_MAX).is_err() {
        return;
    }
    // What is taken is JSON for others too.
    let tree: Value = serde_json::from_slice(payload).expect("a valid payload is JSON");
    let mut compact = Vec::new();
    payload::compact(payload, &mut compact);
    assert_eq!(
        serde_json::from_slice::<Value>(&compact).expect("still JSON"),
        tree
    );
    assert!(compact.len() <= payload.len());
    let Some(path) = path else { return };
    let root = payload::JsonRef::new(&compact).expect("it is JSON");
    path.any_node(root, &mut |node| node.read().is_none());
    let sound = |changed: &[u8]| {
        payload::validate(changed, usize::MAX).is_ok() || serde_json::from_slice::<Value>(changed).is_ok()
    };
    for patch in [compact.as_slice(), b"{}", br#"{"new":[1,{}]}"#] {
        for key in [None, Some(&path)] {
            if let Ok(changed) = payload::set(&compact, patch, key) {
                assert!(sound(&changed), "{}", String::from_utf8_lossy(&changed));
            }
        }
    }
    if let Ok(changed) = payload::delete_keys(&compact, std::slice::from_ref(&path)) {
        assert!(sound(&changed) && changed.len() <= compact.len());
    }
    if let Ok(Some(selected)) = payload::select(&compact, &PayloadSelector::All) {
        assert_eq!(
            serde_json::from_slice::<Value>(&selected).expect("still JSON"),
            tree
        );
    }
}

pub fn payload_seeds() -> Vec<Seed> {
    let of = |path: &str, payload: &str| format!("{path}\n{payload}\n").into_bytes();
    vec![
        (
            "lists",
            of("a[].b", r#"{"a":[{"b":1},{"b":[2,{"c":null}]}],"n":-1.5e-7}"#),
        ),
        (
            "index",
            of(
                "a[1]",
                r#"{ "a" : [ true , false ] , "é\u00e9\n" : "\ud83d\ude00" }"#,
            ),
        ),
        (
            "quoted",
            of(
                "\"a key\".b",
                r#"{"a key":{"b":{"lon":13.092,"lat":-4.895}},"b":18446744073709551615}"#,
            ),
        ),
    ]
}
