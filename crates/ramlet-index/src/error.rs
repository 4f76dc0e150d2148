//! Why a search or a build failed.

use std::fmt;

use ramlet_format::FormatError;
use ramlet_io::IoError;
use ramlet_memory::{OverBudget, size, size_up};

/// A failure below the engine; nothing that was found so far counts.
#[derive(Debug)]
pub enum IndexError {
    /// Reading or writing failed; `IoErrorKind::Corrupt` when a block isn't what was written.
    Io(IoError),
    /// The bytes are intact but make no sense together.
    Format(FormatError),
    /// The budget is too small for what was asked.
    OverBudget(OverBudget),
    /// The scratch that was given is too small for this build.
    Scratch { needed_bytes: u64, given_bytes: u64 },
    /// The files of one index contradict each other, or the caller's settings contradict the files.
    Mismatch(String),
    /// The caller's filter failed, with the caller's reason.
    Filter(Box<dyn std::error::Error + Send + Sync>),
}

pub type Result<T> = std::result::Result<T, IndexError>;

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexError::Io(error) => error.fmt(f),
            IndexError::Format(error) => error.fmt(f),
            IndexError::OverBudget(error) => error.fmt(f),
            IndexError::Scratch {
                needed_bytes,
                given_bytes,
            } => {
                write!(
                    f,
                    "building the index needs {} of scratch, {} were given",
                    size_up(*needed_bytes),
                    size(*given_bytes)
                )
            }
            IndexError::Mismatch(detail) => write!(f, "vector index: {detail}"),
            IndexError::Filter(error) => write!(f, "filter: {error}"),
        }
    }
}

impl std::error::Error for IndexError {}

impl From<IoError> for IndexError {
    fn from(error: IoError) -> IndexError {
        IndexError::Io(error)
    }
}

impl From<FormatError> for IndexError {
    fn from(error: FormatError) -> IndexError {
        IndexError::Format(error)
    }
}

impl From<OverBudget> for IndexError {
    fn from(error: OverBudget) -> IndexError {
        IndexError::OverBudget(error)
    }
}
