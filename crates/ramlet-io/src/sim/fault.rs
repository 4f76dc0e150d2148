//! Injected faults.

use crate::storage::{IoError, IoErrorKind, Result};

/// The operations that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultOp {
    Create,
    /// `WriteFile::append`; half of the bytes may still arrive.
    Append,
    /// `LogFile::write_at`; half of the bytes still arrive.
    Write,
    /// Syncing a file. From then on no sync of that file promises anything, as with a real kernel.
    Sync,
    SyncDir,
    Rename,
    Remove,
    Read,
    /// Each of the above.
    Any,
}

/// One thing to go wrong.
#[derive(Debug, Clone)]
pub struct Fault {
    op: FaultOp,
    nth: u64,
    kind: IoErrorKind,
    file: String,
    lasting: bool,
    seen: u64,
}

impl Fault {
    /// The `nth` operation (1 is the next) of this kind fails once.
    pub fn new(op: FaultOp, nth: u64, kind: IoErrorKind) -> Fault {
        Fault {
            op,
            nth,
            kind,
            file: String::new(),
            lasting: false,
            seen: 0,
        }
    }

    /// Only operations on files whose name contains `part` count.
    pub fn on(mut self, part: &str) -> Fault {
        self.file = part.to_owned();
        self
    }

    /// Every later one fails too.
    pub fn lasting(mut self) -> Fault {
        self.lasting = true;
        self
    }

    /// Counts an operation; an error when it is to fail.
    pub(super) fn check(&mut self, op: FaultOp, what: &'static str, name: &str) -> Result<()> {
        if (self.op != op && self.op != FaultOp::Any) || !name.contains(&self.file) {
            return Ok(());
        }
        self.seen += 1;
        match self.seen == self.nth || (self.lasting && self.seen > self.nth) {
            true => Err(IoError::new(
                what,
                name,
                self.kind,
                format!("simulated fault ({:?})", self.kind),
            )),
            false => Ok(()),
        }
    }
}
