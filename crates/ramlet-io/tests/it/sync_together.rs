//! Files whose sync is put off: durable when all are, and not before anybody is told so.

use std::sync::Arc;

use ramlet_io::{FaultOp, IoErrorKind, PAGE, SimStorage, Storage, SyncTogether, WriteFile};

use crate::Rng;
use crate::backends::each;

/// Appends, and asks for the sync.
fn write(storage: &dyn Storage, name: &str, bytes: &[u8]) -> ramlet_io::Result<Box<dyn WriteFile>> {
    let mut file = storage.create(name)?;
    bytes.chunks(777).try_for_each(|part| file.append(part))?;
    file.sync()?;
    Ok(file)
}

/// Of many power losses right now, those after which the file has these bytes.
fn survives(disk: &SimStorage, name: &str, bytes: &[u8]) -> usize {
    let states = disk.crash_states(disk.journal_len(), 11, 50);
    let read = states
        .iter()
        .map(|state| state.read_file(name).expect("its name is durable"));
    read.filter(|read| read == bytes).count()
}

#[test]
fn what_is_put_off_is_durable_when_all_are() {
    let disk = SimStorage::new();
    let together = SyncTogether::new(Arc::new(disk.clone()));
    let bytes = Rng(1).bytes(10 * PAGE);
    for name in ["a", "b", "c"] {
        write(&together, name, &bytes).expect("a file");
    }
    disk.sync_dir().expect("a directory sync");
    for name in ["a", "b", "c"] {
        assert_ne!(survives(&disk, name, &bytes), 54, "{name} isn't synced yet");
    }
    together.sync().expect("all synced");
    for name in ["a", "b", "c"] {
        assert_eq!(survives(&disk, name, &bytes), 54, "{name}");
    }
}

#[test]
fn more_than_may_wait_are_synced_on_the_way() {
    let disk = SimStorage::new();
    let together = SyncTogether::new(Arc::new(disk.clone()));
    let names: Vec<_> = (0..9).map(|number| format!("file-{number}")).collect();
    for name in &names {
        write(&together, name, &[7; PAGE]).expect("a file");
    }
    disk.sync_dir().expect("a directory sync");
    let safe = names
        .iter()
        .filter(|name| survives(&disk, name, &[7; PAGE]) == 54);
    assert_eq!(safe.count(), 8);
}

#[test]
fn a_sync_that_fails_is_told_whichever_it_was() {
    for nth in 1..=3 {
        let disk = SimStorage::new();
        let together = SyncTogether::new(Arc::new(disk.clone()));
        for name in ["a", "b", "c"] {
            write(&together, name, &[7; PAGE]).expect("a file");
        }
        disk.fail_nth(FaultOp::Sync, nth, IoErrorKind::Other);
        assert_eq!(together.sync().unwrap_err().kind, IoErrorKind::Other);
        // The others were tried all the same, and none is asked for again.
        together.sync().expect("nothing waits");
    }
}

#[test]
fn every_backend_keeps_what_was_written() {
    each(|storage| {
        let together = SyncTogether::new(storage.clone());
        let bytes = Rng(2).bytes(300_001);
        for number in 0..20 {
            let file = write(&together, &format!("file-{number}"), &bytes).expect("a file");
            assert_eq!(file.len(), 300_001);
        }
        together.sync().expect("all synced");
        for number in 0..20 {
            let mut read = vec![0; bytes.len()];
            let file = storage.open(&format!("file-{number}")).expect("the file");
            file.read_at(&mut read, 0).expect("the bytes");
            assert!(read == bytes, "file {number}");
        }
    });
}

#[test]
fn nothing_is_appended_after_the_sync_was_asked_for() {
    let together = SyncTogether::new(Arc::new(SimStorage::new()));
    let mut file = write(&together, "f", b"whole").expect("a file");
    assert_eq!(file.append(b"more").unwrap_err().kind, IoErrorKind::Closed);
    assert_eq!(file.len(), 5);
    file.sync().expect("it is on its way");
}
