//! Small searches on the thread that holds the connection: no other thread has to be woken, and none to wake this one.
//!
//! A connection's thread may hold a search slot. When a small search comes in while none waits there, it is kept, and run
//! when everything else that the thread can do is done, just before it would sleep. Further ones go to the search threads, so
//! that those that came together are searched together. A search that took long sends the next ones to the search threads
//! too: what waits for this thread waits for the search.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use ramlet::{Engine, Slot, SlotJob};

use crate::limits::{INLINE_SKIPS, INLINE_TIME};

/// The slot of a connections' thread.
struct Inline {
    slot: Slot,
    kept: Option<SlotJob>,
    patience: Patience,
}

thread_local! {
    static INLINE: RefCell<Option<Inline>> = const { RefCell::new(None) };
}

/// Gives this thread a slot, if the engine has one for it.
pub fn enter(engine: &Engine) {
    match engine.slot() {
        Ok(Some(slot)) => {
            let patience = Patience::default();
            let inline = Inline {
                slot,
                kept: None,
                patience,
            };
            INLINE.set(Some(inline));
        }
        Ok(None) => {}
        Err(e) => tracing::warn!("no searches on a connections' thread: {e}"),
    }
}

/// Gives the slot back.
pub fn leave() {
    INLINE.set(None);
}

/// Keeps `job` for [`run_kept`], or gives it back: it is for the search threads.
pub fn keep(job: SlotJob) -> Result<(), SlotJob> {
    INLINE.with_borrow_mut(|inline| {
        let Some(inline) = inline else { return Err(job) };
        if inline.kept.is_some() || !inline.patience.allows() {
            return Err(job);
        }
        inline.kept = Some(job);
        Ok(())
    })
}

/// To be called when the thread has nothing else to do.
pub fn run_kept() {
    INLINE.with_borrow_mut(|inline| {
        let Some(inline) = inline else { return };
        let Some(job) = inline.kept.take() else { return };
        let start = Instant::now();
        inline.slot.run(job);
        inline.patience.took(start.elapsed());
    });
}

/// How many searches pass this thread by after one that took long: twice as many each time, until one was quick.
#[derive(Debug, Default)]
struct Patience {
    /// Searches that are still to pass.
    skip: u32,
    /// Searches that passed after the last one that took long.
    last: u32,
}

impl Patience {
    fn allows(&mut self) -> bool {
        match self.skip {
            0 => true,
            _ => {
                self.skip -= 1;
                false
            }
        }
    }

    fn took(&mut self, time: Duration) {
        if time <= INLINE_TIME {
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
        let mut patience = Patience::default();
        let slow = INLINE_TIME * 2;
        let passed = |patience: &mut Patience| {
            let mut n = 0;
            while !patience.allows() {
                n += 1;
            }
            n
        };
        assert_eq!(passed(&mut patience), 0);
        patience.took(slow);
        assert_eq!(passed(&mut patience), *INLINE_SKIPS.start());
        patience.took(slow);
        assert_eq!(passed(&mut patience), 2 * INLINE_SKIPS.start());
        for _ in 0..20 {
            patience.took(slow);
        }
        assert_eq!(passed(&mut patience), *INLINE_SKIPS.end());
        patience.took(INLINE_TIME);
        assert_eq!(passed(&mut patience), 0);
        patience.took(slow);
        assert_eq!(passed(&mut patience), *INLINE_SKIPS.start());
    }
}
