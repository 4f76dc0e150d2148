//! Jobs that nobody wants any more: they end at their next read or write, and leave nothing behind.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use ramlet::*;
use ramlet_io::{BatchReader, LogFile, RamStorage, ReadFile, Storage, WriteFile};

use crate::support::*;

const DIM: usize = 24;
const POINTS: u64 = 3000;

/// How the name of a file ends that only a segment with clusters has.
const INDEX: &str = ".cen0";

/// Tells of the first temporary file of an index build, and waits there until it may go on.
struct Gate {
    begun: SyncSender<()>,
    go: Mutex<Option<Receiver<()>>>,
}

struct Gated {
    storage: Arc<dyn Storage>,
    gate: Arc<Gate>,
}

impl Storage for Gated {
    fn subdir(&self, name: &str) -> ramlet_io::Result<Arc<dyn Storage>> {
        let (storage, gate) = (self.storage.subdir(name)?, self.gate.clone());
        Ok(Arc::new(Gated { storage, gate }))
    }
    fn remove_subdir(&self, name: &str) -> ramlet_io::Result<()> {
        self.storage.remove_subdir(name)
    }
    fn list(&self) -> ramlet_io::Result<Vec<String>> {
        self.storage.list()
    }
    fn list_subdirs(&self) -> ramlet_io::Result<Vec<String>> {
        self.storage.list_subdirs()
    }
    fn create(&self, name: &str) -> ramlet_io::Result<Box<dyn WriteFile>> {
        if name.starts_with("tmp-ivf") {
            let first = self.gate.go.lock().expect("never poisoned").take();
            if let Some(go) = first {
                self.gate.begun.send(()).expect("somebody waits");
                go.recv().expect("it goes on");
            }
        }
        self.storage.create(name)
    }
    fn create_log(&self, name: &str, bytes: u64) -> ramlet_io::Result<Box<dyn LogFile>> {
        self.storage.create_log(name, bytes)
    }
    fn open_log(&self, name: &str) -> ramlet_io::Result<Box<dyn LogFile>> {
        self.storage.open_log(name)
    }
    fn open(&self, name: &str) -> ramlet_io::Result<Arc<dyn ReadFile>> {
        self.storage.open(name)
    }
    fn rename(&self, from: &str, to: &str) -> ramlet_io::Result<()> {
        self.storage.rename(from, to)
    }
    fn remove(&self, name: &str) -> ramlet_io::Result<()> {
        self.storage.remove(name)
    }
    fn sync_dir(&self) -> ramlet_io::Result<()> {
        self.storage.sync_dir()
    }
    fn lock(&self) -> ramlet_io::Result<Box<dyn Send + Sync>> {
        self.storage.lock()
    }
    fn free_bytes(&self) -> ramlet_io::Result<u64> {
        self.storage.free_bytes()
    }
    fn reader(&self, depth: usize) -> ramlet_io::Result<Box<dyn BatchReader>> {
        self.storage.reader(depth)
    }
    fn backend(&self) -> &'static str {
        self.storage.backend()
    }
    fn location(&self) -> String {
        self.storage.location()
    }
}

/// Stops an engine's build of an index by `end`, which `has_ended` sees before the build goes on.
fn stop(inner: &Arc<dyn Storage>, end: impl FnOnce(&Engine) + Send, has_ended: impl Fn(&Collection) -> bool) {
    let (begun, has_begun) = sync_channel(1);
    let (go, may_go) = sync_channel(1);
    let go_on = Mutex::new(Some(may_go));
    let gate = Arc::new(Gate { begun, go: go_on });
    let storage = inner.clone();
    let engine = open(Arc::new(Gated { storage, gate }));
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
