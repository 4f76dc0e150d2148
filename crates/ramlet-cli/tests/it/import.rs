//! `ramlet import` as a user runs it, against a server that remembers what it got.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::fake_server::FakeServer;

/// A directory of its own for each test, removed at its end.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("ramlet-import-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory");
        TempDir(dir)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("a temporary file");
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the binary; returns whether it succeeded, and all it wrote.
pub fn import(server: &FakeServer, file: &Path, more: &[&str]) -> (bool, String) {
    let output = command(server)
        .arg(file)
        .args(more)
        .output()
        .expect("the binary runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).expect("text"))
}

/// `ramlet import` into the server's collection, without files.
pub fn command(server: &FakeServer) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ramlet"));
    command
        .args(["import", "--collection", "c", "--url", &server.url])
        .env_remove("RAMLET_API_KEY");
    command
}

pub fn import_ok(server: &FakeServer, file: &Path, more: &[&str]) -> String {
    let (success, text) = import(server, file, more);
    assert!(success, "{text}");
    text
}

pub fn npy(descr: &str, rows: usize, dim: usize, data: &[u8]) -> Vec<u8> {
    let mut head = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows}, {dim}), }}");
    while (10 + head.len() + 1) % 64 != 0 {
        head.push(' ');
    }
    head.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((head.len() as u16).to_le_bytes());
    out.extend(head.as_bytes());
    out.extend(data);
    out
}

pub fn le(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// An import that runs, and its standard input.
pub fn piped(server: &FakeServer, args: &[&str]) -> (Child, ChildStdin) {
    let mut running = command(server)
        .arg("-")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let input = running.stdin.take().expect("a pipe");
    (running, input)
}

/// Points sorted by id.
pub fn points(server: &FakeServer) -> Vec<Value> {
    let mut points = server.state().points.clone();
    points.sort_by_key(|p| p["id"].as_u64());
    points
}

fn vectors(server: &FakeServer) -> Value {
    points(server).into_iter().map(|p| p["vector"].clone()).collect()
}

#[test]
fn every_format_of_rows() {
    let dir = TempDir::new();
    let (a, b) = ([0.5f32, -1.25], [3.0f32, 1e-7]);
    let both = le(&[a[0], a[1], b[0], b[1]]);
    let fvecs = [le(&a), le(&b)].map(|row| [&2u32.to_le_bytes()[..], &row].concat());
    let floats = json!([[0.5, -1.25], [3, 1e-7]]);
    let bytes = json!([[1, 255], [0, 7]]);
    let head = [2u32.to_le_bytes(), 2u32.to_le_bytes()].concat();
    let f64s: Vec<u8> = [0.5, -1.25, 3.0, 1e-7]
        .iter()
        .flat_map(|v: &f64| v.to_le_bytes())
        .collect();
    let cases: [(&str, Vec<u8>, Value); 9] = [
        ("a.npy", npy("<f4", 2, 2, &both), floats.clone()),
        ("b.npy", npy("<f8", 2, 2, &f64s), floats.clone()),
        (
            "c.npy",
            npy("<f2", 2, 1, &[0x00, 0x3c, 0x00, 0xc0]),
            json!([[1], [-2]]),
        ),
        ("d.npy", npy("|u1", 2, 2, &[1, 255, 0, 7]), bytes.clone()),
        (
            "e.npy",
            npy("|i1", 2, 2, &[1, 255, 0, 7]),
            json!([[1, -1], [0, 7]]),
        ),
        ("a.fvecs", fvecs.concat(), floats.clone()),
        (
            "a.bvecs",
            vec![2, 0, 0, 0, 1, 255, 2, 0, 0, 0, 0, 7],
            bytes.clone(),
        ),
        ("a.fbin", [head.clone(), both.clone()].concat(), floats),
        ("a.u8bin", [head, vec![1, 255, 0, 7]].concat(), bytes),
    ];
    for (name, data, expected) in cases {
        let server = FakeServer::start();
        import_ok(&server, &dir.file(name, &data), &[]);
        assert_eq!(vectors(&server), expected, "{name}");
        let ids: Vec<_> = points(&server).iter().map(|p| p["id"].as_u64()).collect();
        assert_eq!(ids, [Some(0), Some(1)], "{name}");
    }
}

#[test]
fn hdf5_of_ann_benchmarks() {
    let expected = json!([[0, 0.25, 0.5], [0.75, 1, 1.25], [1.5, 1.75, 2], [2.25, 2.5, 2.75]]);
    for name in ["contiguous.hdf5", "chunked-gzip.hdf5"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../testdata/import")
            .join(name);
        let server = FakeServer::start();
        import_ok(&server, &path, &[]);
        assert_eq!(vectors(&server), expected, "{name}");
        let created = server.state().collection.clone();
        assert_eq!(
            created,
            Some(json!({"vectors": {"size": 3, "distance": "Euclid"}})),
            "{name}"
        );

        let (success, text) = import(&server, &path, &["--key", "nothing"]);
        assert!(
            !success && text.contains("no dataset 'nothing', it has:") && text.contains("train"),
            "{text}"
        );
    }
}

#[test]
fn payload_beside_rows() {
    let dir = TempDir::new();
    let file = dir.file("a.npy", &npy("<f4", 3, 1, &le(&[1.0, 2.0, 3.0])));
    let payload = dir.file("p.jsonl", b"{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n");
    let server = FakeServer::start();
    import_ok(
        &server,
        &file,
        &["--payload", payload.to_str().unwrap(), "--offset", "1"],
    );
    let expected = json!([
        {"id": 1, "vector": [2], "payload": {"n": 2}},
        {"id": 2, "vector": [3], "payload": {"n": 3}}
    ]);
    assert_eq!(Value::from(points(&server)), expected);

    let short = dir.file("short.jsonl", b"{\"n\": 1}\n");
    let (success, text) = import(
        &FakeServer::start(),
        &file,
        &["--payload", short.to_str().unwrap()],
    );
    assert!(
        !success && text.contains("line 2 is missing") && text.contains("--offset 1"),
        "{text}"
    );
    let long = dir.file("long.jsonl", b"{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n{\"n\": 4}\n");
    let payload = ["--payload", long.to_str().unwrap()];
    let (success, text) = import(&FakeServer::start(), &file, &payload);
    assert!(
        !success && text.contains("there is no vector for line 4: there are 3 rows"),
        "{text}"
    );
    let some = [payload[0], payload[1], "--limit", "2"];
    import_ok(&FakeServer::start(), &file, &some);
}

#[test]
fn what_line_1_is_no_pattern_for() {
    let dir = TempDir::new();
    let text = concat!(
        "{\"id\": 1, \"vector\": {\"m\": [[1, 2], [3, 4]]}}\n",
        "{\"id\": 2, \"vector\": {\"s\": {\"indices\": [3], \"values\": [0.5]}}}\n",
        "{\"id\": 3, \"vector\": {\"s\": {\"text\": \"red\", \"model\": \"qdrant/bm25\"}}}\n",
        "{\"id\": 4, \"payload\": null}\n",
        "{\"id\": 5, \"vector\": {\"d\": [1, 2]}}\n",
    );
    let file = dir.file("a.jsonl", text.as_bytes());
    let server = FakeServer::start();
    let (success, said) = import(&server, &file, &[]);
    for part in [
        "no collection 'c'",
        "create the collection for such vectors first",
        "a.jsonl: line 1",
        "'m'",
    ] {
        assert!(!success && said.contains(part), "{part}: {said}");
    }
    let there = || {
        let server = FakeServer::start();
        server.state().collection = Some(json!({"vectors": {"d": {"size": 2, "distance": "Dot"}}}));
        server
    };
    let server = there();
    import_ok(&server, &file, &[]);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (point, line) in points(&server).iter().zip(&lines) {
        let vector = line.get("vector").cloned().unwrap_or(json!({}));
        assert_eq!((&point["id"], &point["vector"]), (&line["id"], &vector));
        assert_eq!(point.get("payload"), None);
    }
    assert_eq!(points(&server).len(), lines.len());

    let documents = dir.file("b.jsonl", b"{\"body\": \"no vector\"}\n");
    import_ok(&there(), &documents, &[]);
    let file = dir.file("c.jsonl", b"{\"vector\": {\"d\": [1, 2, 3]}}\n");
    let (success, said) = import(&there(), &file, &[]);
    assert!(
        !success && said.contains("with 2 dimensions, the file has 3"),
        "{said}"
    );
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let dir = TempDir::new();
    let server = FakeServer::start();
    import_ok(
        &server,
        &dir.file("a.jsonl", b"\xef\xbb\xbf{\"vector\": [1]}\n"),
        &[],
    );
    assert_eq!(points(&server).len(), 1);
}

/// Points 0 to `points` of the file are in, says the state of an import that was cut off.
fn cut_off(server: &FakeServer, file: &Path, state: &str, points: usize) {
    server.state().points_max = points;
    let more = ["--resume", "--state", state, "--batch", "10", "--parallel", "1"];
    let (success, text) = import(server, file, &more);
    assert!(!success && text.contains("Disk full"), "{text}");
    server.state().points_max = usize::MAX;
}

#[test]
fn a_place_in_a_collection_that_is_gone() {
    let dir = TempDir::new();
    let file = dir.file("a.npy", &npy("<f4", 50, 1, &le(&[1.0; 50])));
    let state = dir.path("state.json");
    let resume = ["--resume", "--state", &state];
    let server = FakeServer::start();
    cut_off(&server, &file, &state, 30);
    let text = import_ok(&server, &file, &resume);
    assert!(text.contains("imported 20 points"), "{text}");

    let server_without = FakeServer::start();
    // The state is of that URL.
    cut_off(&server_without, &file, &state, 30);
    server_without.state().collection = None;
    server_without.state().points.clear();
    let text = import_ok(&server_without, &file, &resume);
    assert!(
        text.contains("the 30 points that") && text.contains("sent again"),
        "{text}"
    );
    assert_eq!(points(&server_without).len(), 50);

    let server_emptied = FakeServer::start();
    cut_off(&server_emptied, &file, &state, 30);
    server_emptied.state().points.truncate(7);
    let (success, text) = import(&server_emptied, &file, &resume);
    assert!(
        !success && text.contains("'c' has 7 points") && text.contains("lists 30 as imported"),
        "{text}"
    );
    assert!(text.contains(&state) && text.contains("--offset 30"), "{text}");
    assert_eq!(points(&server_emptied).len(), 7);
}

#[test]
fn json_lines_plain_and_gzipped() {
    let dir = TempDir::new();
    let text = "{\"id\": 9, \"vector\": {\"a\": [1, 2], \"b\": [3]}, \"title\": \"\\u00e9\\\"\"}\n\n{\"id\": 1, \"vector\": {\"a\": [0, 0]}}\n";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    for (name, bytes) in [("a.jsonl", text.as_bytes()), ("a.jsonl.gz", packed.as_slice())] {
        let server = FakeServer::start();
        import_ok(&server, &dir.file(name, bytes), &["--distance", "dot"]);
        let expected = json!([
            {"id": 1, "vector": {"a": [0, 0]}},
            {"id": 9, "vector": {"a": [1, 2], "b": [3]}, "payload": {"title": "é\""}}
        ]);
        assert_eq!(Value::from(points(&server)), expected, "{name}");
        let created = server.state().collection.clone();
        assert_eq!(
            created,
            Some(
                json!({"vectors": {"a": {"size": 2, "distance": "Dot"}, "b": {"size": 1, "distance": "Dot"}}})
            )
        );
    }
}

#[test]
fn a_broken_file_is_named_once() {
    let dir = TempDir::new();
    for (name, bytes) in [
        ("broken.jsonl.gz", &b"no gzip"[..]),
        ("empty.jsonl", b"\n"),
        ("bad.jsonl", b"{\n"),
    ] {
        let (ok, said) = import(&FakeServer::start(), &dir.file(name, bytes), &[]);
        assert!(!ok && said.matches(name).count() == 1, "{said}");
    }
}

#[test]
fn a_new_collection_fits_the_file() {
    let dir = TempDir::new();
    let file = dir.file("a.npy", &npy("|u1", 1, 2, &[1, 2]));
    let check = |more: &[&str], expected: Value| {
        let server = FakeServer::start();
        import_ok(&server, &file, more);
        let created = server.state().collection.clone();
        assert_eq!(created, Some(json!({"vectors": expected})), "{more:?}");
    };
    check(&[], json!({"size": 2, "distance": "Cosine"}));
    check(
        &["--distance", "Euclid"],
        json!({"size": 2, "distance": "Euclid", "datatype": "uint8"}),
    );
    check(
        &["--distance", "Euclid", "--datatype", "float16"],
        json!({"size": 2, "distance": "Euclid", "datatype": "float16"}),
    );
}

#[test]
fn a_collection_that_does_not_fit() {
    let dir = TempDir::new();
    let file = dir.file("a.npy", &npy("|u1", 1, 2, &[1, 2]));
    let server = FakeServer::start();
    server.state().collection = Some(json!({"vectors": {"size": 3, "distance": "Dot"}}));
    let (success, text) = import(&server, &file, &[]);
    assert!(
        !success && text.contains("'c' exists with 3 dimensions, the file has 2"),
        "{text}"
    );
    assert!(server.state().bodies.is_empty());
}

#[test]
fn a_busy_server_is_waited_for() {
    let dir = TempDir::new();
    let values: Vec<f32> = (0..500).map(|v| v as f32 + 0.5).collect();
    let file = dir.file("a.npy", &npy("<f4", 500, 1, &le(&values)));
    let server = FakeServer::start();
    let busy = (
        429,
        "retry-after: 0\r\n",
        "Too many requests: 3 bytes of 2 are free",
    );
    server.state().refusals = [busy; 5].into();
    let text = import_ok(
        &server,
        &file,
        &["--batch", "50", "--parallel", "3", "--api-key", "k"],
    );
    assert!(text.contains("imported 500 points"), "{text}");
    assert_eq!(server.state().bodies.len(), 15);
    assert!(server.state().keys.iter().all(|key| key.as_deref() == Some("k")));
    let ids: Vec<_> = points(&server).iter().filter_map(|p| p["id"].as_u64()).collect();
    assert!(ids.into_iter().eq(0..500));
}

#[test]
fn a_server_that_refuses_on_and_on_is_told_of() {
    let dir = TempDir::new();
    let file = dir.file("a.npy", &npy("<f4", 4, 1, &le(&[0.5, 1.5, 2.5, 3.5])));
    for (refusals, told) in [(3, 0), (9, 2)] {
        let server = FakeServer::start();
        let busy = (
            429,
            "retry-after: 0\r\n",
            "Memory budget taken: this passes by itself",
        );
        server.state().refusals = vec![busy; refusals].into();
        let text = import_ok(&server, &file, &["--parallel", "1"]);
        let lines = text
            .lines()
            .filter(|line| line.contains("retrying: Memory budget taken: this passes by itself"));
        assert_eq!(lines.count(), told, "{text}");
    }
}

#[test]
fn a_small_server_gets_smaller_requests() {
    let dir = TempDir::new();
    let values: Vec<f32> = (0..400).map(|v| v as f32).collect();
    let file = dir.file("a.npy", &npy("<f4", 400, 1, &le(&values)));
    let server = FakeServer::start();
    server.state().body_max = 1_000;
    import_ok(&server, &file, &[]);
    let ids: Vec<_> = points(&server).iter().filter_map(|p| p["id"].as_u64()).collect();
    assert!(ids.into_iter().eq(0..400));

    let server = FakeServer::start();
    server.state().body_max = 10;
    let (success, text) = import(&server, &file, &[]);
    assert!(
        !success && text.contains("point 0 by itself is too large"),
        "{text}"
    );
}

#[test]
fn a_refusal_says_how_to_go_on() {
    let dir = TempDir::new();
    let file = dir.file("a.npy", &npy("<f4", 30, 1, &le(&[1.0; 30])));
    let server = FakeServer::start();
    server.state().refusals = [(507, "", "Disk full: 1 MB is free, 64 MB are kept for recovery")].into();
    let (success, text) = import(&server, &file, &["--batch", "10", "--parallel", "1"]);
    assert!(!success);
    assert!(
        text.contains("No points are imported")
            && text.contains("points 0 to 9")
            && text.contains("507: Disk full"),
        "{text}"
    );
    import_ok(
        &server,
        &file,
        &["--batch", "10", "--offset", "5", "--limit", "7"],
    );
    let ids: Vec<_> = points(&server).iter().filter_map(|p| p["id"].as_u64()).collect();
    assert!(ids.into_iter().eq(5..12));
}

#[test]
fn waiting_for_green() {
    let dir = TempDir::new();
    let file = dir.file("a.npy", &npy("<f4", 1, 1, &le(&[1.0])));
    let server = FakeServer::start();
    server.state().collection = Some(json!({"vectors": {"size": 1, "distance": "Dot"}}));
    server.state().statuses = ["yellow", "yellow", "green"].into();
    let text = import_ok(&server, &file, &["--wait"]);
    assert!(text.contains("'c' is green"), "{text}");
    assert_eq!(server.state().statuses, ["green"]);
}

#[test]
fn bad_files_say_what_is_wrong() {
    let dir = TempDir::new();
    let server = FakeServer::start();
    let cut = [b"{\"a\": \"x", "ä".repeat(17 << 20).as_bytes()].concat();
    let cases: [(&str, Vec<u8>, &str); 14] = [
        ("c.jsonl", cut, "line 1 is longer than 33554432 bytes"),
        ("d.jsonl", b"{\"a\": \"\xff\"}".to_vec(), "line 1 is not UTF-8"),
        (
            "e.jsonl",
            b"{\"id\": 1}\n{\"payload\": {}, \"title\": 1}\n".to_vec(),
            "line 2: the field 'title' is beside 'payload'",
        ),
        (
            "c.fvecs",
            vec![0xfd, 0xff, 0xff, 0xff, 0, 0, 0, 0],
            "the dimension is -3",
        ),
        (
            "d.fvecs",
            vec![1, 0, 0, 0, 0, 0, 0, 0, 0xfd, 0xff, 0xff, 0xff, 0, 0, 0, 0],
            "row 1 says it has -3 numbers, row 0 has 1",
        ),
        (
            "a.npy",
            npy("<f4", 3, 2, &[0; 20]),
            "3 rows of 2 numbers need 152 bytes, but the file has 148",
        ),
        (
            "b.npy",
            b"PK\x03\x04 something else".to_vec(),
            "does not begin as a .npy file does",
        ),
        (
            "c.npy",
            npy("<f4", 1, 2, &le(&[1.0, f32::NAN])),
            "row 0: number 1 of the vector is NaN",
        ),
        (
            "a.fvecs",
            vec![2, 0, 0, 0, 1],
            "no whole number of rows of 12 bytes",
        ),
        (
            "b.fvecs",
            vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
            "row 1 says it has 2 numbers, row 0 has 1",
        ),
        ("a.fbin", vec![1, 0, 0], "shorter than its 8-byte head"),
        (
            "a.jsonl",
            b"{\"vector\": [1]}\nnot json\n".to_vec(),
            "line 2, column 2: ",
        ),
        (
            "b.jsonl",
            b"{\"vector\": [1]}\n{\"x\": 1}\n".to_vec(),
            "line 2: it has no vector, but line 1 has one",
        ),
        ("a.txt", vec![], "the format follows from the extension"),
    ];
    for (name, bytes, sentence) in cases {
        let (success, text) = import(&server, &dir.file(name, &bytes), &[]);
        assert!(!success && text.contains(sentence), "{name}: {text}");
        server.state().collection = None;
    }
}

#[test]
fn no_server_there() {
    let dir = TempDir::new();
    let file = dir.file("a.npy", &npy("<f4", 1, 1, &le(&[1.0])));
    let mut server = FakeServer::start();
    server.url = "http://127.0.0.1:1".into();
    let (success, text) = import(&server, &file, &[]);
    assert!(
        !success && text.contains("no server answers") && text.contains("ramlet serve"),
        "{text}"
    );
}
