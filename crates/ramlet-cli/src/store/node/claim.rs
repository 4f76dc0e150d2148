//! The card of a node of a divided store that doesn't answer yet: it chooses a shard, fills its directory, or is about to move.
//!
//! It is written anew by a thread, so that others count the node meanwhile.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use ramlet_store::Store;
use ramlet_store::shard::{Card, remove_card, write_card};

struct Held {
    store: Store,
    card: Card,
    is_over: bool,
}

impl Held {
    fn write(&mut self) -> Result<()> {
        self.card.beat += 1;
        Ok(write_card(&self.store, &self.card)?)
    }
}

struct Shared {
    held: Mutex<Held>,
    over: Condvar,
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place that a node wants, or has. Dropped, it is given up.
pub struct Claim {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Claim {
    /// Says it now, and then so often.
    pub fn new(store: Store, card: Card, every: Duration) -> Result<Claim> {
        let mut held = Held {
            store,
            card,
            is_over: false,
        };
        held.write()?;
        let shared = Arc::new(Shared {
            held: Mutex::new(held),
            over: Condvar::new(),
        });
        let says = shared.clone();
        let thread = thread::Builder::new().name("claim".to_owned());
        let thread = thread.spawn(move || {
            let mut held = says.held();
            while !held.is_over {
                let waited = says.over.wait_timeout(held, every);
                held = waited.unwrap_or_else(PoisonError::into_inner).0;
                if !held.is_over
                    && let Err(e) = held.write()
                {
                    tracing::debug!("no sign of life: {e}");
                }
            }
        });
        Ok(Claim {
            shared,
            thread: Some(thread.context("starting a thread")?),
        })
    }

    /// Wants another place.
    pub fn go(&self, store: Store) -> Result<()> {
        let mut held = self.shared.held();
        remove_card(&held.store, &held.card.node)?;
        held.store = store;
        held.write()
    }

    /// From now on others are those who look for another place.
    pub fn settle(&self) -> Result<()> {
        let mut held = self.shared.held();
        held.card.chooses = false;
        held.write()
    }

    /// Says no more; what was said stays, and somebody else goes on.
    pub fn hand_over(mut self) {
        self.end();
    }

    fn end(&mut self) -> bool {
        let Some(thread) = self.thread.take() else {
            return false;
        };
        self.shared.held().is_over = true;
        self.shared.over.notify_all();
        thread.join().is_ok()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.end() {
            let held = self.shared.held();
            if let Err(e) = remove_card(&held.store, &held.card.node) {
                tracing::debug!("{e}");
            }
        }
    }
}
