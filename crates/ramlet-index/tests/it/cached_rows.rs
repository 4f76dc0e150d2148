//! Rows in memory against the rows of the file.

use ramlet_index::{CachedRows, IndexError};
use ramlet_io::IoErrorKind;
use ramlet_memory::{AnonBuf, Ledger, ReclaimableBuf};

use crate::disk::Disk;
use crate::random::Random;

const PIECE: u64 = ReclaimableBuf::PIECE_BYTES as u64;

fn bytes(len: usize) -> Vec<u8> {
    let mut random = Random::new(3);
    (0..len).map(|_| random.below(256) as u8).collect()
}

#[test]
fn rows_are_those_of_the_file() {
    for disk in Disk::all() {
        for (rows, stride, buf) in [
            (0, 7, 0),
            (1, 1, 0),
            (1000, 67, 4096),
            (70_001, 67, 20_000),
            (30, 9000, 0),
        ] {
            let data = bytes(rows * stride);
            let file = disk.write_rows(&format!("{rows}x{stride}"), stride, &data);
            let consumer = Ledger::new(1 << 30).consumer("cache", u64::MAX);
            let cached_rows =
                CachedRows::load(&file, &consumer, &mut disk.io(), &mut AnonBuf::new(buf)).expect("room");
            assert_eq!((cached_rows.rows(), cached_rows.stride()), (rows as u32, stride));
            assert_eq!(cached_rows.bytes_whole(), data.len() as u64);
            assert_eq!(consumer.used(), cached_rows.bytes());
            assert!(cached_rows.bytes() < data.len() as u64 + 4096);
            let view = cached_rows.view();
            assert_eq!((view.bytes(), view.resident()), (&data[..], rows as u32));
            for row in (0..rows).step_by(97) {
                assert_eq!(view.row(row as u32), Some(&data[row * stride..][..stride]));
            }
            assert_eq!(view.row(rows as u32), None);
            assert_eq!(view.run(0, rows as u32), Some(&data[..]));
            assert_eq!(view.run(0, rows as u32 + 1), None);
            assert_eq!(view.row(u32::MAX), None);
        }
    }
}

#[test]
fn released_rows_are_missing_until_they_are_restored() {
    let disk = Disk::files();
    let (rows, stride) = (70_001, 67);
    let data = bytes(rows * stride);
    let file = disk.write_rows("rows", stride, &data);
    let ledger = Ledger::new(16 * PIECE);
    let rest = ledger.consumer("rest", u64::MAX);
    let _held = rest.reserve(13 * PIECE).expect("it is free");
    let consumer = ledger.consumer("cache", u64::MAX);
    let (io, buf) = (&mut disk.io(), &mut AnonBuf::new(1 << 16));
    let cached_rows = CachedRows::load(&file, &consumer, io, buf).expect("room");
    let whole = cached_rows.bytes();
    let old = cached_rows.view();
    let released = cached_rows.release(PIECE);
    assert!(released >= PIECE && cached_rows.bytes() == whole - released);
    let resident = cached_rows.view().resident();
    assert_eq!(resident, (cached_rows.bytes() / stride as u64) as u32);
    assert_eq!(
        cached_rows.view().row(resident),
        None,
        "a row that is there in part only"
    );
    assert_eq!(old.bytes(), data);
    drop(old);
    assert_eq!(consumer.used(), cached_rows.bytes());
    let other = ledger
        .consumer("other", u64::MAX)
        .reserve(2 * PIECE)
        .expect("what was released");
    assert_eq!(
        cached_rows.restore(&file, io, buf).expect("readable"),
        0,
        "no room"
    );
    drop(other);
    assert_eq!(
        cached_rows.restore(&file, io, buf).expect("readable"),
        data.len() as u64 - PIECE
    );
    assert_eq!(cached_rows.view().bytes(), data);
}

#[test]
fn too_little_room_or_a_broken_block_leaves_nothing_behind() {
    let disk = Disk::files();
    let file = disk.write_rows("rows", 67, &bytes(67 * 70_001));
    let consumer = Ledger::new(1 << 30).consumer("cache", 2 * PIECE);
    let refused = CachedRows::load(&file, &consumer, &mut disk.io(), &mut AnonBuf::new(0));
    assert!(matches!(refused, Err(IndexError::OverBudget(_))), "{refused:?}");
    assert_eq!(consumer.used(), 0);
    let mut broken = disk.read_all("rows").to_vec();
    broken[1_000_000] ^= 4;
    let mut copy = disk.storage.create("broken").expect("a new file");
    copy.append(&broken).expect("writing");
    copy.sync().expect("syncing");
    let file = disk.open_rows("broken");
    let consumer = Ledger::new(1 << 30).consumer("cache", u64::MAX);
    match CachedRows::load(&file, &consumer, &mut disk.io(), &mut AnonBuf::new(0)) {
        Err(IndexError::Io(error)) => assert_eq!(error.kind, IoErrorKind::Corrupt),
        other => panic!("{other:?}"),
    }
    assert_eq!(consumer.used(), 0);
}
