//! Files of vectors that people have: `.npy`, `.fvecs` and its kin, big-ann's, HDF5, and JSON lines; read as the import does.
//!
//! The input is a byte that chooses the kind, then the file. None of them has a checksum over its head; those of compressed chunks of HDF5
//! are adler32, behind the data that they are of.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use ramlet_bench::files::{DIM_MAX, EXTENSIONS, Rows, hdf5_datasets, open_rows, read_bigann_truth};
use ramlet_cli::each_point;
use serde_json::value::RawValue;

use crate::Seed;
use crate::input::Input;

/// Rows that are read.
const ROWS_MAX: u64 = 300;

/// A file with these bytes. The readers take paths: HDF5 is read from any place of it.
fn written(bytes: &[u8], extension: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = std::env::temp_dir().join(format!("ramlet-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for temporary files");
        directory
    });
    let path = directory.join(format!("input.{extension}"));
    std::fs::write(&path, bytes).expect("writes a temporary file");
    path
}

pub fn vectors(bytes: &[u8]) {
    let mut input = Input(bytes);
    let flat: Vec<&str> = EXTENSIONS
        .into_iter()
        .filter(|name| !name.starts_with('h') && *name != "npz")
        .collect();
    let extension = input.pick(&flat);
    let path = written(input.0, extension);
    if let Ok(mut rows) = open_rows(&path, "") {
        read(rows.as_mut(), false);
    }
    if *extension == "ibin"
        && let Ok(lists) = read_bigann_truth(&path, 2, 3)
    {
        assert!(lists.len() == 2 && lists.iter().all(|list| list.len() == 3));
    }
}

/// JSON lines. The input is a byte, then lines, packed ones, or such as are to be packed. What comes out is JSON.
pub fn jsonl(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (packing, takes_ids) = (input.below(3), input.below(2) == 1);
    let path = match packing {
        0 => written(input.0, "jsonl"),
        1 => written(input.0, "jsonl.gz"),
        _ => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            let packed = encoder.write_all(input.0).and_then(|()| encoder.finish());
            written(&packed.expect("packs into memory"), "jsonl.gz")
        }
    };
    points_are_json(&path, takes_ids);
}

fn points_are_json(path: &Path, takes_ids: bool) {
    let _ = each_point(path, takes_ids, &mut |point| {
        let told = serde_json::from_slice::<&RawValue>(point);
        assert!(told.is_ok(), "{told:?}: {}", String::from_utf8_lossy(point));
    });
}

/// Tables of text.
pub fn csv(bytes: &[u8]) {
    points_are_json(&written(bytes, "csv"), true);
}

pub fn csv_seeds() -> Vec<Seed> {
    let typed = "id,title,year,score,zip,ok,none\n7,\"Red, \"\"big\"\"\nbarrow\",1923,0.5,01234,true,\n9,Fox,,1e3,99,FALSE,\n";
    let vectors = "t;vector\nx;[0.5 1. +2]\ny;\"[3, 4]\"\nz;{1,2}\n";
    vec![
        ("typed", typed.as_bytes().to_vec()),
        ("vectors", vectors.as_bytes().to_vec()),
    ]
}

/// JSON arrays, and objects one after another.
pub fn json(bytes: &[u8]) {
    points_are_json(&written(bytes, "json"), true);
}

pub fn json_seeds() -> Vec<Seed> {
    let array = br#"[{"id": 1, "vector": "[1, 2]", "t": "]}, {\"\\"}, {"id": 2, "vector": [3, 4], "n": {"a": [{}]}}]"#;
    let bare = b"{\n \"vector\": {\"s\": {\"indices\": [1], \"values\": [2]}}}\n{\"t\": 1}";
    vec![("array", array.to_vec()), ("bare", bare.to_vec())]
}

/// Archives of arrays.
pub fn npz(bytes: &[u8]) {
    let path = written(bytes, "npz");
    for key in ["", "vectors"] {
        if let Ok(mut rows) = open_rows(&path, key) {
            read(rows.as_mut(), true);
        }
    }
}

pub fn npz_seeds() -> Vec<Seed> {
    vec![
        (
            "stored",
            include_bytes!("../../../testdata/import/stored.npz").to_vec(),
        ),
        (
            "deflated",
            include_bytes!("../../../testdata/import/deflated.npz").to_vec(),
        ),
    ]
}

pub fn jsonl_seeds() -> Vec<Seed> {
    let lines = r#"{"id": 5, "vector": [1, 2.50], "payload": {"a": 1}}
{"vector": {"t": [1]}, "title": "xé
", "b": [2]}

{"id": "6f9619ff-8b86-d011-b42d-00c04fc964ff", "vectors": null, "payload": null, "score": 0}
{"id": "six", "vector": {"s": {"indices": [1], "values": [2]}}}
"#;
    let mut encoder = GzEncoder::new(vec![1, 0], Compression::fast());
    encoder.write_all(lines.as_bytes()).expect("packs into memory");
    vec![
        ("plain", [&[0, 1], lines.as_bytes()].concat()),
        ("by-line", [&[0, 0], lines.as_bytes()].concat()),
        ("to-pack", [&[2, 1], lines.as_bytes()].concat()),
        ("packed", encoder.finish().expect("packs into memory")),
    ]
}

/// HDF5 has a target to itself: it is another library, and a large one.
pub fn hdf5(bytes: &[u8]) {
    let path = written(bytes, "hdf5");
    let datasets = hdf5_datasets(&path).unwrap_or_default();
    for key in datasets.iter().map(String::as_str).take(3).chain(["train"]) {
        if let Ok(mut rows) = open_rows(&path, key) {
            read(rows.as_mut(), true);
        }
    }
}

/// From the first row and once more from the middle. A file whose length is checked first gives all the rows that it says.
fn read(rows: &mut dyn Rows, may_break_off: bool) {
    assert!((1..=DIM_MAX).contains(&(rows.dim() as u64)));
    let (count, mut row) = (rows.rows(), Vec::new());
    for start in [0, count / 2] {
        rows.seek(start).expect("within the file");
        let mut given = 0;
        let ended = loop {
            match rows.read(&mut row) {
                Ok(true) => assert_eq!(row.len(), rows.dim()),
                Ok(false) => break true,
                Err(_) => return,
            }
            given += 1;
            if given == ROWS_MAX {
                break false;
            }
        };
        assert!(!ended || may_break_off || start + given == count);
    }
}

pub fn vectors_seeds() -> Vec<Seed> {
    let npy = |descr: &str, shape: &str, data: &[u8]| {
        let head = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let length = (head.len() as u16).to_le_bytes();
        [&[0][..], b"\x93NUMPY\x01\0", &length, head.as_bytes(), data].concat()
    };
    let vecs = |kind: u8, row: &[u8]| {
        let row = [&3i32.to_le_bytes()[..], row].concat();
        [&[kind][..], &row, &row].concat()
    };
    let bin = |kind: u8, row: &[u8]| {
        let head = [2u32.to_le_bytes(), 3u32.to_le_bytes()].concat();
        [&[kind][..], &head, row, row].concat()
    };
    vec![
        ("npy-f4", npy("<f4", "(2, 3)", &[0; 24])),
        ("npy-u1", npy("|u1", "(3, 5)", &[7; 15])),
        ("npy-f2", npy("<f2", "(2, 1)", &[0, 60, 1, 0])),
        ("fvecs", vecs(1, &[0; 12])),
        ("bvecs", vecs(2, &[1, 2, 3])),
        ("ivecs", vecs(3, &[9; 12])),
        ("fbin", bin(4, &[0; 12])),
        ("u8bin", bin(5, &[1, 2, 3])),
        ("ibin", bin(7, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])),
    ]
}

pub fn hdf5_seeds() -> Vec<Seed> {
    vec![
        (
            "contiguous",
            include_bytes!("../../../testdata/import/contiguous.hdf5").to_vec(),
        ),
        (
            "chunked",
            include_bytes!("../../../testdata/import/chunked-gzip.hdf5").to_vec(),
        ),
    ]
}
