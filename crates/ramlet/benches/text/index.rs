//! `index`: documents into a new collection without vectors, and its text index.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use ramlet::{
    Collection, CollectionConfig, ErrorKind, FieldIndex, FieldKind, Point, PointId, UpdateMode, UpdateOp,
};
use ramlet_testdata::args::Args;
use ramlet_testdata::process;
use serde_json::json;

use crate::{Outcome, open};

/// Points of one update.
const BATCH: usize = 512;

pub fn run(prefix: &str, directory: &Path, args: &Args) -> Outcome {
    let _ = std::fs::remove_dir_all(directory);
    std::fs::create_dir_all(directory)?;
    let (started, cpu) = (Instant::now(), process::process_cpu_s());
    let engine = open::engine(directory, args)?;
    let params = json!({
        "type": "text", "tokenizer": "word", "lowercase": true, "stemmer": { "type": "snowball", "language": "english" },
        "stopwords": "english", "scoring": true, "phrase_matching": true
    });
    let index = FieldIndex {
        kind: FieldKind::Text,
        params: Some(params),
    };
    let field = args.text("field").unwrap_or("body").to_string();
    engine.create_collection(
        open::NAME,
        CollectionConfig {
            payload_schema: BTreeMap::from([(field, index)]),
            ..CollectionConfig::default()
        },
    )?;
    let collection = engine.collection(open::NAME)?;
    let documents = load(&collection, prefix)?;
    collection.flush()?;
    open::settle(&collection)?;
    let out = json!({
        "step": "index", "side": "ramlet", "documents": documents, "seconds": started.elapsed().as_secs_f64(),
        "cpu_s": process::process_cpu_s() - cpu, "bytes": collection.info().disk_bytes,
        "segments": collection.info().segments_count, "used": open::memory_now(), "placement": open::placement(&engine, &collection),
    });
    println!("{out}");
    engine.close();
    Ok(())
}

fn load(collection: &Collection, prefix: &str) -> Outcome<u64> {
    let path = format!("{prefix}.docs.jsonl");
    let mut lines = BufReader::new(File::open(&path).map_err(|e| format!("{path}: {e}"))?).lines();
    let mut next = 0;
    loop {
        let mut batch = Vec::with_capacity(BATCH);
        for line in lines.by_ref().take(BATCH) {
            batch.push((next, line?));
            next += 1;
        }
        if batch.is_empty() {
            return Ok(next);
        }
        while !put(collection, &batch)? {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// False: there is no room just now, as the server says with 429.
fn put(collection: &Collection, batch: &[(u64, String)]) -> Outcome<bool> {
    let points = batch.iter().map(|(id, document)| Point {
        id: PointId::Num(*id),
        vectors: Vec::new(),
        payload: document.clone().into_bytes(),
    });
    let op = UpdateOp::Upsert {
        points: points.collect(),
        filter: None,
        mode: UpdateMode::Upsert,
    };
    match collection.update(op) {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::OverBudget) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
