//! Bodies: bounds, reservations, and errors that say what and where.

use std::io::{Read, Write};

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use ramlet_memory::{BudgetRequest, BudgetTable};
use ramlet_server::{ServerOptions, limits};
use serde_json::json;

use crate::harness::{Chunks, Server, Untouched, engine_with, options, request};

const POINTS: &str = "/collections/c/points";

async fn with_collection() -> Server {
    let server = Server::open();
    server
        .call(
            "PUT",
            "/collections/c",
            r#"{"vectors":{"size":2,"distance":"Dot"}}"#,
        )
        .await
        .result();
    server
}

#[tokio::test]
async fn bad_json_is_400_and_says_where() {
    let server = with_collection().await;
    for (method, uri, body, part) in [
        ("PUT", POINTS, "", "EOF while parsing"),
        ("PUT", POINTS, "{", "line 1 column 1"),
        ("PUT", POINTS, "[1,2]", "invalid type"),
        (
            "PUT",
            POINTS,
            r#"{"points":[{"id":1,"vector":[1,2]}]} x"#,
            "trailing characters",
        ),
        (
            "PUT",
            POINTS,
            r#"{"points":[{"id":1.5,"vector":[1,2]}]}"#,
            "point id",
        ),
        (
            "POST",
            "/collections/c/points/query",
            r#"{"query":true}"#,
            "a query",
        ),
        (
            "POST",
            "/collections/c/points/query",
            r#"{"limit":"ten"}"#,
            "invalid type",
        ),
        ("POST", "/collections/c/points/scroll", "nothing", "expected"),
        ("PUT", "/collections/d", "{", "EOF"),
        ("PATCH", "/collections/c", r#"{"hnsw_config":3}"#, "invalid type"),
        (
            "POST",
            "/collections/aliases",
            r#"{"actions":[{}]}"#,
            "an action is one of",
        ),
    ] {
        let reply = server.call(method, uri, body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{uri} {body}");
        let error = reply.error();
        assert!(
            error.starts_with("Format error in JSON body: ") && error.contains(part),
            "{body}: {error}"
        );
    }
    assert_eq!(server.held("requests"), 0);
}

#[tokio::test]
async fn deep_nesting_is_an_error_and_no_crash() {
    let server = with_collection().await;
    let deep = format!("{{\"points\":{}", "[".repeat(10_000));
    let reply = server.call("POST", "/collections/c/points/delete", &deep).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let deep = format!("{{\"filter\":{}1", r#"{"must":["#.repeat(10_000));
    assert_eq!(
        server
            .call("POST", "/collections/c/points/scroll", &deep)
            .await
            .status,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn a_body_beyond_the_cap_is_refused_by_its_length() {
    let server = Server::open();
    let too_long = (limits::VECTOR_BODY_BYTES + 1).to_string();
    // What was announced is never read into memory: the chunks are drained, and they are few.
    let body = Body::new(Chunks {
        chunk: Bytes::from_static(b"x"),
        left: 1,
    });
    let reply = server
        .send(request("PUT", POINTS, &[("content-length", &too_long)], body))
        .await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    let error = reply.error();
    // 2^25, and one more: what is asked is rounded up.
    assert!(
        error.contains("of 33.6 MB") && error.contains("the 33.5 MB"),
        "{error}"
    );
}

#[tokio::test]
async fn whoever_serves_may_lower_the_cap_of_all_routes() {
    let mut told = options();
    told.body_bytes_max = 1000;
    let server = Server::new(told);
    for (len, expected) in [
        ("1001", StatusCode::PAYLOAD_TOO_LARGE),
        ("1000", StatusCode::NOT_FOUND),
    ] {
        let chunk = Bytes::from(vec![b'x'; len.parse().expect("a number")]);
        let body = Body::new(Chunks { chunk, left: 1 });
        let reply = server
            .send(request("PUT", POINTS, &[("content-length", len)], body))
            .await;
        assert_eq!(reply.status, expected, "{len}: {}", reply.error());
    }
}

#[tokio::test]
async fn a_body_that_could_never_fit_the_budget_is_413_with_both_numbers() {
    // The account of requests has 8 MiB; a vector body takes twice its length.
    let server = Server::open();
    let body = Body::new(Chunks {
        chunk: Bytes::from_static(b"x"),
        left: 1,
    });
    let reply = server
        .send(request("PUT", POINTS, &[("content-length", "5000000")], body))
        .await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    let error = reply.error();
    assert!(
        error.contains("10.0 MB, but at most 8.3 MB") && error.contains("Waiting doesn't help"),
        "{error}"
    );
    assert!(reply.headers.get("retry-after").is_none());
}

#[tokio::test]
async fn a_taken_budget_is_429_with_retry_after() {
    let server = Server::open();
    let requests = server.engine.ledger().consumer("requests", u64::MAX);
    let taken = requests.reserve(8_000_000).expect("most of the account");
    let body = Body::new(Chunks {
        chunk: Bytes::from_static(b"x"),
        left: 1,
    });
    let reply = server
        .send(request("PUT", POINTS, &[("content-length", "1000000")], body))
        .await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(reply.headers["retry-after"], "1");
    let error = reply.error();
    assert!(
        error.contains("2.0 MB, but only 0.3 MB of 8.3 MB") && error.contains("Waiting helps"),
        "both numbers: {error}"
    );
    drop(taken);
    let reply = server.call("PUT", POINTS, "{").await;
    assert_eq!(
        reply.status,
        StatusCode::NOT_FOUND,
        "admitted now; the collection is missing"
    );
}

#[tokio::test]
async fn a_body_waits_for_memory_that_comes_free() {
    let server = Server::open();
    let requests = server.engine.ledger().consumer("requests", u64::MAX);
    let taken = requests.reserve(8_000_000).expect("most of the account");
    let body = format!("{{\"points\":[]{}}}", " ".repeat(1_000_000));
    let waiting = server.call("PUT", POINTS, &body);
    let freeing = async {
        tokio::time::sleep(limits::MEMORY_WAIT / 8).await;
        drop(taken);
    };
    let (reply, ()) = tokio::join!(waiting, freeing);
    assert_eq!(reply.status, StatusCode::NOT_FOUND, "admitted: {:?}", reply.body);
    let refused = server.engine.ledger().report();
    let refused = refused.iter().find(|c| c.name == "requests").map(|c| c.refused);
    assert_eq!(refused, Some(0), "waiting is not being refused");
}

/// What a small body becomes is more than its length told: parsed, of unknown length, or unpacked.
#[tokio::test]
async fn a_small_body_that_becomes_more_waits_for_that_too() {
    const SCROLL: &str = "/collections/c/points/scroll";
    let plain = br#"{"limit":3,"filter":{"must":[]}}"#.to_vec();
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&plain).expect("into memory");
    let packed = packed.finish().expect("into memory");
    for (kind, encoding, told, bytes) in [
        ("plain", "identity", true, plain.clone()),
        ("of unknown length", "identity", false, plain),
        ("packed", "gzip", true, packed),
    ] {
        let server = with_collection().await;
        let requests = server.engine.ledger().consumer("requests", u64::MAX);
        // Twice its length is there, and no more.
        let free = 2 * bytes.len() as u64;
        let taken = requests.reserve(requests.available() - free).expect("it is free");
        let len = bytes.len().to_string();
        let mut headers = vec![("content-encoding", encoding)];
        if told {
            headers.push(("content-length", &len));
        }
        let body = Body::new(Chunks {
            chunk: bytes.into(),
            left: 1,
        });
        let waiting = server.send(request("POST", SCROLL, &headers, body));
        let freeing = async {
            tokio::time::sleep(limits::MEMORY_WAIT / 8).await;
            drop(taken);
        };
        let (reply, ()) = tokio::join!(waiting, freeing);
        assert_eq!(reply.status, StatusCode::OK, "{kind}: {:?}", reply.body);
        assert_eq!(server.held("requests"), 0, "{kind}");
    }
}

/// What official clients send in batches: 1,000 vectors of 1,536 numbers as JSON.
#[tokio::test]
async fn thirty_megabytes_of_json_fit_into_a_server_of_half_a_gigabyte() {
    const DIM: usize = 1536;
    let budget = BudgetTable::plan(BudgetRequest::new(512_000_000, 2)).expect("enough memory");
    let server = Server::new(ServerOptions::new(engine_with(budget)));
    let settings = json!({ "vectors": { "size": DIM, "distance": "Dot" } }).to_string();
    server.call("PUT", "/collections/c", &settings).await.result();
    let points: Vec<_> = (0..1000)
        .map(|id| {
            let number = |i: usize| f64::from((id as f32 + i as f32).sin());
            json!({ "id": id, "vector": (0..DIM).map(number).collect::<Vec<_>>() })
        })
        .collect();
    let body = json!({ "points": points }).to_string();
    assert!(
        (28 << 20..limits::VECTOR_BODY_BYTES as usize).contains(&body.len()),
        "{}",
        body.len()
    );
    let (first, second) = tokio::join!(
        server.call("PUT", POINTS, &body),
        server.call("PUT", POINTS, &body)
    );
    for reply in [first, second] {
        // One after the other, or told to come again.
        assert!(
            reply.status == StatusCode::OK || reply.headers.contains_key("retry-after"),
            "{:?}",
            reply.body
        );
    }
    let count = server
        .call("POST", "/collections/c/points/count", "{}")
        .await
        .result();
    assert_eq!(count["count"], 1000);
    assert_eq!(server.held("requests"), 0);
}

#[tokio::test]
async fn chunked_bodies_reserve_as_they_grow() {
    let server = Server::open();
    let chunk = Bytes::from(vec![b' '; 64 << 10]);
    let reply = server
        .send(request(
            "PUT",
            POINTS,
            &[],
            Body::new(Chunks { chunk, left: 4096 }),
        ))
        .await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    let peak = server
        .engine
        .ledger()
        .report()
        .iter()
        .find(|c| c.name == "requests")
        .map_or(0, |c| c.peak);
    assert!(peak <= 8 << 20, "{peak}");
    assert_eq!(server.held("requests"), 0);
}

#[tokio::test]
async fn what_a_small_body_would_become_is_counted_before_it_is_parsed() {
    // 2 MB of ids are 32 MB parsed: more than the 8 MiB account.
    let server = with_collection().await;
    let body = format!("{{\"ids\":[{}1]}}", "1,".repeat(1_000_000));
    let reply = server.call("POST", POINTS, &body).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE, "{:?}", reply.body);
    // The same bytes as vectors are cheap.
    let body = format!(
        "{{\"points\":[{{\"id\":1,\"vector\":[{}1]}}]}}",
        "1,".repeat(60_000)
    );
    let reply = server.call("PUT", POINTS, &body).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(
        reply.error().contains("expected dim: 2, got 60001"),
        "{}",
        reply.error()
    );
    assert_eq!(server.held("requests"), 0);
}

#[tokio::test]
async fn settings_have_a_small_cap() {
    let server = Server::open();
    let body = format!(
        r#"{{"vectors":{{"size":2,"distance":"Dot"}},"metadata":{{"a":"{}"}}}}"#,
        "x".repeat(70_000)
    );
    assert_eq!(
        server.call("PUT", "/collections/c", &body).await.status,
        StatusCode::PAYLOAD_TOO_LARGE
    );
}

#[tokio::test]
async fn compressed_bodies_are_decoded() {
    let server = with_collection().await;
    // {"points":[{"id":7,"vector":[1,0]}]}, packed.
    let packed: [u8; 55] = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 42, 200, 207, 204, 43, 41, 86, 178, 138, 174, 86, 202, 76,
        81, 178, 50, 215, 81, 42, 75, 77, 46, 201, 47, 2, 138, 24, 234, 24, 196, 214, 198, 214, 2, 0, 27, 70,
        32, 32, 36, 0, 0, 0,
    ];
    let send = |encoding: &'static str, bytes: &[u8]| {
        let body = Body::from(Bytes::copy_from_slice(bytes));
        server.send(request("PUT", POINTS, &[("content-encoding", encoding)], body))
    };
    assert_eq!(
        send("br", &packed).await.status,
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
    assert_eq!(send("gzip", b"\x1f\x8b").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(send("gzip", &packed).await.status, StatusCode::OK);
    assert_eq!(server.get("/collections/c/points/7").await.status, StatusCode::OK);
}

#[tokio::test]
async fn long_answers_are_packed_for_those_who_take_gzip() {
    let server = with_collection().await;
    let words = "no more than a word ".repeat(20);
    let points: Vec<_> = (0..3000)
        .map(|n| json!({ "id": n, "vector": [n, 1], "payload": { "text": words } }))
        .collect();
    for part in points.chunks(1000) {
        let body = json!({ "points": part }).to_string();
        server.call("PUT", "/collections/c/points", &body).await.result();
    }
    // In one piece; as a stream of portions; too short.
    for (limit, packs) in [(100, true), (3000, true), (3, false)] {
        let body = json!({ "limit": limit, "with_vector": true }).to_string();
        let uri = "/collections/c/points/scroll";
        let plain = server.call("POST", uri, &body).await;
        assert!(!plain.headers.contains_key("content-encoding"));
        let asked = request("POST", uri, &[("accept-encoding", "br, gzip")], Body::from(body));
        let reply = server.send(asked).await;
        assert_eq!(reply.headers.contains_key("content-encoding"), packs, "{limit}");
        let mut text = Vec::new();
        if packs {
            assert_eq!(reply.headers["content-encoding"], "gzip");
            assert!(reply.body.len() < plain.body.len() / 5);
            let mut unpacked = flate2::read::GzDecoder::new(&reply.body[..]);
            unpacked.read_to_end(&mut text).expect("a gzip stream");
        } else {
            text.extend_from_slice(&reply.body);
        }
        let reply: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(reply["result"], plain.json()["result"], "{limit}");
    }
    assert_eq!(server.held("responses"), 0);
}

#[tokio::test]
async fn routes_without_a_body_read_none() {
    let server = Server::open();
    let reply = server
        .send(request("GET", "/collections", &[], Body::new(Untouched)))
        .await;
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn bad_query_parameters_are_refused() {
    let server = with_collection().await;
    for (uri, status) in [
        ("/collections/c?timeout=0", StatusCode::UNPROCESSABLE_ENTITY),
        ("/collections/c/points/1?timeout=soon", StatusCode::BAD_REQUEST),
    ] {
        let reply = server.get(uri).await;
        assert_eq!(reply.status, status, "{uri}");
    }
}
