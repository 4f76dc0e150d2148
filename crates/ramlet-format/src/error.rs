//! Why bytes were refused.

use std::fmt;

/// Bytes that aren't what they should be, or a value that the format can't hold.
///
/// Display is `what: detail`; the caller adds file and offset, which this crate doesn't know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError {
    /// The thing that was being read or written, e.g. `"footer"`.
    pub what: &'static str,
    /// What is wrong with it, with the numbers.
    pub detail: String,
}

pub type Result<T, E = FormatError> = std::result::Result<T, E>;

impl FormatError {
    pub(crate) fn new(what: &'static str, detail: impl Into<String>) -> Self {
        Self {
            what,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.detail)
    }
}

impl std::error::Error for FormatError {}

/// `Err` with `detail` unless `holds`.
pub(crate) fn ensure(holds: bool, what: &'static str, detail: impl FnOnce() -> String) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(FormatError::new(what, detail()))
    }
}
