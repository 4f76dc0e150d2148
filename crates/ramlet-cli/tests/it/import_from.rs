//! `ramlet import --from` as a user runs it, between two servers that remember what they got.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use serde_json::json;

use crate::fake_server::FakeServer;
use crate::import::TempDir;

/// Runs the binary; returns whether it succeeded, and all it wrote.
fn import_from(url: &str, to: &FakeServer, state: &str) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ramlet"))
        .args(["import", "--from", url, "--url", &to.url, "--collection", "c"])
        .args(["--state", state])
        .env_remove("RAMLET_API_KEY")
        .env_remove("RAMLET_FROM_API_KEY")
        .output()
        .expect("the binary runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).expect("text"))
}

/// A server with points of payloads of so many bytes.
fn source(payloads: impl IntoIterator<Item = usize>) -> FakeServer {
    let server = FakeServer::start();
    let points = payloads
        .into_iter()
        .enumerate()
        .map(|(id, bytes)| json!({"id": id, "vector": [1.0], "payload": {"text": "x".repeat(bytes)}}));
    let points = points.collect();
    let mut state = server.state();
    state.collection = Some(json!({"vectors": {"size": 1, "distance": "Dot"}}));
    state.points = points;
    drop(state);
    server
}

fn ids(server: &FakeServer) -> Vec<u64> {
    let state = server.state();
    let mut ids: Vec<u64> = state.points.iter().filter_map(|p| p["id"].as_u64()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn answers_that_are_too_long_become_shorter() {
    let dir = TempDir::new();
    // The first page alone would be of 36 MB, and the last point is longer than pages may be.
    let from = source([vec![1_200_000; 30], vec![20_000_000]].concat());
    let to = FakeServer::start();
    let (success, text) = import_from(&from.url, &to, &dir.path("state.json"));
    assert!(success, "{text}");
    assert!(ids(&to).into_iter().eq(0..31));
}

#[test]
fn a_point_that_is_too_long_is_named() {
    let dir = TempDir::new();
    let from = source([10, 10, 70_000_000]);
    let to = FakeServer::start();
    let (success, text) = import_from(&from.url, &to, &dir.path("state.json"));
    assert!(!success, "{text}");
    for part in ["the point 2", "a response of 700", "67108864"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(ids(&to), [0, 1]);
    assert!(to.state().collection.is_some());

    let (from, to) = (source([70_000_000]), FakeServer::start());
    let (success, text) = import_from(&from.url, &to, &dir.path("other.json"));
    assert!(
        !success && text.contains("removed the empty collection 'c'"),
        "{text}"
    );
    assert_eq!(to.state().collection, None);
}

#[test]
fn limits_of_both_sides_are_kept_to() {
    let dir = TempDir::new();
    let from = source([100; 300]);
    from.state().page_max = 20;
    let to = FakeServer::start();
    to.state().batch_max = 7;
    let (success, text) = import_from(&from.url, &to, &dir.path("state.json"));
    assert!(success, "{text}");
    assert!(ids(&to).into_iter().eq(0..300));

    let to = FakeServer::start();
    to.state().batch_max = 0;
    let (success, text) = import_from(&from.url, &to, &dir.path("state.json"));
    assert!(!success && text.contains("Limit exceeded 1 > 0"), "{text}");
}

#[test]
fn pages_in_a_circle_end() {
    let dir = TempDir::new();
    let from = source([100; 100]);
    from.state().circle = Some(5);
    let to = FakeServer::start();
    let (success, text) = import_from(&from.url, &to, &dir.path("state.json"));
    assert!(!success && text.contains("repeats the offset 5"), "{text}");
}

#[test]
fn a_target_that_has_lost_points() {
    let dir = TempDir::new();
    let from = source([100; 300]);
    let to = FakeServer::start();
    let state = dir.path("state.json");
    let cut_off = || {
        to.state().points_max = 40;
        let (success, text) = import_from(&from.url, &to, &state);
        assert!(!success && text.contains("Disk full"), "{text}");
        to.state().points_max = usize::MAX;
        assert_eq!(ids(&to).len(), 32);
    };
    cut_off();
    to.state().points.truncate(5);
    let (success, text) = import_from(&from.url, &to, &state);
    assert!(
        !success && text.contains("'c' has 5 points") && text.contains("lists 32 as imported"),
        "{text}"
    );
    assert!(text.contains(&state), "{text}");

    to.state().points.clear();
    to.state().collection = None;
    let (success, text) = import_from(&from.url, &to, &state);
    assert!(
        success && text.contains("the 32 points that") && text.contains("sent again"),
        "{text}"
    );
    assert!(ids(&to).into_iter().eq(0..300));
}

#[test]
fn a_server_without_tls_is_not_called_untrusted() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let dir = TempDir::new();
    let (success, text) = import_from(&url, &FakeServer::start(), &dir.path("state.json"));
    assert!(!success && text.contains("doesn't speak TLS"), "{text}");
    assert!(!text.contains("SSL_CERT_FILE"), "{text}");
}
