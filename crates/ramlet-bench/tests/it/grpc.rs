//! The gRPC client against canned answers: bytes of HTTP/2 written by hand, and by another implementation's header coder.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use ramlet_bench::grpc::Channel;
use ramlet_bench::http::Target;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// A message behind its prefix.
fn message(text: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend((text.len() as u32).to_be_bytes());
    out.extend_from_slice(text);
    out
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
        .collect()
}

/// `:status: 200` and a content type, by Python's `hpack`.
fn head(stream: u32) -> Vec<u8> {
    frame(
        HEADERS,
        END_HEADERS,
        stream,
        &unhex("20885f8b1d75d0620d263d4c4d6564"),
    )
}

/// `grpc-status: 0`, plain.
fn trailers(stream: u32) -> Vec<u8> {
    let mut block = vec![0, 11];
    block.extend(b"grpc-status\x010");
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

/// Kind, flags, stream, payload.
type Frame = (u8, u8, u32, Vec<u8>);

/// Takes one connection. For each answer: waits until a call has come whole, then writes it. Returns what came.
fn serve(answers: Vec<Vec<u8>>) -> (Target, JoinHandle<Vec<Frame>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = Target::local(listener.local_addr().expect("bound").port());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).expect("a preface");
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut frames = Vec::new();
        for answer in answers {
            loop {
                let mut head = [0; 9];
                if stream.read_exact(&mut head).is_err() {
                    return frames;
                }
                let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
                stream.read_exact(&mut payload).expect("a frame");
                let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                frames.push((head[3], head[4], stream, payload));
                if head[3] == DATA
                    && (head[4] & END_STREAM != 0 || frames.iter().filter(|f| f.0 == DATA).count() == 4)
                {
                    break;
                }
            }
            // A byte at a time: what comes is never cut where frames are.
            for byte in answer {
                let _ = stream.write_all(&[byte]);
            }
        }
        frames
    });
    (target, server)
}

fn open(target: &Target) -> Channel {
    Channel::open(target, Duration::from_secs(10)).expect("connected")
}

#[test]
fn calls_follow_each_other_on_one_connection() {
    let first = [
        frame(SETTINGS, 0, 0, &[]),
        head(1),
        frame(DATA, 0, 1, &message(b"one")),
        trailers(1),
    ]
    .concat();
    let padded = {
        let mut payload = vec![3];
        payload.extend(message(b"two"));
        payload.extend([0; 3]);
        frame(DATA, 8, 3, &payload)
    };
    let second = [frame(PING, 0, 0, b"12345678"), head(3), padded, trailers(3)].concat();
    let refused = {
        // `grpc-status: 13`, `grpc-message: no such collection: %22x%22`, in two frames, without a message before.
        let block = unhex(
            "8840889acac8b21234da8f820b3f40899acac8b5254207317f93a8ea22d24ea10f4505224c7aae28a885e5510b",
        );
        let (a, b) = block.split_at(20);
        [
            frame(HEADERS, END_STREAM, 5, a),
            frame(CONTINUATION, END_HEADERS, 5, b),
        ]
        .concat()
    };
    let (target, server) = serve(vec![first, second, refused]);
    let mut channel = open(&target);
    for text in [&b"one"[..], b"two"] {
        let answer = channel.ask(b"\x83", &message(b"q")).expect("an answer");
        assert_eq!((answer.status, answer.body), (200, text));
    }
    let answer = channel.ask(b"\x83", &message(b"q")).expect("an answer");
    assert_eq!(
        (answer.status, answer.body),
        (13, &br#"no such collection: "x""#[..])
    );
    assert!(channel.is_open());
    drop(channel);
    let frames = server.join().expect("no panic");
    let calls: Vec<u32> = frames.iter().filter(|f| f.0 == HEADERS).map(|f| f.2).collect();
    assert_eq!(calls, [1, 3, 5]);
    assert!(
        frames.iter().any(|f| f.0 == SETTINGS && f.1 == 1),
        "settings are acknowledged"
    );
    assert!(
        frames
            .iter()
            .any(|f| f.0 == PING && f.1 == 1 && f.3 == b"12345678")
    );
}

#[test]
fn a_long_question_waits_for_its_windows() {
    // 65,535 bytes may be sent unasked: four frames. The rest comes after the server has granted more.
    let question = message(&vec![7; 100_000]);
    let more = 200_000u32.to_be_bytes();
    let granted = [
        frame(SETTINGS, 0, 0, &[]),
        frame(WINDOW_UPDATE, 0, 0, &more),
        frame(WINDOW_UPDATE, 0, 1, &more),
    ];
    let answer = [head(1), frame(DATA, 0, 1, &message(b"done")), trailers(1)].concat();
    let (target, server) = serve(vec![granted.concat(), answer]);
    let mut channel = open(&target);
    let got = channel.ask(b"\x83", &question).expect("an answer");
    assert_eq!((got.status, got.body), (200, &b"done"[..]));
    let frames = server.join().expect("no panic");
    let sent: Vec<u8> = frames
        .iter()
        .filter(|f| f.0 == DATA)
        .flat_map(|f| f.3.clone())
        .collect();
    assert_eq!(sent, question);
    let first: usize = frames
        .iter()
        .filter(|f| f.0 == DATA)
        .take(4)
        .map(|f| f.3.len())
        .sum();
    assert_eq!(first, 65_535);
}

#[test]
fn what_is_no_answer_is_an_error() {
    let whole = [head(1), frame(DATA, 0, 1, &message(b"one")), trailers(1)].concat();
    let mut packed = message(b"one");
    packed[0] = 1;
    for answer in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        whole[..whole.len() - 1].to_vec(),
        frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]),
        frame(GOAWAY, 0, 0, &[0; 8]),
        [head(1), frame(DATA, 0, 1, &packed), trailers(1)].concat(),
        [head(1), trailers(1)].concat(),
        [head(1), frame(DATA, END_STREAM, 1, &message(b"one"))].concat(),
        // A field of a table that we don't have.
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xbe]),
    ] {
        let (target, _server) = serve(vec![answer.clone()]);
        let mut channel = open(&target);
        assert!(channel.ask(b"\x83", &message(b"q")).is_err(), "{answer:?}");
    }
}

/// A server that goes away after this answer: it is taken, and no other call is made.
#[test]
fn a_farewell_lets_the_call_end() {
    let goaway = frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    let answer = [goaway, head(1), frame(DATA, 0, 1, &message(b"one")), trailers(1)].concat();
    let (target, _server) = serve(vec![answer]);
    let mut channel = open(&target);
    assert_eq!(
        channel.ask(b"\x83", &message(b"q")).expect("an answer").body,
        b"one"
    );
    assert!(!channel.is_open());
}
