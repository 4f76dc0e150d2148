//! Blocks: the same bytes by every way of reading, and never wrong ones.

use std::sync::Arc;

use ramlet_io::{
    BlockCache, BlockFile, IoContext, IoErrorKind, PAGE, PreadStorage, SimStorage, Storage, block_of,
};
use ramlet_memory::{AnonBuf, Ledger, page_bytes};

use crate::Rng;
use crate::backends::{TempDir, each, write_file};

const SEED: u64 = 77;

/// The first 8 bytes of a block: a sum over seed, page and the rest.
fn sum(seed: u64, page: u64, rest: &[u8]) -> [u8; 8] {
    let start = (seed ^ page.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
    rest.iter().fold(start, step).to_le_bytes()
}

fn verify(seed: u64, page: u64, block: &[u8]) -> bool {
    block[..8] == sum(seed, page, &block[8..])
}

/// A file of `count` blocks of `pages` pages each.
fn blocks(rng: &mut Rng, count: usize, pages: usize) -> Vec<u8> {
    let mut bytes = rng.bytes(count * pages * PAGE);
    for (number, block) in bytes.chunks_mut(pages * PAGE).enumerate() {
        let sum = sum(SEED, (number * pages) as u64, &block[8..]);
        block[..8].copy_from_slice(&sum);
    }
    bytes
}

struct Fixture {
    bytes: Vec<u8>,
    file: BlockFile,
    io: IoContext,
    buf: AnonBuf,
}

fn fixture(storage: &dyn Storage, count: usize, pages: usize, cache: Option<Arc<BlockCache>>) -> Fixture {
    let bytes = blocks(&mut Rng(9), count, pages);
    write_file(storage, "blocks", &bytes, 100_000);
    let file = BlockFile::new(storage.open("blocks").expect("the file"), SEED, verify, cache);
    let io = IoContext::for_storage(storage, 8).expect("a reader");
    Fixture {
        bytes,
        file,
        io,
        buf: AnonBuf::new(0),
    }
}

fn cache(ledger: &Arc<Ledger>, bytes: u64) -> Arc<BlockCache> {
    BlockCache::new(&ledger.consumer("cache", u64::MAX), bytes).expect("room for the cache")
}

/// All three ways of reading, at random, against the bytes.
fn check_reads(fixture: &mut Fixture, pages: usize) {
    let Fixture { bytes, file, io, buf } = fixture;
    let count = bytes.len() / PAGE / pages;
    let at = |number: usize| (number * pages) as u64;
    let mut rng = Rng(5);
    for _ in 0..100 {
        let number = rng.below(count as u64) as usize;
        let block = file.read(io, at(number), pages as u32, buf).expect("a block");
        assert!(block == &bytes[number * pages * PAGE..][..pages * PAGE]);
    }
    for wanted in [0, 1, 2, 63, 64, 65, 200] {
        // Runs of neighbours among random ones, so that reads coalesce.
        let mut number = 0;
        let list: Vec<usize> = (0..wanted)
            .map(|_| {
                number = if rng.below(3) == 0 {
                    rng.below(count as u64) as usize
                } else {
                    (number + 1) % count
                };
                number
            })
            .collect();
        let places: Vec<_> = list.iter().map(|number| (at(*number), pages as u32)).collect();
        file.read_many(io, &places, buf).expect("blocks");
        let expected: Vec<u8> = list
            .iter()
            .flat_map(|number| &bytes[number * pages * PAGE..][..pages * PAGE])
            .copied()
            .collect();
        assert!(buf[..expected.len()] == expected[..], "{wanted} blocks");
    }
    for (first, run) in [(0, count), (1, count - 1), (count / 2, 1), (3, 0)] {
        let run_pages = (run * pages) as u32;
        let out = file
            .read_run(io, at(first), run_pages, pages as u32, buf)
            .expect("a run");
        assert!(out == &bytes[first * pages * PAGE..][..run * pages * PAGE]);
    }
}

#[test]
fn every_way_of_reading_gives_the_same_bytes() {
    for pages in [1, 3] {
        each(|storage| {
            let ledger = Ledger::new(16 << 20);
            let mut without = fixture(storage.as_ref(), 300, pages, None);
            check_reads(&mut without, pages);
            assert!(without.io.reads() > 0 && without.io.cache_hits() == 0);

            let mut with = Fixture {
                file: BlockFile::new(
                    storage.open("blocks").expect("the file"),
                    SEED,
                    verify,
                    Some(cache(&ledger, 1 << 20)),
                ),
                ..without
            };
            check_reads(&mut with, pages);

            let consumer = ledger.consumer("pinned", u64::MAX);
            let pinned = with.file.pin(&consumer, &mut with.io, &mut |_| pages as u32);
            pinned.expect("no error").expect("room");
            with.io.take_stats();
            check_reads(&mut with, pages);
            let len = with.bytes.len().next_multiple_of(page_bytes()) as u64;
            match storage.backend() {
                "ram" | "overlay" => assert_eq!((with.file.pinned_bytes(), consumer.used()), (0, 0)),
                _ => {
                    assert_eq!((with.file.pinned_bytes(), consumer.used()), (len, len));
                    assert_eq!(
                        (with.io.reads(), with.io.cache_hits()),
                        (0, 0),
                        "pinned blocks are no reads"
                    );
                }
            }
            drop(with);
            assert_eq!(consumer.used(), 0);
        });
    }
}

#[test]
fn reads_are_counted_the_same_on_every_backend() {
    each(|storage| {
        let Fixture {
            file,
            mut io,
            mut buf,
            ..
        } = fixture(storage.as_ref(), 300, 1, None);
        file.read(&mut io, 5, 1, &mut buf).expect("a block");
        assert_eq!((io.reads(), io.bytes()), (1, PAGE as u64));
        io.take_stats();
        file.read_many(&mut io, &[(1, 1), (9, 1), (7, 1)], &mut buf)
            .expect("blocks");
        assert_eq!((io.reads(), io.bytes()), (3, 3 * PAGE as u64));
    });
}

#[test]
fn neighbours_are_one_read_and_a_run_is_cut_into_large_ones() {
    let directory = TempDir::new();
    let storage = PreadStorage::open(directory.path()).expect("a directory");
    let Fixture {
        file,
        mut io,
        mut buf,
        ..
    } = fixture(storage.as_ref(), 300, 1, None);
    file.read_many(&mut io, &[(4, 1), (5, 1), (6, 1), (2, 1), (7, 1)], &mut buf)
        .expect("blocks");
    assert_eq!(io.take_stats().reads, 3);
    file.read_run(&mut io, 10, 130, 1, &mut buf).expect("a run");
    let stats = io.take_stats();
    assert_eq!(
        (stats.reads, stats.bytes),
        (3, 130 * PAGE as u64),
        "64 + 64 + 2 pages"
    );
}

#[test]
fn cached_blocks_are_not_read_again_and_runs_leave_the_cache_alone() {
    let directory = TempDir::new();
    let storage = PreadStorage::open(directory.path()).expect("a directory");
    let ledger = Ledger::new(16 << 20);
    let cache = cache(&ledger, 4 << 20);
    let Fixture {
        bytes,
        file,
        mut io,
        mut buf,
    } = fixture(storage.as_ref(), 100, 2, Some(cache.clone()));
    file.read_run(&mut io, 0, 200, 2, &mut buf).expect("a run");
    assert_eq!(cache.stats().pages, 0);
    file.read_many(&mut io, &[(4, 2), (8, 2)], &mut buf)
        .expect("blocks");
    io.take_stats();
    file.read_many(&mut io, &[(8, 2), (6, 2), (4, 2)], &mut buf)
        .expect("blocks");
    let stats = io.take_stats();
    assert_eq!((stats.reads, stats.cache_hits), (1, 2));
    let expected = [8, 6, 4].map(|page| &bytes[page * PAGE..][..2 * PAGE]).concat();
    assert!(buf[..6 * PAGE] == expected);
    file.read(&mut io, 6, 2, &mut buf).expect("a block");
    assert_eq!((io.reads(), io.cache_hits()), (0, 1));

    let again = BlockFile::new(
        storage.open("blocks").expect("the file"),
        SEED,
        verify,
        Some(cache),
    );
    again.read(&mut io, 6, 2, &mut buf).expect("a block");
    assert_eq!(io.reads(), 1, "another opening shares nothing");
}

#[test]
fn a_flipped_bit_is_an_error_by_every_way_of_reading() {
    let storage = SimStorage::new();
    let ledger = Ledger::new(16 << 20);
    let cache = cache(&ledger, 1 << 20);
    let Fixture {
        mut file,
        mut io,
        mut buf,
        ..
    } = fixture(&storage, 20, 2, Some(cache.clone()));
    storage
        .flip_bit("blocks", 9 * PAGE as u64 + 17)
        .expect("a byte of the file");
    let place = format!("byte offset {}", 8 * PAGE);
    let check = |result: ramlet_io::Result<()>| {
        let error = result.expect_err("block 4 is corrupt");
        assert_eq!(
            (error.kind, error.file.as_str()),
            (IoErrorKind::Corrupt, "blocks")
        );
        assert!(error.detail.contains(&place), "{error}");
    };
    check(file.read(&mut io, 8, 2, &mut buf).map(drop));
    check(file.read_many(&mut io, &[(2, 2), (8, 2)], &mut buf));
    check(file.read_run(&mut io, 4, 10, 2, &mut buf).map(drop));
    let consumer = ledger.consumer("pinned", u64::MAX);
    check(file.pin(&consumer, &mut io, &mut |_| 2).map(drop));
    assert_eq!((consumer.used(), file.pinned_bytes()), (0, 0));
    check(file.read(&mut io, 8, 2, &mut buf).map(drop));
    assert_eq!(cache.stats().pages, 2, "only the good block was kept");
    file.read(&mut io, 10, 2, &mut buf)
        .expect("its neighbour is fine");
}

#[test]
fn a_flipped_bit_on_a_real_disk_is_found() {
    each(|storage| {
        let bytes = {
            let mut bytes = blocks(&mut Rng(9), 20, 1);
            bytes[7 * PAGE + 100] ^= 0x10;
            bytes
        };
        write_file(storage.as_ref(), "blocks", &bytes, 4096);
        let mut file = BlockFile::new(storage.open("blocks").expect("the file"), SEED, verify, None);
        let mut io = IoContext::for_storage(storage.as_ref(), 4).expect("a reader");
        let mut buf = AnonBuf::new(0);
        let kinds = [
            file.read(&mut io, 7, 1, &mut buf).map(drop),
            file.read_many(&mut io, &[(6, 1), (7, 1)], &mut buf),
            file.read_run(&mut io, 0, 20, 1, &mut buf).map(drop),
            file.pin(&Ledger::new(1 << 20).consumer("p", u64::MAX), &mut io, &mut |_| 1)
                .map(drop),
        ];
        for result in kinds {
            assert_eq!(result.expect_err("page 7 is corrupt").kind, IoErrorKind::Corrupt);
        }
        file.read_many(&mut io, &[(6, 1), (8, 1)], &mut buf)
            .expect("the others are fine");
        // The right bytes at the wrong place, or of another file, are just as wrong.
        let other = BlockFile::new(storage.open("blocks").expect("the file"), SEED + 1, verify, None);
        assert_eq!(
            other.read(&mut io, 6, 1, &mut buf).expect_err("the seed").kind,
            IoErrorKind::Corrupt
        );
    });
}

#[test]
fn reading_past_the_end_and_over_the_budget_are_errors() {
    each(|storage| {
        let Fixture {
            file,
            mut io,
            mut buf,
            ..
        } = fixture(storage.as_ref(), 20, 1, None);
        let kinds = [
            file.read(&mut io, 20, 1, &mut buf).map(drop),
            file.read(&mut io, u64::MAX, 1, &mut buf).map(drop),
            file.read_many(&mut io, &[(3, 1), (20, 1)], &mut buf),
            file.read_run(&mut io, 19, 2, 1, &mut buf).map(drop),
        ];
        for result in kinds {
            assert_eq!(result.expect_err("past the end").kind, IoErrorKind::ShortRead);
        }
    });
    let storage = SimStorage::new();
    let Fixture { mut file, mut io, .. } = fixture(&storage, 20, 1, None);
    let in_memory = |pages: usize| (pages * PAGE).next_multiple_of(page_bytes()) as u64;
    let ledger = Ledger::new(in_memory(10));
    let consumer = ledger.consumer("small", u64::MAX);
    let mut buf = AnonBuf::reserved(&consumer, PAGE).expect("a page");
    let refused = file
        .read_run(&mut io, 0, 20, 1, &mut buf)
        .expect_err("20 of 10 pages");
    assert_eq!(refused.kind, IoErrorKind::OverBudget);
    let pinned = file.pin(&consumer, &mut io, &mut |_| 1).expect("no error");
    assert_eq!(pinned.expect_err("20 of 9 pages").asked, in_memory(20));
    file.read(&mut io, 3, 1, &mut buf).expect("the file works on");
}

/// Three pages a block: pieces of reclaimable memory end within one.
const BLOCK_PAGES: usize = 3;

fn block_at(page: u64) -> (u64, u32) {
    (page / BLOCK_PAGES as u64 * BLOCK_PAGES as u64, BLOCK_PAGES as u32)
}

#[test]
fn cached_memory_comes_and_goes_and_the_bytes_stay_the_same() {
    each(|storage| {
        let mut fixture = fixture(storage.as_ref(), 500, BLOCK_PAGES, None);
        let ledger = Ledger::new(64 << 20);
        let consumer = ledger.cache("cached", 32 << 20);
        let cached = fixture.file.make_cacheable(&consumer).expect("addresses");
        let Some(cached) = cached else {
            // The backend has it in memory anyway.
            assert!(fixture.file.file().as_bytes().is_some());
            return;
        };
        let mut pieces = 0;
        while fixture
            .file
            .fill_cached(&mut fixture.io, &block_at)
            .expect("sound")
            > 0
        {
            pieces += 1;
            check_reads(&mut fixture, BLOCK_PAGES);
        }
        assert_eq!(pieces, 3);
        assert_eq!(fixture.file.cached().len(), fixture.bytes.len());
        assert_eq!(fixture.file.cacheable_bytes(), fixture.bytes.len() as u64);
        fixture.io.take_stats();
        check_reads(&mut fixture, BLOCK_PAGES);
        assert_eq!(fixture.io.reads(), 0);
        let view = fixture.file.cached();
        let block = block_of(&view, 9, BLOCK_PAGES * PAGE).expect("it is there");
        assert!(block == &fixture.bytes[9 * PAGE..][..BLOCK_PAGES * PAGE]);
        drop(view);
        cached.upgrade().expect("the file holds it").cut(1);
        check_reads(&mut fixture, BLOCK_PAGES);
        assert!(fixture.io.reads() > 0);
        let view = fixture.file.cached();
        let last = fixture.bytes.len() / PAGE - BLOCK_PAGES;
        assert!(block_of(&view, last as u64, BLOCK_PAGES * PAGE).is_none());
        assert!(block_of(&view, u64::MAX, PAGE).is_none());
    });
}

#[test]
fn cached_memory_shows_no_corrupt_block() {
    // In a piece, and in a block that two pieces share.
    for page in [7, 511, 512] {
        let storage = SimStorage::new();
        let Fixture { mut file, mut io, .. } = fixture(&storage, 200, BLOCK_PAGES, None);
        storage
            .flip_bit("blocks", page * PAGE as u64 + 17)
            .expect("a byte of the file");
        let ledger = Ledger::new(64 << 20);
        let consumer = ledger.cache("cached", 32 << 20);
        file.make_cacheable(&consumer).expect("addresses");
        let error = file.fill_cached(&mut io, &block_at).expect_err("it is corrupt");
        assert_eq!(error.kind, IoErrorKind::Corrupt);
        assert_eq!(
            (file.cached().len(), ledger.reclaimable_bytes()),
            (0, 0),
            "page {page}"
        );
    }
}
