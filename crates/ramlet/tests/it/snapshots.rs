//! Snapshots: what comes back is what was there at one moment, and what can't be restored changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ramlet::*;
use ramlet_format::manifest::Manifest;
use ramlet_format::snapshot::{Frame, FrameKind};
use ramlet_io::{Fault, FaultOp, IoErrorKind, RamStorage, SimStorage, Storage};

use crate::support::*;

const DIM: usize = 6;
const NOW: u64 = 1_700_000_000;
const C: SnapshotScope<'static> = SnapshotScope::Collection("c");

fn ram() -> Arc<dyn Storage> {
    Arc::new(RamStorage::new(None))
}

fn indexed() -> CollectionConfig {
    CollectionConfig {
        indexing_threshold: Some(1),
        ..config(DIM, Distance::Dot)
    }
}

fn all(engine: &Engine, name: &str) -> Contents {
    let collection = engine.collection(name).expect("is there");
    contents(&collection, &mut engine.scratch().expect("enough memory"))
}

/// A collection with segments, deletes, an index, and rows in its buffer.
fn filled(storage: Arc<dyn Storage>, seed: u64) -> Arc<Engine> {
    let engine = open(storage);
    engine.create_collection("c", indexed()).unwrap();
    let collection = engine.collection("c").unwrap();
    let index = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    collection.create_payload_index("n", index).unwrap();
    let mut rng = Rng(seed);
    for round in 0..4 {
        let points = (0..150).map(|_| {
            let id = rng.below(400);
            let payload = format!("{{\"n\":{}}}", rng.below(20));
            point(id, rng.vector(DIM), &payload)
        });
        collection.update(upsert(points.collect())).unwrap();
        let gone: Vec<u64> = (0..20).map(|_| rng.below(400)).collect();
        collection.update(delete(&gone)).unwrap();
        if round < 3 {
            collection.flush().unwrap();
        }
    }
    engine
}

/// The bytes of a snapshot.
fn bytes_of(engine: &Engine, name: &str) -> Vec<u8> {
    let file = engine.open_snapshot(C, name).unwrap();
    let mut bytes = vec![0; file.bytes() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn upload(engine: &Engine, bytes: &[u8]) -> SnapshotUpload {
    let mut upload = engine.begin_snapshot_upload().unwrap();
    bytes.chunks(1000).for_each(|part| upload.append(part).unwrap());
    upload
}

fn filter(json: &str) -> ramlet::filter::Filter {
    serde_json::from_str(json).unwrap()
}

#[test]
fn what_comes_back_is_what_was_there() {
    let engine = filled(ram(), 5);
    let expected = all(&engine, "c");
    let collection = engine.collection("c").unwrap();
    let info = collection.info();
    assert!(info.segments_count >= 3, "{info:?}");
    let snapshot = engine.create_snapshot(C, NOW).unwrap();
    assert_eq!((snapshot.created, snapshot.bytes % 4096), (Some(NOW), 0));
    assert!(snapshot.name.starts_with("c-") && snapshot.name.ends_with("-2023-11-14-22-13-20.snapshot"));
    assert_eq!(engine.list_snapshots(C).unwrap(), std::slice::from_ref(&snapshot));

    // Into another server, under another name, by upload.
    let other = open(ram());
    let received = upload(&other, &bytes_of(&engine, &snapshot.name));
    other
        .recover_upload("d", received, snapshot.checksum.as_deref())
        .unwrap();
    assert_eq!(all(&other, "d"), expected);
    let restored = other.collection("d").unwrap();
    assert_eq!(restored.info().points_count, info.points_count);
    assert_eq!(restored.info().last_operation_id, info.last_operation_id);
    assert_eq!(restored.config().payload_schema.len(), 1);
    let filter = filter("{\"must\":[{\"key\":\"n\",\"match\":{\"value\":3}}]}");
    let count =
        |engine: &Engine, c: &Collection| c.count(Some(&filter), true, &mut engine.scratch().unwrap());
    assert_eq!(
        count(&other, &restored).unwrap(),
        count(&engine, &collection).unwrap()
    );

    // It goes on: writes, merges, and a restart.
    restored
        .update(upsert(vec![point(7_777, vec![1.0; DIM], "{}")]))
        .unwrap();
    restored.flush().unwrap();
    restored.wait_idle().unwrap();
    assert_eq!(all(&other, "d").len(), expected.len() + 1);

    // And back where it was taken, after changes.
    collection.update(delete(&(0..300).collect::<Vec<_>>())).unwrap();
    collection.wait_idle().unwrap();
    assert_ne!(all(&engine, "c"), expected);
    let file = engine.open_snapshot(C, &snapshot.name).unwrap();
    engine
        .recover_collection("c", &file, snapshot.checksum.as_deref())
        .unwrap();
    assert_eq!(all(&engine, "c"), expected);
    assert!(collection.is_dropped(), "a handle of before leads nowhere");
    let mut scratch = engine.scratch().unwrap();
    let found = collection.search(&search_request(vec![1.0; DIM], 3), &mut scratch);
    let written = collection.update(delete(&[1]));
    for kind in [found.map(|_| ()), written.map(|_| ())].map(|r| r.unwrap_err().kind()) {
        assert_eq!(
            kind,
            ErrorKind::Busy,
            "the name leads somewhere: neither no hits nor no collection"
        );
    }
}

/// A group of new rows is held whole where it is restored.
#[test]
fn a_snapshot_of_a_large_budget_is_restored_in_a_small_one() {
    let large = Engine::open(ram(), options(512 * MB)).expect("opens");
    large.create_collection("c", config(DIM, Distance::Dot)).unwrap();
    let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(4000));
    let points = (0..2_000).map(|id| point(id, vec![id as f32; DIM], &payload));
    let collection = large.collection("c").unwrap();
    collection.update(upsert(points.collect())).unwrap();
    let snapshot = large.create_snapshot(C, NOW).unwrap();
    let small = Engine::open(ram(), options(16 * MB)).expect("opens");
    let received = upload(&small, &bytes_of(&large, &snapshot.name));
    small
        .recover_upload("c", received, snapshot.checksum.as_deref())
        .unwrap();
    assert_eq!(small.collection("c").unwrap().info().points_count, 2_000);
}

#[test]
fn restored_collections_survive_a_restart() {
    let disk = SimStorage::new();
    let engine = filled(Arc::new(disk.clone()), 6);
    let expected = all(&engine, "c");
    let snapshot = engine.create_snapshot(C, NOW).unwrap();
    let file = engine.open_snapshot(C, &snapshot.name).unwrap();
    engine.recover_collection("copy", &file, None).unwrap();
    engine.close();
    drop(engine);
    let survivor = disk.crash_states(disk.journal_len(), 0, 0).remove(0);
    let engine = open(Arc::new(survivor));
    assert_eq!(all(&engine, "copy"), expected);
    assert_eq!(all(&engine, "c"), expected);
    assert_eq!(engine.list_snapshots(C).unwrap(), [snapshot]);
    assert!(check(engine.storage(), &mut |_| {}).is_err(), "the lock is held");
}

/// Every update sets the same number everywhere; whatever moment is taken, there is one number in it.
#[test]
fn one_moment_while_writes_and_merges_go_on() {
    let engine = open(ram());
    engine.create_collection("c", indexed()).unwrap();
    let collection = engine.collection("c").unwrap();
    let write = |n: u64| {
        let payload = format!("{{\"n\":{n}}}");
        let points = (0..40).map(|id| point(id, vec![n as f32; DIM], &payload));
        collection.update(upsert(points.collect())).unwrap();
    };
    write(0);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let taken = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 1;
            while !stop.load(Ordering::Relaxed) {
                write(n);
                if n % 5 == 0 {
                    collection.flush().unwrap();
                }
                if n % 20 == 0 {
                    collection.wait_idle().unwrap();
                }
                n += 1;
                written.store(n, Ordering::Relaxed);
            }
        });
        let mut taken = Vec::new();
        while written.load(Ordering::Relaxed) < 80 || taken.len() < 20 {
            taken.push(engine.create_snapshot(C, NOW).unwrap());
        }
        stop.store(true, Ordering::Relaxed);
        taken
    });
    let other = open(ram());
    let mut seen = std::collections::BTreeSet::new();
    for snapshot in taken.iter().step_by(taken.len() / 20) {
        let received = upload(&other, &bytes_of(&engine, &snapshot.name));
        other.recover_upload("c", received, None).unwrap();
        let found = all(&other, "c");
        let payloads: std::collections::BTreeSet<_> = found.values().map(|(_, p)| p.clone()).collect();
        assert_eq!((found.len(), payloads.len()), (40, 1), "{payloads:?}");
        seen.extend(payloads);
    }
    assert!(seen.len() > 2, "the writer hardly got on: {seen:?}");
}

#[test]
fn everything_at_once() {
    let engine = filled(ram(), 7);
    engine
        .create_collection("empty", config(2, Distance::Cosine))
        .unwrap();
    let alias = |alias: &str, collection: &str| AliasOp::Create {
        alias: alias.into(),
        collection: collection.into(),
    };
    engine
        .change_aliases(&[alias("a", "c"), alias("b", "empty")])
        .unwrap();
    let full = engine.create_snapshot(SnapshotScope::Everything, NOW).unwrap();
    assert!(full.name.starts_with("full-snapshot-"));
    assert!(engine.list_snapshots(C).unwrap().is_empty());
    let file = engine
        .open_snapshot(SnapshotScope::Everything, &full.name)
        .unwrap();
    let error = engine.recover_everything(&file, false, &|_| None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let error = engine.recover_collection("c", &file, None).unwrap_err();
    assert!(error.to_string().contains("whole storage"), "{error}");

    let expected = all(&engine, "c");
    let (c, aliases) = (engine.collection("c").unwrap(), engine.aliases());
    c.update(delete(&(0..400).collect::<Vec<_>>())).unwrap();
    engine
        .change_aliases(&[AliasOp::Delete { alias: "a".into() }])
        .unwrap();
    engine.delete_collection("empty").unwrap();
    engine
        .create_collection("later", config(3, Distance::Dot))
        .unwrap();
    let fault = |name: &str| (name == "b").then(|| "too short".to_owned());
    let error = engine.recover_everything(&file, true, &fault).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with(r#"no alias can be called "b": too short"#),
        "{error}"
    );
    assert_eq!(engine.collection_names(), ["c", "later"]);
    assert_eq!(
        engine.recover_everything(&file, true, &|_| None).unwrap(),
        ["c", "empty"]
    );
    assert_eq!(engine.collection_names(), ["c", "empty", "later"]);
    assert_eq!(engine.aliases(), aliases);
    assert_eq!(all(&engine, "a"), expected);
    engine
        .delete_snapshot(SnapshotScope::Everything, &full.name)
        .unwrap();
    assert!(
        engine
            .list_snapshots(SnapshotScope::Everything)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn names_lead_nowhere_else() {
    let disk = SimStorage::new();
    let engine = filled(Arc::new(disk.clone()), 8);
    let snapshot = engine.create_snapshot(C, NOW).unwrap();
    let missing = |name: &str| {
        let opened = engine.open_snapshot(C, name).err().expect(name);
        assert!(opened.is_not_found(), "{name}: {opened}");
        assert!(
            engine.delete_snapshot(C, name).unwrap_err().is_not_found(),
            "{name}"
        );
    };
    let checksum = format!("{}.checksum", snapshot.name);
    let long = format!("{}.snapshot", "x".repeat(5_000));
    for name in [
        "",
        ".",
        "..",
        "../LOCK",
        "../../LOCK",
        "x.snapshot",
        "/etc/passwd",
        &checksum,
        &long,
    ] {
        missing(name);
    }
    let none = engine
        .list_snapshots(SnapshotScope::Collection("none"))
        .unwrap_err();
    assert!(none.is_not_found());

    let root = format!("{}/snapshots", engine.storage().location());
    let path = |rest: &str| engine.open_snapshot_path(&format!("{root}{rest}"));
    assert!(path(&format!("/c/{}", snapshot.name)).is_ok());
    for rest in [
        "",
        "/",
        "/c",
        "/c/",
        "/c/none.snapshot",
        "/../CATALOG-000000000001",
        "/c/../../x",
        "/c/d/e",
        "x/c/y",
    ] {
        let error = path(rest).err().expect(rest);
        assert_eq!(error.kind(), ErrorKind::BadInput, "{rest}: {error}");
    }
    assert!(engine.open_snapshot_path("/etc/passwd").is_err());
    engine.delete_snapshot(C, &snapshot.name).unwrap();
    assert!(
        !disk.list_files().iter().any(|f| f.contains(".snapshot")),
        "{:?}",
        disk.list_files()
    );
}

#[test]
fn mismatches_are_refused_and_change_nothing() {
    let engine = filled(ram(), 9);
    let before = all(&engine, "c");
    let snapshot = engine.create_snapshot(C, NOW).unwrap();
    let file = engine.open_snapshot(C, &snapshot.name).unwrap();
    for (name, other) in [
        ("dim", config(DIM + 1, Distance::Dot)),
        ("distance", config(DIM, Distance::Euclid)),
    ] {
        engine.create_collection(name, other).unwrap();
        let error = engine.recover_collection(name, &file, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadInput);
        assert!(error.to_string().contains("doesn't fit"), "{error}");
    }
    let wrong = "0".repeat(64);
    let error = engine.recover_collection("c", &file, Some(&wrong)).unwrap_err();
    assert!(error.to_string().contains("checksum mismatch"), "{error}");
    assert!(engine.recover_collection("c", &file, Some("12")).is_err());
    let received = upload(&engine, &bytes_of(&engine, &snapshot.name));
    assert!(engine.recover_upload("c", received, Some(&wrong)).is_err());
    assert_eq!(all(&engine, "c"), before);
}

/// Any changed byte, any cut, anywhere: refused, the collection as it was, no directory left.
#[test]
fn damaged_snapshots_change_nothing() {
    let disk = SimStorage::new();
    let engine = filled(Arc::new(disk.clone()), 10);
    let before = all(&engine, "c");
    let snapshot = engine.create_snapshot(C, NOW).unwrap();
    let bytes = bytes_of(&engine, &snapshot.name);
    let (files, mut rng) = (disk.list_files(), Rng(99));
    for round in 0..150 {
        let mut damaged = bytes.clone();
        let at = rng.below(bytes.len() as u64) as usize;
        match round % 3 {
            0 => damaged[at] ^= 1 << rng.below(8),
            1 => damaged.truncate(at),
            // Within the first frames, where lengths and lists are.
            _ => damaged[at % 9_000] = rng.below(256) as u8,
        }
        if damaged == bytes {
            continue;
        }
        let error = engine.recover_upload("c", upload(&engine, &damaged), None).err();
        // The zeros behind the end are nobody's.
        let harmless =
            damaged.len() == bytes.len() && damaged[..bytes.len() - 4096] == bytes[..bytes.len() - 4096];
        match error {
            Some(error) => assert_eq!(error.kind(), ErrorKind::BadInput, "{error}"),
            None => assert!(harmless, "byte {at} of {}, round {round}", bytes.len()),
        }
    }
    assert_eq!(all(&engine, "c"), before);
    let now = disk.list_files();
    let count = |files: &[String], what: &str| files.iter().filter(|f| f.contains(what)).count();
    assert_eq!(count(&now, ".tmp"), 0);
    assert_eq!(count(&now, "MANIFEST"), count(&files, "MANIFEST"), "{now:?}");
}

/// Checksums that are right around contents that aren't.
#[test]
fn hostile_snapshots_are_refused() {
    let engine = filled(ram(), 11);
    let snapshot = engine.create_snapshot(C, NOW).unwrap();
    let bytes = bytes_of(&engine, &snapshot.name);
    let other = open(ram());
    let mut refused = 0;
    let mut rng = Rng(3);
    for round in 0..300 {
        let mut frames = frames(&bytes);
        let at = rng.below(frames.len() as u64) as usize;
        let kinds = frames.len() - 1;
        match round % 4 {
            0 => {
                frames.remove(at);
            }
            1 => frames.swap(at, (at + 1) % kinds),
            2 => frames[at].0 = FrameKind::Changes,
            _ => {
                let body = &mut frames[at % 3].1;
                if let Some(n) = (body.len() as u64).checked_sub(1).filter(|n| *n > 0) {
                    let byte = rng.below(n) as usize;
                    body[byte] = rng.below(256) as u8;
                    // An envelope's own checksum.
                    if body.starts_with(b"RAMLETEN") {
                        let text = body.iter().rposition(|b| *b != 0).unwrap_or(24) + 1;
                        let inner = body[24..text.max(24)].to_vec();
                        *body = ramlet_format::envelope::encode(
                            ramlet_format::envelope::EnvelopeKind::Manifest,
                            &inner,
                        );
                    }
                }
            }
        }
        let received = upload(&other, &sealed(&bytes[..32], &frames));
        refused += u64::from(
            other
                .recover_upload(&format!("x{round}"), received, None)
                .is_err(),
        );
        let _ = other.delete_collection(&format!("x{round}"));
    }
    assert!(refused > 200, "{refused}");
    assert!(other.writable() && other.collection_names().is_empty());
}

/// Checksums of frames and of whole files that are right, around files that are damaged: whoever sent them is told so, and
/// nothing of our names of files.
#[test]
fn files_that_are_damaged_inside_are_the_sender_s_mistake() {
    let engine = filled(ram(), 12);
    let snapshot = engine.create_snapshot(C, NOW).unwrap();
    let whole = frames(&bytes_of(&engine, &snapshot.name));
    let header = &bytes_of(&engine, &snapshot.name)[..32];
    let manifest = Manifest::decode(&whole[0].1).unwrap();
    let names: Vec<String> = manifest
        .segments
        .iter()
        .flat_map(|segment| segment.all_files().map(|file| file.name.clone()))
        .collect();
    let places: Vec<usize> = (0..whole.len())
        .filter(|at| whole[*at].0 == FrameKind::File)
        .collect();
    assert_eq!(names.len(), places.len());
    let (other, mut rng, mut refused) = (open(ram()), Rng(4), 0);
    for round in 0..10 * places.len() {
        let (mut frames, mut manifest) = (whole.clone(), manifest.clone());
        let (file, place) = (&names[round % names.len()], places[round % places.len()]);
        let body = &mut frames[place].1;
        let byte = rng.below(body.len() as u64) as usize;
        body[byte] ^= 1 << rng.below(8);
        let crc = Frame::of(FrameKind::File, body).crc;
        for segment in &mut manifest.segments {
            let files = segment.files.iter_mut().chain(&mut segment.deletes);
            files
                .filter(|entry| entry.name == *file)
                .for_each(|entry| entry.crc = crc);
        }
        frames[0].1 = manifest.encode();
        let received = upload(&other, &sealed(header, &frames));
        // Blocks that are read only by searches may pass.
        let Err(error) = other.recover_upload("x", received, None) else {
            other.delete_collection("x").unwrap();
            continue;
        };
        refused += 1;
        let told = error.to_string();
        assert_eq!(error.kind(), ErrorKind::BadInput, "{file} at byte {byte}: {told}");
        assert!(
            told.starts_with("the snapshot can't be restored: ") && !told.contains(file),
            "{told}"
        );
    }
    assert!(refused > places.len(), "{refused}");
    assert!(other.writable() && other.collection_names().is_empty());
}

/// The frames of a snapshot, opened by hand.
fn frames(bytes: &[u8]) -> Vec<(FrameKind, Vec<u8>)> {
    let (mut at, mut out) = (32, Vec::new());
    loop {
        let frame = Frame::decode(&bytes[at..], out.len() as u32).unwrap();
        at += 24;
        out.push((frame.kind, bytes[at..at + frame.bytes as usize].to_vec()));
        at += frame.bytes as usize;
        if frame.kind == FrameKind::End {
            return out;
        }
    }
}

fn sealed(header: &[u8], frames: &[(FrameKind, Vec<u8>)]) -> Vec<u8> {
    let mut out = header.to_vec();
    for (number, (kind, body)) in frames.iter().enumerate() {
        out.extend_from_slice(&Frame::of(*kind, body).encode(number as u32));
        out.extend_from_slice(body);
    }
    out.resize(out.len().next_multiple_of(4096), 0);
    out
}

/// Whatever fails at whatever step, of taking and of restoring: the collection stays, and nothing is left of the attempt.
#[test]
fn failures_leave_nothing() {
    let ops = [FaultOp::Append, FaultOp::Create, FaultOp::Write, FaultOp::Sync];
    let mut failed = 0;
    for (restoring, op) in ops.iter().flat_map(|op| [(false, *op), (true, *op)]) {
        let disk = SimStorage::new();
        let engine = filled(Arc::new(disk.clone()), 12);
        let before = all(&engine, "c");
        engine.collection("c").unwrap().wait_idle().unwrap();
        let snapshot = engine.create_snapshot(C, NOW).unwrap();
        for nth in 1.. {
            let file = engine.open_snapshot(C, &snapshot.name).unwrap();
            let files = disk.list_files();
            disk.inject(Fault::new(op, nth, IoErrorKind::NoSpace));
            let result = match restoring {
                true => engine.recover_collection("new", &file, None),
                false => engine.create_snapshot(C, NOW).map(drop),
            };
            disk.clear_faults();
            if result.is_ok() {
                break;
            }
            failed += 1;
            assert_eq!(result.unwrap_err().kind(), ErrorKind::DiskFull, "{op:?} {nth}");
            let without = |list: Vec<String>| -> Vec<String> {
                let own = |f: &String| !f.contains("CATALOG") && !f.contains("MANIFEST");
                list.into_iter().filter(own).collect()
            };
            assert_eq!(
                without(disk.list_files()),
                without(files),
                "{op:?} {nth}, restoring: {restoring}"
            );
        }
        assert_eq!(all(&engine, "c"), before);
    }
    assert!(failed > 60, "{failed}");
}

#[test]
fn a_full_disk_is_told_before() {
    let disk = SimStorage::new();
    let engine = filled(Arc::new(disk.clone()), 13);
    let snapshot = engine.create_snapshot(C, NOW).unwrap();
    let file = engine.open_snapshot(C, &snapshot.name).unwrap();
    disk.set_free_bytes((64 << 20) + snapshot.bytes / 2);
    let errors = [
        engine.create_snapshot(C, NOW).unwrap_err(),
        engine.recover_collection("new", &file, None).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    }
    let upload = engine.begin_snapshot_upload().unwrap();
    assert_eq!(
        upload.expect(snapshot.bytes).unwrap_err().kind(),
        ErrorKind::DiskFull
    );
    drop(upload);
    assert_eq!(disk.list_files().iter().filter(|f| f.contains(".tmp")).count(), 0);
}

/// Power is lost at any moment of a restore that replaces: before or after, never between, and nothing stays behind.
#[test]
fn power_loss_while_restoring() {
    let disk = SimStorage::new();
    let engine = filled(Arc::new(disk.clone()), 14);
    let taken = all(&engine, "c");
    let snapshot = engine.create_snapshot(C, NOW).unwrap();
    let collection = engine.collection("c").unwrap();
    collection.update(delete(&(0..390).collect::<Vec<_>>())).unwrap();
    collection.wait_idle().unwrap();
    let changed = all(&engine, "c");
    let begin = disk.journal_len();
    let file = engine.open_snapshot(C, &snapshot.name).unwrap();
    engine.recover_collection("c", &file, None).unwrap();
    let acknowledged = disk.journal_len();
    engine.create_snapshot(C, NOW).unwrap();
    drop(collection);
    engine.close();
    let (mut states, mut replaced) = (0, 0);
    for at in (begin..=disk.journal_len()).step_by(3) {
        for survivor in disk.crash_states(at, at as u64, 1) {
            let engine = open(Arc::new(survivor.clone()));
            let found = all(&engine, "c");
            let is_new = found == taken;
            assert!(is_new || found == changed, "at {at}: {} points", found.len());
            assert!(is_new || at < acknowledged, "at {at}: it was acknowledged");
            // The directory is tidied when it is first used.
            engine.list_snapshots(C).unwrap();
            let files = survivor.list_files();
            let dirs = survivor.list_subdirs().unwrap();
            assert_eq!(dirs.iter().filter(|d| d.starts_with('c')).count(), 1, "{dirs:?}");
            assert!(!files.iter().any(|f| f.contains(".snapshot.tmp")), "{files:?}");
            (states, replaced) = (states + 1, replaced + u64::from(is_new));
        }
    }
    assert!(
        states > 100 && replaced > 10 && replaced < states,
        "{replaced} of {states}"
    );
}

/// A sync fails while the catalog is written: nobody knows which of the two it lists, so both are there for the next start.
#[test]
fn a_restore_of_unknown_outcome_leaves_one_or_the_other() {
    let (mut failed, mut replaced, mut kept) = (0, 0, 0);
    for everything in [false, true] {
        for nth in 1.. {
            let disk = SimStorage::new();
            let engine = filled(Arc::new(disk.clone()), 15);
            let taken = all(&engine, "c");
            let scope = if everything { SnapshotScope::Everything } else { C };
            let snapshot = engine.create_snapshot(scope, NOW).unwrap();
            let collection = engine.collection("c").unwrap();
            collection.update(delete(&(0..390).collect::<Vec<_>>())).unwrap();
            let changed = all(&engine, "c");
            let file = engine.open_snapshot(scope, &snapshot.name).unwrap();
            disk.inject(Fault::new(FaultOp::SyncDir, nth, IoErrorKind::Other));
            let result = match everything {
                true => engine.recover_everything(&file, true, &|_| None).map(drop),
                false => engine.recover_collection("c", &file, None),
            };
            disk.clear_faults();
            drop(collection);
            engine.close();
            if result.is_ok() {
                break;
            }
            failed += 1;
            for survivor in disk.crash_states(disk.journal_len(), nth, 2) {
                let found = all(&open(Arc::new(survivor)), "c");
                assert!(
                    found == taken || found == changed,
                    "{nth}: {} points",
                    found.len()
                );
                (replaced, kept) = (
                    replaced + u64::from(found == taken),
                    kept + u64::from(found == changed),
                );
            }
        }
    }
    assert!(
        failed >= 4 && replaced > 0 && kept > 0,
        "{failed} {replaced} {kept}"
    );
}
