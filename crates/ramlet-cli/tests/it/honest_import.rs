//! What an import refuses, and what it says of what it did.

use std::io::Write;
use std::process::Command;

use serde_json::{Value, json};

use crate::fake_server::FakeServer;
use crate::import::{TempDir, import, import_ok, le, npy, piped, points};

fn refused(server: &FakeServer, file: &std::path::Path, more: &[&str], parts: &[&str]) {
    let (success, text) = import(server, file, more);
    assert!(!success, "{text}");
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

fn with_collection(vectors: Value) -> FakeServer {
    let server = FakeServer::start();
    server.state().collection = Some(json!({ "vectors": vectors }));
    server
}

fn ids(server: &FakeServer) -> Vec<Value> {
    points(server).iter().map(|point| point["id"].clone()).collect()
}

#[test]
fn mixed_ids_are_refused_and_told_how_to_get_in() {
    let dir = TempDir::new();
    let server = FakeServer::start();
    let file = dir.file("a.jsonl", b"{\"t\":\"first\"}\n\n{\"id\":0,\"t\":\"zero\"}\n");
    refused(
        &server,
        &file,
        &[],
        &[
            "a.jsonl: line 3",
            "it has an id, line 1 has none",
            "--ids line",
            "--ids hash",
        ],
    );
    let other = dir.file("b.jsonl", b"{\"id\":0,\"t\":\"zero\"}\n{\"t\":\"second\"}\n");
    refused(
        &FakeServer::start(),
        &other,
        &[],
        &[
            "b.jsonl: line 2",
            "it has no id, line 1 has one",
            // Going on behind the first row would fail again.
            "The first 1 points are imported with their own ids. Import the whole file",
        ],
    );

    let server = FakeServer::start();
    let said = import_ok(&server, &file, &["--ids", "line"]);
    assert!(said.contains("2 new, 0 replaced"), "{said}");
    assert_eq!(ids(&server), [0, 1]);
    let server = FakeServer::start();
    import_ok(&server, &file, &["--ids", "hash"]);
    assert_eq!(points(&server).len(), 2);
}

#[test]
fn an_id_that_is_no_id_of_a_point_stays_under_its_own_name() {
    let dir = TempDir::new();
    let file = dir.file("a.jsonl", b"{\"_id\":\"abc\",\"id\":5}\n");
    for ids in ["hash", "line", "uuid"] {
        let server = FakeServer::start();
        import_ok(&server, &file, &["--id-field", "_id", "--ids", ids]);
        assert_eq!(
            points(&server)[0]["payload"],
            json!({"_id": "abc", "id": 5}),
            "{ids}"
        );
    }
}

#[test]
fn a_new_collection_is_appended_to_from_its_first_number() {
    let dir = TempDir::new();
    let server = FakeServer::start();
    let file = dir.file("a.csv", b"n\n5\n6\n");
    import_ok(&server, &file, &["--ids", "append"]);
    import_ok(&server, &file, &["--ids", "append"]);
    assert_eq!(ids(&server), [0, 1, 2, 3]);
}

#[test]
fn a_first_point_without_a_vector_says_which() {
    let dir = TempDir::new();
    let file = dir.file(
        "a.jsonl",
        b"{\"id\":1,\"vector\":null}\n{\"id\":2,\"vector\":[1]}\n",
    );
    let parts = [
        "a.jsonl: line 2: it has a vector, but line 1 has none",
        "move a point with a vector to the front",
    ];
    refused(&FakeServer::start(), &file, &[], &parts);
    let nulls = dir.file("b.jsonl", b"{\"id\":1,\"vector\":[1,null]}\n");
    refused(
        &FakeServer::start(),
        &nulls,
        &[],
        &["b.jsonl: line 1", "number 1 of 'vector' is null or NaN"],
    );
}

#[test]
fn what_is_new_and_what_is_replaced() {
    let dir = TempDir::new();
    let server = FakeServer::start();
    let file = dir.file(
        "a.jsonl",
        b"{\"id\":1,\"n\":1}\n{\"id\":2,\"n\":1}\n{\"id\":1,\"n\":2}\n",
    );
    let said = import_ok(&server, &file, &[]);
    assert!(
        said.contains("imported 3 points") && said.contains("2 new, 1 replaced; the collection has 2 now"),
        "{said}"
    );
    let said = import_ok(&server, &file, &[]);
    assert!(
        said.contains("0 new, 3 replaced; the collection has 2 now"),
        "{said}"
    );
}

#[test]
fn files_without_ids_need_a_choice_for_a_filled_collection() {
    let dir = TempDir::new();
    let first = dir.file("a.npy", &npy("<f4", 2, 1, &le(&[1.0, 2.0])));
    let second = dir.file("b.npy", &npy("<f4", 2, 1, &le(&[3.0, 4.0])));
    let filled = || {
        let server = FakeServer::start();
        import_ok(&server, &first, &[]);
        server
    };
    let server = filled();
    refused(
        &server,
        &second,
        &[],
        &[
            "no ids",
            "'c' already has 2 points",
            "--ids append",
            "--ids line",
            "--ids hash",
            "--ids uuid",
        ],
    );
    assert_eq!(points(&server).len(), 2, "nothing was sent");

    let said = import_ok(&server, &second, &["--ids", "append"]);
    assert!(
        said.contains("2 new, 0 replaced; the collection has 4 now"),
        "{said}"
    );
    assert_eq!(ids(&server), [0, 1, 2, 3]);
    assert_eq!(points(&server)[2]["vector"], json!([3]));

    let server = filled();
    let said = import_ok(&server, &second, &["--ids", "line"]);
    assert!(
        said.contains("0 new, 2 replaced; the collection has 2 now"),
        "{said}"
    );

    let server = filled();
    let said = [(); 2].map(|()| import_ok(&server, &second, &["--ids", "hash"]));
    assert!(
        said[0].contains("2 new") && said[1].contains("2 replaced"),
        "{said:?}"
    );

    let server = filled();
    let said = [(); 2].map(|()| import_ok(&server, &second, &["--ids", "uuid"]));
    assert!(said.iter().all(|said| said.contains("2 new")), "{said:?}");
    assert!(points(&server).iter().filter(|p| p["id"].is_string()).count() == 4);
}

#[test]
fn the_highest_id_is_found_among_gaps_and_uuids() {
    let dir = TempDir::new();
    let file = dir.file("a.jsonl", b"{\"t\": 1}\n");
    for (there, expected) in [
        (json!(["6f9619ff-8b86-d011-b42d-00c04fc964ff"]), json!(0)),
        (
            json!([0, 7, 1_000_000_007_u64, "6f9619ff-8b86-d011-b42d-00c04fc964ff"]),
            json!(1_000_000_008_u64),
        ),
        (json!([u64::MAX - 1]), json!(u64::MAX)),
    ] {
        let server = with_collection(json!({}));
        let before = there
            .as_array()
            .expect("a list")
            .iter()
            .map(|id| json!({ "id": id }));
        server.state().points = before.collect();
        import_ok(&server, &file, &["--ids", "append"]);
        let last = server.state().points.last().cloned();
        assert_eq!(last.expect("a point")["id"], expected, "{there}");
    }
    let server = with_collection(json!({}));
    server.state().points = vec![json!({ "id": u64::MAX })];
    refused(
        &server,
        &file,
        &["--ids", "append"],
        &["the highest id is the last possible number"],
    );
}

#[test]
fn what_was_appended_in_part_goes_on_with_the_same_ids() {
    let dir = TempDir::new();
    let state = dir.path("state.json");
    let file = dir.file("a.npy", &npy("<f4", 50, 1, &le(&[1.0; 50])));
    let batches = ["--batch", "10", "--parallel", "1"];
    for choice in ["append", "uuid"] {
        let server = with_collection(json!({"size": 1, "distance": "Dot"}));
        server.state().points = vec![json!({"id": 99})];
        server.state().points_max = 31;
        let resume = [&["--ids", choice, "--resume", "--state", &state], &batches[..]].concat();
        refused(
            &server,
            &file,
            &resume,
            &[
                "Disk full",
                "The first 30 points are imported",
                "the same command again",
            ],
        );
        server.state().points_max = usize::MAX;
        let said = import_ok(&server, &file, &resume);
        assert!(
            said.contains("imported 20 points") && said.contains("30 were already imported and skipped"),
            "{said}"
        );
        assert!(said.contains("the collection has 51 now"), "{said}");
        let sent: Vec<Value> = ids(&server);
        let distinct: std::collections::BTreeSet<String> = sent.iter().map(ToString::to_string).collect();
        assert_eq!((sent.len(), distinct.len()), (51, 51), "{choice}");
    }
    // Without a state the error says which ids to go on with.
    let server = with_collection(json!({"size": 1, "distance": "Dot"}));
    server.state().points = vec![json!({"id": 99})];
    server.state().points_max = 31;
    let append = [&["--ids", "append"], &batches[..]].concat();
    refused(
        &server,
        &file,
        &append,
        &["--offset 30 --ids line --first-id 100"],
    );
    server.state().points_max = usize::MAX;
    import_ok(
        &server,
        &file,
        &["--offset", "30", "--ids", "line", "--first-id", "100"],
    );
    assert!(ids(&server).iter().filter_map(Value::as_u64).eq(99..150));
}

#[test]
fn a_file_that_was_corrected_is_told_how_it_goes_on() {
    let dir = TempDir::new();
    let state = dir.path("state.json");
    let server = FakeServer::start();
    let resume = ["--resume", "--state", &state];
    let file = dir.file("a.jsonl", b"{\"id\":1}\n{\"id\":2\n");
    refused(
        &server,
        &file,
        &resume,
        &["a.jsonl: line 2", "The first 1 points are imported"],
    );
    dir.file("a.jsonl", b"{\"id\":1}\n{\"id\":2}\n");
    let parts = [
        "a.jsonl changed since",
        "17 bytes then, 18 now",
        "--offset 1 instead of --resume",
        "remove ",
    ];
    refused(&server, &file, &resume, &parts);
    import_ok(&server, &file, &["--offset", "1"]);
    assert_eq!(ids(&server), [1, 2]);
}

#[test]
fn numbers_that_a_datatype_cannot_hold() {
    let dir = TempDir::new();
    let floats = dir.file("a.npy", &npy("<f4", 3, 2, &le(&[1.0, 2.0, 3.0, 0.5, 0.0, 0.0])));
    let server = FakeServer::start();
    refused(
        &server,
        &floats,
        &["--datatype", "uint8"],
        &[
            "a.npy: row 1",
            "number 1 of the vector is 0.5",
            "uint8 holds whole numbers from 0 to 255",
        ],
    );
    let server = with_collection(json!({"size": 2, "distance": "Dot", "datatype": "uint8"}));
    refused(&server, &floats, &[], &["a.npy: row 1"]);
    let lines = dir.file(
        "a.jsonl",
        b"{\"id\":1,\"vector\":[1,2]}\n{\"id\":2,\"vector\":[1,-2]}\n",
    );
    let server = with_collection(json!({"size": 2, "distance": "Dot", "datatype": "uint8"}));
    refused(
        &server,
        &lines,
        &[],
        &["a.jsonl: line 2", "number 1 of the vector is -2"],
    );
    let named = dir.file("b.jsonl", b"{\"id\":1,\"vector\":{\"a\":[1.5],\"b\":[70000]}}\n");
    let server = with_collection(
        json!({"a": {"size": 1, "distance": "Dot"}, "b": {"size": 1, "distance": "Dot", "datatype": "float16"}}),
    );
    refused(
        &server,
        &named,
        &[],
        &["b.jsonl: line 1", "is 70000, and float16 holds"],
    );
    import_ok(
        &with_collection(json!({"size": 2, "distance": "Dot", "datatype": "uint8"})),
        &dir.file("c.jsonl", b"{\"id\":1,\"vector\":[0,255.0]}\n"),
        &[],
    );
}

#[test]
fn options_that_say_otherwise_than_the_collection() {
    let dir = TempDir::new();
    let file = dir.file("a.jsonl", b"{\"id\":1,\"vector\":[1,2],\"body\":\"x\"}\n");
    let there = || with_collection(json!({"size": 2, "distance": "Euclid"}));
    for (option, told, has) in [
        ("--distance", "Dot", "Euclid"),
        ("--datatype", "float16", "float32"),
    ] {
        let server = there();
        refused(
            &server,
            &file,
            &[option, told],
            &[&format!("'c' exists with {has}, but {option} is {told}")],
        );
        assert!(server.state().bodies.is_empty());
    }
    import_ok(
        &there(),
        &file,
        &["--distance", "euclid", "--datatype", "float32"],
    );

    let server = FakeServer::start();
    import_ok(&server, &file, &["--text", "body", "--language", "german"]);
    refused(
        &server,
        &file,
        &["--text", "body"],
        &["already has an index on 'body'", "german"],
    );
    refused(
        &server,
        &file,
        &["--text", "body", "--language", "none"],
        &["already has an index on 'body'", r#"stopwords "german""#],
    );
    let said = import_ok(&server, &file, &["--text", "body", "--language", "german"]);
    assert!(!said.contains("text index on"), "it is there: {said}");
}

#[test]
fn nothing_imported_is_a_failure() {
    let dir = TempDir::new();
    let rows = dir.file("a.npy", &npy("<f4", 2, 1, &le(&[1.0, 2.0])));
    let none = dir.file("b.npy", &npy("<f4", 0, 1, &[]));
    for (file, more, part) in [
        (&none, &[][..], "the files have no points"),
        (&rows, &["--offset", "2"], "no points after the first 2"),
        (
            &rows,
            &["--offset", "3"],
            "--offset skips the first 3 points, but there are only 2",
        ),
        (&rows, &["--limit", "0"], "--limit is 0"),
    ] {
        let server = FakeServer::start();
        refused(&server, file, more, &[part]);
        assert_eq!(server.state().collection, None, "{part}");
    }
}

#[test]
fn fields_of_text_that_no_point_has() {
    let dir = TempDir::new();
    let file = dir.file(
        "a.jsonl",
        b"{\"id\":1,\"body\":\"x\"}\n{\"id\":2,\"title\":\"x\"}\n",
    );
    let said = import_ok(&FakeServer::start(), &file, &["--text", "body,title,boddy"]);
    assert!(
        said.contains("no point has a text in the field 'boddy' of --text"),
        "{said}"
    );
    assert!(
        !said.contains("the field 'body'") && !said.contains("the field 'title'"),
        "{said}"
    );
    let nested = dir.file("b.jsonl", b"{\"id\":1,\"payload\":{\"a\":{\"b\":\"x\"}}}\n");
    let said = import_ok(&FakeServer::start(), &nested, &["--text", "a.b,c"]);
    assert!(said.contains("'c'") && !said.contains("'a.b' of"), "{said}");
    let numbers = dir.file(
        "c.jsonl",
        b"{\"id\":1,\"n\":5,\"list\":[1,2],\"none\":null,\"texts\":[\"x\"]}\n",
    );
    let said = import_ok(&FakeServer::start(), &numbers, &["--text", "n,list,none,texts"]);
    for field in ["n", "list", "none"] {
        assert!(said.contains(&format!("in the field '{field}'")), "{said}");
    }
    assert!(!said.contains("'texts' of"), "{said}");

    let rows = dir.file("a.npy", &npy("<f4", 1, 1, &le(&[1.0])));
    refused(
        &FakeServer::start(),
        &rows,
        &["--text", "body"],
        &["vectors have no fields", "--payload"],
    );
}

#[test]
fn a_list_of_numbers_that_would_become_payload() {
    let dir = TempDir::new();
    let file = dir.file("a.jsonl", b"{\"id\":1,\"embedding\":[1,2,3]}\n");
    let server = FakeServer::start();
    refused(
        &server,
        &file,
        &[],
        &[
            "'embedding' is a list of 3 numbers",
            "--vector-field 'embedding'",
            "--vector-field none",
        ],
    );
    assert_eq!(server.state().collection, None);
    import_ok(&server, &file, &["--vector-field", "embedding"]);
    assert_eq!(points(&server), [json!({"id": 1, "vector": [1, 2, 3]})]);
    let server = FakeServer::start();
    import_ok(&server, &file, &["--vector-field", "none"]);
    assert_eq!(
        points(&server),
        [json!({"id": 1, "vector": {}, "payload": {"embedding": [1, 2, 3]}})]
    );

    let beside = dir.file(
        "b.jsonl",
        b"{\"id\":1,\"vector\":[1],\"title_vec\":[1,2],\"rgb\":[1,2,3]}\n",
    );
    let said = import_ok(&FakeServer::start(), &beside, &[]);
    assert!(
        said.contains("'title_vec', a list of 2 numbers, becomes payload") && !said.contains("rgb"),
        "{said}"
    );
    let table = dir.file("c.csv", b"id,embedding\n1,\"[0.5, 1]\"\n");
    refused(
        &FakeServer::start(),
        &table,
        &[],
        &["'embedding' is a list of 2 numbers"],
    );
    import_ok(
        &FakeServer::start(),
        &dir.file("d.jsonl", b"{\"id\":1,\"rgb\":[1,2,3]}\n"),
        &[],
    );
}

#[test]
fn a_vector_in_columns_of_their_own() {
    let dir = TempDir::new();
    let table = dir.file(
        "a.csv",
        b"id,e0,e1,e2,e3,e4,e5,e6,e7,year\n1,0,1,2,3,4,5,6,7,1999\n2,0,1,2,3,,5,6,7,\n",
    );
    let server = FakeServer::start();
    refused(
        &server,
        &table,
        &[],
        &[
            "'e*' is 8 columns of numbers",
            "--vector-field 'e*'",
            "--vector-field none",
        ],
    );
    refused(
        &server,
        &table,
        &["--vector-field", "e*"],
        &[
            "a.csv: line 3",
            "the column 'e4' of --vector-field 'e*' has no number",
        ],
    );
    assert_eq!(
        points(&server),
        [json!({"id": 1, "vector": [0, 1, 2, 3, 4, 5, 6, 7], "payload": {"year": 1999}})]
    );
    import_ok(&FakeServer::start(), &table, &["--vector-field", "none"]);
}

#[test]
fn fields_that_were_named_are_there() {
    let dir = TempDir::new();
    let file = dir.file("a.csv", b"key,emb,t\n1,\"[1, 2]\",x\n");
    refused(
        &FakeServer::start(),
        &file,
        &["--vector-field", "embb"],
        &["a.csv: line 2", "'embb' of --vector-field", "key, emb, t"],
    );
    let typo = ["--vector-field", "emb", "--id-field", "kee"];
    refused(
        &FakeServer::start(),
        &file,
        &typo,
        &["'kee' of --id-field", "fields are key, t"],
    );
    import_ok(
        &FakeServer::start(),
        &file,
        &["--vector-field", "emb", "--id-field", "key"],
    );
}

#[test]
fn a_failed_import_leaves_no_collection_that_it_made() {
    let dir = TempDir::new();
    let broken = dir.file("a.jsonl", b"{\"id\":\"six\"}\n");
    let server = FakeServer::start();
    refused(&server, &broken, &[], &["removed the empty collection 'c'"]);
    assert_eq!(server.state().collection, None);
    let good = dir.file("b.jsonl", b"{\"id\":6}\n");
    refused(
        &server,
        &good,
        &["--text", "body", "--language", "klingon"],
        &["klingon", "removed the empty collection"],
    );
    assert_eq!(server.state().collection, None);

    let server = with_collection(json!({}));
    refused(&server, &broken, &[], &["No points are imported"]);
    assert!(server.state().collection.is_some(), "it was there before");
    let server = FakeServer::start();
    let half = dir.file("c.jsonl", b"{\"id\":1}\n{\"id\":\"six\"}\n");
    refused(&server, &half, &[], &["The first 1 points are imported"]);
    assert!(server.state().collection.is_some(), "a point is in it");
}

#[test]
fn a_point_that_the_server_refuses_is_named_by_its_line() {
    let dir = TempDir::new();
    let mut text = String::from("\n");
    for id in 0..40 {
        let vector = if id == 29 { "[1,2,3]" } else { "[1,2]" };
        text += &format!("{{\"id\":{id},\"vector\":{vector}}}\n");
    }
    let server = FakeServer::start();
    server.state().dim = Some(2);
    let file = dir.file("a.jsonl", text.as_bytes());
    refused(
        &server,
        &file,
        &["--parallel", "1"],
        &["point 29", "a.jsonl: line 31", "dimension error", "--offset 29"],
    );
    assert_eq!(points(&server).len(), 29, "those before it are in");
}

#[test]
fn what_stands_in_files_instead_of_json() {
    let dir = TempDir::new();
    let utf16 = [
        &b"\xff\xfe"[..],
        &"{}"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<u8>>(),
    ]
    .concat();
    let cases: [(&str, &[u8], &[&str]); 18] = [
        (
            "a.jsonl",
            b"[{\"id\": 1},\n{\"id\": 2}]",
            &["line 1, column ", "a JSON array: --format json"],
        ),
        (
            "b.jsonl",
            b"{\"id\": 1}\n{\"id\": 2, \"a\": NaN}\n",
            &["b.jsonl: line 2, column 16", "NaN", "null"],
        ),
        (
            "c.jsonl",
            b"{\"id\": 1, \"a\": -Infinity}\n",
            &["line 1, column 17", "no infinity"],
        ),
        ("d.jsonl", &utf16, &["UTF-16", "iconv"]),
        ("e.jsonl", b"{'id': 1}\n", &["line 1, column 2", "double quotes"]),
        ("f.jsonl", b"{\"id\": 1, \"a\": True}\n", &["lower case"]),
        ("g.jsonl", b"{\"id\": 1,\n\"a\": 2}\n", &["--format json"]),
        ("h.jsonl", b"id,title\n1,x\n", &["--format csv"]),
        (
            "i.json",
            b"[\n {\"id\": 1},\n {\"id\": 2, \"a\": NaN}\n]",
            &["i.json: line 3, column 17", "NaN"],
        ),
        (
            "j.json",
            b"[{\"id\": 1}, 5]",
            &["line 1, column 13", "'5' where an object is expected"],
        ),
        ("k.json", b"[{\"id\": 1}", &["truncated"]),
        (
            "l.json",
            b"[{\"id\": 1",
            &["ends within the object that begins in line 1"],
        ),
        (
            "m.csv",
            b"id,t\n1,x\n2,x,y\n",
            &["line 3 has 3 cells, and line 1 names 2 columns"],
        ),
        (
            "n.csv",
            b"1,2\n3,4\n",
            &["line 1, column 1", "the first line is to name the columns"],
        ),
        ("o.csv", b"PK\x03\x04..", &["ZIP archive", "unzip"]),
        (
            "q.csv",
            b"id,t\n1,\"x\n2,y\n",
            &["q.csv: line 2: a quote is not closed"],
        ),
        (
            "r.csv",
            b"id,t\n1,x\n2,\"\"\"y\n3,z\n",
            &["r.csv: line 3: a quote is not closed"],
        ),
        ("p.csv", b"id,t\n", &["there is nothing in it"]),
    ];
    for (name, bytes, parts) in cases {
        let server = FakeServer::start();
        refused(&server, &dir.file(name, bytes), &[], parts);
        let nothing_is_in = points(&server).is_empty();
        assert_eq!(server.state().collection.is_none(), nothing_is_in, "{name}");
    }
}

#[test]
fn a_server_is_not_copied_onto_itself() {
    let dir = TempDir::new();
    let from = |from: &str, to: &FakeServer| {
        let output = Command::new(env!("CARGO_BIN_EXE_ramlet"))
            .args(["import", "--from", from, "--url", &to.url, "--collection", "c"])
            .args(["--state", &dir.path("state.json")])
            .output()
            .expect("the binary runs");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    };
    let server = with_collection(json!({}));
    for url in [
        server.url.clone(),
        server.url.replace("127.0.0.1", "localhost"),
        format!("{}/", server.url),
    ] {
        let said = from(&url, &server);
        assert!(said.contains("are the same server"), "{said}");
    }
    // Behind two addresses.
    let (one, two) = (with_collection(json!({})), with_collection(json!({})));
    one.state().identity = Some("a");
    two.state().identity = Some("a");
    assert!(from(&one.url, &two).contains("are the same server"));
    two.state().identity = Some("b");
    let said = from(&one.url, &two);
    assert!(said.contains("imported 0 points"), "{said}");
}

#[test]
fn an_interrupt_says_how_far_it_got() {
    let server = FakeServer::start();
    let (running, mut input) = piped(&server, &["--format", "jsonl", "--batch", "1"]);
    let more = std::thread::spawn(move || {
        for id in 0..100_000 {
            if writeln!(input, "{{\"id\": {id}}}").is_err() {
                return;
            }
        }
    });
    while points(&server).len() < 5 {
        std::thread::yield_now();
    }
    let pid = running.id().to_string();
    let killed = Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .expect("kill runs");
    assert!(killed.success());
    let output = running.wait_with_output().expect("it ends");
    more.join().expect("no panic");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    let sent = points(&server).len();
    assert!(!output.status.success() && (5..100_000).contains(&sent), "{said}");
    for part in [
        &format!("The first {sent} points are imported"),
        &format!("--offset {sent}"),
        "interrupted",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Ctrl-C ends the program before a pipe too: its output wasn't all.
#[test]
fn the_end_of_a_pipe_after_an_interrupt_is_none() {
    let server = FakeServer::start();
    let (running, mut input) = piped(&server, &["--format", "jsonl", "--batch", "1"]);
    input.write_all(b"{\"id\": 1}\n{\"id\": 2}\n").expect("read");
    while points(&server).len() < 2 {
        std::thread::yield_now();
    }
    let killed = Command::new("kill")
        .args(["-INT", &running.id().to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
    // The signal is heard by a thread of its own.
    std::thread::sleep(std::time::Duration::from_secs(1));
    drop(input);
    let output = running.wait_with_output().expect("it ends");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    assert!(
        !output.status.success() && said.contains("The first 2 points are imported"),
        "{said}"
    );
}

#[test]
fn two_fields_of_one_vector() {
    let dir = TempDir::new();
    let file = dir.file("a.jsonl", b"{\"id\":1,\"a\":[1,2],\"b\":[1,2,3]}\n");
    for (fields, part) in [
        (
            ["--vector-field", "a", "--vector-field", "b"],
            "'a' and 'b' the vector without a name",
        ),
        (
            ["--vector-field", "x=a", "--vector-field", "x=b"],
            "'a' and 'b' the vector named 'x'",
        ),
    ] {
        let server = FakeServer::start();
        refused(&server, &file, &fields, &[part, "--vector-field NAME=FIELD"]);
        assert_eq!(server.state().collection, None);
    }
    let server = FakeServer::start();
    import_ok(&server, &file, &["--vector-field", "a", "--vector-field", "y=b"]);
}
