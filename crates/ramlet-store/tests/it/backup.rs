//! Backups: pushed, pulled, cut off, damaged, swept.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use object_store::memory::InMemory;
use object_store::path::Path;
use ramlet_format::FileCrc;
use ramlet_format::snapshot::{Contents, Frame, FrameKind, Header};
use ramlet_io::{RamStorage, Storage};
use ramlet_store::layout::{manifest_path, object_name};
use ramlet_store::shard::{Covered, newest_covered};
use ramlet_store::{
    BackupKind, Described, Pull, Pulled, Push, PushReport, Result, SnapshotPush, SourceFile, Store,
    StoreError, StoreErrorKind, Target, TargetFile, list_backups, prune, push, push_files,
};

use crate::wrapped::{Lie, store};

pub const MEMORY: u64 = 64 << 20;

pub type Files = BTreeMap<String, Vec<u8>>;

pub fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut out: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| next()).collect();
    out.truncate(bytes);
    out
}

fn sample() -> Files {
    [
        ("CATALOG-000000000001", noise(5_000, 1)),
        ("c00000001/00000001.v0", noise(20 << 20, 2)),
        ("c00000001/00000001.pay", noise(3 << 20, 3)),
        ("c00000001/empty", vec![]),
        ("c00000001/log-00000000000000000001", vec![0; 9 << 20]),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

pub fn fill(push: &mut Push<'_>, files: &Files) -> Result<Described> {
    for (name, bytes) in files {
        push.begin_file(name)?;
        // In pieces of an odd length: they decide nothing.
        bytes.chunks(77_777).try_for_each(|piece| push.write(piece))?;
        push.end_file()?;
    }
    Ok(Described {
        of: BackupKind::Directory,
        collections: vec!["docs".into()],
        covered: None,
        snapshot: None,
    })
}

pub fn pushed(store: &Store, files: &Files) -> Result<PushReport> {
    push(store, MEMORY, 0, &mut |_| {}, &mut |push| fill(push, files))
}

/// Files in memory, of which the writes after so many fail, and the first syncs: these lose what was written, as a kernel does.
#[derive(Default)]
pub struct MemoryTarget {
    files: Mutex<BTreeMap<String, Shared>>,
    writes_left: Arc<AtomicUsize>,
    failing_syncs: Arc<AtomicUsize>,
}

type Shared = Arc<Mutex<Vec<u8>>>;

struct MemoryFile {
    bytes: Shared,
    writes_left: Arc<AtomicUsize>,
    failing_syncs: Arc<AtomicUsize>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

impl MemoryTarget {
    pub fn new() -> MemoryTarget {
        let target = MemoryTarget::default();
        target.writes_left.store(usize::MAX, Ordering::Relaxed);
        target
    }

    pub fn spoil(&self, name: &str, at: usize) {
        held(&held(&self.files)[name])[at] ^= 1;
    }

    pub fn fail_syncs(&self, count: usize) {
        self.failing_syncs.store(count, Ordering::Relaxed);
    }

    pub fn contents(&self) -> Files {
        let files = held(&self.files);
        let all = files
            .iter()
            .map(|(name, bytes)| (name.clone(), held(bytes).clone()));
        all.collect()
    }
}

impl Target for MemoryTarget {
    fn open(&self, name: &str, bytes: u64) -> io::Result<(Box<dyn TargetFile>, bool)> {
        let mut files = held(&self.files);
        let was_there = files.contains_key(name);
        let file = files.entry(name.to_owned()).or_default();
        held(file).resize(bytes as usize, 0);
        Ok((
            Box::new(MemoryFile {
                bytes: file.clone(),
                writes_left: self.writes_left.clone(),
                failing_syncs: self.failing_syncs.clone(),
            }),
            was_there,
        ))
    }
}

impl TargetFile for MemoryFile {
    fn read_at(&mut self, out: &mut [u8], at: u64) -> io::Result<()> {
        let at = at as usize;
        out.copy_from_slice(&held(&self.bytes)[at..at + out.len()]);
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let left = self.writes_left.load(Ordering::Relaxed).checked_sub(1);
        let left = left.ok_or_else(|| io::Error::other("the disk is full"))?;
        self.writes_left.store(left, Ordering::Relaxed);
        let at = at as usize;
        held(&self.bytes)[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let Some(left) = self.failing_syncs.load(Ordering::Relaxed).checked_sub(1) else {
            return Ok(());
        };
        self.failing_syncs.store(left, Ordering::Relaxed);
        held(&self.bytes).fill(0);
        Err(io::Error::other("the disk lost it"))
    }
}

pub fn pull(store: &Store, number: Option<u64>, target: &MemoryTarget) -> Result<Pulled> {
    Pull::begin(store, number, MEMORY)?.run(target, &mut |_| {})
}

fn check_pull(store: &Store, number: Option<u64>, expected: &Files) {
    let target = MemoryTarget::new();
    pull(store, number, &target).expect("it is whole");
    assert!(&target.contents() == expected, "backup {number:?} is another");
}

/// Names of all objects of data.
fn objects(store: &Store) -> Vec<Path> {
    let mut names = Vec::new();
    let each = &mut |listed: ramlet_store::Listed| {
        names.extend(object_name(&listed.path).map(|_| listed.path));
        Ok(())
    };
    store.list("backup", each).expect("a list");
    names
}

fn honest() -> (Arc<InMemory>, Store) {
    let inner = Arc::new(InMemory::new());
    let honest = store(&inner, Lie::None);
    (inner, honest)
}

#[test]
fn a_backup_comes_back() {
    let (_, store) = honest();
    let files = sample();
    let report = pushed(&store, &files).expect("it is pushed");
    assert_eq!((report.number, report.files), (1, 5));
    let zeros = 9 << 20;
    assert!(
        report.sent_bytes < report.bytes - zeros / 3,
        "zeros are sent once: {report:?}"
    );
    check_pull(&store, None, &files);
    let [(1, 0, info)] = &list_backups(&store).expect("a list")[..] else {
        panic!("there is one");
    };
    assert_eq!((info.files, info.collection_count), (5, 1));
}

#[test]
fn what_is_there_isnt_sent() {
    let (_, store) = honest();
    let mut files = sample();
    pushed(&store, &files).expect("it is pushed");
    let again = pushed(&store, &files).expect("it is pushed");
    assert_eq!((again.number, again.sent_bytes), (2, 0));
    // A snapshot of everything: what is behind a changed head hasn't changed.
    let moved = [noise(70_000, 9), files["c00000001/00000001.v0"].clone()].concat();
    files.insert("c00000001/00000001.v0".into(), moved);
    let third = pushed(&store, &files).expect("it is pushed");
    assert!(third.sent_bytes < 6 << 20, "{third:?}");
    check_pull(&store, Some(3), &files);
    check_pull(&store, Some(1), &sample());
}

#[test]
fn a_push_that_died_goes_on() {
    let inner = Arc::new(InMemory::new());
    let files = sample();
    let error = pushed(&store(&inner, Lie::FailsAfter(9)), &files).expect_err("no route");
    assert!(error.to_string().contains("no route to host"), "{error}");
    let honest = store(&inner, Lie::None);
    assert!(list_backups(&honest).expect("a list").is_empty());
    let there = objects(&honest).len() as u64;
    assert!(there > 4, "{there} objects were sent before it died");
    let report = pushed(&honest, &files).expect("it is pushed");
    let (_, fresh) = self::honest();
    let whole = pushed(&fresh, &files).expect("it is pushed");
    assert_eq!(report.sent_chunks + there, whole.sent_chunks);
    check_pull(&honest, None, &files);
}

#[test]
fn a_pull_that_died_goes_on() {
    let (_, store) = honest();
    let files = sample();
    pushed(&store, &files).expect("it is pushed");
    let target = MemoryTarget::new();
    target.writes_left.store(10, Ordering::Relaxed);
    let error = pull(&store, None, &target).expect_err("no room");
    assert!(error.to_string().contains("the disk is full"), "{error}");
    target.writes_left.store(usize::MAX, Ordering::Relaxed);
    let pulled = pull(&store, None, &target).expect("it is whole");
    assert!(pulled.kept_bytes > 5 << 20, "{pulled:?}");
    assert_eq!(pulled.kept_bytes + pulled.fetched_bytes, pulled.bytes);
    assert!(target.contents() == files);
}

#[test]
fn damaged_and_missing_objects_are_refused_by_name() {
    let (_, store) = honest();
    let files = sample();
    pushed(&store, &files).expect("it is pushed");
    for object in objects(&store) {
        let whole = store.get(&object, u64::MAX).expect("it is there");
        let mut damaged = whole.to_vec();
        damaged[whole.len() / 2] ^= 1;
        let cut = whole.slice(..whole.len() - 1);
        for bytes in [damaged.into(), cut] {
            store.put(&object, bytes).expect("it is put");
            let error = pull(&store, None, &MemoryTarget::new()).expect_err("it is damaged");
            assert_eq!(error.kind(), StoreErrorKind::Corrupt);
            assert!(error.to_string().contains(object.as_ref()), "{object}: {error}");
        }
        store.delete(&object).expect("it is deleted");
        let error = pull(&store, None, &MemoryTarget::new()).expect_err("it is missing");
        assert_eq!(error.kind(), StoreErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains(object.as_ref()), "{object}: {error}");
        // A push heals what is missing.
        store.put(&object, whole).expect("it is put");
    }
    check_pull(&store, None, &files);
    store
        .put(&manifest_path(1), "{}\n00\n".into())
        .expect("it is put");
    let error = pull(&store, None, &MemoryTarget::new()).expect_err("it is damaged");
    assert!(error.to_string().contains(manifest_path(1).as_ref()), "{error}");
}

#[test]
fn a_lost_answer_is_read_back() {
    let inner = Arc::new(InMemory::new());
    let files = sample();
    let report = pushed(&store(&inner, Lie::LostAnswers), &files).expect("it is pushed");
    assert_eq!(report.number, 1);
    let honest = store(&inner, Lie::None);
    assert_eq!(list_backups(&honest).expect("a list").len(), 1);
    check_pull(&honest, None, &files);
}

#[test]
fn pushes_at_once_get_numbers_of_their_own() {
    let (_, store) = honest();
    let (files, mut others) = (sample(), sample());
    others.insert("c00000001/other".into(), noise(1 << 20, 7));
    let report = push(&store, MEMORY, 0, &mut |_| {}, &mut |push| {
        assert_eq!(pushed(&store, &others)?.number, 1);
        fill(push, &files)
    });
    assert_eq!(report.expect("it is pushed").number, 2);
    check_pull(&store, Some(1), &others);
    check_pull(&store, Some(2), &files);
}

#[test]
fn old_backups_are_dropped() {
    let (_, store) = honest();
    let (old, mut new) = (sample(), sample());
    new.insert("c00000001/00000001.pay".into(), noise(3 << 20, 8));
    pushed(&store, &old).expect("it is pushed");
    pushed(&store, &new).expect("it is pushed");
    let before = objects(&store).len() as u64;
    let pruned = prune(&store, 1, MEMORY, 0).expect("it is swept");
    assert_eq!((&pruned.kept[..], &pruned.dropped[..]), (&[2][..], &[1][..]));
    assert!((2..8).contains(&pruned.deleted_objects), "{pruned:?}");
    assert_eq!(objects(&store).len() as u64, before - pruned.deleted_objects);
    check_pull(&store, None, &new);
    let error = pull(&store, Some(1), &MemoryTarget::new()).expect_err("it is gone");
    assert!(error.to_string().contains("it was pruned"), "{error}");
    let error = pull(&store, Some(9), &MemoryTarget::new()).expect_err("there is none");
    assert!(error.to_string().contains("there was never one"), "{error}");
    // What was dropped is sent under another name; what was kept isn't sent.
    let again = pushed(&store, &old).expect("it is pushed");
    assert_eq!(again.number, 4);
    assert!((1 << 20..5 << 20).contains(&again.sent_bytes), "{again:?}");
    check_pull(&store, None, &old);
    assert_eq!(
        prune(&store, 0, MEMORY, 0).map(|_| ()).map_err(|e| e.kind()),
        Err(StoreErrorKind::WrongInput)
    );
}

#[test]
fn what_nodes_begin_from_is_kept() {
    let (_, store) = honest();
    let files = sample();
    let covered = Covered {
        slot: 7,
        epoch: 1,
        ..Covered::default()
    };
    let of_node = |push: &mut Push<'_>| {
        let described = fill(push, &files)?;
        Ok(Described {
            covered: Some(covered),
            ..described
        })
    };
    for _ in 0..2 {
        push(&store, MEMORY, 0, &mut |_| {}, &mut |push| of_node(push)).expect("pushed");
    }
    for _ in 0..2 {
        pushed(&store, &files).expect("pushed");
    }
    let pruned = prune(&store, 1, MEMORY, 0).expect("pruned");
    assert_eq!((pruned.kept, pruned.dropped), (vec![2, 4], vec![1, 3]));
    let newest = newest_covered(&store).expect("read");
    assert_eq!(
        newest.map(|(number, info)| (number, info.covered)),
        Some((2, Some(covered)))
    );
}

#[test]
fn a_push_begins_again_after_a_sweep() {
    let (_, store) = honest();
    let (old, mut new) = (sample(), Files::new());
    pushed(&store, &old).expect("it is pushed");
    // It names what only backup 1 needs, which a sweep drops while it runs.
    new.insert(
        "c00000001/00000001.v0".into(),
        old["c00000001/00000001.v0"].clone(),
    );
    let other = Files::from([("CATALOG-000000000002".to_owned(), noise(100, 5))]);
    let mut runs = 0;
    let report = push(&store, MEMORY, 0, &mut |_| {}, &mut |push| {
        let described = fill(push, &new)?;
        runs += 1;
        if runs == 1 {
            pushed(&store, &other)?;
            prune(&store, 1, MEMORY, 0)?;
        }
        Ok(described)
    });
    assert_eq!((runs, report.expect("it is pushed").number), (2, 4));
    check_pull(&store, Some(4), &new);
    check_pull(&store, Some(2), &other);
}

#[test]
fn damage_isnt_backed_up() {
    let (_, store) = honest();
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let bytes = noise(10 * 4096, 4);
    let directory = storage.subdir("c00000001").expect("made");
    let mut file = directory.create("00000001.v0").expect("made");
    file.append(&bytes).expect("written");
    file.sync().expect("synced");
    let mut crc = FileCrc::new();
    crc.update(&bytes);
    let tried = |bytes: u64, crc: u32| {
        let source = SourceFile {
            name: "c00000001/00000001.v0".into(),
            bytes_min: bytes,
            exact: Some((bytes, crc)),
        };
        push(&store, MEMORY, 0, &mut |_| {}, &mut |push| {
            push_files(push, &storage, std::slice::from_ref(&source))?;
            Ok(Described {
                of: BackupKind::Directory,
                collections: vec![],
                covered: None,
                snapshot: None,
            })
        })
    };
    for (bytes, crc) in [(10 * 4096, crc.value() ^ 1), (11 * 4096, crc.value())] {
        let error = tried(bytes, crc).expect_err("it is damaged");
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        assert!(error.to_string().contains("00000001.v0"), "{error}");
    }
    assert!(list_backups(&store).expect("a list").is_empty());
    tried(10 * 4096, crc.value()).expect("it is sound");
}

#[test]
fn too_little_memory_is_refused_with_both_numbers() {
    let (_, store) = honest();
    let files = sample();
    let tried = push(&store, 8 << 20, 0, &mut |_| {}, &mut |push| fill(push, &files));
    let error: StoreError = tried.expect_err("too little");
    assert_eq!(error.kind(), StoreErrorKind::OverBudget);
    assert!(
        error.to_string().contains("8388608") && error.to_string().contains("37748736"),
        "{error}"
    );
}

#[test]
fn an_empty_place_has_no_backup() {
    let (_, store) = honest();
    let error = pull(&store, None, &MemoryTarget::new()).expect_err("there is none");
    assert!(
        error.to_string().contains("no backup was pushed there"),
        "{error}"
    );
    store.claim().expect("it is ours now");
    let error = pull(&store, None, &MemoryTarget::new()).expect_err("there is none");
    assert!(error.to_string().contains("holds no backup"), "{error}");
}

/// A snapshot of so many groups of changes and these files.
fn snapshot(groups: usize, files: &[&[u8]]) -> Vec<u8> {
    let header = Header {
        contents: Contents::Everything,
        created: Some(groups as u64),
    };
    let group = noise(3_000, 6);
    let changes = std::iter::repeat_n((FrameKind::Changes, &group[..]), groups);
    let files = files.iter().map(|file| (FrameKind::File, *file));
    let ends = [(FrameKind::Finished, &[][..]), (FrameKind::End, &[][..])];
    let mut out = header.encode().to_vec();
    for (number, (kind, body)) in (0..).zip(changes.chain(files).chain(ends)) {
        out.extend_from_slice(&Frame::of(kind, body).encode(number));
        out.extend_from_slice(body);
    }
    out.resize(out.len().next_multiple_of(4096), 0);
    out
}

fn pushed_snapshot(store: &Store, bytes: &[u8], piece: usize) -> Result<PushReport> {
    push(store, MEMORY, 0, &mut |_| {}, &mut |push| {
        let mut snapshot = SnapshotPush::begin(push, "everything.snapshot")?;
        bytes.chunks(piece).try_for_each(|piece| snapshot.write(piece))?;
        snapshot.end()?;
        Ok(Described {
            of: BackupKind::Snapshot,
            collections: vec![],
            covered: None,
            snapshot: None,
        })
    })
}

#[test]
fn files_in_a_snapshot_are_those_of_a_directory() {
    let (_, store) = honest();
    let files = [
        noise(6 << 20, 1),
        noise(4_000, 2),
        noise(2 << 20, 3),
        noise(70_000, 4),
    ];
    let names = ["a", "b", "c", "d"].map(|name| format!("c00000001/{name}"));
    pushed(&store, &names.into_iter().zip(files.clone()).collect()).expect("it is pushed");
    let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    let one = snapshot(3, &files);
    let first = pushed_snapshot(&store, &one, 10_000).expect("it is pushed");
    assert!(first.sent_bytes < 100_000, "{first:?}");
    // Other frames in front, so other numbers in all heads.
    let other = pushed_snapshot(&store, &snapshot(8, &files), 777).expect("it is pushed");
    assert!(other.sent_bytes < 120_000, "{other:?}");
    check_pull(
        &store,
        Some(2),
        &Files::from([("everything.snapshot".to_owned(), one.clone())]),
    );
    for damage in [0, 40, 5_000, 7 << 20] {
        let mut bytes = one.clone();
        bytes[damage] ^= 1;
        let error = pushed_snapshot(&store, &bytes, 10_000).expect_err("it is damaged");
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "at {damage}: {error}");
    }
    let error = pushed_snapshot(&store, &one[..one.len() - 8192], 10_000).expect_err("it is cut");
    assert!(error.to_string().contains("cut off"), "{error}");
}
