//! Every case that the API client's local mode decided (`tests/e2e/gen_filter_cases.py`).

use std::path::Path as FilePath;

use ramlet::filter::{CompiledFilter, Filter, PointAccess};
use ramlet::payload::{self, Path};
use ramlet::{PayloadSelector, PointId};
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Clone, serde::Deserialize)]
pub struct FilterCase {
    pub id: PointId,
    pub vectors: Vec<String>,
    pub payload: Box<RawValue>,
    pub filter: Box<RawValue>,
    pub expected: bool,
}

impl FilterCase {
    pub fn filter(&self) -> Filter {
        serde_json::from_str(self.filter.get()).unwrap_or_else(|e| panic!("{}: {e}", self.filter))
    }
}

impl PointAccess for FilterCase {
    fn id(&self) -> PointId {
        self.id
    }
    fn payload(&self) -> &[u8] {
        self.payload.get().as_bytes()
    }
    fn has_vector(&self, name: &str) -> bool {
        self.vectors.iter().any(|v| v == name)
    }
}

fn testdata(name: &str) -> String {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn filter_cases() -> Vec<FilterCase> {
    testdata("filter-cases.jsonl")
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn filters_mean_what_the_oracle_says() {
    let cases = filter_cases();
    assert!(cases.len() >= 3_000 && cases.iter().filter(|c| c.expected).count() > 800);
    for case in &cases {
        let filter = case.filter();
        let compiled = CompiledFilter::new(&filter).unwrap();
        let told = format!("id {} payload {} filter {}", case.id, case.payload, case.filter);
        assert_eq!(compiled.matches(case), case.expected, "{told}");
        assert_eq!(filter.matches(case), case.expected, "{told}");
    }
}

#[test]
fn filters_survive_writing_and_reading() {
    for case in filter_cases() {
        let filter = case.filter();
        let text = serde_json::to_string(&filter).unwrap();
        let again: Filter = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(again, filter, "{text}");
    }
}

#[derive(serde::Deserialize)]
struct PayloadCase {
    op: String,
    payload: Box<RawValue>,
    patch: Option<Box<RawValue>>,
    key: Option<String>,
    #[serde(default)]
    keys: Vec<String>,
    expected: Value,
}

#[test]
fn payload_edits_do_what_the_oracle_does() {
    let text = testdata("payload-cases.jsonl");
    for line in text.lines() {
        let case: PayloadCase = serde_json::from_str(line).unwrap();
        let before = case.payload.get().as_bytes();
        payload::validate(before, 1 << 20).unwrap();
        let keys = || {
            case.keys
                .iter()
                .map(|k| Path::parse(k).unwrap())
                .collect::<Vec<_>>()
        };
        let after = match case.op.as_str() {
            "set" | "set_key" => {
                let key = case.key.as_deref().map(|k| Path::parse(k).unwrap());
                let patch = case.patch.as_ref().unwrap();
                payload::set(before, patch.get().as_bytes(), key.as_ref()).unwrap()
            }
            "delete" => payload::delete_keys(before, &keys()).unwrap(),
            "include" => payload::select(before, &PayloadSelector::Include(case.keys))
                .unwrap()
                .unwrap(),
            "exclude" => payload::select(before, &PayloadSelector::Exclude(case.keys))
                .unwrap()
                .unwrap(),
            other => panic!("unknown op {other}"),
        };
        payload::validate(&after, 1 << 20).unwrap();
        let after: Value = serde_json::from_slice(&after).unwrap();
        assert_eq!(after, case.expected, "{line}");
    }
}
