//! Jobs that nobody wants any more: they end at their next read or write, and leave nothing behind.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use ramlet::*;
use ramlet_io::{RamStorage, Storage};

use crate::support::*;
use crate::watched::Watched;

const DIM: usize = 24;
const POINTS: u64 = 3000;

/// How the name of a file ends that only a segment with clusters has.
const INDEX: &str = ".cen0";

/// Stops an engine's build of an index by `end`, which `has_ended` sees before the build goes on.
fn stop(inner: &Arc<dyn Storage>, end: impl FnOnce(&Engine) + Send, has_ended: impl Fn(&Collection) -> bool) {
    let (begun, has_begun) = sync_channel(1);
    let (go, may_go) = sync_channel(1);
    let may_go: Mutex<Option<Receiver<()>>> = Mutex::new(Some(may_go));
    // The first temporary file of an index build waits until it may go on.
    let before = move |op: &str, path: &str| {
        if op == "create" && path.contains("/tmp-ivf") {
            let first = may_go.lock().expect("never poisoned").take();
            if let Some(may_go) = first {
                begun.send(()).expect("somebody waits");
                may_go.recv().expect("it goes on");
            }
        }
    };
    let engine = open(Watched::new(inner.clone(), before));
    let mut config = config(DIM, Distance::Cosine);
    config.indexing_threshold = Some(50);
    engine.create_collection("c", config).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rng = Rng(3);
    let vector = |rng: &mut Rng| (0..DIM).map(|_| rng.float()).collect();
    let points = (0..POINTS).map(|id| point(id, vector(&mut rng), "{}"));
    collection.update(upsert(points.collect())).expect("upserts");
    std::thread::scope(|scope| {
        let build = scope.spawn(|| collection.flush());
        has_begun.recv().expect("a build begins");
        let ending = scope.spawn(|| end(&engine));
        while !has_ended(&collection) {
            std::thread::yield_now();
        }
        go.send(()).expect("the build waits");
        ending.join().expect("it ends");
        let built = build.join().expect("no panic");
        assert!(built.is_err(), "nobody wants it");
    });
    engine.close();
}

/// The files of all collections.
fn files(storage: &Arc<dyn Storage>) -> Vec<String> {
    let directories = storage.list_subdirs().expect("lists").into_iter();
    let names = directories.map(|directory| storage.subdir(&directory).and_then(|files| files.list()));
    names.flat_map(|names| names.expect("lists")).collect()
}

fn ram() -> Arc<dyn Storage> {
    Arc::new(RamStorage::new(None))
}

#[test]
fn an_engine_that_closes_waits_for_no_build() {
    let storage = ram();
    let refused = |collection: &Collection| {
        let refused = collection.update(delete(&[POINTS + 1]));
        refused.is_err_and(|error| error.kind() == ErrorKind::Closed)
    };
    stop(&storage, Engine::close, refused);
    let left = files(&storage);
    let written = |name: &String| name.starts_with("tmp-") || name.ends_with(INDEX);
    assert!(!left.iter().any(written), "{left:?}");

    let engine = open(storage.clone());
    let collection = engine.collection("c").expect("is there");
    assert_eq!(collection.info().points_count, POINTS);
    collection.flush().expect("it is built now");
    assert_eq!(collection.info().indexed_vectors_count, POINTS);
    engine.close();
    assert!(files(&storage).iter().any(|name| name.ends_with(INDEX)));
}

#[test]
fn a_deleted_collection_is_not_built_on() {
    let storage = ram();
    let delete = |engine: &Engine| {
        engine.delete_collection("c").expect("deletes");
    };
    stop(&storage, delete, Collection::is_dropped);
    assert!(files(&storage).is_empty());
    let engine = open(storage.clone());
    assert!(engine.collection("c").is_err());
    engine.close();
}
