//! Panics that become errors of one collection.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, ErrorKind, Result};

/// Runs `act`; the error says what a panic said. What `act` shares with others must not trust what it left half-changed: a lock that was
/// held is poisoned, and says so.
pub fn caught<T>(act: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        failed(said.unwrap_or("no reason was given"))
    })
}

/// Opens one collection. A panic becomes an error: what the opening had made is given back, and nobody else has seen it.
pub fn guarded<T>(open: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(open)?
}

/// A fault of the program's own.
pub fn failed(why: &str) -> Error {
    Error::new(ErrorKind::Io, format!("the program failed: {why}"))
}

#[cfg(test)]
#[path = "panics_tests.rs"]
mod tests;
