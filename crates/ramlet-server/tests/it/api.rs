//! The API over an engine: envelopes, codes and shapes. What the results mean is the e2e suite's to check.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Server, options_of};

async fn filled() -> Server {
    let server = Server::open();
    server
        .call(
            "PUT",
            "/collections/c",
            r#"{"vectors":{"size":2,"distance":"Dot"}}"#,
        )
        .await
        .result();
    let points = r#"{"points":[{"id":1,"vector":[1,0],"payload":{"a":1}},{"id":2,"vector":[0,1],"payload":{"a":2}},
                               {"id":"00000000-0000-0000-0000-000000000003","vector":[1,1]}]}"#;
    let done = server
        .call("PUT", "/collections/c/points?wait=true", points)
        .await
        .result();
    assert_eq!(done["status"], "completed");
    assert!(done["operation_id"].is_u64());
    server
}

fn ids(points: &Value) -> Vec<Value> {
    points
        .as_array()
        .expect("a list")
        .iter()
        .map(|p| p["id"].clone())
        .collect()
}

#[tokio::test]
async fn service_routes_answer() {
    let server = Server::open();
    let version = server.get("/").await.json();
    assert!(
        version["version"]
            .as_str()
            .is_some_and(|v| v.starts_with("1.20.")),
        "{version}"
    );
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(server.get(path).await.status, StatusCode::OK, "{path}");
    }
    assert_eq!(
        server.get("/cluster").await.result(),
        json!({ "status": "disabled" })
    );
    assert!(server.get("/telemetry").await.result()["app"]["startup"].is_string());
    let memory = server.get("/memory").await.result();
    assert!(
        memory["ledger"]["limit_bytes"].as_u64().is_some_and(|n| n > 0),
        "{memory}"
    );
    let metrics = server.get("/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(text.contains("endpoint=\"/healthz\",status=\"200\"} 1"), "{text}");
    let unknown = server.get("/nowhere").await;
    assert_eq!(
        (unknown.status, unknown.error().contains("/nowhere")),
        (StatusCode::NOT_FOUND, true)
    );
    let wrong = server.call("PUT", "/healthz", "").await;
    assert_eq!(wrong.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(wrong.headers.contains_key("allow"));
}

#[tokio::test]
async fn slashes_too_many_and_heads_are_as_the_api_has_them() {
    let server = filled().await;
    for (path, spelled) in [
        ("/collections", "/collections/"),
        ("/collections", "//collections"),
        ("/collections/c/exists", "/collections//c///exists/?timeout=5"),
        ("/", "//"),
    ] {
        let plain = server.get(path).await;
        let reply = server.get(spelled).await;
        assert_eq!(reply.status, StatusCode::OK, "{spelled}");
        assert_eq!(reply.json()["result"], plain.json()["result"], "{spelled}");
    }
    let wrong = server.call("PUT", "/healthz/", "").await;
    assert_eq!(wrong.status, StatusCode::METHOD_NOT_ALLOWED);
    let (whole, head) = (server.get("/").await, server.call("HEAD", "/", "").await);
    assert_eq!(
        head.headers["content-length"],
        whole.body.len().to_string().as_str()
    );
    assert!(head.body.is_empty());
}

#[tokio::test]
async fn collections_come_and_go() {
    let server = filled().await;
    assert_eq!(
        server.get("/collections").await.result(),
        json!({ "collections": [{ "name": "c" }] })
    );
    assert_eq!(
        server.get("/collections/c/exists").await.result(),
        json!({ "exists": true })
    );
    assert_eq!(
        server.get("/collections/x/exists").await.result(),
        json!({ "exists": false })
    );
    let info = server.get("/collections/c").await.result();
    assert_eq!(info["points_count"], 3);
    assert_eq!(
        info["config"]["params"]["vectors"],
        json!({ "size": 2, "distance": "Dot" })
    );
    let again = server
        .call(
            "PUT",
            "/collections/c",
            r#"{"vectors":{"size":2,"distance":"Dot"}}"#,
        )
        .await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert_eq!(again.error(), "Wrong input: Collection `c` already exists!");
    server
        .call("PATCH", "/collections/c", r#"{"hnsw_config":{"m":7}}"#)
        .await
        .result();
    assert_eq!(
        server.get("/collections/c").await.result()["config"]["hnsw_config"]["m"],
        7
    );
    let refused = server
        .call("PATCH", "/collections/c", r#"{"vectors":{"x":{}}}"#)
        .await;
    assert_eq!(refused.error(), "Wrong input: Not existing vector name error: x");
    assert_eq!(
        server.call("DELETE", "/collections/c", "").await.result(),
        json!(true)
    );
    assert_eq!(
        server.call("DELETE", "/collections/c", "").await.result(),
        json!(false)
    );
    let gone = server.get("/collections/c").await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    assert_eq!(gone.error(), "Not found: Collection `c` doesn't exist!");
}

#[tokio::test]
async fn names_are_validated() {
    let server = Server::open();
    let config = r#"{"vectors":{"size":2,"distance":"Dot"}}"#;
    for name in ["a%2Fb", "..", "%2e%2e", "a%00", "a%5Cb", "a%0A", &"x".repeat(256)] {
        let reply = server.call("PUT", &format!("/collections/{name}"), config).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{name}");
        assert!(reply.error().contains("collection_name"), "{}", reply.error());
    }
    server
        .call("PUT", "/collections/%D0%B8%20%C3%A9", config)
        .await
        .result();
    assert_eq!(
        server.get("/collections").await.result()["collections"][0]["name"],
        "и é"
    );
}

#[tokio::test]
async fn points_come_back() {
    let server = filled().await;
    let one = server.get("/collections/c/points/1").await.result();
    assert_eq!(
        one,
        json!({ "id": 1, "payload": { "a": 1 }, "vector": [1.0, 0.0] })
    );
    let missing = server.get("/collections/c/points/99").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert_eq!(missing.error(), "Not found: Point with id 99 does not exists!");
    assert_eq!(
        server.get("/collections/c/points/x").await.status,
        StatusCode::BAD_REQUEST
    );
    let some = server
        .call(
            "POST",
            "/collections/c/points",
            r#"{"ids":[2,99,1],"with_payload":false}"#,
        )
        .await
        .result();
    assert_eq!(some, json!([{ "id": 2 }, { "id": 1 }]));
    let page = server
        .call("POST", "/collections/c/points/scroll", r#"{"limit":2}"#)
        .await
        .result();
    assert_eq!(ids(&page["points"]), [json!(1), json!(2)]);
    assert_eq!(page["next_page_offset"], "00000000-0000-0000-0000-000000000003");
    let count = server
        .call("POST", "/collections/c/points/count", "{}")
        .await
        .result();
    assert_eq!(count, json!({ "count": 3 }));
}

#[tokio::test]
async fn searches_answer_in_both_dialects() {
    let server = filled().await;
    let query = r#"{"query":[2,1],"limit":2,"with_payload":true}"#;
    let found = server
        .call("POST", "/collections/c/points/query", query)
        .await
        .result();
    let uuid = json!("00000000-0000-0000-0000-000000000003");
    assert_eq!(ids(&found["points"]), [uuid.clone(), json!(1)]);
    assert_eq!(
        (&found["points"][0]["score"], &found["points"][1]["payload"]),
        (&json!(3.0), &json!({ "a": 1 }))
    );
    let legacy = server
        .call(
            "POST",
            "/collections/c/points/search",
            r#"{"vector":[2,1],"limit":1,"offset":1}"#,
        )
        .await;
    assert_eq!(ids(&legacy.result()), [json!(1)]);
    let scrolled = server
        .call("POST", "/collections/c/points/query", r#"{"limit":1,"offset":1}"#)
        .await
        .result();
    assert_eq!(scrolled["points"][0]["id"], 2);
    assert_eq!(scrolled["points"][0]["score"], 1.0);
    let batch = r#"{"searches":[{"query":[2,1],"limit":1},{"limit":3}]}"#;
    let batch = server
        .call("POST", "/collections/c/points/query/batch", batch)
        .await
        .result();
    assert_eq!(
        (ids(&batch[0]["points"]).len(), ids(&batch[1]["points"]).len()),
        (1, 3)
    );
    let legacy = r#"{"searches":[{"vector":[2,1],"limit":1},{"vector":[0,1],"limit":2}]}"#;
    let legacy = server
        .call("POST", "/collections/c/points/search/batch", legacy)
        .await
        .result();
    assert_eq!((ids(&legacy[0]), ids(&legacy[1]).len()), (vec![uuid], 2));
}

/// An update that isn't waited for is acknowledged, and done when a later one that is waited for is.
#[tokio::test]
async fn updates_of_every_kind_are_acknowledged() {
    let server = filled().await;
    let after = async || {
        let later = r#"{"points":[404]}"#;
        let done = server
            .call("POST", "/collections/c/points/delete?wait=true", later)
            .await;
        assert_eq!(done.result()["status"], "completed");
        let wanted = r#"{"ids":[1,2,4],"with_vector":true,"with_payload":true}"#;
        let points = server
            .call("POST", "/collections/c/points", wanted)
            .await
            .result();
        let point = |p: &Value| json!([p["id"], p["vector"], p["payload"]]);
        Value::from_iter(points.as_array().expect("a list").iter().map(point))
    };
    let one = |vector, payload| json!([1, vector, payload]);
    let (two, four) = (json!([2, [0.0, 1.0], {"a": 2}]), json!([4, [1.0, 2.0], {}]));
    let unit = || json!([1.0, 0.0]);
    for (method, path, body, first) in [
        (
            "PUT",
            "points",
            r#"{"batch":{"ids":[4],"vectors":[[1,2]],"payloads":[null]}}"#,
            one(unit(), json!({"a": 1})),
        ),
        (
            "POST",
            "points/payload",
            r#"{"payload":{"b":1},"points":[1]}"#,
            one(unit(), json!({"a": 1, "b": 1})),
        ),
        (
            "PUT",
            "points/payload",
            r#"{"payload":{"b":2,"c":3},"points":[1]}"#,
            one(unit(), json!({"b": 2, "c": 3})),
        ),
        (
            "POST",
            "points/payload/delete",
            r#"{"keys":["b"],"points":[1]}"#,
            one(unit(), json!({"c": 3})),
        ),
        (
            "POST",
            "points/payload/clear",
            r#"{"points":[1]}"#,
            one(unit(), json!({})),
        ),
        (
            "PUT",
            "points/vectors",
            r#"{"points":[{"id":1,"vector":[5,5]}]}"#,
            one(json!([5.0, 5.0]), json!({})),
        ),
    ] {
        let path = format!("/collections/c/{path}");
        let done = server.call(method, &path, body).await.result();
        assert_eq!(done["status"], "acknowledged", "{path}");
        assert_eq!(after().await, json!([first, two, four]), "{path}");
    }
    let gone = r#"{"points":[2]}"#;
    let done = server
        .call("POST", "/collections/c/points/delete", gone)
        .await
        .result();
    assert_eq!(done["status"], "acknowledged");
    assert_eq!(after().await, json!([one(json!([5.0, 5.0]), json!({})), four]));
    let ops = r#"{"operations":[{"delete":{"points":[1]}},{"upsert":{"points":[{"id":9,"vector":[1,1]}]}}]}"#;
    let done = server
        .call("POST", "/collections/c/points/batch?wait=true", ops)
        .await
        .result();
    assert_eq!(
        (done.as_array().map(Vec::len), &done[1]["status"]),
        (Some(2), &json!("completed"))
    );
    let page = server
        .call("POST", "/collections/c/points/scroll", "{}")
        .await
        .result();
    assert_eq!(
        ids(&page["points"]),
        [json!(4), json!(9), json!("00000000-0000-0000-0000-000000000003")]
    );
    assert_eq!(server.held("requests"), 0);
    assert_eq!(server.held("responses"), 0);
}

#[tokio::test]
async fn wrong_vectors_are_400_with_the_api_s_words() {
    let server = filled().await;
    let reply = server
        .call(
            "PUT",
            "/collections/c/points",
            r#"{"points":[{"id":1,"vector":[1,2,3]}]}"#,
        )
        .await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        reply.error(),
        "Wrong input: Vector dimension error: expected dim: 2, got 3"
    );
    let reply = server
        .call(
            "PUT",
            "/collections/c/points",
            r#"{"points":[{"id":1,"vector":{"x":[1,2]}}]}"#,
        )
        .await;
    assert_eq!(reply.error(), "Wrong input: Not existing vector name error: x");
}

#[tokio::test]
async fn aliases_and_indexes() {
    let server = filled().await;
    let actions = r#"{"actions":[{"create_alias":{"collection_name":"c","alias_name":"d"}}]}"#;
    assert_eq!(
        server
            .call("POST", "/collections/aliases", actions)
            .await
            .result(),
        json!(true)
    );
    let expected = json!({ "aliases": [{ "alias_name": "d", "collection_name": "c" }] });
    assert_eq!(server.get("/aliases").await.result(), expected);
    assert_eq!(server.get("/collections/c/aliases").await.result(), expected);
    assert_eq!(server.get("/collections/d").await.result()["points_count"], 3);
    let bad = r#"{"actions":[{"create_alias":{"collection_name":"c","alias_name":"a/b"}}]}"#;
    assert_eq!(
        server.call("POST", "/collections/aliases", bad).await.status,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    let index = r#"{"field_name":"a","field_schema":"integer"}"#;
    let done = server
        .call("PUT", "/collections/c/index?wait=true", index)
        .await
        .result();
    assert_eq!(done["status"], "completed");
    let schema = server.get("/collections/c").await.result()["payload_schema"].clone();
    assert_eq!(schema["a"]["data_type"], "integer");
    server.call("DELETE", "/collections/c/index/a", "").await.result();
    assert_eq!(
        server.get("/collections/c").await.result()["payload_schema"],
        json!({})
    );
}

#[tokio::test]
async fn long_lists_are_streamed_within_a_small_account() {
    let mut options = crate::harness::options();
    options.response_bytes = 1 << 20;
    let server = Server::new(options);
    server
        .call(
            "PUT",
            "/collections/c",
            r#"{"vectors":{"size":2,"distance":"Dot"}}"#,
        )
        .await
        .result();
    let text = "x".repeat(2_000);
    let n = 1_500;
    for first in (0..n).step_by(500) {
        let points: Vec<Value> = (first..first + 500)
            .map(|i| json!({ "id": i, "vector": [i, 1], "payload": { "a": i, "text": text } }))
            .collect();
        server
            .call(
                "PUT",
                "/collections/c/points",
                &json!({ "points": points }).to_string(),
            )
            .await
            .result();
    }
    // Three megabytes of payload through an account of one.
    let all: Vec<Value> = (0..n).map(|i| json!(i)).collect();
    let down: Vec<Value> = (0..n).rev().map(|i| json!(i)).collect();
    let scroll = json!({ "limit": 5_000, "with_vector": true }).to_string();
    let page = server
        .call("POST", "/collections/c/points/scroll", &scroll)
        .await
        .result();
    assert_eq!(
        (ids(&page["points"]), &page["next_page_offset"]),
        (all.clone(), &Value::Null)
    );
    assert_eq!(page["points"][7]["payload"], json!({ "a": 7, "text": text }));
    assert_eq!(page["points"][1_499]["vector"], json!([1499.0, 1.0]));
    let query = json!({ "query": [1, 0], "limit": 5_000, "with_payload": true }).to_string();
    let found = server
        .call("POST", "/collections/c/points/query", &query)
        .await
        .result();
    assert_eq!(ids(&found["points"]), down);
    assert_eq!(
        (&found["points"][3]["payload"]["a"], &found["points"][3]["score"]),
        (&json!(1496), &json!(1496.0))
    );
    let bare = json!({ "query": [1, 0], "limit": 5_000 }).to_string();
    let found = server
        .call("POST", "/collections/c/points/query", &bare)
        .await
        .result();
    assert_eq!(
        (ids(&found["points"]), found["points"][0].get("payload")),
        (down, None)
    );
    let retrieve = json!({ "ids": all }).to_string();
    let records = server
        .call("POST", "/collections/c/points", &retrieve)
        .await
        .result();
    assert_eq!(ids(&records), all);
    assert_eq!(server.held("responses"), 0);
    assert_eq!(server.held("requests"), 0);
}

#[tokio::test]
async fn quotas_are_set_enforced_and_kept() {
    let server = filled().await;
    let set = async |server: &Server, body: Value| server.call("PUT", "/quotas", &body.to_string()).await;
    let upsert = async |server: &Server| {
        let points = r#"{"points":[{"id":9,"vector":[1,0]}]}"#;
        server.call("PUT", "/collections/c/points", points).await
    };
    assert_eq!(
        upsert(&server).await.status,
        StatusCode::OK,
        "nothing is set but the budget"
    );
    // This process is larger than a hundredth of 64 MiB.
    let limits = json!({ "enabled": true, "max_resident_memory_percent": 1, "release_margin_percent": 0 });
    assert_eq!(set(&server, limits.clone()).await.result(), json!(true));
    let got = server.get("/quotas").await.result();
    assert_eq!(got["config"], limits);
    assert!(
        got["usage"]["resident_memory_percent"].as_u64() >= Some(1),
        "{got}"
    );
    let refused = upsert(&server).await;
    assert_eq!(refused.status, StatusCode::INSUFFICIENT_STORAGE);
    assert!(
        refused.error().contains("exceeding the configured limit of 1%"),
        "{}",
        refused.error()
    );
    let delete = server
        .call("POST", "/collections/c/points/delete", r#"{"points":[1]}"#)
        .await;
    assert_eq!(
        delete.status,
        StatusCode::OK,
        "what takes away is always possible"
    );
    let telemetry = server.get("/telemetry?details_level=1").await.result();
    assert_eq!(
        telemetry["quota"]["exceeded"],
        json!({ "resident_memory": true, "disk_usage": null })
    );

    let again = Server::new(options_of(server.engine.clone()));
    assert_eq!(again.get("/quotas").await.result()["config"], limits, "kept");
    for wrong in [
        json!({ "max_disk_usage_percent": 101 }),
        json!({ "max_resident_memory_percent": 0 }),
        json!({ "release_margin_percent": 300 }),
    ] {
        let status = set(&again, wrong.clone()).await.status;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
    }
    set(&again, json!({ "max_resident_memory_percent": 1 }))
        .await
        .result();
    assert_eq!(
        upsert(&again).await.status,
        StatusCode::OK,
        "limits that aren't enabled"
    );
}

#[tokio::test]
async fn a_log_that_nobody_gave_is_nobody_s_to_set() {
    let server = Server::open();
    let told = server.get("/logger").await.result();
    assert_eq!(told["log_level"], Value::Null, "{told}");
    assert_eq!(server.call("POST", "/logger", "{}").await.result(), json!(true));
    let refused = server.call("POST", "/logger", r#"{"log_level":"debug"}"#).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}
