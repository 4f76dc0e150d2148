//! Why a build or a search of texts failed.

use std::fmt;

use ramlet_io::IoError;
use ramlet_memory::OverBudget;

/// A failure; what was found so far doesn't count.
#[derive(Debug)]
pub enum TextError {
    /// Reading or writing failed; `IoErrorKind::Corrupt` when a block isn't what was written.
    Io(IoError),
    /// The lists that a query needs at once don't fit into the budget.
    OverBudget(OverBudget),
    /// The scratch that was given is too small for any build.
    Scratch { needed_bytes: u64, given_bytes: u64 },
    /// The bytes are not an index of texts, or make no sense together.
    Format(String),
    /// The caller's rows or query make no sense.
    Misuse(String),
}

pub type Result<T> = std::result::Result<T, TextError>;

impl TextError {
    pub(crate) fn format(detail: impl Into<String>) -> TextError {
        TextError::Format(detail.into())
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::Io(error) => error.fmt(f),
            TextError::OverBudget(error) => error.fmt(f),
            TextError::Scratch {
                needed_bytes,
                given_bytes,
            } => write!(
                f,
                "building the text index needs {needed_bytes} bytes of scratch, {given_bytes} were given"
            ),
            TextError::Format(detail) | TextError::Misuse(detail) => write!(f, "text index: {detail}"),
        }
    }
}

impl std::error::Error for TextError {}

impl From<IoError> for TextError {
    fn from(error: IoError) -> TextError {
        TextError::Io(error)
    }
}

impl From<OverBudget> for TextError {
    fn from(error: OverBudget) -> TextError {
        TextError::OverBudget(error)
    }
}

/// What tantivy's traits want: our error inside theirs.
pub(crate) fn to_io(error: TextError) -> std::io::Error {
    std::io::Error::other(error)
}

/// Ours again, from what came back through tantivy.
pub(crate) fn from_io(error: std::io::Error) -> TextError {
    match error.downcast::<TextError>() {
        Ok(ours) => ours,
        Err(theirs) => TextError::Format(theirs.to_string()),
    }
}

impl From<tantivy::TantivyError> for TextError {
    fn from(error: tantivy::TantivyError) -> TextError {
        TextError::Format(error.to_string())
    }
}
