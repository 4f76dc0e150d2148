//! What every backend must do the same way.

use std::fs;

use ramlet_io::{Backend, BatchRead, IoErrorKind, PAGE, RamStorage, Result, Storage, open_best};
use ramlet_memory::{AnonBuf, Ledger, page_bytes};

use crate::Rng;
use crate::backends::{TempDir, each, write_file};

fn kind<T>(result: Result<T>) -> IoErrorKind {
    match result {
        Ok(_) => panic!("it should have failed"),
        Err(error) => error.kind,
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
    bytes
}

fn whole(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open(name).expect("the file");
    let mut out = vec![0xee; file.len() as usize];
    file.read_at(&mut out, 0).expect("the bytes");
    out
}

#[test]
fn written_bytes_are_read_back_padded_to_pages() {
    each(|storage| {
        let mut rng = Rng(1);
        let lengths = [0, 1, PAGE - 1, PAGE, PAGE + 1, 300_000, 1 << 20];
        for (number, len) in lengths.into_iter().enumerate() {
            let bytes = rng.bytes(len);
            let name = format!("file-{number}");
            write_file(storage.as_ref(), &name, &bytes, 777);
            assert_eq!(whole(storage.as_ref(), &name), padded(&bytes), "{len} bytes");
            assert_eq!(storage.open(&name).expect("the file").name(), name);
        }
    });
}

#[test]
fn a_file_is_written_on_after_a_sync_and_read_after_a_flush_or_drop() {
    each(|storage| {
        let bytes = Rng(2).bytes(600_000);
        let mut file = storage.create("f").expect("a new file");
        let mut at = 0;
        for len in [10, 5_000, 0, 290_000, 4_096, 1, 300_000] {
            file.append(&bytes[at..at + len]).expect("an append");
            at += len;
            assert_eq!(file.len(), at as u64);
            file.sync().expect("a sync");
            assert_eq!(whole(storage.as_ref(), "f"), padded(&bytes[..at]));
        }
        file.append(b"flushed").expect("an append");
        file.flush().expect("a flush");
        let flushed = [&bytes[..at], b"flushed"].concat();
        assert_eq!(whole(storage.as_ref(), "f"), padded(&flushed));
        file.append(b"dropped").expect("an append");
        drop(file);
        assert_eq!(
            whole(storage.as_ref(), "f"),
            padded(&[&flushed[..], b"dropped"].concat())
        );
    });
}

#[test]
fn a_thousand_random_reads_agree_with_the_bytes() {
    each(|storage| {
        let mut rng = Rng(3);
        let bytes = padded(&rng.bytes(500_000));
        write_file(storage.as_ref(), "f", &bytes, 64 << 10);
        let file = storage.open("f").expect("the file");
        let mut out = vec![0; 40_000];
        for _ in 0..1000 {
            let offset = rng.below(bytes.len() as u64) as usize;
            let len = rng.below(40_000).min((bytes.len() - offset) as u64) as usize;
            file.read_at(&mut out[..len], offset as u64)
                .expect("a read within the file");
            assert!(
                out[..len] == bytes[offset..offset + len],
                "{len} bytes at {offset}"
            );
        }
        assert!(file.as_bytes().is_none_or(|all| all == bytes));
    });
}

#[test]
fn batches_of_any_size_agree_with_the_bytes() {
    each(|storage| {
        let mut rng = Rng(4);
        let bytes = rng.bytes(200 * PAGE);
        let others = rng.bytes(10 * PAGE);
        write_file(storage.as_ref(), "f", &bytes, 64 << 10);
        write_file(storage.as_ref(), "g", &others, 64 << 10);
        let (f, g) = (storage.open("f").expect("f"), storage.open("g").expect("g"));
        let mut reader = storage.reader(8).expect("a reader");
        let mut buf = AnonBuf::new(100 * 4 * PAGE);
        for count in [0, 1, 7, 8, 9, 64, 100] {
            let mut expected = Vec::new();
            let mut reads: Vec<_> = buf.chunks_mut(4 * PAGE).take(count).collect();
            let mut reads: Vec<_> = reads
                .iter_mut()
                .map(|out| {
                    let len = (rng.below(4) as usize + 1) * PAGE;
                    let (file, all) = if rng.below(4) == 0 {
                        (&g, &others)
                    } else {
                        (&f, &bytes)
                    };
                    let offset = rng.below(((all.len() - len) / PAGE) as u64 + 1) as usize * PAGE;
                    expected.push(&all[offset..offset + len]);
                    BatchRead {
                        file: file.as_ref(),
                        offset: offset as u64,
                        out: &mut out[..len],
                    }
                })
                .collect();
            reader.read_batch(&mut reads).expect("reads within the files");
            for (read, expected) in reads.iter().zip(expected) {
                assert!(
                    read.out == expected,
                    "{} bytes at {}",
                    read.out.len(),
                    read.offset
                );
            }
        }
    });
}

#[test]
fn reading_past_the_end_is_a_short_read() {
    each(|storage| {
        write_file(storage.as_ref(), "f", &[7; 3 * PAGE], PAGE);
        let file = storage.open("f").expect("the file");
        let mut buf = AnonBuf::new(2 * PAGE);
        for (offset, len) in [
            (3 * PAGE, 1),
            (2 * PAGE, 2 * PAGE),
            (3 * PAGE - 1, 2),
            (100 * PAGE, PAGE),
        ] {
            let out = &mut buf[..len];
            assert_eq!(
                kind(file.read_at(out, offset as u64)),
                IoErrorKind::ShortRead,
                "{len} at {offset}"
            );
        }
        assert_eq!(
            kind(file.read_at(&mut buf[..1], u64::MAX)),
            IoErrorKind::ShortRead
        );
        let mut reader = storage.reader(4).expect("a reader");
        let (within, past) = buf.split_at_mut(PAGE);
        let mut reads = [
            BatchRead {
                file: file.as_ref(),
                offset: 0,
                out: within,
            },
            BatchRead {
                file: file.as_ref(),
                offset: 3 * PAGE as u64,
                out: past,
            },
        ];
        assert_eq!(kind(reader.read_batch(&mut reads)), IoErrorKind::ShortRead);
        reader
            .read_batch(&mut reads[..1])
            .expect("a reader works on after an error");
        assert_eq!(buf[..PAGE], [7; PAGE]);
    });
}

#[test]
fn names_are_listed_sorted_and_files_removed_and_replaced() {
    each(|storage| {
        for name in ["b", "a", "c"] {
            write_file(storage.as_ref(), name, name.as_bytes(), 1);
        }
        storage.subdir("d").expect("a directory");
        assert_eq!(storage.list().expect("names"), ["a", "b", "c"]);
        assert_eq!(kind(storage.create("a")), IoErrorKind::AlreadyExists);
        storage.rename("a", "b").expect("a rename");
        assert_eq!(storage.list().expect("names"), ["b", "c"]);
        assert_eq!(whole(storage.as_ref(), "b"), padded(b"a"));
        let open = storage.open("c").expect("c");
        storage.remove("c").expect("a removal");
        let mut byte = [0];
        open.read_at(&mut byte, 0)
            .expect("an open file outlives its name");
        assert_eq!(
            (byte, storage.list().expect("names")),
            ([b'c'], vec!["b".to_owned()])
        );
        assert_eq!(kind(storage.open("c")), IoErrorKind::NotFound);
        assert_eq!(kind(storage.remove("c")), IoErrorKind::NotFound);
        assert_eq!(kind(storage.rename("c", "x")), IoErrorKind::NotFound);
        let free = storage.free_bytes().expect("free bytes");
        let capacity = storage.capacity_bytes().expect("capacity");
        assert!(free > 0 && capacity.is_none_or(|all| all > free / 2));
    });
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    each(|storage| {
        write_file(storage.as_ref(), "f", b"f", 1);
        for name in ["", ".", "..", "a/b", "/etc", "../x", "a\0b"] {
            assert_eq!(kind(storage.create(name)), IoErrorKind::Other, "{name:?}");
            assert_eq!(
                kind(storage.create_log(name, 4096)),
                IoErrorKind::Other,
                "{name:?}"
            );
            assert_eq!(kind(storage.open(name)), IoErrorKind::Other, "{name:?}");
            assert_eq!(kind(storage.open_log(name)), IoErrorKind::Other, "{name:?}");
            assert_eq!(kind(storage.subdir(name)), IoErrorKind::Other, "{name:?}");
            assert_eq!(kind(storage.remove_subdir(name)), IoErrorKind::Other, "{name:?}");
            assert_eq!(kind(storage.remove(name)), IoErrorKind::Other, "{name:?}");
            assert_eq!(kind(storage.rename("f", name)), IoErrorKind::Other, "{name:?}");
            assert_eq!(kind(storage.rename(name, "g")), IoErrorKind::Other, "{name:?}");
        }
        assert_eq!(storage.list().expect("names"), ["f"]);
    });
}

#[test]
fn child_directories_hold_files_of_their_own() {
    each(|storage| {
        let child = storage.subdir("child").expect("a directory");
        write_file(child.as_ref(), "f", b"child", 2);
        write_file(storage.as_ref(), "f", b"parent", 2);
        child.subdir("deep").expect("a directory in it");
        let again = storage.subdir("child").expect("the same directory");
        assert_eq!(whole(again.as_ref(), "f"), padded(b"child"));
        assert_eq!(storage.list_subdirs().expect("names"), ["child"]);
        assert_eq!(child.list_subdirs().expect("names"), ["deep"]);
        storage.remove_subdir("child").expect("a removal");
        assert!(storage.list_subdirs().expect("names").is_empty());
        assert_eq!(kind(storage.remove_subdir("child")), IoErrorKind::NotFound);
        assert_eq!(whole(storage.as_ref(), "f"), padded(b"parent"));
        let fresh = storage.subdir("child").expect("a new directory");
        assert!(fresh.list().expect("names").is_empty());
        assert_eq!(kind(storage.subdir("f")), IoErrorKind::AlreadyExists);
    });
}

#[test]
fn a_lock_is_exclusive_and_not_listed() {
    each(|storage| {
        let child = storage.subdir("child").expect("a directory");
        let held = child.lock().expect("the lock");
        assert_eq!(kind(child.lock()), IoErrorKind::Locked);
        assert_eq!(
            kind(storage.subdir("child").expect("a directory").lock()),
            IoErrorKind::Locked
        );
        let _other = storage.lock().expect("another directory's lock");
        drop(held);
        let _again = child.lock().expect("the lock again");
        assert!(child.list().expect("names").is_empty());
    });
}

#[test]
fn a_log_is_zeroed_and_written_anywhere() {
    each(|storage| {
        let mut rng = Rng(5);
        let len = 300_000;
        let mut log = storage.create_log("log", len as u64).expect("a log");
        assert_eq!(log.len(), len as u64);
        let mut model = vec![0; len];
        let mut out = vec![1; len];
        log.read_at(&mut out, 0).expect("zeros");
        assert!(out == model);
        for step in 0..200 {
            let offset = rng.below(len as u64) as usize;
            let count = (rng.below(5_000) as usize).min(len - offset);
            let bytes = rng.bytes(count);
            log.write_at(&bytes, offset as u64).expect("a write");
            model[offset..offset + bytes.len()].copy_from_slice(&bytes);
            if step % 50 == 0 {
                log.sync().expect("a sync");
            }
        }
        log.sync().expect("a sync");
        assert_eq!(kind(log.write_at(&[1; 2], len as u64 - 1)), IoErrorKind::Other);
        assert_eq!(
            kind(log.read_at(&mut [0; 2], len as u64 - 1)),
            IoErrorKind::ShortRead
        );
        drop(log);
        let log = storage.open_log("log").expect("the log");
        log.read_at(&mut out, 0).expect("all of it");
        assert!(out == model && log.len() == len as u64);
        assert_eq!(kind(storage.create_log("log", 10)), IoErrorKind::AlreadyExists);
        assert_eq!(kind(storage.open_log("none")), IoErrorKind::NotFound);
    });
}

#[test]
fn the_best_backend_is_chosen_and_explained() {
    let directory = TempDir::new();
    let (storage, why) = open_best(directory.path(), Backend::Auto).expect("a directory");
    match storage.backend() {
        "io_uring" => assert_eq!(why, None),
        "pread" => assert!(why.is_some_and(|why| why.contains("isn't available"))),
        other => panic!("chose {other}"),
    }
    let (storage, why) = open_best(directory.path(), Backend::Mmap).expect("a directory");
    assert_eq!((storage.backend(), why), ("mmap", None));
    assert_eq!(
        fs::read_dir(directory.path()).expect("entries").count(),
        0,
        "the probe leaves nothing"
    );
}

#[test]
fn files_in_ram_are_reserved() {
    // They are accounted in pages of the machine.
    let page = page_bytes();
    let ledger = Ledger::new(40 * page as u64);
    let storage = RamStorage::new(Some(ledger.consumer("files", u64::MAX)));
    write_file(&storage, "f", &vec![1; 10 * page], 100);
    assert_eq!(ledger.used(), 10 * page as u64);
    assert_eq!(storage.free_bytes().expect("free bytes"), 30 * page as u64);
    let mut file = storage.create("g").expect("a new file");
    assert_eq!(kind(file.append(&vec![2; 31 * page])), IoErrorKind::OverBudget);
    file.append(&vec![2; 30 * page]).expect("all that is left");
    assert_eq!(kind(storage.create_log("log", 1)), IoErrorKind::OverBudget);
    drop(file);
    storage.remove("g").expect("a removal");
    storage.remove("f").expect("a removal");
    assert_eq!(ledger.used(), 0);
}
