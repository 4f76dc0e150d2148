//! Two that wait for each other in turns, on one processor: each turn is one switch.

use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::measure::child::{die_with, pin_to_one_cpu};

/// One that waits so long waits for a dead partner.
const TIMEOUT_S: i64 = 5;

/// Time of `2 * rounds` switches between two threads on one processor. Leaves the calling thread there.
pub fn thread_switches(rounds: u32, now: &dyn Fn() -> Duration) -> io::Result<Duration> {
    pin_to_one_cpu()?;
    let word = Arc::new(AtomicU32::new(0));
    let theirs = word.clone();
    let partner = std::thread::Builder::new().spawn(move || turns(&theirs, 1, rounds))?;
    let outcome = timed(&word, rounds, now);
    let _ = partner.join();
    outcome
}

/// Time of `2 * rounds` switches between two processes on one processor. Leaves the calling thread there.
pub fn process_switches(rounds: u32, now: &dyn Fn() -> Duration) -> io::Result<Duration> {
    pin_to_one_cpu()?;
    let page = SharedPage::new()?;
    let parent = std::process::id() as libc::pid_t;
    // SAFETY: the child calls nothing but system calls before it exits: no lock of the parent's other threads is taken.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let outcome = die_with(parent).and_then(|()| turns(page.word(), 1, rounds));
            // SAFETY: ends the child at once, without what the parent would do at its end.
            unsafe { libc::_exit(i32::from(outcome.is_err())) }
        }
        child => {
            let outcome = timed(page.word(), rounds, now);
            if outcome.is_err() {
                // SAFETY: it is our child, not yet waited for.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
            // SAFETY: it is our child; its status isn't asked for.
            unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
            outcome
        }
    }
}

fn timed(word: &AtomicU32, rounds: u32, now: &dyn Fn() -> Duration) -> io::Result<Duration> {
    // The first round waits for the partner to come up.
    turns(word, 0, 1)?;
    let start = now();
    turns(word, 0, rounds.saturating_sub(1))?;
    Ok(now().saturating_sub(start))
}

/// Takes `rounds` turns as number `me` (0 or 1): waits until it is ours, and makes it the other's.
fn turns(word: &AtomicU32, me: u32, rounds: u32) -> io::Result<()> {
    for _ in 0..rounds {
        while word.load(Ordering::Acquire) != me {
            futex_wait(word, 1 - me)?;
        }
        word.store(1 - me, Ordering::Release);
        futex_wake(word);
    }
    Ok(())
}

/// Sleeps while the word is `value`.
fn futex_wait(word: &AtomicU32, value: u32) -> io::Result<()> {
    let timeout = libc::timespec {
        tv_sec: TIMEOUT_S,
        tv_nsec: 0,
    };
    // SAFETY: the word and the time outlive the call.
    let slept = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &raw const timeout,
        )
    };
    let error = io::Error::last_os_error();
    match slept != 0 && error.raw_os_error() == Some(libc::ETIMEDOUT) {
        true => Err(error),
        false => Ok(()),
    }
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// A page of zeros that a child shares.
struct SharedPage(*mut libc::c_void);

const PAGE: usize = 4096;

impl SharedPage {
    fn new() -> io::Result<SharedPage> {
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, where the kernel likes.
        let start = unsafe { libc::mmap(ptr::null_mut(), PAGE, access, flags, -1, 0) };
        match start == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(SharedPage(start)),
        }
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: aligned, zeroed, as long as `self` is there, and only used as an atomic.
        unsafe { AtomicU32::from_ptr(self.0.cast()) }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: our mapping, that nobody borrows any more.
        unsafe { libc::munmap(self.0, PAGE) };
    }
}
