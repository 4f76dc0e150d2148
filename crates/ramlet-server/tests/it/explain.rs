//! `params.explain`: what a search spent its time on, and what that means.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::Server;

const POINTS: u64 = 3_000;

/// Points in a segment, with a label that has no payload index, a number and a text that have one.
pub async fn filled() -> Server {
    let server = Server::open();
    fill(&server, "c").await;
    server
}

pub async fn fill(server: &Server, name: &str) {
    let path = format!("/collections/{name}");
    let create = r#"{"vectors":{"size":8,"distance":"Dot"}}"#;
    server.call("PUT", &path, create).await.result();
    let text = json!({"field_name": "text", "field_schema": {"type": "text", "scoring": true}});
    for index in [json!({"field_name": "n", "field_schema": "integer"}), text] {
        let made = server
            .call("PUT", &format!("{path}/index?wait=true"), &index.to_string())
            .await;
        made.result();
    }
    let points: Vec<Value> = (0..POINTS)
        .map(|id| {
            let vector: Vec<u64> = (0..8).map(|d| (id * (d + 7)) % 31).collect();
            let payload = json!({
                "label": format!("l{}", id % 50), "n": id, "text": format!("word{} common", id % 9), "g": id % 5,
            });
            json!({"id": id, "vector": vector, "payload": payload})
        })
        .collect();
    let body = json!({ "points": points }).to_string();
    server
        .call("PUT", &format!("{path}/points?wait=true"), &body)
        .await
        .result();
    server.engine.collection(name).unwrap().flush().unwrap();
}

async fn explained(server: &Server, route: &str, mut body: Value) -> Value {
    let path = format!("/collections/c/points/{route}");
    let plain = server.call("POST", &path, &body.to_string()).await;
    assert!(
        plain.json().get("explain").is_none(),
        "nobody asked: {}",
        plain.json()
    );
    body["params"] = json!({"explain": true});
    let told = server.call("POST", &path, &body.to_string()).await;
    assert_eq!(plain.result(), told.result(), "it changes nothing");
    told.json()["explain"].clone()
}

fn us(told: &Value, name: &str) -> u64 {
    told["time_us"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("no time_us.{name}: {told}"))
}

/// Of a segment or a stage.
fn part_us(part: &Value) -> u64 {
    part["time_us"]
        .as_u64()
        .unwrap_or_else(|| panic!("no time_us: {part}"))
}

fn stage_us(segment: &Value, name: &str) -> u64 {
    let mut stages = segment["stages"].as_array().unwrap().iter();
    let stage = stages.find(|stage| stage["stage"] == name);
    part_us(stage.unwrap_or_else(|| panic!("no {name}: {segment}")))
}

const STEPS: [&str; 7] = [
    "admission",
    "memory_wait",
    "queue",
    "search",
    "fetch",
    "encode",
    "other",
];

/// The steps are all of the time, and the parts no more than the search.
fn check_times(told: &Value) {
    let sum: u64 = STEPS.iter().map(|step| us(told, step)).sum();
    let total = us(told, "total");
    assert!(total > 0 && sum.abs_diff(total) <= 10, "{sum} of {total}: {told}");
    let parts = told["segments"].as_array().unwrap();
    let of_parts: u64 = parts.iter().map(part_us).sum();
    assert!(of_parts <= us(told, "search") + us(told, "fetch") + 10, "{told}");
    for part in parts {
        let told: u64 = part["stages"].as_array().unwrap().iter().map(part_us).sum();
        assert!(told <= part_us(part) + 10, "{part}");
    }
}

#[tokio::test]
async fn every_kind_of_search_tells_its_times() {
    let server = filled().await;
    let (vector, text) = (json!([1, 2, 3, 4, 5, 6, 7, 8]), json!({"text": "word3 common"}));
    let hybrid = json!({
        "prefetch": [{"query": vector, "limit": 20}, {"query": text, "using": "text", "limit": 20}],
        "query": {"fusion": "rrf"}, "with_payload": true,
    });
    let many = json!({"query": vector, "limit": 1500, "with_payload": true, "with_vector": true});
    let best = json!({"query": {"recommend": {"positive": [1], "negative": [2], "strategy": "best_score"}}});
    for (route, body, index) in [
        ("query", json!({"query": vector, "with_payload": true}), "flat"),
        ("search", json!({"vector": vector, "limit": 5}), "flat"),
        ("query", json!({"query": text, "using": "text"}), "text"),
        ("query", hybrid, "text"),
        ("query", many, "flat"),
        ("query", best, "scores"),
        (
            "query/groups",
            json!({"query": vector, "group_by": "g", "limit": 3}),
            "flat",
        ),
        (
            "search/groups",
            json!({"vector": vector, "group_by": "g", "limit": 3, "group_size": 2}),
            "flat",
        ),
    ] {
        let told = explained(&server, route, body).await;
        check_times(&told);
        assert!(us(&told, "search") > 0, "{route}: {told}");
        let parts = told["segments"].as_array().unwrap();
        assert!(
            parts.iter().any(|part| part["index"] == index),
            "{route} {index}: {told}"
        );
        assert!(parts.iter().any(|part| part_us(part) > 0), "{route}: {told}");
    }
    let hits = json!({"query": vector, "limit": 1500, "with_payload": true});
    let told = explained(&server, "query", hits).await;
    assert!(
        us(&told, "fetch") > 0 && us(&told, "encode") > 0,
        "1,500 payloads: {told}"
    );
}

#[tokio::test]
async fn a_batch_tells_each() {
    let server = filled().await;
    let (vector, asked) = (json!([1, 1, 1, 1, 1, 1, 1, 1]), json!({"explain": true}));
    let body = json!({"searches": [{"query": vector, "params": asked}, {"query": vector}]});
    let told = server
        .call("POST", "/collections/c/points/query/batch", &body.to_string())
        .await
        .json();
    let told = told["explain"].as_array().unwrap().clone();
    assert_eq!(told.len(), 2);
    check_times(&json!({"time_us": told[0]["time_us"], "segments": told[0]["segments"]}));
    assert_eq!(told[1]["segments"], json!([]), "only the first one asked");
}

#[tokio::test]
async fn a_filter_without_an_index_is_named_with_what_it_reads() {
    let server = filled().await;
    let by = |key: &str, value: Value| json!({"must": [{"key": key, "match": {"value": value}}]});
    let vector = json!([1, 2, 3, 4, 5, 6, 7, 8]);
    let search = |filter: Value| json!({"query": vector, "filter": filter, "limit": 40});
    let told = explained(&server, "query", search(by("label", json!("l3")))).await;
    let said = told["meaning"][0].as_str().unwrap();
    let checked = told["rows_checked"].as_u64().unwrap();
    assert!(checked >= 1_000, "{told}");
    let thousands = format!("{},{:03}", checked / 1_000, checked % 1_000);
    assert_eq!(
        said,
        format!("no payload index on `label`: {thousands} payloads were read; create one (keyword)")
    );
    assert!(stage_us(&told["segments"][0], "payloads") > 0, "{told}");
    let indexed = explained(&server, "query", search(by("n", json!(3)))).await;
    assert!(!names_an_index(&indexed), "{indexed}");

    // The index that was asked for ends it.
    let index = r#"{"field_name":"label","field_schema":"keyword"}"#;
    server
        .call("PUT", "/collections/c/index?wait=true", index)
        .await
        .result();
    let told = explained(&server, "query", search(by("label", json!("l3")))).await;
    assert!(!names_an_index(&told), "{told}");
}

fn names_an_index(told: &Value) -> bool {
    told["meaning"].to_string().contains("payload index")
}

#[tokio::test]
async fn times_end_with_the_request() {
    let server = filled().await;
    let vector = json!([1, 2, 3, 4, 5, 6, 7, 8]);
    explained(&server, "query", json!({ "query": vector })).await;
    // The next search of the same thread has no clock: nothing is left of the one before.
    let (told, got) = tokio::sync::oneshot::channel();
    server
        .engine
        .run(Box::new({
            let collection = server.engine.collection("c").unwrap();
            move |scratch| {
                let request = ramlet::SearchRequest {
                    query: ramlet::QueryVector::Vector(ramlet::Vector::Dense(vec![1.0; 8])),
                    using: String::new(),
                    filter: None,
                    params: ramlet::SearchParams::default(),
                    limit: 3,
                    offset: 0,
                    score_threshold: None,
                    with_payload: ramlet::PayloadSelector::None,
                    with_vectors: ramlet::VectorSelector::None,
                };
                let found = Arc::clone(&collection).search(&request, scratch).unwrap();
                let _ = told.send((found.cost.total_ns, found.hits.len()));
            }
        }))
        .unwrap();
    assert_eq!(got.await.unwrap(), (0, 3));
}
