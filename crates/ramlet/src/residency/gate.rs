//! A gate that counts engine threads working on a collection, which hold no handle of it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts who is inside; shut, nobody enters any more.
#[derive(Default)]
pub struct Gate(AtomicUsize);

const SHUT: usize = usize::MAX;

/// Someone inside, until it is dropped.
pub struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Gate {
    /// `None`: it is shut.
    pub fn enter(&self) -> Option<Inside<'_>> {
        let more = |inside: usize| (inside != SHUT).then(|| inside + 1);
        let entered = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, more);
        entered.ok().map(|_| Inside(&self.0))
    }

    /// False where somebody is inside, or it is shut already.
    pub fn shut(&self) -> bool {
        let shut = self
            .0
            .compare_exchange(0, SHUT, Ordering::AcqRel, Ordering::Relaxed);
        shut.is_ok()
    }

    /// For who shut it.
    pub fn open(&self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_shut_in() {
        let gate = Gate::default();
        let (one, two) = (gate.enter().expect("open"), gate.enter().expect("open"));
        assert!(!gate.shut());
        drop((one, two));
        assert!(gate.shut());
        assert!(gate.enter().is_none() && !gate.shut());
        gate.open();
        assert!(gate.enter().is_some());
    }
}
