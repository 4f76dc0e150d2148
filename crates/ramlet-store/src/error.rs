//! What can go wrong with a store, in words for whoever runs the command.

use std::fmt;

use ramlet_io::IoError;
use ramlet_memory::OverBudget;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The URL, or a number, is none that could be meant.
    WrongInput,
    /// There is no such object, backup or directory.
    NotFound,
    /// An object of that name is there: somebody else was quicker.
    Exists,
    /// The store holds something that isn't ours.
    Foreign,
    /// The store refuses who asks.
    Denied,
    /// Bytes are not those that were written.
    Corrupt,
    /// The store can't do what is needed.
    Unsupported,
    /// The memory that was allowed isn't enough; the message has both numbers.
    OverBudget,
    /// The store failed; whether it did what it was asked isn't known.
    Failed,
}

/// A failure and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
}

pub type Result<T> = std::result::Result<T, StoreError>;

impl StoreError {
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> StoreError {
        StoreError {
            kind,
            message: message.into(),
        }
    }

    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> StoreError {
        StoreError::new(StoreErrorKind::Corrupt, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> StoreError {
        StoreError::new(StoreErrorKind::NotFound, message)
    }

    pub(crate) fn wrong(message: impl Into<String>) -> StoreError {
        StoreError::new(StoreErrorKind::WrongInput, message)
    }

    /// Of an answer of a store, about `what`.
    pub(crate) fn of_store(what: &str, error: &object_store::Error) -> StoreError {
        use object_store::Error as E;
        let kind = match error {
            E::NotFound { .. } => StoreErrorKind::NotFound,
            E::AlreadyExists { .. } | E::Precondition { .. } => StoreErrorKind::Exists,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => StoreErrorKind::Denied,
            E::NotSupported { .. } | E::NotImplemented { .. } => StoreErrorKind::Unsupported,
            _ => StoreErrorKind::Failed,
        };
        StoreError::new(kind, format!("{what}: {}", causes(error)))
    }
}

/// An error and what caused it, each said once, on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}

impl From<IoError> for StoreError {
    fn from(error: IoError) -> StoreError {
        StoreError::new(StoreErrorKind::Failed, error.to_string())
    }
}

impl From<OverBudget> for StoreError {
    fn from(error: OverBudget) -> StoreError {
        StoreError::new(StoreErrorKind::OverBudget, error.to_string())
    }
}
