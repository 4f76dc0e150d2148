//! The warm read path allocates nothing: counted by an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ramlet_io::{BlockCache, BlockFile, IoContext, PAGE};
use ramlet_memory::{AnonBuf, Ledger};

use crate::backends::{each, write_file};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the ones that this call needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads by every way: single blocks, many at once (more than one wave), a run; partly from the cache.
fn read_all(file: &BlockFile, io: &mut IoContext, list: &[(u64, u32)], buf: &mut AnonBuf) {
    for page in 0..20 {
        file.read(io, page * 7, 1, buf).expect("a block");
    }
    file.read_many(io, list, buf).expect("blocks");
    file.read_run(io, 3, 190, 1, buf).expect("a run");
}

#[test]
fn warm_reads_allocate_nothing() {
    each(|storage| {
        write_file(storage.as_ref(), "f", &[5; 200 * PAGE], PAGE);
        let ledger = Ledger::new(1 << 20);
        let cache = BlockCache::new(&ledger.consumer("cache", u64::MAX), 30 * PAGE as u64).expect("room");
        let file = storage.open("f").expect("the file");
        let file = BlockFile::new(file, 0, |_, _, block| block[0] == 5, Some(cache));
        let mut io = IoContext::for_storage(storage.as_ref(), 16).expect("a reader");
        let mut buf = AnonBuf::new(0);
        let list: Vec<(u64, u32)> = (0..150).map(|number| (number * 37 % 200, 1)).collect();
        read_all(&file, &mut io, &list, &mut buf);
        let before = COUNT.get();
        assert!(before > 0, "the allocator counts");
        read_all(&file, &mut io, &list, &mut buf);
        assert_eq!(COUNT.get() - before, 0, "allocations");
        assert!(io.reads() > 100);
    });
}
