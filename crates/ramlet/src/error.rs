//! The engine's one opaque error; callers ask it questions.

use std::fmt;

use ramlet_index::IndexError;
use ramlet_io::{IoError, IoErrorKind};
use ramlet_memory::{OverBudget, TooSmall};

use crate::memory::words::{ADVICE, HOLDERS, refusal};

/// Any failure of the engine. Ask it what it is; print it to say what and where.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    budget: Option<BudgetBytes>,
}

/// The two numbers of a refusal for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetBytes {
    /// What was asked for, with what who asked held already.
    pub needed: u64,
    /// What could have been had.
    pub available: u64,
}

/// What kind of failure: the server maps each to one status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong (400).
    BadInput,
    /// A collection, point or vector name that isn't there (404).
    NotFound,
    /// A collection that is there already (409).
    AlreadyExists,
    /// The request alone is larger than what the budget could ever give (413).
    TooLarge,
    /// The budget is taken right now; ask again later (429).
    OverBudget,
    /// A queue is full; ask again later (429).
    Busy,
    /// The data there is takes the memory that more would need, and no wait ends that (507).
    MemoryFull,
    /// The disk is full or nearly (507).
    DiskFull,
    /// The process has no file descriptors left, or too few for what was asked (507).
    NoDescriptors,
    /// The operating system doesn't let this process have a file (500).
    NoPermission,
    /// A collection that couldn't be opened, or that the start was told to leave closed (503).
    CollectionClosed,
    /// A write to log or manifest failed; reads go on, writes need a restart (503).
    WritesStopped,
    /// Bytes on disk aren't what was written (500).
    Corrupt,
    /// The storage failed (500).
    Io,
    /// Shutting down (503).
    Closed,
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error {
            kind,
            message: message.into(),
            budget: None,
        }
    }
    pub fn bad_input(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::BadInput, message)
    }
    pub fn not_found(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NotFound, message)
    }
    pub fn corrupt(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Corrupt, message)
    }
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
    /// What was needed and what there was, where the refusal is one of memory and the numbers are known.
    pub fn budget_bytes(&self) -> Option<BudgetBytes> {
        self.budget
    }
    pub fn is_over_budget(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::OverBudget | ErrorKind::TooLarge | ErrorKind::MemoryFull
        )
    }
    /// Whether the disk or the file descriptors are used up: what was to be done may be done once there are some again.
    pub fn is_full(&self) -> bool {
        matches!(self.kind, ErrorKind::DiskFull | ErrorKind::NoDescriptors)
    }
    /// Whether a collection couldn't be opened for want of what all share: another budget, or room, will do.
    pub fn is_shortage(&self) -> bool {
        self.is_over_budget() || self.is_full() || self.kind == ErrorKind::Closed
    }
    pub fn is_corrupt(&self) -> bool {
        self.kind == ErrorKind::Corrupt
    }
    /// Whether a file may be sound, and this process can't look: as another user, or with more descriptors, it could.
    pub fn is_unreadable(&self) -> bool {
        matches!(self.kind, ErrorKind::NoDescriptors | ErrorKind::NoPermission)
    }
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }
    /// What a refusal for want of memory says, without what to do about it.
    pub(crate) fn fact(&self) -> &str {
        let advice = self.message.find(ADVICE).unwrap_or(self.message.len());
        &self.message[..advice]
    }
    /// The same refusal where nobody gives back what is needed: it ends by deletes or a larger budget only.
    pub(crate) fn for_good(self) -> Error {
        if self.kind != ErrorKind::OverBudget {
            return self;
        }
        let what = self.fact();
        let holders = self.message.find(HOLDERS).map_or("", |at| &self.message[at..]);
        let message = format!(
            "{what}. Waiting doesn't help: delete points or collections, or start with a larger --memory{holders}"
        );
        Error {
            kind: ErrorKind::MemoryFull,
            message,
            ..self
        }
    }

    /// The same failure, told with where it happened in front.
    pub fn at(mut self, place: impl fmt::Display) -> Error {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Error {}

impl From<IoError> for Error {
    fn from(e: IoError) -> Error {
        let kind = match e.kind {
            IoErrorKind::NoSpace => ErrorKind::DiskFull,
            IoErrorKind::NoDescriptors => ErrorKind::NoDescriptors,
            IoErrorKind::NoPermission => ErrorKind::NoPermission,
            IoErrorKind::Corrupt => ErrorKind::Corrupt,
            IoErrorKind::OverBudget => ErrorKind::OverBudget,
            IoErrorKind::Closed => ErrorKind::Closed,
            _ => ErrorKind::Io,
        };
        Error::new(kind, e.to_string())
    }
}

impl From<OverBudget> for Error {
    fn from(e: OverBudget) -> Error {
        let kind = match e.is_final() {
            true => ErrorKind::TooLarge,
            false => ErrorKind::OverBudget,
        };
        let message = refusal(&e);
        let available = match e.is_final() {
            true => e.limit,
            false => e.held.saturating_add(e.available),
        };
        Error {
            kind,
            message,
            budget: Some(BudgetBytes {
                needed: e.asked.saturating_add(e.held),
                available,
            }),
        }
    }
}

impl From<TooSmall> for Error {
    fn from(e: TooSmall) -> Error {
        Error {
            kind: ErrorKind::TooLarge,
            message: e.to_string(),
            budget: Some(BudgetBytes {
                needed: e.memory_bytes_min,
                available: e.memory_bytes,
            }),
        }
    }
}

impl From<IndexError> for Error {
    fn from(e: IndexError) -> Error {
        match e {
            IndexError::Io(e) => e.into(),
            IndexError::OverBudget(e) => e.into(),
            IndexError::Scratch { .. } => Error::new(ErrorKind::OverBudget, e.to_string()),
            IndexError::Filter(e) => match e.downcast::<Error>() {
                Ok(e) => *e,
                Err(e) => Error::corrupt(e.to_string()),
            },
            IndexError::Format(_) | IndexError::Mismatch(_) => Error::corrupt(e.to_string()),
        }
    }
}

pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_gives_back_is_full_and_no_longer_busy() {
        let refused = |asked: u64| OverBudget {
            consumer: "segment metadata",
            asked,
            available: 1_000_000,
            held: 0,
            limit: 3_000_000,
            largest: [("segment metadata", 2_000_000), ("", 0)],
        };
        let busy = Error::from(refused(2_000_000));
        assert_eq!(busy.kind(), ErrorKind::OverBudget);
        let advice = ". Waiting helps: try again in a second; if it persists, send less at once, or start with a larger --memory";
        assert!(busy.to_string().contains(advice), "{busy}");
        assert!(
            busy.to_string().ends_with("which grows with the data (2.0 MB)"),
            "{busy}"
        );
        let full = busy.for_good();
        assert_eq!(full.kind(), ErrorKind::MemoryFull);
        assert!(full.is_over_budget() && full.budget_bytes().is_some());
        let said = full.to_string();
        assert!(
            said.contains("needs 2.0 MB, but only 1.0 MB of 3.0 MB are free now"),
            "{said}"
        );
        assert!(
            said.contains("Waiting doesn't help") && !said.contains("Waiting helps"),
            "{said}"
        );
        assert!(said.ends_with("which grows with the data (2.0 MB)"), "{said}");
        assert!(said.starts_with(full.fact()) && !full.fact().contains("Waiting"));
        // What could never be had stays so.
        assert_eq!(
            Error::from(refused(4_000_000)).for_good().kind(),
            ErrorKind::TooLarge
        );
    }
}
