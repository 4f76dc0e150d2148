//! Snapshots over the API: answers' shapes, files sent and received, and what is refused before a byte is read.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use hyper::body::Frame;
use ramlet_server::{ServerOptions, limits};
use serde_json::{Value, json};

use crate::harness::{Chunks, Reply, Server, Untouched, engine, options, request};

const BASE: &str = "/collections/c/snapshots";
const KIND: (&str, &str) = ("content-type", "multipart/form-data; boundary=b");

async fn filled() -> Server {
    let server = Server::open();
    let settings = r#"{"vectors":{"size":2,"distance":"Dot"}}"#;
    server.call("PUT", "/collections/c", settings).await.result();
    let points: Vec<Value> = (0..50)
        .map(|n| json!({"id": n, "vector": [n, 1], "payload": {"n": n}}))
        .collect();
    let body = json!({ "points": points }).to_string();
    server
        .call("PUT", "/collections/c/points?wait=true", &body)
        .await
        .result();
    server
}

async fn count(server: &Server, name: &str) -> u64 {
    let reply = server
        .call("POST", &format!("/collections/{name}/points/count"), "{}")
        .await;
    reply.result()["count"].as_u64().expect("a number")
}

fn form(file: &[u8]) -> Vec<u8> {
    let head = b"--b\r\nContent-Disposition: form-data; name=\"snapshot\"; filename=\"x\"\r\n\r\n";
    [&head[..], file, b"\r\n--b--\r\n"].concat()
}

async fn upload(server: &Server, uri: &str, file: &[u8]) -> Reply {
    server
        .send(request("POST", uri, &[KIND], form(file).into()))
        .await
}

#[tokio::test]
async fn taken_listed_sent_received_deleted() {
    let server = filled().await;
    assert_eq!(server.get(BASE).await.result(), json!([]));
    let taken = server.call("POST", BASE, "").await.result();
    let (name, sum) = (
        taken["name"].as_str().unwrap(),
        taken["checksum"].as_str().unwrap(),
    );
    assert_eq!(
        taken["creation_time"].as_str().map(str::len),
        Some("2026-01-02T03:04:05".len()),
        "{taken}"
    );
    assert_eq!(server.get(BASE).await.result(), json!([taken]));

    let file = server.get(&format!("{BASE}/{name}")).await;
    assert_eq!(file.status, StatusCode::OK);
    assert_eq!(file.headers["content-type"], "application/octet-stream");
    assert_eq!(file.headers["content-length"], taken["size"].to_string().as_str());
    assert_eq!(file.body.len() as u64, taken["size"].as_u64().unwrap());
    let head = server.call("HEAD", &format!("{BASE}/{name}"), "").await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));

    let other = Server::open();
    let uri = format!("{BASE}/upload?priority=snapshot&checksum={sum}");
    assert_eq!(upload(&other, &uri, &file.body).await.result(), json!(true));
    assert_eq!(count(&other, "c").await, 50);

    let one = format!("{BASE}/{name}");
    assert_eq!(server.call("DELETE", &one, "").await.result(), json!(true));
    for method in ["GET", "DELETE"] {
        let reply = server.call(method, &one, "").await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{}", reply.error());
    }
    for consumer in ["snapshots", "requests", "responses"] {
        assert_eq!(
            (server.held(consumer), other.held(consumer)),
            (0, 0),
            "{consumer}"
        );
    }
}

#[tokio::test]
async fn everything_and_the_shard() {
    let server = filled().await;
    let full = server.call("POST", "/snapshots?wait=true", "").await.result();
    assert_eq!(server.get("/snapshots").await.result(), json!([full]));
    let name = full["name"].as_str().unwrap();
    assert_eq!(
        server.get(&format!("/snapshots/{name}")).await.status,
        StatusCode::OK
    );
    assert_eq!(
        server
            .call("DELETE", &format!("/snapshots/{name}"), "")
            .await
            .result(),
        json!(true)
    );

    let shard = "/collections/c/shards/0/snapshots";
    let taken = server.call("POST", shard, "").await.result();
    assert_eq!(server.get(shard).await.result(), json!([taken]));
    let stream = server.get("/collections/c/shards/0/snapshot").await;
    assert_eq!((stream.status, stream.body.len() % 4096), (StatusCode::OK, 0));
    assert_eq!(
        server.get(shard).await.result(),
        json!([taken]),
        "the streamed one is gone"
    );
    assert_eq!(
        upload(&server, &format!("{shard}/upload"), &stream.body)
            .await
            .result(),
        json!(true)
    );
    for bad in [
        "/collections/c/shards/1/snapshots",
        "/collections/none/snapshots",
        "/collections/none/shards/0/snapshots",
    ] {
        assert_eq!(server.get(bad).await.status, StatusCode::NOT_FOUND, "{bad}");
        assert_eq!(
            server.call("POST", bad, "").await.status,
            StatusCode::NOT_FOUND,
            "{bad}"
        );
    }
}

#[tokio::test]
async fn without_wait_it_is_accepted() {
    let server = filled().await;
    let reply = server.call("POST", &format!("{BASE}?wait=false"), "").await;
    assert_eq!(
        (reply.status, &reply.json()["status"]),
        (StatusCode::ACCEPTED, &json!("accepted"))
    );
    // One at a time: this one comes after the other.
    server.call("POST", BASE, "").await.result();
    assert_eq!(server.get(BASE).await.result().as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn recovered_from_a_path_within_the_directory_alone() {
    let server = filled().await;
    let root = std::env::temp_dir().join(format!("ramlet-snapshots-{}", std::process::id()));
    let storage = ramlet_io::PreadStorage::open(&root).expect("a temporary directory");
    server.engine.set_snapshots(storage).expect("an empty directory");
    let removed = Removed(root);
    let root = removed.0.display();
    let taken = server.call("POST", BASE, "").await.result();
    let recover = async |location: String, checksum: Value| {
        let body = json!({"location": location, "priority": "snapshot", "checksum": checksum});
        server
            .call("PUT", &format!("{BASE}/recover"), &body.to_string())
            .await
    };
    server
        .call(
            "POST",
            "/collections/c/points/delete?wait=true",
            r#"{"points":[1,2,3]}"#,
        )
        .await
        .result();
    let path = format!("file://{root}/c/{}", taken["name"].as_str().unwrap());
    assert_eq!(count(&server, "c").await, 47);
    let reply = recover(path.clone(), json!("0".repeat(64))).await;
    assert!(
        reply.status == StatusCode::BAD_REQUEST && reply.error().contains("checksum"),
        "{}",
        reply.error()
    );
    assert_eq!(
        recover(path.clone(), taken["checksum"].clone()).await.result(),
        json!(true)
    );
    assert_eq!(count(&server, "c").await, 50);
    for (location, status) in [
        ("file:///etc/passwd".to_owned(), StatusCode::FORBIDDEN),
        ("file:///no/such/file".to_owned(), StatusCode::BAD_REQUEST),
        (
            format!("file://{root}/../CATALOG-000000000001"),
            StatusCode::BAD_REQUEST,
        ),
        (format!("file://{root}/c/none.snapshot"), StatusCode::BAD_REQUEST),
        ("http://localhost:1/x.snapshot".into(), StatusCode::BAD_REQUEST),
        ("gopher://x".into(), StatusCode::BAD_REQUEST),
        ("here".into(), StatusCode::BAD_REQUEST),
    ] {
        let reply = recover(location.clone(), Value::Null).await;
        assert_eq!(reply.status, status, "{location}: {}", reply.error());
    }
    assert_eq!(
        recover(path, json!("12")).await.status,
        StatusCode::UNPROCESSABLE_ENTITY
    );
}

#[tokio::test]
async fn partial_snapshots_are_whole_or_nothing() {
    let server = filled().await;
    let base = "/collections/c/shards/0/snapshot/partial";
    let manifest = server.get(&format!("{base}/manifest")).await.result();
    let part = manifest
        .as_object()
        .and_then(|all| all.values().next())
        .expect("a part")
        .clone();
    assert!(part["segment_version"].as_u64() > Some(0), "{part}");
    let create = async |manifest: &Value| {
        server
            .call("POST", &format!("{base}/create"), &manifest.to_string())
            .await
    };
    assert_eq!(create(&manifest).await.status, StatusCode::NOT_MODIFIED);
    server
        .call(
            "POST",
            "/collections/c/points/delete?wait=true",
            r#"{"points":[1]}"#,
        )
        .await
        .result();
    let file = create(&manifest).await;
    assert_eq!(file.status, StatusCode::OK, "one operation more");
    let newer = server.get(&format!("{base}/manifest")).await.result();
    assert_ne!(newer, manifest);

    let mut options = options();
    let bytes = file.body;
    options.fetch = Some(std::sync::Arc::new(move |url, key, sink| {
        assert_eq!(
            (url, key),
            ("http://peer/collections/c/shards/0/snapshot", Some("k"))
        );
        sink(&bytes)
    }));
    let other = Server::new(options);
    let settings = server.get("/collections/c").await.result()["config"]["params"].clone();
    let created = json!({ "vectors": settings["vectors"] }).to_string();
    other.call("PUT", "/collections/c", &created).await.result();
    let body = json!({ "peer_url": "http://peer/", "api_key": "k" }).to_string();
    let done = other.call("POST", &format!("{base}/recover_from"), &body).await;
    assert_eq!(done.result(), json!(true));
    assert_eq!(count(&other, "c").await, count(&server, "c").await);
    let refused = server.call("POST", &format!("{base}/recover_from"), &body).await;
    assert_eq!(
        refused.status,
        StatusCode::BAD_REQUEST,
        "URLs are not allowed there"
    );
}

#[tokio::test]
async fn urls_where_they_are_allowed() {
    let server = filled().await;
    let taken = server.call("POST", BASE, "").await.result();
    let file = server
        .get(&format!("{BASE}/{}", taken["name"].as_str().unwrap()))
        .await
        .body;
    let mut options = options();
    options.fetch = Some(std::sync::Arc::new(move |url, key, sink| {
        assert_eq!((url, key), ("http://h/x", Some("k")));
        file.chunks(100).try_for_each(sink)
    }));
    let other = Server::new(options);
    let body = json!({"location": "http://h/x", "api_key": "k", "checksum": taken["checksum"]});
    let reply = other
        .call("PUT", "/collections/d/snapshots/recover", &body.to_string())
        .await;
    assert_eq!(reply.result(), json!(true));
    assert_eq!(count(&other, "d").await, 50);
}

#[tokio::test]
async fn uploads_that_are_none() {
    let server = filled().await;
    let uri = format!("{BASE}/upload");
    for (headers, body, part) in [
        (&[][..], form(b"x"), "multipart/form-data"),
        (&[KIND], b"--b--".to_vec(), "required"),
        (&[KIND], b"--b\r\n".to_vec(), "ends within"),
        (&[KIND], form(b"not a snapshot"), "not a Ramlet snapshot"),
        (&[KIND], form(b""), "not a Ramlet snapshot"),
    ] {
        let reply = server.send(request("POST", &uri, headers, body.into())).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        assert!(reply.error().contains(part), "{}", reply.error());
    }
    let reply = upload(&server, &format!("{uri}?checksum=1"), b"").await;
    assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        upload(&server, &format!("{uri}?priority=x"), b"").await.status,
        StatusCode::BAD_REQUEST
    );
    for name in ["a%3Fb", "aliases", ".."] {
        let reply = upload(&server, &format!("/collections/{name}/snapshots/upload"), b"").await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{name}");
    }
    assert_eq!((count(&server, "c").await, server.held("snapshots")), (50, 0));
}

#[tokio::test]
async fn an_upload_without_the_key_is_not_read() {
    let mut options = ServerOptions::new(engine());
    options.api_key = Some("k".into());
    let server = Server::new(options);
    let reply = server
        .send(request(
            "POST",
            &format!("{BASE}/upload"),
            &[KIND],
            Body::new(Untouched),
        ))
        .await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
}

/// 48 MB through a server whose requests may hold 8 MB together.
#[tokio::test]
async fn a_long_upload_takes_no_memory() {
    let server = filled().await;
    let chunk = Bytes::from(vec![b'x'; 64 << 10]);
    let head = form(b"");
    let begin = Bytes::copy_from_slice(&head[..head.len() - 9]);
    let chunks = Chunks { chunk, left: 768 };
    let body = Body::new(Started {
        begin: Some(begin),
        rest: chunks,
    });
    let reply = server
        .send(request("POST", &format!("{BASE}/upload"), &[KIND], body))
        .await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{}", reply.error());
    let report = server.engine.ledger().report();
    let peak = report.iter().find(|c| c.name == "requests").map_or(0, |c| c.peak);
    assert!(peak <= 4 * limits::TRANSFER_BYTES as u64, "{peak}");
    assert_eq!(server.held("snapshots"), 0);
}

/// A body that begins with `begin`.
struct Started {
    begin: Option<Bytes>,
    rest: Chunks,
}

impl hyper::body::Body for Started {
    type Data = Bytes;
    type Error = std::convert::Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.begin.take() {
            Some(begin) => Poll::Ready(Some(Ok(Frame::data(begin)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }
}

/// A directory that goes with the test.
struct Removed(std::path::PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
