//! Indexes against the meaning of filters: what `resolve` says must never lose or invent a row.

use std::collections::{BTreeMap, BTreeSet};

use ramlet::filter::index::{
    FieldIndexes, KEY_BYTES_MAX, KeyRange, emit_keys, estimate, order_range, order_value, order_values_of,
    plan, resolve,
};
use ramlet::filter::{CompiledFilter, Condition, FieldCheck, FieldCondition, Filter, GeoRadius, PointAccess};
use ramlet::payload::Path;
use ramlet::{Error, FieldKind, OrderValue, PointId};
use roaring::RoaringBitmap;

use crate::filter_cases::{FilterCase, filter_cases};

const KINDS: [FieldKind; 8] = [
    FieldKind::Keyword,
    FieldKind::Integer,
    FieldKind::Float,
    FieldKind::Bool,
    FieldKind::Geo,
    FieldKind::Datetime,
    FieldKind::Uuid,
    FieldKind::Text,
];

/// xorshift64*.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Indexes as sorted sets, the plainest there are.
#[derive(Default)]
struct Memory {
    fields: BTreeMap<String, (FieldKind, BTreeSet<Vec<u8>>)>,
    ids: BTreeMap<PointId, Vec<u32>>,
    rows: u32,
    scans: usize,
}

impl Memory {
    fn index(&mut self, field: &str, kind: FieldKind, payloads: &[&[u8]]) {
        let path = Path::parse(field).unwrap();
        let mut keys = BTreeSet::new();
        for (row, payload) in payloads.iter().enumerate() {
            let mut last: Vec<u8> = Vec::new();
            emit_keys(kind, &path, payload, &mut |key| {
                assert!(
                    last.as_slice() < key && key.len() <= KEY_BYTES_MAX,
                    "keys are in order and emitted once"
                );
                last = key.to_vec();
                keys.insert([key, &(row as u32).to_be_bytes()].concat());
            });
        }
        self.fields.insert(field.to_string(), (kind, keys));
    }
}

impl FieldIndexes for Memory {
    fn kind(&self, field: &str) -> Option<FieldKind> {
        self.fields.get(field).map(|(kind, _)| *kind)
    }
    fn scan(&mut self, field: &str, range: &KeyRange, out: &mut RoaringBitmap) -> Result<(), Error> {
        self.scans += 1;
        for key in self.fields[field].1.range(range.from.clone()..range.to.clone()) {
            let row = key.last_chunk::<4>().ok_or_else(|| Error::corrupt("short key"))?;
            out.insert(u32::from_be_bytes(*row));
        }
        Ok(())
    }
    fn estimate(&mut self, field: &str, range: &KeyRange) -> Result<u64, Error> {
        Ok(self.fields[field]
            .1
            .range(range.from.clone()..range.to.clone())
            .count() as u64)
    }
    fn rows(&self) -> u32 {
        self.rows
    }
    fn lookup_ids(&mut self, ids: &[PointId], out: &mut RoaringBitmap) -> Result<(), Error> {
        assert!(ids.is_sorted());
        ids.iter()
            .for_each(|id| out.extend(self.ids.get(id).into_iter().flatten()));
        Ok(())
    }
}

const FIELDS: [&str; 18] = [
    "a",
    "b",
    "c",
    "tags",
    "n",
    "when",
    "loc",
    "items",
    "deep",
    "a.b",
    "items[].a",
    "items[].n",
    "items[].b",
    "tags[0]",
    "a[]",
    "b[].a",
    "c[].n",
    "\"a key\".b",
];

/// Indexes of random kinds on most of the fields that the filters read.
fn indexed(cases: &[FilterCase], filters: &[Filter], rng: &mut Rng) -> Memory {
    let payloads: Vec<&[u8]> = cases.iter().map(FilterCase::payload).collect();
    let mut memory = Memory {
        rows: cases.len() as u32,
        ..Memory::default()
    };
    let fields: BTreeSet<String> = filters.iter().flat_map(Filter::keys).collect();
    for field in fields {
        if rng.below(8) > 0 {
            memory.index(&field, KINDS[rng.below(KINDS.len())], &payloads);
        }
    }
    for (row, case) in cases.iter().enumerate() {
        memory.ids.entry(case.id()).or_default().push(row as u32);
    }
    memory
}

/// Compares with asking every row; returns whether the indexes narrowed the rows, and whether exactly.
fn check_resolve(filter: &Filter, cases: &[FilterCase], memory: &mut Memory) -> (bool, bool) {
    let compiled = CompiledFilter::new(filter).unwrap();
    let matching: RoaringBitmap = (0..cases.len())
        .filter(|i| compiled.matches(&cases[*i]))
        .map(|i| i as u32)
        .collect();
    let told = || serde_json::to_string(filter).unwrap();
    let resolved = resolve(&compiled, memory).unwrap();
    let cardinality = estimate(&compiled, memory).unwrap();
    let n = matching.len();
    assert!(
        cardinality.min <= n && n <= cardinality.max && cardinality.expected <= u64::from(memory.rows),
        "{n} rows match, estimated {cardinality:?}: {}",
        told()
    );
    assert!(
        cardinality.min <= cardinality.expected && cardinality.expected <= cardinality.max,
        "{cardinality:?}"
    );
    let narrowed = resolved.bitmap.is_some();
    let mut all = RoaringBitmap::new();
    all.insert_range(0..memory.rows);
    let candidates = resolved.bitmap.unwrap_or(all);
    assert!(
        matching.is_subset(&candidates),
        "lost {:?}: {}",
        &matching - &candidates,
        told()
    );
    if resolved.exact {
        assert!(
            candidates.is_subset(&matching),
            "invented {:?}: {}",
            &candidates - &matching,
            told()
        );
    }
    (narrowed, resolved.exact)
}

/// Each id once, as among the points of a collection.
fn unique_ids(cases: &[FilterCase]) -> Vec<FilterCase> {
    let mut seen = BTreeSet::new();
    let mut cases = cases.to_vec();
    for (row, case) in cases.iter_mut().enumerate() {
        if !seen.insert(case.id) {
            case.id = PointId::Num(1_000 + row as u64);
        }
    }
    cases
}

#[test]
fn resolving_never_loses_or_invents_a_row() {
    let mut rng = Rng::new(3);
    let all = filter_cases();
    let (mut narrowed, mut exact, mut asked) = (0, 0, 0);
    for round in 0..14 {
        let start = (round * 211) % 2_700;
        let cases = &unique_ids(&all[start..start + 300]);
        let filters: Vec<Filter> = (0..300).map(|_| all[rng.below(all.len())].filter()).collect();
        let mut memory = indexed(cases, &filters, &mut rng);
        for filter in &filters {
            let (n, e) = check_resolve(filter, cases, &mut memory);
            narrowed += usize::from(n);
            exact += usize::from(e);
            asked += 1;
        }
    }
    // If the indexes served nothing, the test above would hold and mean nothing.
    assert!(
        narrowed * 2 > asked && exact * 5 > asked,
        "{narrowed} narrowed, {exact} exact of {asked}"
    );
}

/// The same check of a key inside the elements of `items`, held and not held.
fn within_items(field: &FieldCondition) -> Condition {
    let key = ["a", "b", "n"][field.key.len() % 3].to_string();
    let inner = vec![Condition::Field(FieldCondition {
        key,
        check: field.check.clone(),
    })];
    let filter = match field.key.len() % 2 {
        0 => Filter {
            must: inner,
            ..Filter::default()
        },
        _ => Filter {
            must_not: inner,
            ..Filter::default()
        },
    };
    Condition::Nested {
        key: "items".to_string(),
        filter,
    }
}

#[test]
fn every_kind_serves_every_condition_alone() {
    let all = filter_cases();
    let cases = &all[..400];
    let payloads: Vec<&[u8]> = cases.iter().map(FilterCase::payload).collect();
    let mut planned = 0;
    for kind in KINDS {
        let mut memory = Memory {
            rows: 400,
            ..Memory::default()
        };
        FIELDS
            .iter()
            .for_each(|field| memory.index(field, kind, &payloads));
        for case in &all {
            for condition in case.filter().must {
                let Condition::Field(field) = condition else {
                    continue;
                };
                planned += usize::from(plan(kind, &field).is_some());
                for condition in [within_items(&field), Condition::Field(field)] {
                    let one = || vec![condition.clone()];
                    check_resolve(
                        &Filter {
                            must: one(),
                            ..Filter::default()
                        },
                        cases,
                        &mut memory,
                    );
                    check_resolve(
                        &Filter {
                            must_not: one(),
                            ..Filter::default()
                        },
                        cases,
                        &mut memory,
                    );
                }
            }
        }
    }
    assert!(planned > 3_000, "{planned}");
}

fn keys_of(kind: FieldKind, payload: &str) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    emit_keys(kind, &Path::parse("a").unwrap(), payload.as_bytes(), &mut |k| {
        keys.push(k.to_vec())
    });
    keys
}

fn value_key(kind: FieldKind, value: &serde_json::Value) -> Vec<u8> {
    let keys = keys_of(kind, &serde_json::json!({"a": value}).to_string());
    keys.into_iter().find(|k| k[0] == 1).unwrap()
}

#[test]
fn keys_sort_as_their_values() {
    let mut rng = Rng::new(5);
    let mut ints = vec![i64::MIN, -1, 0, 1, i64::MAX];
    let mut floats = vec![-1e300, -1.5, -0.0, 0.0, 5e-324, 1.5, 1e300];
    let mut words: Vec<String> = ["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "é", "\u{10ffff}"]
        .map(String::from)
        .into();
    for _ in 0..300 {
        ints.push(rng.next() as i64 >> rng.below(60));
        floats.push((rng.unit() - 0.5) * 10f64.powi(rng.below(40) as i32 - 20));
        words.push(
            (0..rng.below(5))
                .map(|_| ['\0', 'a', 'b', 'é', '\u{1}'][rng.below(5)])
                .collect(),
        );
    }
    let row = |key: Vec<u8>, row: u32| [key, row.to_be_bytes().to_vec()].concat();
    for _ in 0..20_000 {
        let (i, j) = (ints[rng.below(ints.len())], ints[rng.below(ints.len())]);
        let (a, b) = (
            value_key(FieldKind::Integer, &i.into()),
            value_key(FieldKind::Integer, &j.into()),
        );
        assert_eq!(a.cmp(&b), i.cmp(&j));
        let (f, g) = (floats[rng.below(floats.len())], floats[rng.below(floats.len())]);
        let (a, b) = (
            value_key(FieldKind::Float, &f.into()),
            value_key(FieldKind::Float, &g.into()),
        );
        assert_eq!(Some(a.cmp(&b)), f.partial_cmp(&g), "{f} {g}");
        let (v, w) = (&words[rng.below(words.len())], &words[rng.below(words.len())]);
        let a = row(value_key(FieldKind::Keyword, &v.as_str().into()), u32::MAX);
        let b = row(value_key(FieldKind::Keyword, &w.as_str().into()), 0);
        if v != w {
            assert_eq!(a.cmp(&b), v.cmp(w), "{v:?} {w:?}, whatever the rows");
        }
    }
}

#[test]
fn long_keywords_are_cut_and_checked_again() {
    let long = "x".repeat(600);
    let twin = format!("{}y", "x".repeat(599));
    let a = value_key(FieldKind::Keyword, &long.as_str().into());
    let b = value_key(FieldKind::Keyword, &twin.as_str().into());
    assert!(a != b && a.len() < 600 && a[..513] == b[..513]);
    let payloads: Vec<String> = [&long, &twin, "x", "z"]
        .map(|s| serde_json::json!({"a": s}).to_string())
        .into();
    let mut memory = Memory {
        rows: 4,
        ..Memory::default()
    };
    memory.index(
        "a",
        FieldKind::Keyword,
        &payloads.iter().map(|p| p.as_bytes()).collect::<Vec<_>>(),
    );
    let mut rows = |m: serde_json::Value| {
        let filter = serde_json::json!({"must": [{"key": "a", "match": m}]});
        let filter: Filter = serde_json::from_value(filter).unwrap();
        let resolved = resolve(&CompiledFilter::new(&filter).unwrap(), &mut memory).unwrap();
        (
            resolved.bitmap.unwrap().iter().collect::<Vec<_>>(),
            resolved.exact,
        )
    };
    assert_eq!(rows(serde_json::json!({"value": long})), (vec![0], false));
    assert_eq!(rows(serde_json::json!({"any": ["x", "z"]})), (vec![2, 3], true));
    assert_eq!(rows(serde_json::json!({"except": ["x"]})), (vec![0, 1, 3], true));
    assert_eq!(
        rows(serde_json::json!({"except": [long]})),
        (vec![0, 1, 2, 3], false)
    );
    assert_eq!(rows(serde_json::json!({"prefix": "x"})), (vec![0, 1, 2], true));
    assert_eq!(
        rows(serde_json::json!({"prefix": "x".repeat(600)})),
        (vec![0, 1], false)
    );
}

#[test]
fn integer_ranges_hold_at_the_edges_of_floats() {
    let values = [
        i64::MIN,
        -(1 << 53) - 1,
        -(1 << 53),
        -1,
        0,
        1,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        i64::MAX - 1,
        i64::MAX,
    ];
    let mut payloads: Vec<String> = values.iter().map(|v| format!("{{\"a\":{v}}}")).collect();
    payloads.extend(
        [
            "{\"a\":18446744073709551615}",
            "{\"a\":0.5}",
            "{\"a\":-0.0}",
            "{\"a\":1e300}",
        ]
        .map(String::from),
    );
    let cases: Vec<FilterCase> = payloads
        .iter()
        .map(|p| {
            serde_json::from_str(&format!(
                r#"{{"id":1,"vectors":[],"payload":{p},"filter":{{}},"expected":true}}"#
            ))
            .unwrap()
        })
        .collect();
    let bytes: Vec<&[u8]> = payloads.iter().map(|p| p.as_bytes()).collect();
    let bounds = [
        -1e300,
        -9.3e18,
        i64::MIN as f64,
        -9007199254740993.0,
        -0.5,
        0.0,
        0.5,
        1.0,
        9007199254740992.0,
        9.2e18,
        i64::MAX as f64,
        1.8446744073709552e19,
        1e300,
    ];
    for kind in [FieldKind::Integer, FieldKind::Float] {
        let mut memory = Memory {
            rows: bytes.len() as u32,
            ..Memory::default()
        };
        memory.index("a", kind, &bytes);
        for low in bounds {
            for high in bounds {
                for (l, h) in [("gt", "lt"), ("gte", "lte"), ("gt", "lte"), ("gte", "lt")] {
                    let text =
                        format!(r#"{{"must":[{{"key":"a","range":{{"{l}":{low:e},"{h}":{high:e}}}}}]}}"#);
                    check_resolve(&serde_json::from_str(&text).unwrap(), &cases, &mut memory);
                }
            }
        }
    }
}

#[test]
fn geo_covers_hold_everywhere_on_earth() {
    let mut rng = Rng::new(9);
    let mut point = |near: Option<(f64, f64, f64)>| {
        let (lon, lat) = match near {
            Some((lon, lat, spread)) => {
                let wrap = lon + (rng.unit() - 0.5) * spread;
                (
                    (wrap + 540.0).rem_euclid(360.0) - 180.0,
                    (lat + (rng.unit() - 0.5) * spread).clamp(-90.0, 90.0),
                )
            }
            None => (
                [-180.0, 180.0, 0.0, rng.unit() * 360.0 - 180.0][rng.below(4)],
                [-90.0, 90.0, 0.0, rng.unit() * 180.0 - 90.0][rng.below(4)],
            ),
        };
        (lon, lat)
    };
    let (mut inside, mut candidates, mut total) = (0u64, 0u64, 0u64);
    for round in 0..150 {
        let center = point(None);
        let spread = [0.01, 1.0, 20.0, 300.0][round % 4];
        let cases: Vec<FilterCase> = (0..60)
            .map(|_| {
                let (lon, lat) = point(Some((center.0, center.1, spread)));
                let text = format!(r#"{{"id":1,"vectors":[],"payload":{{"a":{{"lon":{lon},"lat":{lat}}}}},"filter":{{}},"expected":true}}"#);
                serde_json::from_str(&text).unwrap()
            })
            .collect();
        let mut memory = Memory {
            rows: 60,
            ..Memory::default()
        };
        memory.index(
            "a",
            FieldKind::Geo,
            &cases.iter().map(FilterCase::payload).collect::<Vec<_>>(),
        );
        let center = ramlet::filter::GeoPoint {
            lon: center.0,
            lat: center.1,
        };
        let radius = spread * 30_000.0;
        let check = FieldCheck::GeoRadius(GeoRadius { center, radius });
        let field = FieldCondition {
            key: "a".to_string(),
            check,
        };
        assert!(plan(FieldKind::Geo, &field).unwrap().ranges.len() <= 66);
        let filter = Filter {
            must: vec![Condition::Field(field)],
            ..Filter::default()
        };
        check_resolve(&filter, &cases, &mut memory);
        let compiled = CompiledFilter::new(&filter).unwrap();
        inside += cases.iter().filter(|c| compiled.matches(*c)).count() as u64;
        candidates += resolve(&compiled, &mut memory)
            .unwrap()
            .bitmap
            .map_or(60, |b| b.len());
        total += 60;
    }
    assert!(
        inside * 10 > total && candidates < total * 9 / 10 && inside < candidates,
        "{inside} {candidates} {total}"
    );
}

#[test]
fn order_follows_the_keys() {
    let payload = r#"{"a":[3,-1,2.5,"x",null,3,"2024-01-01T00:00:00Z",18446744073709551615]}"#;
    let path = Path::parse("a").unwrap();
    for kind in KINDS {
        let mut direct = Vec::new();
        order_values_of(kind, &path, payload.as_bytes(), &mut |v| direct.push(v));
        let keys = keys_of(kind, payload);
        let through: Vec<OrderValue> = keys.iter().filter_map(|k| order_value(kind, k)).collect();
        direct.sort_by(|a, b| a.partial_cmp(b).unwrap());
        direct.dedup();
        assert_eq!(direct, through, "{kind:?}");
        let Some(range) = order_range(kind, None, false) else {
            assert!(through.is_empty());
            continue;
        };
        assert_eq!(keys.iter().filter(|k| range.contains(k)).count(), through.len());
        for start in &through {
            let at = |descending| order_range(kind, Some(*start), descending).unwrap();
            let count = |range: KeyRange| keys.iter().filter(|k| range.contains(k)).count();
            assert_eq!(count(at(false)), through.iter().filter(|v| *v >= start).count());
            assert_eq!(count(at(true)), through.iter().filter(|v| *v <= start).count());
        }
    }
    let from = |start, descending| {
        order_range(FieldKind::Integer, Some(OrderValue::Float(start)), descending).unwrap()
    };
    let three = value_key(FieldKind::Integer, &3.into());
    assert!(
        from(2.5, false).contains(&three)
            && !from(2.5, true).contains(&three)
            && !from(3.5, false).contains(&three)
    );
}

#[test]
fn long_scans_are_left_to_checking() {
    let payloads: Vec<String> = (0..2_000)
        .map(|i| format!(r#"{{"a":{i},"b":{}}}"#, i % 2))
        .collect();
    let bytes: Vec<&[u8]> = payloads.iter().map(|p| p.as_bytes()).collect();
    let mut memory = Memory {
        rows: 2_000,
        ..Memory::default()
    };
    memory.index("a", FieldKind::Integer, &bytes);
    memory.index("b", FieldKind::Integer, &bytes);
    let text = r#"{"must":[{"key":"b","match":{"value":1}},{"key":"a","match":{"value":7}}]}"#;
    let filter = CompiledFilter::new(&serde_json::from_str(text).unwrap()).unwrap();
    let resolved = resolve(&filter, &mut memory).unwrap();
    assert_eq!(
        (
            resolved.bitmap.unwrap().iter().collect::<Vec<_>>(),
            resolved.exact
        ),
        (vec![7], false)
    );
    assert_eq!(memory.scans, 1);
}
