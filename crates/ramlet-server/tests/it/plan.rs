//! `POST /plan`.

use axum::http::StatusCode;

use crate::harness::{MEMORY, Server};

#[tokio::test]
async fn a_specification_is_planned_for_this_server_or_another() {
    let server = Server::open();
    let own = server
        .call("POST", "/plan", r#"{"points":100000,"dims":100}"#)
        .await
        .result();
    assert_eq!(own["plan"]["memory_bytes"], MEMORY);
    assert_eq!(own["machine_measured"], false);
    assert!(own["plan"]["qps"].as_f64().is_some_and(|qps| qps > 0.0), "{own}");
    let body =
        r#"{"points":1000000,"dim":100,"recall":0.9,"memory_bytes":135000000,"wishes":{"vectors":"cold"}}"#;
    let other = server.call("POST", "/plan", body).await.result();
    assert_eq!(other["plan"]["memory_bytes"], 135_000_000);
    assert_eq!(other["plan"]["spec"]["recall"], 0.9);
}

#[tokio::test]
async fn null_is_what_is_absent() {
    let server = Server::open();
    let plain = server
        .call("POST", "/plan", r#"{"points":1000,"dims":10}"#)
        .await
        .result();
    let nulls = r#"{"points":1000,"dims":10,"recall":null,"k":null,"wishes":null,"in_process":null,"memory_bytes":null}"#;
    let nulls = server.call("POST", "/plan", nulls).await.result();
    assert_eq!(nulls["plan"]["spec"], plain["plan"]["spec"]);
    assert_eq!(nulls["plan"]["qps"], plain["plan"]["qps"]);
}

#[tokio::test]
async fn a_collection_is_planned_as_it_is_and_as_it_may_become() {
    let server = Server::open();
    let create = r#"{"vectors":{"size":4,"distance":"Dot","on_disk":true},"on_disk_payload":true}"#;
    server.call("PUT", "/collections/c", create).await.result();
    let now = server
        .call("POST", "/plan", r#"{"collection":"c"}"#)
        .await
        .result();
    let spec = &now["plan"]["spec"];
    assert_eq!(
        (&spec["points"], &spec["dims"], &spec["metric"]),
        (&0.into(), &4.into(), &"Dot".into())
    );
    assert_eq!(spec["wishes"]["vectors"], "cold");
    let grown = server
        .call("POST", "/plan", r#"{"collection":"c","points":5000000}"#)
        .await
        .result();
    assert_eq!(grown["plan"]["spec"]["points"], 5_000_000);
    let missing = server.call("POST", "/plan", r#"{"collection":"d"}"#).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn search_threads_have_bounds() {
    let server = Server::open();
    for threads in [0, 257] {
        let body = format!(r#"{{"points":1000,"dims":8,"search_threads":{threads}}}"#);
        let reply = server.call("POST", "/plan", &body).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{threads}");
        let error = reply.error();
        assert!(
            error.contains(&threads.to_string()) && error.contains("256"),
            "{error}"
        );
    }
    let body = r#"{"points":1000,"dims":8,"search_threads":256,"memory_bytes":4000000000}"#;
    let most = server.call("POST", "/plan", body).await.result();
    assert_eq!(most["plan"]["search_threads"], 256);
}

#[tokio::test]
async fn nonsense_is_a_bad_request_that_says_why() {
    let server = Server::open();
    for (body, word) in [
        (r#"{"points":1}"#, "dims"),
        (r#"{"points":-1,"dims":2}"#, "-1"),
        (r#"{"points":1,"dims":2,"flavour":1}"#, "flavour"),
        (r#"{"points":1,"dims":70000}"#, "70000"),
        (
            r#"{"points":1000000,"dims":1536,"wishes":{"vectors":"pinned"}}"#,
            "MB",
        ),
        (r#"{"points":1,"dims":2,"memory_bytes":1}"#, "MB"),
        (r#"[]"#, "sequence"),
    ] {
        let reply = server.call("POST", "/plan", body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(reply.error().contains(word), "{body}: {}", reply.error());
    }
}
