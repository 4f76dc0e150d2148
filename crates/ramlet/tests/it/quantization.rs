//! `quantization_config` through the engine: the codes that it asks for are what searches look at.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet::*;
use ramlet_index::CodeKind;
use ramlet_io::{RamStorage, Storage};
use serde_json::{Value, json};

use crate::support::*;

const DIM: usize = 64;
const POINTS: u64 = 3000;
const GROUPS: u64 = POINTS.div_ceil(32);
/// Signs, factors and numbers of a group.
const CODES: (&str, u64) = ("codes", GROUPS * 32 * (DIM as u64 / 8 + 7));

/// Extended codes of so many bits in all.
const fn extended(bits: u64) -> (&'static str, u64) {
    ("extended codes", POINTS * ((bits - 1) * DIM as u64 / 8 + 2))
}

/// What extended codes of so many bits leave over.
fn residual(extended: u8) -> (&'static str, u64) {
    let row = CodeKind::residual(DIM, extended).row_bytes(DIM, POINTS as u32);
    ("residual codes", POINTS * row as u64)
}

/// Product codes of so many bytes a vector.
const fn product(bytes: u64) -> (&'static str, u64) {
    ("product codes", GROUPS * 32 * bytes)
}

fn vector(rng: &mut Rng, id: u64) -> Vec<f32> {
    let mut centre = Rng(1 + id % 40);
    (0..DIM).map(|_| centre.float() + rng.float() * 0.4).collect()
}

/// A collection of one segment with clusters, its vectors themselves on disk.
fn filled(storage: Arc<dyn Storage>, distance: Distance, quantization: Option<Value>) -> Arc<Engine> {
    let engine = open(storage);
    let mut config = config(DIM, distance);
    config.indexing_threshold = Some(50);
    config.vectors.values_mut().for_each(|v| v.on_disk = Some(true));
    config.other = BTreeMap::from([("index".to_owned(), json!("ivf"))]);
    config
        .other
        .extend(quantization.map(|asked| ("quantization_config".to_owned(), asked)));
    engine.create_collection("c", config).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rng = Rng(3);
    let points = (0..POINTS).map(|id| point(id, vector(&mut rng, id), "{}"));
    collection.update(upsert(points.collect())).expect("upserts");
    collection.flush().expect("flushes");
    collection.wait_idle().expect("nothing fails");
    engine
}

/// What of the vectors is in RAM.
fn pinned(engine: &Engine) -> Vec<(&'static str, u64)> {
    let memory = engine
        .collection("c")
        .expect("is there")
        .info()
        .memory
        .into_iter();
    let pinned = memory.filter(|part| part.pinned_bytes > 0);
    pinned.map(|part| (part.kind, part.pinned_bytes)).collect()
}

/// Share of the true neighbours that searches find, looking at codes.
fn recall(engine: &Engine) -> f64 {
    let collection = engine.collection("c").expect("is there");
    let mut scratch = engine.scratch().expect("room for a scratch");
    let mut rng = Rng(77);
    let mut found = 0;
    for query in 0..20 {
        let mut request = search_request(vector(&mut rng, query * 131), 10);
        let mut ids = |exact| -> Vec<PointId> {
            request.params.exact = exact;
            let mut hits = Vec::new();
            let found = collection.search_into(&request, &mut scratch, &mut hits);
            found.expect("searches");
            hits.iter().map(|hit| hit.id).collect()
        };
        let exact = ids(true);
        found += ids(false).iter().filter(|id| exact.contains(id)).count();
    }
    found as f64 / 200.0
}

fn check(engine: &Engine, asked: &str, expected: &[(&'static str, u64)]) {
    // The last page of each is a whole one.
    let pages = |parts: &[(&'static str, u64)]| -> Vec<(&'static str, u64)> {
        let of = |(kind, bytes): &(&'static str, u64)| (*kind, bytes.div_ceil(4096));
        parts.iter().map(of).collect()
    };
    assert_eq!(pages(&pinned(engine)), pages(expected), "{asked}");
    let recall = recall(engine);
    assert!(recall >= 0.9, "{asked}: recall {recall}");
}

#[test]
fn each_setting_has_its_codes() {
    let bytes = DIM as u64;
    for (asked, expected) in [
        (
            json!({"scalar": {"type": "int8"}}),
            vec![CODES, extended(8), residual(8)],
        ),
        (
            json!({"product": {"compression": "x4"}}),
            vec![CODES, extended(8), residual(8)],
        ),
        (
            json!({"product": {"compression": "x8"}}),
            vec![product(bytes / 2)],
        ),
        (
            json!({"product": {"compression": "x16"}}),
            vec![product(bytes / 4)],
        ),
        (
            json!({"product": {"compression": "x32"}}),
            vec![product(bytes / 8)],
        ),
        (
            json!({"product": {"compression": "x64"}}),
            vec![product(bytes / 16)],
        ),
        (json!({"binary": {}}), vec![CODES]),
        (
            json!({"binary": {"encoding": "one_bit", "always_ram": true}}),
            vec![CODES],
        ),
        (
            json!({"binary": {"encoding": "one_and_half_bits"}}),
            vec![CODES, extended(2), residual(2)],
        ),
        (
            json!({"binary": {"encoding": "two_bits"}}),
            vec![CODES, extended(2), residual(2)],
        ),
        (json!({"turbo": {}}), vec![CODES, extended(4), residual(4)]),
        (json!({"turbo": {"bits": "bits1"}}), vec![CODES]),
        (
            json!({"turbo": {"bits": "bits1_5"}}),
            vec![CODES, extended(2), residual(2)],
        ),
        (
            json!({"turbo": {"bits": "bits2"}}),
            vec![CODES, extended(2), residual(2)],
        ),
        (
            json!({"turbo": {"bits": "bits8"}}),
            vec![CODES, extended(8), residual(8)],
        ),
        (json!({"scalar": {"type": "int8", "memory": "cold"}}), vec![]),
    ] {
        let text = asked.to_string();
        let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
        let engine = filled(storage.clone(), Distance::Cosine, Some(asked));
        check(&engine, &text, &expected);
        engine.close();
        drop(engine);
        check(&open(storage), &text, &expected);
    }
}

#[test]
fn products_serve_each_distance_that_has_codes() {
    for distance in [Distance::Euclid, Distance::Dot, Distance::Cosine] {
        let asked = json!({"product": {"compression": "x16"}});
        let engine = filled(Arc::new(RamStorage::new(None)), distance, Some(asked));
        check(&engine, &format!("{distance:?}"), &[product(DIM as u64 / 4)]);
    }
    let asked = json!({"product": {"compression": "x16"}});
    let engine = filled(Arc::new(RamStorage::new(None)), Distance::Manhattan, Some(asked));
    check(&engine, "no codes", &[]);
}

#[test]
fn a_change_has_segments_rewritten() {
    let engine = filled(Arc::new(RamStorage::new(None)), Distance::Cosine, None);
    // 10 bits each would make 600, and 8 are the most.
    let usual = [CODES, extended(8), residual(8)];
    check(&engine, "nothing", &usual);
    for (asked, expected) in [
        (
            json!({"product": {"compression": "x16"}}),
            &[product(DIM as u64 / 4)][..],
        ),
        (json!({"binary": {}}), &[CODES][..]),
        (
            json!({"turbo": {"bits": "bits4"}}),
            &[CODES, extended(4), residual(4)][..],
        ),
        (Value::Null, &usual[..]),
    ] {
        let text = asked.to_string();
        engine
            .update_collection("c", &mut |config| {
                config
                    .other
                    .insert("quantization_config".to_owned(), asked.clone());
                Ok(())
            })
            .expect("changes");
        engine
            .collection("c")
            .expect("is there")
            .wait_idle()
            .expect("nothing fails");
        check(&engine, &text, expected);
    }
}
