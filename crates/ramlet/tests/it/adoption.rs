//! Segments that another engine built: whatever is offered, and whenever, what is visible stays the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ramlet::*;
use ramlet_format::manifest::Manifest;
use ramlet_io::{RamStorage, Storage};

use crate::support::*;

const DIM: usize = 8;

/// What one engine wrote: the log that all nodes follow.
#[derive(Default)]
struct SharedLog(Mutex<Vec<(String, u64, Vec<u8>)>>);

impl GroupLog for SharedLog {
    fn append(&self, collection: &str, lsn: u64, group: &[u8]) -> std::result::Result<(), String> {
        let mut all = self.0.lock().unwrap();
        all.push((collection.to_owned(), lsn, group.to_vec()));
        Ok(())
    }

    fn kept(&self, _: bool) {}
}

/// An engine over a directory that is there after it is gone.
struct Node {
    storage: Arc<RamStorage>,
    seed: u64,
    engine: Option<Arc<Engine>>,
    log: Arc<SharedLog>,
    applied: usize,
}

impl Node {
    fn open(
        storage: &Arc<RamStorage>,
        seed: u64,
        log: &Arc<SharedLog>,
        builds_elsewhere: bool,
    ) -> Arc<Engine> {
        let options = EngineOptions {
            seed,
            ..options(96 * MB)
        };
        let engine = Engine::open_without(storage.clone(), options, &[], builds_elsewhere).expect("opens");
        engine.set_group_log(log.clone());
        engine
    }

    fn new(seed: u64, log: &Arc<SharedLog>, config: &CollectionConfig) -> Node {
        let storage = Arc::new(RamStorage::new(None));
        let engine = Node::open(&storage, seed, log, false);
        engine.create_collection("c", config.clone()).expect("a new one");
        Node {
            storage,
            seed,
            engine: Some(engine),
            log: log.clone(),
            applied: 0,
        }
    }

    fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("it is open")
    }

    fn collection(&self) -> Arc<Collection> {
        self.engine().collection("c").expect("is there")
    }

    /// Applies groups up to so many.
    fn follow(&mut self, to: usize) {
        let mut follower = self.engine().follower().expect("enough memory");
        let log = self.log.0.lock().unwrap();
        for (id, lsn, group) in &log[self.applied..to] {
            let followed = self.engine().follow_group(id, *lsn, group, &mut follower);
            assert!(
                matches!(followed, Ok(Followed::Applied | Followed::Older)),
                "{followed:?}"
            );
        }
        self.applied = to;
    }

    fn contents(&self) -> Contents {
        contents(
            &self.collection(),
            &mut self.engine().scratch().expect("enough memory"),
        )
    }

    /// As after a kill: what is open goes on nowhere.
    fn restart(&mut self) {
        self.engine().close();
        self.engine = None;
        self.seed += 1_000;
        self.engine = Some(Node::open(&self.storage, self.seed, &self.log, true));
    }

    /// All files at one moment, by name.
    fn publish(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let copied = self.engine().copy(&mut |file| {
            let mut bytes = vec![0; file.bytes as usize];
            file.read_at(&mut bytes, 0)?;
            files.insert(file.name.clone(), bytes);
            Ok(())
        });
        copied.expect("copied");
        files
    }

    /// Takes what fits of files of another node; `None`: nothing does, or not yet.
    fn adopt(&self, files: &BTreeMap<String, Vec<u8>>, is_cut_off: bool) -> Option<bool> {
        let adoption = match self.engine().offered(list_of(files)).expect("looked at") {
            Offered::Wanted(adoption) => adoption,
            Offered::Nothing | Offered::Early => return None,
            Offered::Never(why) => panic!("{why}"),
        };
        let names: Vec<String> = adoption.files().collect();
        if is_cut_off {
            // Nobody cleans up.
            drop(adoption);
            self.bring(&names, files);
            return None;
        }
        self.bring(&names, files);
        Some(adoption.finish().expect("taken"))
    }

    fn bring(&self, names: &[String], files: &BTreeMap<String, Vec<u8>>) {
        for name in names {
            let (directory, file) = name.split_once('/').expect("a directory");
            let directory = self.storage.subdir(directory).expect("is there");
            let mut out = directory.create(file).expect("a new file");
            out.append(&files[name]).expect("written");
            out.sync().expect("synced");
        }
    }

    fn files(&self) -> Vec<String> {
        let directories = self.storage.list_subdirs().expect("listed");
        let [only] = &directories[..] else {
            panic!("{directories:?}")
        };
        self.storage
            .subdir(only)
            .expect("is there")
            .list()
            .expect("listed")
    }
}

fn list_of(files: &BTreeMap<String, Vec<u8>>) -> &[u8] {
    let found = files.iter().find(|(name, _)| name.contains("/MANIFEST-"));
    found.expect("a list of segments").1
}

fn indexed() -> CollectionConfig {
    CollectionConfig {
        indexing_threshold: Some(4),
        ..config(DIM, Distance::Dot)
    }
}

/// Random updates of few ids, some of which write an id twice, or are longer than a group.
fn update(rng: &mut Rng, n: u64) -> UpdateOp {
    let payload = |rng: &mut Rng, long: bool| {
        let text = if long { "x".repeat(3_000) } else { String::new() };
        format!("{{\"n\":{n},\"r\":{},\"t\":\"{text}\"}}", rng.below(1_000))
    };
    match rng.below(8) {
        0 => delete(&(0..20).map(|_| rng.below(800)).collect::<Vec<_>>()),
        1 => UpdateOp::SetPayload {
            payload: format!("{{\"s\":{n}}}").into_bytes(),
            key: None,
            points: PointsSelector::Filter(serde_json::from_str("{\"must\":[]}").unwrap()),
        },
        kind => {
            let count = if kind == 2 { 500 } else { 60 };
            let points = (0..count).map(|_| {
                let id = rng.below(800);
                let vector = rng.vector(DIM);
                let text = payload(rng, kind == 2);
                point(id, vector, &text)
            });
            upsert(points.collect())
        }
    }
}

#[test]
fn whatever_is_offered_the_same_is_visible() {
    for seed in 1..=4u64 {
        let mut rng = Rng(seed * 7_919);
        let log = Arc::new(SharedLog::default());
        let writer = Node::new(seed, &log, &indexed());
        let mut builder = Node::new(seed + 100, &log, &indexed());
        let mut adopter = Node::new(seed + 200, &log, &indexed());
        adopter.engine().set_builds_elsewhere(true);
        // What was visible after each group, and what was offered then.
        let (mut states, mut offers, mut adopted) = (vec![Contents::new()], Vec::new(), 0);
        for n in 0..40u64 {
            writer.collection().update(update(&mut rng, n)).expect("written");
            let end = log.0.lock().unwrap().len();
            // Groups of one update are visible one by one elsewhere: only what is between updates is compared.
            states.resize(end + 1, Contents::new());
            states[end] = writer.contents();
            let between = |rng: &mut Rng, from: usize| from + rng.below((end - from + 1) as u64) as usize;
            // Both are somewhere, in the middle of an update too.
            let to = between(&mut rng, builder.applied);
            builder.follow(to);
            if rng.below(3) == 0 {
                builder.collection().flush().expect("flushed");
            }
            if rng.below(3) == 0 {
                builder.collection().wait_idle().expect("built");
            }
            if rng.below(2) == 0 {
                offers.push(builder.publish());
            }
            let to = between(&mut rng, adopter.applied);
            adopter.follow(to);
            if rng.below(4) == 0 {
                adopter.collection().flush().expect("flushed");
            }
            let before = adopter.contents();
            if let Some(files) = offers.get(rng.below(offers.len().max(1) as u64) as usize) {
                // An older one, too.
                let files = if rng.below(2) == 0 {
                    offers.last().unwrap()
                } else {
                    files
                };
                let is_cut_off = rng.below(6) == 0;
                adopted += u32::from(adopter.adopt(files, is_cut_off) == Some(true));
                assert_eq!(adopter.contents(), before, "seed {seed}, update {n}");
                if is_cut_off || rng.below(6) == 0 {
                    adopter.restart();
                    assert_eq!(
                        adopter.contents(),
                        before,
                        "seed {seed}, update {n}, after a restart"
                    );
                }
            }
            if rng.below(5) == 0 {
                adopter.follow(end);
                assert_eq!(adopter.contents(), states[end], "seed {seed}, update {n}");
            }
        }
        assert!(adopted > 0, "seed {seed}");
        // In the end all of it is taken, and nothing was built there.
        let end = log.0.lock().unwrap().len();
        builder.follow(end);
        builder.collection().flush().expect("flushed");
        builder.collection().wait_idle().expect("built");
        adopter.follow(end);
        adopter.adopt(&builder.publish(), false);
        assert_eq!(adopter.contents(), writer.contents());
        let (info, built) = (adopter.collection().info(), builder.collection().info());
        assert!(built.indexed_vectors_count > 0 && info.indexed_vectors_count > 0);
        assert_eq!(adopter.engine().built(), 0, "merges and index builds");
        // What was brought and isn't listed is gone.
        let manifest = list_of(&adopter.publish()).to_vec();
        let manifest = Manifest::decode(&manifest).expect("its own");
        let listed = |file: &String| {
            let mut all = manifest.segments.iter().flat_map(|segment| segment.all_files());
            !file.starts_with(|first: char| first.is_ascii_digit()) || all.any(|entry| entry.name == *file)
        };
        let left: Vec<String> = adopter.files().into_iter().filter(|file| !listed(file)).collect();
        assert_eq!(left, Vec::<String>::new());
        for node in [&writer, &builder, &adopter] {
            node.engine().close();
        }
    }
}

#[test]
fn changes_meanwhile_are_there() {
    let log = Arc::new(SharedLog::default());
    let writer = Node::new(1, &log, &indexed());
    let mut builder = Node::new(2, &log, &indexed());
    writer.engine().set_builds_elsewhere(true);
    let mut rng = Rng(5);
    for batch in 0..40u64 {
        let points = (0..250).map(|n| point(batch * 250 + n, rng.vector(DIM), "{\"v\":0}"));
        writer
            .collection()
            .update(upsert(points.collect()))
            .expect("written");
    }
    builder.follow(40);
    builder.collection().flush().expect("flushed");
    builder.collection().wait_idle().expect("built");
    let files = builder.publish();
    // Updates and deletes run all the time that segments are taken, and searches see each point once.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let updates = scope.spawn(|| {
            let (mut rng, mut n) = (Rng(11), 0u64);
            let mut expected: BTreeMap<u64, Option<u64>> = BTreeMap::new();
            while !done.load(Ordering::Acquire) || n < 50 {
                n += 1;
                let id = rng.below(10_000);
                let gone = rng.below(2_000);
                let changed = point(id, rng.vector(DIM), &format!("{{\"v\":{n}}}"));
                writer
                    .collection()
                    .update(upsert(vec![changed]))
                    .expect("written");
                expected.insert(id, Some(n));
                writer.collection().update(delete(&[gone])).expect("written");
                expected.insert(gone, None);
            }
            expected
        });
        let reads = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                // Scrolls panic where a point comes twice.
                let count = writer.contents().len();
                assert!(count > 5_000, "{count}");
            }
        });
        let adopted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.adopt(&files, false)));
        done.store(true, Ordering::Release);
        reads.join().expect("no point twice");
        let expected = updates.join().expect("written");
        assert_eq!(adopted.expect("no panic"), Some(true));
        let now = writer.contents();
        for id in 0..10_000u64 {
            let found = now.get(&PointId::Num(id)).map(|(_, payload)| payload.clone());
            let wanted = match expected.get(&id) {
                None => Some("{\"v\":0}".to_owned()),
                Some(version) => version.map(|n| format!("{{\"v\":{n}}}")),
            };
            assert_eq!(found, wanted, "{id}");
        }
    });
    let info = writer.collection().info();
    assert!(info.indexed_vectors_count > 5_000, "{info:?}");
    // The builder is gone: this engine builds for itself.
    writer.engine().set_builds_elsewhere(false);
    writer.collection().flush().expect("flushed");
    writer.collection().wait_idle().expect("built");
    assert!(writer.engine().built() > 0);
    builder.engine().close();
    writer.engine().close();
}

#[test]
fn other_settings_are_refused() {
    let log = Arc::new(SharedLog::default());
    let writer = Node::new(1, &log, &indexed());
    let mut builder = Node::new(2, &log, &indexed());
    writer.engine().set_builds_elsewhere(true);
    let points = (0..2_000u64).map(|n| point(n, vec![n as f32; DIM], "{\"n\":1}"));
    writer
        .collection()
        .update(upsert(points.collect()))
        .expect("written");
    builder.follow(1);
    let offered = |node: &Node, files: &BTreeMap<String, Vec<u8>>| {
        node.engine().offered(list_of(files)).expect("looked at")
    };
    builder.collection().flush().expect("flushed");
    builder.collection().wait_idle().expect("built");
    let files = builder.publish();
    assert!(matches!(offered(&writer, &files), Offered::Wanted(_)));
    let index = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    writer
        .collection()
        .create_payload_index("n", index.clone())
        .expect("made");
    assert!(matches!(offered(&writer, &files), Offered::Never(_)));
    builder
        .collection()
        .create_payload_index("n", index)
        .expect("made");
    let files = builder.publish();
    assert!(matches!(offered(&writer, &files), Offered::Wanted(_)));
    assert_eq!(writer.adopt(&files, false), Some(true));
    assert_eq!(writer.adopt(&files, false), None, "it has them");
    // A node that lacks changes waits for them.
    let late = Node::new(3, &log, &indexed());
    late.engine().set_builds_elsewhere(true);
    let index = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    late.collection().create_payload_index("n", index).expect("made");
    assert!(matches!(offered(&late, &files), Offered::Early));
    // What isn't a list of segments, and damaged files, change nothing.
    assert!(writer.engine().offered(b"nothing").is_err());
    let mut late = late;
    late.follow(1);
    let before = late.contents();
    let mut damaged = files.clone();
    for (name, bytes) in &mut damaged {
        if name.ends_with(".row") {
            bytes[100] ^= 1;
        }
    }
    let Offered::Wanted(adoption) = offered(&late, &damaged) else {
        panic!("it is of use")
    };
    late.bring(&adoption.files().collect::<Vec<_>>(), &damaged);
    assert!(adoption.finish().is_err());
    assert_eq!(late.contents(), before);
    assert!(matches!(offered(&late, &files), Offered::Wanted(_)));
    for node in [&writer, &builder, &late] {
        node.engine().close();
    }
}
