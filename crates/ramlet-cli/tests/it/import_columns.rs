//! Parquet and Arrow files, as pyarrow writes them (testdata/import).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::fake_server::FakeServer;
use crate::import::{TempDir, import, import_ok, points};

fn of_testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/import")
        .join(name)
}

const FILES: [&str; 7] = [
    "rows-none.parquet",
    "rows-snappy.parquet",
    "rows-zstd.parquet",
    "rows-gzip.parquet",
    "rows-lz4.parquet",
    "rows.feather",
    "rows.arrow",
];

/// Row `at` of each of the files, without its vectors.
fn payload(at: usize) -> Value {
    let mut payload = json!({
        "day": "1969-07-20", "at": "1969-07-20T20:17:40.250Z", "price": 12.5,
        "meta": {"n": at, "tags": ["x", null], "deep": {}}
    });
    let mut put = |key: &str, value: Value| {
        if value != json!("nothing") {
            payload[key] = value;
        }
    };
    put(
        "title",
        [
            json!("a \"b\""),
            json!("nothing"),
            json!("ü"),
            json!(""),
            json!("nothing"),
        ][at]
            .clone(),
    );
    put(
        "lang",
        [
            json!("en"),
            json!("de"),
            json!("en"),
            json!("nothing"),
            json!("en"),
        ][at]
            .clone(),
    );
    put(
        "ok",
        [
            json!(true),
            json!(false),
            json!("nothing"),
            json!(true),
            json!(false),
        ][at]
            .clone(),
    );
    put(
        "score",
        [json!(0.1), json!(null), json!(null), json!(1e300), json!(-2.0)][at].clone(),
    );
    payload
}

#[test]
fn rows_of_columns() {
    let fields = ["f=fixed", "l=list", "h=halves", "b=bytes"];
    let named: Vec<&str> = fields
        .iter()
        .flat_map(|field| ["--vector-field", field])
        .collect();
    for name in FILES {
        let server = FakeServer::start();
        let said = import_ok(&server, &of_testdata(name), &named);
        assert!(
            said.contains("the column 'image' is left out: JSON has no Binary"),
            "{said}"
        );
        let expected: Vec<Value> = (0..5)
            .map(|at| {
                let vector = json!([at as f64 + 0.5, at as f64 * 2.0, -1.0]);
                json!({
                    "id": 10 + at, "payload": payload(at),
                    "vector": {"f": vector, "l": vector, "h": vector, "b": [at, 255, 0]}
                })
            })
            .collect();
        assert_eq!(Value::from(points(&server)), Value::from(expected), "{name}");
        let created = server.state().collection.clone().expect("created");
        assert_eq!(created["vectors"]["h"], json!({"size": 3, "distance": "Cosine"}));
    }
}

#[test]
fn a_part_of_the_rows_and_a_row_that_does_not_fit() {
    let file = of_testdata("rows-zstd.parquet");
    let server = FakeServer::start();
    let part = ["--vector-field", "fixed", "--offset", "1", "--limit", "3"];
    let said = import_ok(&server, &file, &part);
    assert!(said.contains("imported 3 points"), "{said}");
    let ids: Vec<_> = points(&server).iter().map(|point| point["id"].as_u64()).collect();
    assert_eq!(ids, [Some(11), Some(12), Some(13)]);
    // What the datatype can't hold is named by its row.
    let (success, said) = import(
        &FakeServer::start(),
        &file,
        &["--vector-field", "fixed", "--datatype", "uint8"],
    );
    assert!(
        !success && said.contains("row 0: number 0 of the vector is 0.5"),
        "{said}"
    );
}

#[test]
fn a_compression_without_a_reader_is_told_with_the_cure() {
    let server = FakeServer::start();
    let (success, said) = import(&server, &of_testdata("ids-brotli.parquet"), &[]);
    for part in ["ids-brotli.parquet", "brotli", "write the file again", "ZSTD"] {
        assert!(!success && said.contains(part), "{part}: {said}");
    }
    assert!(server.state().collection.is_none(), "{said}");
}

#[test]
fn files_that_are_cut_or_changed() {
    let dir = TempDir::new();
    let refused = |name: &str, bytes: &[u8]| {
        let server = FakeServer::start();
        let (success, said) = import(&server, &dir.file(name, bytes), &["--vector-field", "fixed"]);
        assert!(
            !success && said.contains(name) && !said.contains("panicked"),
            "{said}"
        );
        assert!(
            server.state().collection.is_none() || !points(&server).is_empty(),
            "{said}"
        );
    };
    for name in FILES {
        let whole = std::fs::read(of_testdata(name)).expect("there");
        for cut in [0, 4, whole.len() / 2] {
            refused(name, &whole[..cut]);
        }
    }
    let whole = std::fs::read(of_testdata("rows-none.parquet")).expect("there");
    refused("a.arrow", &whole);
    let (_, said) = import(
        &FakeServer::start(),
        &dir.file("c.parquet", b"id,vector\n1,\"[1,2]\"\n"),
        &[],
    );
    assert!(said.contains("c.parquet: it isn't a Parquet file"), "{said}");
    refused("b.csv", &whole);
}
