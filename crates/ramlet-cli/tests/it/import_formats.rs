//! Formats of texts that `ramlet import` reads: tables, JSON arrays, packed files, standard input, several files.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::fake_server::FakeServer;
use crate::import::{TempDir, command, import, import_ok, le, npy, piped, points};

fn check(name: &str, bytes: &[u8], more: &[&str], expected: Value) {
    let dir = TempDir::new();
    let server = FakeServer::start();
    import_ok(&server, &dir.file(name, bytes), more);
    assert_eq!(Value::from(points(&server)), expected, "{name} {more:?}");
}

fn point(id: u64, payload: Value) -> Value {
    json!({"id": id, "vector": {}, "payload": payload})
}

#[test]
fn tables_by_guessed_types() {
    let table = "id,title,year,score,zip,ok,none\n\
        7,\"Red, \"\"big\"\"\nbarrow\",1923,0.5,01234,true,\n\
        9,Fox,,1e3,99,FALSE,\n";
    let rows = json!([
        point(
            7,
            json!({"title": "Red, \"big\"\nbarrow", "year": 1923, "score": 0.5, "zip": "01234", "ok": true})
        ),
        point(9, json!({"title": "Fox", "score": 1e3, "zip": "99", "ok": false}))
    ]);
    check("a.csv", table.as_bytes(), &[], rows.clone());
    check(
        "b.csv",
        format!("\u{feff}{table}")
            .replace('\n', "\r\n")
            .replace("\"\r\nb", "\"\nb")
            .as_bytes(),
        &[],
        rows.clone(),
    );
    check(
        "c.tsv",
        b"id\ttitle\n1\ta, b; c\n",
        &[],
        json!([point(1, json!({"title": "a, b; c"}))]),
    );
    check(
        "d.csv",
        b"id;title\n1;a, b\n",
        &[],
        json!([point(1, json!({"title": "a, b"}))]),
    );
    check(
        "e.csv",
        b"id~title\n1~a;b;c\n",
        &["--delimiter", "~"],
        json!([point(1, json!({"title": "a;b;c"}))]),
    );
}

/// As pandas, R and spreadsheets write tables.
#[test]
fn tables_of_other_programs() {
    check(
        "pandas.csv",
        b",title,score\n0,a,0.5\n1,b,NaN\n",
        &["--ids", "line"],
        json!([
            point(0, json!({"column_1": 0, "title": "a", "score": 0.5})),
            point(1, json!({"column_1": 1, "title": "b"}))
        ]),
    );
    check(
        "r.csv",
        b"\"id\",\"n\",\"country\",\"ok\"\n1,NA,\"NA\",NA\n2,5,\"DE\",true\n",
        &[],
        json!([
            point(1, json!({"country": "NA"})),
            point(2, json!({"n": 5, "country": "DE", "ok": true}))
        ]),
    );
    let dir = TempDir::new();
    let noted = import_ok(
        &FakeServer::start(),
        &dir.file("a.csv", b"id,n\n1,2\n2,NA\n3,NA\n"),
        &[],
    );
    let told = "a.csv: line 3, column 'n': 'NA' counts as an empty cell";
    assert!(
        noted.contains(told) && noted.matches("counts as").count() == 1,
        "{noted}"
    );
    let refused = |bytes: &[u8], part: &str| {
        let (success, said) = import(&FakeServer::start(), &dir.file("b.csv", bytes), &[]);
        assert!(!success && said.contains(part), "{part}: {said}");
    };
    refused(b"sep=;\nid;a\n1;2\n", "line 1 is of a spreadsheet");
    refused(b",\n1,2\n", "'' is no name");
    let late: String = (0..1_100)
        .map(|id| format!("{id},{}\n", if id < 1_050 { "1" } else { "1.5" }))
        .collect();
    refused(format!("id,n\n{late}").as_bytes(), "--types n=float takes both");
}

#[test]
fn numbers_in_columns_are_whole_vectors() {
    let dir = TempDir::new();
    let emb = ["--vector-field", "e_*"];
    let refused = |row: &str, column: &str| {
        let table = format!("id,e_0,e_1,e_2\n{row}\n2,1,2,3\n");
        let server = FakeServer::start();
        let (success, said) = import(&server, &dir.file("a.csv", table.as_bytes()), &emb);
        let told = format!("a.csv: line 2: the column '{column}'");
        assert!(!success && said.contains(&told), "{row}: {said}");
        assert_eq!(server.state().collection, None, "{row}");
    };
    refused("1,,2,3", "e_0");
    refused("1,1,,3", "e_1");
    refused("1,1,2,", "e_2");
    refused("1,1,2,NaN", "e_2");
    let (success, said) = import(
        &FakeServer::start(),
        &dir.file("b.csv", b"id,e_0,e_1\n1,1,2\n2,1,\n"),
        &emb,
    );
    assert!(
        !success && said.contains("b.csv: line 3: the column 'e_1'"),
        "{said}"
    );
}

#[test]
fn patterns_of_names_without_a_shell() {
    let dir = TempDir::new();
    for (name, bytes) in [("p-1.csv", "n\n1\n"), ("p-0.csv", "n\n0\n"), ("q.csv", "n\n9\n")] {
        dir.file(name, bytes.as_bytes());
    }
    let server = FakeServer::start();
    import_ok(&server, Path::new(&dir.path("p-*.csv")), &[]);
    assert_eq!(
        points(&server),
        [point(0, json!({"n": 0})), point(1, json!({"n": 1}))]
    );
    let (success, said) = import(&FakeServer::start(), Path::new(&dir.path("x-*.csv")), &[]);
    assert!(!success && said.contains("no file matches"), "{said}");
}

#[test]
fn tables_by_told_types() {
    check(
        "a.csv",
        b"id,year,tags\n1,1923,\"[\"\"a\"\", {\"\"b\"\": 2}]\"\n",
        &["--types", "year=text,tags=json"],
        json!([point(1, json!({"year": "1923", "tags": ["a", {"b": 2}]}))]),
    );
    let dir = TempDir::new();
    let refused = |bytes: &[u8], more: &[&str], part: &str| {
        let (success, said) = import(&FakeServer::start(), &dir.file("b.csv", bytes), more);
        assert!(!success && said.contains(part), "{part}: {said}");
    };
    refused(
        b"id,year\n1,1923\n2,n/a\n",
        &["--types", "year=int"],
        "b.csv: line 3, column 'year': 'n/a' is no whole number, as --types tells",
    );
    refused(
        b"id,year\n1,1923\n",
        &["--types", "yaer=int"],
        "--types names 'yaer', and the columns are id, year",
    );
    refused(b"id,id\n1,2\n", &[], "'id' names two columns");
    refused(b"a;b\n1;2\n", &["--delimiter", ","], "--delimiter tells another");
}

/// The types are those of the first 1,000 rows: the next one that has another is told about, by its line.
#[test]
fn a_cell_that_the_look_ahead_did_not_see() {
    let dir = TempDir::new();
    let mut table = String::from("id,year\n");
    for id in 0..1_200 {
        let year = if id == 1_100 { "unknown" } else { "1923" };
        table += &format!("{id},{year}\n");
    }
    let file = dir.file("a.csv", table.as_bytes());
    let (success, said) = import(&FakeServer::start(), &file, &[]);
    for part in [
        "a.csv: line 1102, column 'year': 'unknown' is no whole number",
        "--types year=text",
        "--offset 1100",
    ] {
        assert!(!success && said.contains(part), "{part}: {said}");
    }
    let server = FakeServer::start();
    import_ok(&server, &file, &["--types", "year=text"]);
    assert_eq!(points(&server)[1_100]["payload"]["year"], json!("unknown"));
    assert_eq!(points(&server).len(), 1_200);
}

#[test]
fn vectors_in_tables() {
    let table = "key,emb,sparse,body\n\
        1,\"[0.5, 1]\",\"{\"\"indices\"\": [3], \"\"values\"\": [0.5]}\",x\n\
        2,[0.25 2.],,y\n";
    let dir = TempDir::new();
    let server = FakeServer::start();
    let fields = [
        "--id-field",
        "key",
        "--vector-field",
        "a=emb",
        "--vector-field",
        "s=sparse",
        "--text-field",
        "body",
    ];
    import_ok(&server, &dir.file("a.csv", table.as_bytes()), &fields);
    let expected = json!([
        {"id": 1, "vector": {"a": [0.5, 1], "s": {"indices": [3], "values": [0.5]}}, "payload": {"body": "x"}},
        {"id": 2, "vector": {"a": [0.25, 2]}, "payload": {"body": "y"}}
    ]);
    assert_eq!(Value::from(points(&server)), expected);
    let created = server.state().collection.clone();
    let settings = json!({"vectors": {"a": {"size": 2, "distance": "Cosine"}}, "sparse_vectors": {"s": {}}});
    assert_eq!(created, Some(settings));
    assert!(server.state().indexes.contains_key("body"));

    let shortened = dir.file("b.csv", b"id,vector\n1,[0.1 0.2 ... 0.9]\n");
    let (success, said) = import(&FakeServer::start(), &shortened, &[]);
    assert!(
        !success && said.contains("line 2") && said.contains("NumPy has left numbers out"),
        "{said}"
    );
}

#[test]
fn json_arrays_on_one_line_and_on_many() {
    let expected = json!([
        {"id": 1, "vector": [1, 2], "payload": {"t": "]}, {\"\\"}},
        {"id": 2, "vector": [3, 4], "payload": {"t": "x", "n": {"a": [{}]}}}
    ]);
    let array = json!([
        {"id": 1, "vector": [1, 2], "t": "]}, {\"\\"},
        {"id": 2, "vector": [3, 4], "t": "x", "n": {"a": [{}]}}
    ]);
    let lines: Vec<String> = array
        .as_array()
        .expect("a list")
        .iter()
        .map(ToString::to_string)
        .collect();
    check("a.json", array.to_string().as_bytes(), &[], expected.clone());
    let pretty = serde_json::to_string_pretty(&array).expect("JSON");
    check(
        "b.json",
        format!("\u{feff} {pretty}\n").as_bytes(),
        &[],
        expected.clone(),
    );
    check("c.json", lines.join("\n").as_bytes(), &[], expected.clone());
    check("d.jsonl", pretty.as_bytes(), &["--format", "json"], expected);
}

#[test]
fn packed_files() {
    let gz = |text: &str| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes()).expect("packs");
        packed.finish().expect("packs")
    };
    let zst = |text: &str| zstd::encode_all(text.as_bytes(), 1).expect("packs");
    for (name, text) in [
        ("a.jsonl", "{\"id\": 1, \"n\": 5}\n"),
        ("a.json", "[{\"id\": 1, \"n\": 5}]"),
        ("a.csv", "id,n\n1,5\n"),
        ("a.tsv", "id\tn\n1\t5\n"),
    ] {
        let expected = json!([point(1, json!({"n": 5}))]);
        check(&format!("{name}.gz"), &gz(text), &[], expected.clone());
        check(&format!("{name}.zst"), &zst(text), &[], expected.clone());
        // By what is in it, whatever it is called.
        check(name, &gz(text), &[], expected);
    }
    // Several frames, as parallel packers write them.
    let frames = [zst("{\"id\": 1}\n"), zst("{\"id\": 2}\n")].concat();
    check(
        "b.jsonl.zst",
        &frames,
        &[],
        json!([{"id": 1, "vector": {}}, {"id": 2, "vector": {}}]),
    );
    let dir = TempDir::new();
    for (name, packed) in [
        ("c.jsonl.gz", gz("{\"id\": 1}\n{\"id\": 2}\n")),
        ("c.jsonl.zst", zst("{\"id\": 1}\n")),
    ] {
        let cut = dir.file(name, &packed[..packed.len() - 6]);
        let (success, said) = import(&FakeServer::start(), &cut, &[]);
        assert!(
            !success && said.contains(name) && said.contains("truncated"),
            "{said}"
        );
    }
}

fn from_stdin(server: &FakeServer, format: &[&str], bytes: &[u8]) -> (bool, String) {
    let (running, mut input) = piped(server, format);
    let written = input.write_all(bytes);
    drop(input);
    let output = running.wait_with_output().expect("it ends");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    (output.status.success() && written.is_ok(), text)
}

#[test]
fn standard_input() {
    let server = FakeServer::start();
    let (success, said) = from_stdin(&server, &["--format", "csv"], b"id,n\n1,5\n");
    assert!(success, "{said}");
    assert_eq!(points(&server), [point(1, json!({"n": 5}))]);
    let packed = zstd::encode_all(&b"[{\"id\": 2}]"[..], 1).expect("packs");
    let (success, said) = from_stdin(&server, &["--format", "json"], &packed);
    assert!(success && points(&server).len() == 2, "{said}");
    let (success, said) = from_stdin(&server, &[], b"{}");
    assert!(
        !success && said.contains("--format jsonl, json, csv or tsv"),
        "{said}"
    );
    let (success, said) = from_stdin(&server, &["--format", "jsonl", "--resume"], b"{}");
    assert!(!success && said.contains("--resume needs files"), "{said}");
    let (success, said) = from_stdin(&server, &["--format", "jsonl"], b"{\"id\": 1}\n{");
    assert!(!success && said.contains("standard input: line 2"), "{said}");
}

#[test]
fn several_files_are_one_import() {
    let dir = TempDir::new();
    let files = |names: [(&str, &[u8]); 3]| names.map(|(name, bytes)| dir.file(name, bytes));
    let run = |server: &FakeServer, files: &[PathBuf], more: &[&str]| {
        let output = command(server)
            .args(files)
            .args(more)
            .output()
            .expect("the binary runs");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        (output.status.success(), text)
    };
    let parts = files([
        ("a.jsonl", b"{\"t\":0}\n{\"t\":1}\n"),
        ("b.csv", b"t\n2\n"),
        ("c.json", b"[{\"t\":3},{\"u\":\"4\"}]"),
    ]);
    let server = FakeServer::start();
    let (success, said) = run(&server, &parts, &["--text", "u,v"]);
    assert!(
        success
            && said.contains("5 new")
            && said.contains("the field 'v'")
            && !said.contains("the field 'u'"),
        "{said}"
    );
    for (id, point) in points(&server).iter().enumerate() {
        assert_eq!(point["id"], json!(id));
        assert!(
            point["payload"]["t"] == json!(id) || point["payload"]["u"] == json!(id.to_string()),
            "{point}"
        );
    }
    let server = FakeServer::start();
    let (success, said) = run(&server, &parts, &["--offset", "1", "--limit", "3"]);
    assert!(success && said.contains("imported 3 points"), "{said}");
    assert!(
        points(&server)
            .iter()
            .map(|p| p["id"].as_u64())
            .eq([1, 2, 3].map(Some))
    );

    let vectors = [1, 2].map(|n| dir.file(&format!("{n}.npy"), &npy("<f4", 2, 1, &le(&[n as f32; 2]))));
    let server = FakeServer::start();
    let (success, said) = run(&server, &vectors, &[]);
    assert!(success, "{said}");
    let sent: Vec<Value> = points(&server)
        .iter()
        .map(|p| json!([p["id"], p["vector"][0]]))
        .collect();
    assert_eq!(sent, [json!([0, 1]), json!([1, 1]), json!([2, 2]), json!([3, 2])]);

    let wide = dir.file("3.npy", &npy("<f4", 1, 2, &le(&[1.0, 2.0])));
    let (success, said) = run(&FakeServer::start(), &[vectors[0].clone(), wide], &[]);
    assert!(
        !success && said.contains("don't match") && said.contains("3.npy has 2 dimensions"),
        "{said}"
    );
    let with_ids = dir.file("d.jsonl", b"{\"id\":7}\n");
    let (success, said) = run(&FakeServer::start(), &[parts[0].clone(), with_ids], &[]);
    assert!(
        !success && said.contains("a.jsonl has no ids") && said.contains("d.jsonl has ids"),
        "{said}"
    );
    let broken = dir.file("e.jsonl", b"{\"t\":5}\n{\n");
    let (success, said) = run(&FakeServer::start(), &[parts[0].clone(), broken.clone()], &[]);
    assert!(
        !success && said.contains("e.jsonl: line 2") && said.contains("--offset 3 --ids line"),
        "{said}"
    );
}

#[test]
fn several_files_go_on_where_they_were() {
    let dir = TempDir::new();
    let state = dir.path("state.json");
    let files = [0, 1].map(|n| dir.file(&format!("{n}.npy"), &npy("<f4", 30, 1, &le(&[n as f32; 30]))));
    let run = |server: &FakeServer| {
        let output = command(server)
            .args(&files)
            .args(["--resume", "--state", &state, "--batch", "10", "--parallel", "1"])
            .output()
            .expect("the binary runs");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    };
    let server = FakeServer::start();
    server.state().points_max = 40;
    let said = run(&server);
    assert!(said.contains("The first 40 points are imported"), "{said}");
    server.state().points_max = usize::MAX;
    let said = run(&server);
    assert!(
        said.contains("imported 20 points") && said.contains("40 were already imported and skipped"),
        "{said}"
    );
    let sent = points(&server);
    assert!(sent.iter().map(|p| p["id"].as_u64()).eq((0..60).map(Some)));
    assert!(
        sent.iter()
            .all(|p| (p["id"].as_u64() < Some(30)) == (p["vector"][0] == json!(0)))
    );
}

/// A JSON array of 16 MB on one line is never held as a whole.
#[test]
fn a_long_array_takes_little_memory() {
    const DOCUMENTS: usize = 4_000;
    let server = FakeServer::start();
    let (mut running, mut input) = piped(&server, &["--format", "json", "--parallel", "1"]);
    let text = "x".repeat(4_000);
    input.write_all(b"[").expect("read");
    for id in 0..DOCUMENTS {
        write!(input, "{{\"id\":{id},\"t\":\"{text}\"}},").expect("read");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).expect("it runs");
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("a peak");
    let peak_kib: usize = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    input.write_all(b"{\"id\":4000}]").expect("read");
    drop(input);
    assert!(running.wait().expect("it ends").success());
    assert_eq!(points(&server).len(), DOCUMENTS + 1);
    assert!(peak_kib < 24 << 10, "{peak_kib} KiB");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn files_of_columns_need_a_feature() {
    let dir = TempDir::new();
    for name in ["a.parquet", "a.feather"] {
        let (success, said) = import(&FakeServer::start(), &dir.file(name, b"PAR1"), &[]);
        assert!(
            !success && said.contains("--features parquet") && said.contains("duckdb"),
            "{said}"
        );
    }
}
