//! tantivy trusts its files; we don't.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::error::{Result, TextError};

thread_local! {
    /// Whether the caller's code runs.
    static CALLERS: Cell<bool> = const { Cell::new(false) };
}

/// Runs something of tantivy's that may panic on bytes that make no sense. What it was working on isn't used afterwards.
/// A panic of the caller's own code goes on.
pub(crate) fn no_panic<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        if CALLERS.replace(false) {
            resume_unwind(panic);
        }
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(TextError::Format(format!(
            "the bytes make no sense: {}",
            said.unwrap_or("no reason given")
        )))
    })
}

/// Runs code that the caller gave.
#[inline]
pub(crate) fn callers<T>(run: impl FnOnce() -> T) -> T {
    CALLERS.set(true);
    let result = run();
    CALLERS.set(false);
    result
}
