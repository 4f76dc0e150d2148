//! The server on a real socket.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ramlet::Engine;
use ramlet_memory::{BudgetRequest, BudgetTable};
use ramlet_server::{GrpcPort, ServerOptions, limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::harness::{MEMORY, engine_with, options, options_of};

pub struct Running {
    pub addr: SocketAddr,
    /// The same where there is no gRPC.
    grpc_addr: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<std::io::Result<()>>,
    engine: Arc<Engine>,
}

pub async fn start(connections: usize) -> Running {
    start_with(options(), connections).await
}

async fn start_with(mut options: ServerOptions, connections: usize) -> Running {
    options.port = 0;
    options.connections = connections;
    let engine = options.engine.clone();
    let bound = ramlet_server::bind(options).await.expect("a free port");
    let addr = bound.local_addr().expect("its address");
    let grpc_addr = bound.grpc_addr().unwrap_or(addr);
    let (stop, stopped) = oneshot::channel::<()>();
    let done = tokio::spawn(bound.serve(async {
        let _ = stopped.await;
    }));
    Running {
        addr,
        grpc_addr,
        stop,
        done,
        engine,
    }
}

/// Bytes on an account.
fn held(engine: &Engine, name: &str) -> u64 {
    let report = engine.ledger().report();
    report.iter().find(|c| c.name == name).map_or(0, |c| c.used)
}

impl Running {
    fn held(&self, name: &str) -> u64 {
        held(&self.engine, name)
    }

    /// Stops the server and waits until it has.
    pub async fn end(self) -> Arc<Engine> {
        self.stop.send(()).expect("the server runs");
        self.done.await.expect("no panic").expect("it ends well");
        self.engine
    }
}

/// One request on an open connection; the head and the body of its answer.
pub async fn ask(stream: &mut TcpStream, text: &str) -> (String, String) {
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

pub const GET: &str = "GET /collections HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test]
async fn connections_are_kept_and_charged_and_given_back() {
    let running = start(8).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    for _ in 0..3 {
        let (head, body) = ask(&mut stream, GET).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(body.contains("\"collections\":[]"), "{body}");
    }
    assert_eq!(running.held("connections"), limits::CONNECTION_BYTES);
    let engine = running.end().await;
    assert_eq!(
        stream.read(&mut [0; 16]).await.unwrap(),
        0,
        "an idle connection is closed at the end"
    );
    assert_eq!(held(&engine, "connections"), 0);
    assert_eq!(held(&engine, "responses"), 0);
}

#[tokio::test]
async fn a_socket_buffer_holds_several_segments() {
    let mut options = options();
    options.grpc_port = GrpcPort::At(0);
    let running = start_with(options, 8).await;
    for addr in [running.addr, running.grpc_addr] {
        let stream = TcpStream::connect(addr).await.expect("connected");
        let bytes = ramlet_io::system::segment_bytes(stream.as_fd()).expect("told");
        assert!(bytes <= u32::from(limits::SEGMENT_BYTES), "{bytes}");
        assert!(4 * u64::from(bytes) <= *limits::SOCKET_BUFFER_BYTES.start());
    }
    running.end().await;
}

#[tokio::test]
async fn a_connection_outlives_requests_whose_bodies_nobody_wants() {
    let running = start(8).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    let body = "x".repeat(3 * limits::HEAD_BYTES);
    let (early, late) = body.split_at(100);
    for (what, status) in [
        (
            "POST /collections/c/points/search?timeout=10000000000000000000",
            "4",
        ),
        ("POST /collections/c/points/search?timeout=nothing", "4"),
        ("PUT /no/such/path", "404"),
        ("PATCH /collections/c/points", "405"),
        ("GET /collections", "200"),
        ("POST /collections/c/snapshots/upload", "4"),
    ] {
        for length in [
            format!("content-length: {}", body.len()),
            "transfer-encoding: chunked".into(),
        ] {
            let chunked = length.starts_with('t');
            let begin = if chunked {
                format!("{:x}\r\n{early}", body.len())
            } else {
                early.into()
            };
            let text = format!("{what} HTTP/1.1\r\nhost: localhost\r\n{length}\r\n\r\n{begin}");
            stream.write_all(text.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
            let end = if chunked {
                format!("{late}\r\n0\r\n\r\n")
            } else {
                late.into()
            };
            let (head, _) = ask(&mut stream, &end).await;
            assert!(
                head.starts_with(&format!("http/1.1 {status}")),
                "{what}, {length}: {head}"
            );
            let (head, _) = ask(&mut stream, GET).await;
            assert!(head.starts_with("http/1.1 200"), "after {what}, {length}: {head}");
        }
    }
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
async fn who_waits_for_a_place_gets_that_of_one_who_is_silent() {
    let running = start(1).await;
    let mut silent = TcpStream::connect(running.addr).await.unwrap();
    ask(&mut silent, GET).await;
    let mut other = TcpStream::connect(running.addr).await.unwrap();
    let (head, _) = ask(&mut other, GET).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert_eq!(
        silent.read(&mut [0; 16]).await.unwrap(),
        0,
        "it gave its place up"
    );
}

#[tokio::test]
async fn who_waits_for_a_place_gets_that_of_one_who_asks_and_asks() {
    let running = start(1).await;
    let mut busy = TcpStream::connect(running.addr).await.unwrap();
    ask(&mut busy, GET).await;
    let mut other = TcpStream::connect(running.addr).await.unwrap();
    while !ask(&mut busy, GET).await.0.contains("connection: close") {}
    let (head, _) = ask(&mut other, GET).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(!head.contains("connection: close"), "nobody waits: {head}");
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

fn post(path: &str, body: &str) -> String {
    request("POST", path, body)
}

fn request(verb: &str, path: &str, body: &str) -> String {
    format!(
        "{verb} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Points on a line, so that the nearest of each is known.
async fn fill(stream: &mut TcpStream, points: usize) {
    let settings = r#"{"vectors": {"size": 2, "distance": "Euclid"}}"#;
    let (head, _) = ask(stream, &request("PUT", "/collections/line", settings)).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let points: Vec<_> = (0..points)
        .map(|n| format!(r#"{{"id": {n}, "vector": [{n}, 0]}}"#))
        .collect();
    let body = format!(r#"{{"points": [{}]}}"#, points.join(","));
    let (head, _) = ask(
        stream,
        &request("PUT", "/collections/line/points?wait=true", &body),
    )
    .await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
}

#[tokio::test]
async fn threads_that_hold_connections_search_with_slots_of_their_own() {
    let mut wish = BudgetRequest::new(MEMORY, 4);
    wish.slots_outside = limits::ASYNC_THREADS;
    let budget = BudgetTable::plan(wish).expect("enough memory");
    let (slot, all) = (budget.search_slot(), budget.search_slots);
    let running = start_with(options_of(engine_with(budget)), 16).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    fill(&mut stream, 200).await;
    assert!(
        running.engine.slot().expect("memory").is_none(),
        "the threads hold all slots outside"
    );
    // Small searches run where they come in; those with a filter, and those that find that place taken, don't.
    let asking = (0..8).map(|client| {
        let addr = running.addr;
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            for n in (client..200).step_by(8) {
                let filter = match n % 16 {
                    0..8 => "",
                    _ => r#", "filter": {"must_not": {"has_id": [1000]}}"#,
                };
                let body = format!(r#"{{"query": [{n}, 0], "limit": 1{filter}}}"#);
                let (head, body) = ask(&mut stream, &post("/collections/line/points/query", &body)).await;
                assert!(head.starts_with("http/1.1 200"), "{head}");
                assert!(body.contains(&format!(r#"{{"id":{n},"#)), "{n}: {body}");
            }
        })
    });
    for asked in asking.collect::<Vec<_>>() {
        asked.await.unwrap();
    }
    let engine = running.end().await;
    let left = held(&engine, "search slots");
    assert!(
        left <= all - slot * limits::ASYNC_THREADS as u64,
        "{left} of {all} bytes"
    );
    assert!(engine.slot().unwrap().is_some(), "given back, so to be had again");
}

#[tokio::test]
async fn the_port_of_rest_speaks_http2_to_those_who_begin_with_it() {
    let running = start(8).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    let frame = |kind: u8, flags: u8, id: u8, payload: &[u8]| {
        let mut frame = vec![0, 0, payload.len() as u8, kind, flags, 0, 0, 0, id];
        frame.extend_from_slice(payload);
        frame
    };
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    said.extend(frame(4, 0, 0, &[]));
    // :method GET, :scheme http, :path and :authority as text: indexes of the static table of RFC 7541.
    let path = b"/collections";
    let mut head = vec![0x82, 0x86, 0x04, path.len() as u8];
    head.extend_from_slice(path);
    head.extend_from_slice(&[0x01, 9]);
    head.extend_from_slice(b"localhost");
    said.extend(frame(1, 0b101, 1, &head));
    stream.write_all(&said).await.unwrap();

    let (mut seen, mut status, mut body) = (Vec::new(), None, Vec::new());
    loop {
        while seen.len() >= 9 && seen.len() >= 9 + usize::from(seen[2]) {
            let end = 9 + usize::from(seen[2]);
            let payload: Vec<u8> = seen.drain(..end).collect();
            match payload[3] {
                0 => body.extend_from_slice(&payload[9..]),
                1 => status = payload.get(9).copied(),
                _ => {}
            }
        }
        if body.ends_with(b"}") {
            break;
        }
        let mut buf = [0; 1024];
        let n = stream.read(&mut buf).await.unwrap();
        assert!(
            n > 0,
            "the connection closed early: {:?}",
            String::from_utf8_lossy(&body)
        );
        seen.extend_from_slice(&buf[..n]);
    }
    assert_eq!(status, Some(0x88), ":status 200 of the static table");
    assert!(
        body.starts_with(br#"{"result":{"collections":[]}"#),
        "{:?}",
        String::from_utf8_lossy(&body)
    );
}

/// A frame of HTTP/2 (RFC 9113, 4.1).
pub fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(id.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A call whose body is to come, with `fields` of a kilobyte: as text, not to be remembered (RFC 7541, 6.2.2).
fn long_head(path: &str, content_type: &str, fields: usize) -> Vec<u8> {
    let mut head = vec![0x83, 0x86, 0x04, path.len() as u8];
    head.extend_from_slice(path.as_bytes());
    let content_type = ("content-type".to_owned(), content_type.to_owned());
    let long = (0..fields).map(|n| (format!("x-{n}"), "a".repeat(1000)));
    for (name, value) in std::iter::once(content_type).chain(long) {
        head.extend([0, name.len() as u8]);
        head.extend_from_slice(name.as_bytes());
        // Seven bits of the length, the rest behind them (5.1).
        match value.len() {
            short @ 0..127 => head.push(short as u8),
            long => head.extend([127, (long - 127) as u8 | 128, ((long - 127) >> 7) as u8]),
        }
        head.extend_from_slice(value.as_bytes());
    }
    head
}

/// Frames of the server until `enough` of them have come: kind, stream and payload.
async fn frames_until(
    stream: &mut TcpStream,
    enough: impl Fn(&[(u8, u32, Vec<u8>)]) -> bool,
) -> Vec<(u8, u32, Vec<u8>)> {
    let (mut seen, mut frames) = (Vec::new(), Vec::new());
    while !enough(&frames) {
        let mut buf = [0; 4096];
        let n = stream.read(&mut buf).await.expect("frames");
        assert!(n > 0, "the connection closed early");
        seen.extend_from_slice(&buf[..n]);
        while seen.len() >= 9 {
            let len = u32::from_be_bytes([0, seen[0], seen[1], seen[2]]) as usize;
            if seen.len() < 9 + len {
                break;
            }
            let frame: Vec<u8> = seen.drain(..9 + len).collect();
            let id = u32::from_be_bytes([frame[5], frame[6], frame[7], frame[8]]);
            frames.push((frame[3], id, frame[9..].to_vec()));
        }
    }
    frames
}

/// Each holds a head of 15 KiB, and sends no body: those that there is no memory for are refused at once, not when a body is late.
#[tokio::test]
async fn heads_of_calls_are_on_the_account() {
    const CALLS: u32 = 30;
    const ROOM: u64 = 256 << 10;
    for (path, content_type) in [
        ("/collections/c/points/query", "application/json"),
        ("/qdrant.Points/Query", "application/grpc"),
    ] {
        let mut options = options();
        options.request_bytes = ROOM;
        options.grpc_port = GrpcPort::At(0);
        let running = start_with(options, 8).await;
        let is_grpc = content_type == "application/grpc";
        let addr = if is_grpc { running.grpc_addr } else { running.addr };
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream
            .write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat())
            .await
            .unwrap();
        let head = long_head(path, content_type, 14);
        for call in 0..CALLS {
            stream
                .write_all(&frame(1, 0b100, 2 * call + 1, &head))
                .await
                .unwrap();
        }
        let fit = (ROOM / (14 << 10)) as usize;
        let refused = |frames: &[(u8, u32, Vec<u8>)]| frames.iter().filter(|f| f.0 == 1).count();
        let answered = frames_until(&mut stream, |frames| refused(frames) + fit >= CALLS as usize);
        let frames = tokio::time::timeout(limits::BODY_IDLE_TIMEOUT / 2, answered)
            .await
            .expect("answers before the bodies");
        assert!(refused(&frames) < CALLS as usize, "some have room");
        if !is_grpc {
            let told = frames.iter().find(|f| f.0 == 0).expect("an answer's body");
            let told = String::from_utf8_lossy(&told.2);
            assert!(told.contains(r#"{"status":{"error":"#), "{told}");
        }
        let on_account = running.held("requests");
        assert!((ROOM / 2..=ROOM).contains(&on_account), "{on_account}");
        drop(stream);
        while running.held("requests") > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        running.end().await;
    }
}

/// The settings that the server begins with: calls at once, and bytes of a head.
#[tokio::test]
async fn small_budgets_have_fewer_calls_and_shorter_heads() {
    for (memory, expected) in [(24 << 20, 32..100), (256 << 20, 128..129)] {
        let budget = BudgetTable::plan(BudgetRequest::new(memory, 1)).expect("enough memory");
        let head = budget.elastic / 256;
        let running = start_with(options_of(engine_with(budget)), 8).await;
        let mut stream = TcpStream::connect(running.addr).await.unwrap();
        stream
            .write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat())
            .await
            .unwrap();
        let is_settings = |frame: &(u8, u32, Vec<u8>)| frame.0 == 4 && !frame.2.is_empty();
        let frames = frames_until(&mut stream, |frames| frames.iter().any(is_settings)).await;
        let settings = &frames.iter().find(|f| is_settings(f)).expect("settings").2;
        let setting = |id: u16| {
            let mut all = settings.chunks_exact(6);
            let found = all.find(|s| s[..2] == id.to_be_bytes()).expect("a setting");
            u32::from_be_bytes([found[2], found[3], found[4], found[5]])
        };
        let (calls, bytes) = (setting(3), u64::from(setting(6)));
        assert!(expected.contains(&calls), "{calls} calls in {memory} bytes");
        assert_eq!(bytes, head.clamp(8 << 10, 16 << 10), "{memory}");
        running.end().await;
    }
}

#[tokio::test]
async fn who_began_and_went_silent_gives_its_place_up() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    let half_settings = &settings[..PREFACE.len() + 4];
    let head = b"GET /collections HTTP/1.1\r\nhost: localhost\r\n";
    for said in [
        b"",
        &PREFACE[..3],
        &PREFACE[..20],
        PREFACE,
        half_settings,
        &settings,
        head,
    ] {
        let running = start(1).await;
        let mut silent = TcpStream::connect(running.addr).await.unwrap();
        silent.write_all(said).await.unwrap();
        // It has the place before the other one comes.
        while running.held("connections") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut other = TcpStream::connect(running.addr).await.unwrap();
        let answered = tokio::time::timeout(Duration::from_secs(8), ask(&mut other, GET)).await;
        let what = String::from_utf8_lossy(said);
        let (head, _) = answered.unwrap_or_else(|_| panic!("no place after {what:?}"));
        assert!(head.starts_with("http/1.1 200"), "{what:?}: {head}");
    }
}

/// The rest of such a body would be waited for in vain: an announced length that nobody reads, and a client that sends on
/// only when it has the answer.
#[tokio::test]
async fn who_waits_for_a_refusal_has_it_at_once_and_is_told_of_the_close() {
    let running = start(8).await;
    for announced in [4, 1_000_000_000_000_u64] {
        let mut stream = TcpStream::connect(running.addr).await.unwrap();
        let refused =
            format!("PUT /nothing/here HTTP/1.1\r\nhost: localhost\r\ncontent-length: {announced}\r\n\r\n");
        let asked = ask(&mut stream, &refused);
        let (head, _) = tokio::time::timeout(limits::BODY_IDLE_TIMEOUT / 2, asked)
            .await
            .expect("an answer before the body");
        assert!(head.starts_with("http/1.1 404"), "{head}");
        assert!(head.contains("connection: close"), "{head}");
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0, "closed, as it said");
    }
    running.end().await;
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
