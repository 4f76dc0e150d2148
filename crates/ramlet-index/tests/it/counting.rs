//! An allocator that counts, per thread, so that tests may run side by side.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Whose account this thread's allocations are on; 0: nobody's.
    static WATCH: Cell<usize> = const { Cell::new(0) };
}

/// How often a test run may watch.
const WATCHES: usize = 256;

/// Bytes on an account, now and at most.
struct Account {
    resident: AtomicUsize,
    peak: AtomicUsize,
}

static ACCOUNTS: [Account; WATCHES] = [const {
    Account {
        resident: AtomicUsize::new(0),
        peak: AtomicUsize::new(0),
    }
}; WATCHES];
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// In front of each allocation stands whose it is: another thread may be the one that frees it.
fn with_front(layout: Layout) -> (Layout, usize) {
    let front = layout.align().max(align_of::<usize>());
    let whole = Layout::from_size_align(layout.size() + front, front).expect("no allocation is as large");
    (whole, front)
}

// SAFETY: every call is handed on to the system's allocator, for as much more as the front takes; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let watch = WATCH.try_with(Cell::get).unwrap_or(0);
        let (whole, front) = with_front(layout);
        // SAFETY: `whole` isn't empty; the front has room for a number at its end, which is aligned as the front's length is.
        unsafe {
            let start = System.alloc(whole);
            if start.is_null() {
                return start;
            }
            let pointer = start.add(front);
            pointer.cast::<usize>().sub(1).write(watch);
            if watch != 0 {
                let account = &ACCOUNTS[watch];
                let resident = account.resident.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
                account.peak.fetch_max(resident, Ordering::Relaxed);
            }
            pointer
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let (whole, front) = with_front(layout);
        // SAFETY: the pointer is of `alloc`, with the same layout.
        unsafe {
            let watch = pointer.cast::<usize>().sub(1).read();
            if watch != 0 {
                ACCOUNTS[watch]
                    .resident
                    .fetch_sub(layout.size(), Ordering::Relaxed);
            }
            System.dealloc(pointer.sub(front), whole)
        }
    }
}

/// Allocations of this thread while `run` runs.
pub fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

/// Most bytes that this thread had allocated at a time while `run` ran, whoever freed them.
pub fn peak_bytes<R>(run: impl FnOnce() -> R) -> (usize, R) {
    let watch = NEXT.fetch_add(1, Ordering::Relaxed);
    let before = WATCH.replace(watch);
    let result = run();
    WATCH.set(before);
    (ACCOUNTS[watch].peak.load(Ordering::Relaxed), result)
}

/// The same, and what of it is still there afterwards.
pub fn peak_and_kept_bytes(run: impl FnOnce()) -> (usize, usize) {
    let watch = NEXT.fetch_add(1, Ordering::Relaxed);
    let before = WATCH.replace(watch);
    run();
    WATCH.set(before);
    let Account { resident, peak } = &ACCOUNTS[watch];
    (peak.load(Ordering::Relaxed), resident.load(Ordering::Relaxed))
}

#[test]
fn the_allocator_counts() {
    assert_eq!(
        allocations(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(100)))),
        1
    );
    assert_eq!(allocations(|| ()), 0);
}

#[test]
fn bytes_are_on_the_account_of_the_thread_that_asked_for_them() {
    let hold = |bytes| std::hint::black_box(Vec::<u8>::with_capacity(bytes));
    let (peak, of_other) = peak_bytes(|| {
        for _ in 0..10 {
            let mine = hold(1 << 20);
            std::thread::spawn(move || drop(mine)).join().expect("it ends");
        }
        let other = std::thread::spawn(move || peak_bytes(|| drop(hold(1 << 24))).0);
        other.join().expect("it ends")
    });
    assert!((1 << 20..3 << 19).contains(&peak), "{peak}");
    assert_eq!(of_other, 1 << 24);
}
