//! Locks and panics. What becomes of a lock whose holder panicked is said where it is taken:
//!
//! | what is behind it | who comes next |
//! |---|---|
//! | what each holder changes in one step: a queue, a list, a map of failures ([`whole`]) | goes on with it |
//! | statistics ([`crate::recall::monitor`]), rows' numbers by id ([`crate::write::memtable`]) | doesn't trust it, and has them anew or from elsewhere |
//! | a collection's writer ([`crate::state::core::Core::writer`]) | stops that collection's writes |
//! | the list of collections ([`crate::engine::Engine::names`]) | ends the process |

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The lock of something that is whole whenever code of ours may panic: each holder changes it by one call of a standard collection, or looks at it.
pub fn whole<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits with such a lock until it is told.
pub fn wait<'a, T>(told: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    told.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
