//! A small collection of everything that a collection can have, and all ways of reading it.

use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::{
    BudgetRequest, BudgetTable, Collection, CollectionConfig, Engine, EngineOptions, ErrorKind, FacetRequest,
    FieldIndex, Ledger, MultiVector, OrderBy, PayloadSelector, Point, PointId, PointsSelector,
    QuantizationParams, QueryKind, QueryRequest, QueryVector, Result, Scratch, ScrollRequest, SearchParams,
    SparseVector, Storage, TextQuery, UpdateMode, UpdateOp, Vector, VectorSelector,
};
use ramlet_io::RamStorage;
use serde_json::{Value, json};

use crate::Random;

const MEMORY: u64 = 64 << 20;
pub const NAME: &str = "c";
const DIMS: usize = 12;
/// Points of the first segment: enough for clusters, and for a node of a graph each.
const FIRST: u64 = 90;
const SECOND: u64 = 30;
/// In the log alone.
const LAST: u64 = 8;

pub fn ram() -> Arc<dyn Storage> {
    Arc::new(RamStorage::new(None))
}

/// Opens an engine; the same every time.
pub fn open(storage: Arc<dyn Storage>) -> Result<Arc<Engine>> {
    let budget = BudgetTable::plan(BudgetRequest::in_process(MEMORY, 1)).expect("enough memory");
    let options = EngineOptions {
        ledger: Ledger::new(budget.ledger_limit()),
        budget,
        seed: 1,
        log_file_bytes: Some(64 << 10),
    };
    Engine::open(storage, options)
}

fn config() -> CollectionConfig {
    let dense = |distance: &str, other: Value| {
        let mut params = json!({"size": DIMS, "distance": distance, "on_disk": true});
        let more = other.as_object().expect("an object").clone();
        params.as_object_mut().expect("an object").extend(more);
        params
    };
    let config = json!({
        "vectors": {
            "": dense("Cosine", json!({"index": "ivf"})),
            "graph": dense("Euclid", json!({"index": "hnsw"})),
            "bytes": dense("Dot", json!({"datatype": "uint8"})),
            "product": dense("Dot", json!({"datatype": "float16", "quantization_config": {"product": {"compression": "x16"}}})),
            "scalar": dense("Cosine", json!({"quantization_config": {"scalar": {"type": "int8"}}})),
            "binary": dense("Euclid", json!({"quantization_config": {"binary": {}}})),
            "several": dense("Cosine", json!({"multivector_config": {"comparator": "max_sim"}})),
        },
        "sparse_vectors": {"words": {"modifier": "idf"}},
        "indexing_threshold": 1,
    });
    serde_json::from_value(config).expect("settings")
}

const FIELDS: [(&str, &str); 8] = [
    ("n", r#"{"kind":"integer"}"#),
    ("f", r#"{"kind":"float"}"#),
    ("k", r#"{"kind":"keyword"}"#),
    ("b", r#"{"kind":"bool"}"#),
    ("d", r#"{"kind":"datetime"}"#),
    ("u", r#"{"kind":"uuid"}"#),
    ("g", r#"{"kind":"geo"}"#),
    (
        "t",
        r#"{"kind":"text","params":{"type":"text","scoring":true,"phrase_matching":true}}"#,
    ),
];

const WORDS: [&str; 8] = [
    "disk", "memory", "vector", "search", "the", "small", "Größe", "page",
];

fn point(n: u64, random: &mut Random) -> Point {
    let mut dense = |parts: usize| -> Vec<f32> { (0..DIMS * parts).map(|_| random.float()).collect() };
    let bytes: Vec<f32> = (0..DIMS as u64)
        .map(|i| ((n * 31 + i * 7) % 256) as f32)
        .collect();
    let several = MultiVector {
        dim: DIMS,
        values: dense(1 + n as usize % 3),
    };
    let mut vectors: Vec<(String, Vector)> = vec![
        (String::new(), dense(1).into()),
        ("graph".into(), dense(1).into()),
        ("bytes".into(), bytes.into()),
        ("product".into(), dense(1).into()),
        ("scalar".into(), dense(1).into()),
        ("binary".into(), dense(1).into()),
        ("several".into(), several.into()),
    ];
    // Some rows are without.
    vectors.retain(|_| n % 7 != 3 || random.below(3) > 0);
    let indices: Vec<u32> = (0..5)
        .map(|i| (n as u32 * 3 + i * i * 5) % 60 + i * 100)
        .collect();
    let values = vec![0.5 + n as f32 / 100.0; indices.len()];
    vectors.push(("words".into(), SparseVector { indices, values }.into()));
    let text: Vec<&str> = (0..3 + n as usize % 9)
        .map(|_| WORDS[random.below(WORDS.len())])
        .collect();
    let payload = json!({
        "n": n % 13, "f": n as f64 / 7.0, "k": [format!("key{}", n % 5), "all"], "b": n.is_multiple_of(2),
        "d": format!("2024-{:02}-15T12:00:00Z", n % 12 + 1), "u": format!("6f9619ff-8b86-d011-b42d-00c04fc9{:04x}", n % 9),
        "g": {"lon": (n * 4) as f64 - 179.0, "lat": n as f64 / 2.0}, "t": text.join(" "), "plain": "x".repeat(n as usize * 8),
    });
    Point {
        id: match n % 4 {
            3 => PointId::Uuid(u128::from(n) << 70 | u128::from(n)),
            _ => PointId::Num(n),
        },
        vectors,
        payload: payload.to_string().into_bytes(),
    }
}

/// Two segments, one of them with deletes, and a log.
pub fn fill(engine: &Engine) {
    engine.create_collection(NAME, config()).expect("creates");
    let collection = engine.collection(NAME).expect("is there");
    for (field, index) in FIELDS {
        let index: FieldIndex = serde_json::from_str(index).expect("an index");
        collection.create_payload_index(field, index).expect("indexes");
    }
    let mut random = Random::new(5);
    let mut put = |from: u64, count: u64| {
        let points = (from..from + count).map(|n| point(n, &mut random)).collect();
        let upsert = UpdateOp::Upsert {
            points,
            filter: None,
            mode: UpdateMode::Upsert,
        };
        collection.update(upsert).expect("upserts");
    };
    put(0, FIRST);
    collection.flush().expect("flushes");
    // A graph is built when nothing else is to be done.
    collection.wait_idle().expect("settles");
    put(FIRST, SECOND);
    collection.flush().expect("flushes");
    let gone = [1, 4, 5, 40, FIRST + 2].map(PointId::Num).to_vec();
    let delete = UpdateOp::Delete(PointsSelector::Ids(gone));
    collection.update(delete).expect("deletes");
    collection.flush().expect("flushes");
    put(FIRST + SECOND, LAST);
}

/// Reads the collection in every way. What fails must say that bytes are damaged, or that memory is short; the first error is returned.
pub fn read(engine: &Engine, collection: &Collection, scratch: &mut Scratch) -> Result<()> {
    let mut first = Ok(());
    let mut note = |outcome: Result<()>| {
        if let Err(e) = outcome {
            let typed = matches!(
                e.kind(),
                ErrorKind::Corrupt
                    | ErrorKind::BadInput
                    | ErrorKind::NotFound
                    | ErrorKind::OverBudget
                    | ErrorKind::TooLarge
            );
            assert!(typed, "{e:?}");
            if first.is_ok() {
                first = Err(e);
            }
        }
    };
    for request in queries() {
        note(collection.query(request, engine, scratch).map(drop));
    }
    for request in scrolls() {
        note(collection.scroll(&request, scratch).map(drop));
    }
    for filter in filters() {
        note(collection.count(Some(&filter), true, scratch).map(drop));
    }
    for key in ["n", "k", "b", "u"] {
        let request = FacetRequest {
            key: key.into(),
            limit: 5,
            filter: None,
        };
        note(collection.facet(&request, scratch).map(drop));
    }
    first
}

pub fn queries() -> Vec<QueryRequest> {
    let mut random = Random::new(9);
    let mut dense = || -> Vec<f32> { (0..DIMS).map(|_| random.float()).collect() };
    let words = SparseVector {
        indices: vec![3, 100, 405],
        values: vec![1.0, 0.5, 2.0],
    };
    let mut all = Vec::new();
    for using in [
        "", "graph", "bytes", "product", "scalar", "binary", "several", "words",
    ] {
        let vector: Vector = match using {
            "words" => words.clone().into(),
            _ => dense().into(),
        };
        let params = |exact, rescore| SearchParams {
            exact,
            quantization: QuantizationParams {
                rescore,
                ..QuantizationParams::default()
            },
            explain: true,
            ..SearchParams::default()
        };
        for (params, filter) in [
            (params(false, None), None),
            (params(false, Some(false)), None),
            (
                params(false, Some(true)),
                Some(r#"{"must":{"key":"n","range":{"lt":6}}}"#),
            ),
            (params(true, None), None),
        ] {
            all.push(QueryRequest {
                query: Some(QueryKind::Nearest(QueryVector::Vector(vector.clone()))),
                using: using.into(),
                filter: filter.map(|text| serde_json::from_str(text).expect("a filter")),
                params,
                with_payload: PayloadSelector::All,
                ..QueryRequest::default()
            });
        }
    }
    for (text, filter) in [
        ("disk memory", None),
        (
            "größe the page",
            Some(r#"{"must":{"key":"t","match":{"phrase":"small vector"}}}"#),
        ),
    ] {
        let query = TextQuery {
            text: text.into(),
            ..TextQuery::default()
        };
        all.push(QueryRequest {
            query: Some(QueryKind::Text(query)),
            using: "t".into(),
            filter: filter.map(|text| serde_json::from_str(text).expect("a filter")),
            highlight: Some(ramlet::Highlight::default()),
            ..QueryRequest::default()
        });
    }
    all
}

pub fn scrolls() -> Vec<ScrollRequest> {
    let plain = ScrollRequest {
        filter: None,
        offset: None,
        limit: 200,
        order_by: None,
        with_payload: PayloadSelector::All,
        with_vectors: VectorSelector::All,
    };
    let ordered = |key: &str| ScrollRequest {
        order_by: Some(OrderBy {
            key: key.into(),
            direction: ramlet::Direction::Desc,
            start_from: None,
        }),
        with_vectors: VectorSelector::None,
        ..plain.clone()
    };
    let orders = ["n", "f", "d"].map(ordered);
    [plain].into_iter().chain(orders).collect()
}

pub fn filters() -> Vec<Filter> {
    let texts = [
        r#"{"must":{"key":"k","match":{"any":["key1","key4"]}}}"#,
        r#"{"must":{"key":"f","range":{"gte":1.5}},"must_not":{"key":"b","match":{"value":true}}}"#,
        r#"{"should":[{"key":"d","range":{"lt":"2024-06-01T00:00:00Z"}},{"key":"u","match":{"value":"6f9619ff-8b86-d011-b42d-00c04fc90004"}}]}"#,
        r#"{"must":{"key":"g","geo_radius":{"center":{"lon":0,"lat":20},"radius":5000000}}}"#,
        r#"{"must":{"key":"t","match":{"text":"disk page"}}}"#,
        r#"{"must":{"has_vector":"graph"}}"#,
        r#"{"must":{"has_id":[0,1,2,3,95,120]}}"#,
        r#"{"must":{"key":"plain","match":{"value":"xxxxxxxx"}}}"#,
    ];
    let parsed = texts.map(|text| serde_json::from_str(text).expect("a filter"));
    parsed.into()
}
