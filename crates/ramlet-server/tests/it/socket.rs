//! The server on a real socket.

use std::net::SocketAddr;

use ramlet_server::limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::harness::options;

struct Running {
    addr: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<std::io::Result<()>>,
    engine: std::sync::Arc<ramlet::Engine>,
}

async fn start(connections: usize) -> Running {
    let mut options = options();
    options.port = 0;
    options.connections = connections;
    let engine = options.engine.clone();
    let bound = ramlet_server::bind(options).await.expect("a free port");
    let addr = bound.local_addr().expect("its address");
    let (stop, stopped) = oneshot::channel::<()>();
    let done = tokio::spawn(bound.serve(async {
        let _ = stopped.await;
    }));
    Running {
        addr,
        stop,
        done,
        engine,
    }
}

/// One request on an open connection; the head and the body of its answer.
async fn ask(stream: &mut TcpStream, text: &str) -> (String, String) {
    stream
        .write_all(text.as_bytes())
        .await
        .expect("the request is sent");
    let mut seen = Vec::new();
    loop {
        let mut buf = [0; 4096];
        let n = stream.read(&mut buf).await.expect("an answer");
        seen.extend_from_slice(&buf[..n]);
        let text = String::from_utf8_lossy(&seen).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lower = head.to_ascii_lowercase();
            let len = lower
                .lines()
                .find_map(|l| l.strip_prefix("content-length: "))
                .map_or(0, |v| v.parse().unwrap());
            if body.len() >= len {
                return (lower, body.to_owned());
            }
        }
        assert!(n > 0, "the connection closed early: {text}");
    }
}

const GET: &str = "GET /collections HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test]
async fn connections_are_kept_and_charged_and_given_back() {
    let running = start(8).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    for _ in 0..3 {
        let (head, body) = ask(&mut stream, GET).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(body.contains("\"collections\":[]"), "{body}");
    }
    let held = |name: &str| {
        running
            .engine
            .ledger()
            .report()
            .iter()
            .find(|c| c.name == name)
            .map_or(0, |c| c.used)
    };
    assert_eq!(held("connections"), limits::CONNECTION_BYTES);
    running.stop.send(()).unwrap();
    running.done.await.unwrap().unwrap();
    assert_eq!(
        stream.read(&mut [0; 16]).await.unwrap(),
        0,
        "an idle connection is closed at the end"
    );
    assert_eq!(held("connections"), 0);
    assert_eq!(held("responses"), 0);
}

#[tokio::test]
async fn a_full_house_waits_at_the_door() {
    let running = start(1).await;
    let mut first = TcpStream::connect(running.addr).await.unwrap();
    ask(&mut first, GET).await;
    let mut second = TcpStream::connect(running.addr).await.unwrap();
    second.write_all(GET.as_bytes()).await.unwrap();
    // The first is still served, and only when it goes is the second.
    ask(&mut first, GET).await;
    drop(first);
    let (head, _) = ask(&mut second, "").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
}

#[tokio::test]
async fn without_memory_for_a_connection_the_client_is_told_to_come_again() {
    let running = start(8).await;
    let ledger = running.engine.ledger();
    let everything = ledger.consumer("test", u64::MAX);
    let taken = everything.reserve(everything.available()).unwrap();
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    let (head, body) = ask(&mut stream, "").await;
    assert!(
        head.starts_with("http/1.1 429") && head.contains("retry-after: 1"),
        "{head}"
    );
    assert!(body.contains("connections"), "{body}");
    drop(taken);
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    assert!(ask(&mut stream, GET).await.0.starts_with("http/1.1 200"));
}

#[tokio::test]
async fn heads_have_a_bound() {
    let running = start(8).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    let huge = format!(
        "GET /?{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "a".repeat(2 * limits::HEAD_BYTES)
    );
    let (head, _) = ask(&mut stream, &huge).await;
    assert!(
        head.starts_with("http/1.1 414") || head.starts_with("http/1.1 431"),
        "{head}"
    );
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    let many = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
        "a: b\r\n".repeat(limits::HEADERS_MAX + 1)
    );
    let (head, _) = ask(&mut stream, &many).await;
    assert!(head.starts_with("http/1.1 431"), "{head}");
}

#[test]
fn only_loopback_without_a_key() {
    use ramlet_server::check_exposure;
    for host in ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LOCALHOST"] {
        assert!(check_exposure(host, false, false).is_ok(), "{host}");
    }
    for host in ["0.0.0.0", "::", "10.0.0.1", "example.org", ""] {
        let sentence = check_exposure(host, false, false).unwrap_err();
        assert!(
            sentence.contains("API key") && sentence.contains("--insecure"),
            "{sentence}"
        );
        assert!(check_exposure(host, true, false).is_ok());
        assert!(check_exposure(host, false, true).is_ok());
    }
}
