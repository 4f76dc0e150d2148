//! `points/batch`: operations wait in the engine's queue together, and mean what they mean one after the other.

use serde_json::{Value, json};

use crate::harness::Server;

const BATCH: &str = "/collections/c/points/batch?wait=true";

async fn with_points(settings: Value) -> Server {
    let server = Server::open();
    server
        .call("PUT", "/collections/c", &settings.to_string())
        .await
        .result();
    server
}

async fn plain() -> Server {
    let server = with_points(json!({"vectors": {"size": 2, "distance": "Dot"}})).await;
    let points: Vec<Value> = (0..10).map(|id| point(id, json!({"n": 0}))).collect();
    let body = json!({"points": points}).to_string();
    server
        .call("PUT", "/collections/c/points?wait=true", &body)
        .await
        .result();
    server
}

fn point(id: u64, payload: Value) -> Value {
    json!({"id": id, "vector": [1, 2], "payload": payload})
}

fn set(id: u64, payload: Value) -> Value {
    json!({"set_payload": {"payload": payload, "points": [id]}})
}

fn put(id: u64, payload: Value) -> Value {
    json!({"upsert": {"points": [point(id, payload)]}})
}

/// Status, and the message of a failure.
async fn send(server: &Server, operations: Vec<Value>) -> (u16, String) {
    let body = json!({"operations": operations}).to_string();
    let reply = server.call("POST", BATCH, &body).await;
    assert_eq!(server.held("requests"), 0);
    match reply.status.as_u16() {
        200 => {
            let answers = reply.result();
            let answers = answers.as_array().expect("a list").clone();
            assert_eq!(answers.len(), operations.len());
            assert!(answers.iter().all(|answer| answer["status"] == "completed"));
            assert!(answers.iter().all(|answer| answer["operation_id"].is_u64()));
            (200, String::new())
        }
        status => (status, reply.error()),
    }
}

async fn payload(server: &Server, id: u64) -> Value {
    let reply = server.get(&format!("/collections/c/points/{id}")).await;
    match reply.status.as_u16() {
        200 => reply.result()["payload"].clone(),
        _ => Value::Null,
    }
}

#[tokio::test]
async fn operations_are_done_in_their_order() {
    let server = plain().await;
    let mut operations = Vec::new();
    for round in 0..300 {
        let id = 100 + round % 7;
        operations.push(put(id, json!({"round": round})));
        operations.push(set(id, json!({"seen": round})));
        if round % 5 == 0 {
            let filter = json!({"must": [{"key": "seen", "match": {"value": round}}]});
            operations.push(json!({"set_payload": {"payload": {"fifth": true}, "filter": filter}}));
        }
        if round % 100 == 3 {
            operations.push(json!({"delete": {"points": [id]}}));
        }
    }
    assert_eq!(send(&server, operations).await.0, 200);
    // Round 295 was the last of its point that a filter found, 203 the last that was deleted.
    assert_eq!(
        payload(&server, 101).await,
        json!({"round": 295, "seen": 295, "fifth": true})
    );
    assert_eq!(payload(&server, 105).await, json!({"round": 299, "seen": 299}));
}

#[tokio::test]
async fn a_failure_ends_a_batch_and_what_was_before_stays() {
    let unknown = json!({"update_vectors": {"points": [{"id": 1, "vector": {"none": [1, 2]}}]}});
    for (wrong, status, says) in [
        (set(1_000_000, json!({"a": 1})), 404, "No point with id 1000000"),
        (unknown, 400, "none"),
        (
            json!({"upsert": {"points": [{"id": 1, "vector": [1, 2, 3]}]}}),
            400,
            "dim",
        ),
    ] {
        let server = plain().await;
        let operations = vec![
            set(1, json!({"a": 1})),
            put(2, json!({"a": 1})),
            wrong,
            set(3, json!({"a": 1})),
            put(4, json!({"a": 1})),
        ];
        let (got, error) = send(&server, operations).await;
        assert!(got == status && error.contains(says), "{got}: {error}");
        assert_eq!(payload(&server, 1).await, json!({"n": 0, "a": 1}));
        assert_eq!(payload(&server, 2).await, json!({"a": 1}));
        assert_eq!(payload(&server, 3).await, json!({"n": 0}));
        assert_eq!(payload(&server, 4).await, json!({"n": 0}));
    }
}

#[tokio::test]
async fn the_first_failure_is_told() {
    let server = plain().await;
    // The third is refused when it is queued, the second later.
    let operations = vec![
        put(1, json!({"a": 1})),
        set(1_000_000, json!({})),
        json!({"upsert": {"points": [{"id": 1, "vector": [1, 2, 3]}]}}),
    ];
    let (status, error) = send(&server, operations).await;
    assert!(
        status == 404 && error.contains("No point with id 1000000"),
        "{error}"
    );
}

#[tokio::test]
async fn large_operations_go_a_few_at_a_time() {
    let server = plain().await;
    let text = "x".repeat(150_000);
    let operations = (0..12).map(|id| put(id, json!({"text": text, "id": id})));
    assert_eq!(send(&server, operations.collect()).await.0, 200);
    assert_eq!(payload(&server, 11).await["id"], 11);
}

#[tokio::test]
async fn operations_of_several_shards_keep_their_order() {
    let settings = json!({"vectors": {"size": 2, "distance": "Dot"}, "sharding_method": "custom"});
    let server = with_points(settings).await;
    for key in ["a", "b"] {
        let body = json!({"shard_key": key}).to_string();
        server.call("PUT", "/collections/c/shards", &body).await.result();
    }
    let of = |keys: Value, mut operation: Value| {
        let fields = operation
            .as_object_mut()
            .and_then(|kinds| kinds.values_mut().next());
        fields.expect("one kind")["shard_key"] = keys;
        operation
    };
    let operations = vec![
        of(json!("a"), put(1, json!({"a": 1}))),
        of(json!("b"), put(2, json!({"b": 1}))),
        of(json!("a"), set(1, json!({"a": 2}))),
        of(json!(["a", "b"]), put(3, json!({"both": 1}))),
        of(json!("b"), set(3, json!({"b": 3}))),
    ];
    assert_eq!(send(&server, operations).await.0, 200);
    assert_eq!(payload(&server, 1).await, json!({"a": 2}));
    let operations = vec![
        of(json!("a"), set(1, json!({"a": 3}))),
        of(json!("b"), set(1, json!({"missing": "there"}))),
        of(json!("a"), set(1, json!({"a": 4}))),
    ];
    let (status, error) = send(&server, operations).await;
    assert!(
        status == 404 && error.contains("No point with id 1 found"),
        "{error}"
    );
    assert_eq!(payload(&server, 1).await, json!({"a": 3}));
}
