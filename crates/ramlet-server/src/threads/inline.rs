//! Small searches on the thread that holds the connection: no other thread has to be woken, and none to wake this one.
//!
//! A connection's thread may hold a search slot. When a small search comes in while none waits there, it waits until what
//! else there is to do was done once, and runs. Those that come in meanwhile go to the search threads, so that what came
//! together is searched together; but where the last search was done sooner than another thread is woken, a few wait here.
//! A search that took long sends the next ones to the search threads too: what waits for this thread waits for the search. One that waited for the disk
//! does so sooner: all that while the thread did nothing, and could have for others.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use ramlet::{Engine, Scratch, Slot};

use crate::limits::{INLINE_QUICK, INLINE_SKIPS, INLINE_TIME, INLINE_WAITED, INLINE_WAITING};

/// The slot of a connections' thread.
struct Inline {
    slot: Slot,
    /// Searches that wait for their turn.
    waiting: usize,
    limit: InlineLimit,
}

thread_local! {
    static INLINE: RefCell<Option<Inline>> = const { RefCell::new(None) };
}

/// Gives this thread a slot, if the engine has one for it.
pub fn enter(engine: &Engine) {
    match engine.slot() {
        Ok(Some(slot)) => {
            let limit = InlineLimit::default();
            let inline = Inline {
                slot,
                waiting: 0,
                limit,
            };
            INLINE.set(Some(inline));
        }
        Ok(None) => {}
        Err(e) => tracing::warn!("no searches on the connections' threads: {e}"),
    }
}

/// Gives the slot back.
pub fn leave() {
    INLINE.set(None);
}

/// A search's turn on this thread's slot. Whoever drops it gives it up.
pub struct Turn(());

impl Turn {
    /// A turn, if there is one to be had: otherwise the search is for the search threads.
    pub fn take() -> Option<Turn> {
        INLINE.with_borrow_mut(|inline| {
            let inline = inline.as_mut()?;
            if inline.waiting >= inline.limit.places() || !inline.limit.allows() {
                return None;
            }
            inline.waiting += 1;
            Some(Turn(()))
        })
    }

    /// Done when the thread has done once what else there is to do: requests that came together are all read by then.
    ///
    /// The task goes to the end of the runtime's queue. (A hook for when the thread would sleep comes later still, but the
    /// runtime asks the poller once more behind it: a system call of four a query.)
    pub async fn comes(&self) {
        let mut waited = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Runs `job`; `None` if it panicked.
    pub fn run<T>(self, job: impl FnOnce(&mut Scratch) -> T) -> Option<T> {
        INLINE.with_borrow_mut(|inline| {
            let inline = inline.as_mut()?;
            let start = Instant::now();
            let (done, waits) = inline.slot.run(|scratch| {
                let before = scratch.waits();
                (job(scratch), scratch.waits() - before)
            })?;
            inline.limit.took(start.elapsed(), waits > 0);
            Some(done)
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        INLINE.with_borrow_mut(|inline| {
            if let Some(inline) = inline {
                inline.waiting -= 1;
            }
        });
    }
}

/// How many searches pass this thread by after one that took long: twice as many each time, until one was quick.
#[derive(Debug, Default)]
struct InlineLimit {
    /// Searches that are still to pass.
    skip: u32,
    /// Searches that passed after the last one that took long.
    last: u32,
    /// The last one took less than another thread's help would.
    was_quick: bool,
}

impl InlineLimit {
    /// Searches that may wait at once.
    fn places(&self) -> usize {
        if self.was_quick { INLINE_WAITING } else { 1 }
    }

    fn allows(&mut self) -> bool {
        match self.skip {
            0 => true,
            _ => {
                self.skip -= 1;
                false
            }
        }
    }

    fn took(&mut self, time: Duration, waited: bool) {
        self.was_quick = time <= INLINE_QUICK;
        let most = if waited { INLINE_WAITED } else { INLINE_TIME };
        if time <= most {
            self.last = 0;
            return;
        }
        self.last = (self.last * 2).clamp(*INLINE_SKIPS.start(), *INLINE_SKIPS.end());
        self.skip = self.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_that_take_long_are_tried_less_and_less() {
        let mut limit = InlineLimit::default();
        let slow = INLINE_TIME * 2;
        let passed = |limit: &mut InlineLimit| {
            let mut n = 0;
            while !limit.allows() {
                n += 1;
            }
            n
        };
        assert_eq!(passed(&mut limit), 0);
        limit.took(slow, false);
        assert_eq!(passed(&mut limit), *INLINE_SKIPS.start());
        limit.took(slow, true);
        assert_eq!(passed(&mut limit), 2 * INLINE_SKIPS.start());
        for _ in 0..20 {
            limit.took(slow, false);
        }
        assert_eq!(passed(&mut limit), *INLINE_SKIPS.end());
        limit.took(INLINE_TIME, false);
        assert_eq!(passed(&mut limit), 0);
        limit.took(slow, false);
        assert_eq!(passed(&mut limit), *INLINE_SKIPS.start());
    }

    #[test]
    fn searches_that_wait_for_the_disk_hold_others_up_for_less() {
        let mut limit = InlineLimit::default();
        limit.took(INLINE_WAITED, true);
        assert!(limit.allows());
        limit.took(INLINE_WAITED * 2, false);
        assert!(limit.allows());
        limit.took(INLINE_WAITED * 2, true);
        assert!(!limit.allows());
    }

    #[test]
    fn several_wait_where_searches_are_quick() {
        let mut limit = InlineLimit::default();
        assert_eq!(limit.places(), 1);
        for (time, places) in [(INLINE_QUICK, INLINE_WAITING), (INLINE_QUICK * 2, 1)] {
            limit.took(time, false);
            assert_eq!(limit.places(), places);
        }
    }
}
