//! Builds an [`IoError`].

use std::io;

use ramlet_memory::OverBudget;

use crate::storage::{IoError, IoErrorKind, Result};
use crate::system;

impl IoError {
    pub fn new(op: &'static str, file: &str, kind: IoErrorKind, detail: impl Into<String>) -> IoError {
        IoError {
            op,
            file: file.to_owned(),
            kind,
            detail: detail.into(),
        }
    }

    pub(crate) fn from_os(op: &'static str, file: &str, error: &io::Error) -> IoError {
        let kind = match error.raw_os_error() {
            Some(libc::ENOENT) => IoErrorKind::NotFound,
            Some(libc::EEXIST) => IoErrorKind::AlreadyExists,
            Some(libc::ENOSPC | libc::EDQUOT) => IoErrorKind::NoSpace,
            Some(libc::EMFILE | libc::ENFILE) => IoErrorKind::NoDescriptors,
            Some(libc::EACCES | libc::EPERM) => IoErrorKind::NoPermission,
            _ if error.kind() == io::ErrorKind::UnexpectedEof => IoErrorKind::ShortRead,
            _ => IoErrorKind::Other,
        };
        let detail = match (kind, system::open_files_most()) {
            (IoErrorKind::NoDescriptors, Some(most)) => {
                format!("{error}; this process may have {most} (ulimit -n)")
            }
            _ => error.to_string(),
        };
        IoError::new(op, file, kind, detail)
    }

    pub(crate) fn short_read(file: &str, offset: u64, bytes: usize, len: u64) -> IoError {
        let detail = format!("{bytes} bytes at {offset} reach past its {len} bytes");
        IoError::new("read", file, IoErrorKind::ShortRead, detail)
    }

    pub(crate) fn over_budget(op: &'static str, file: &str, refused: &OverBudget) -> IoError {
        IoError::new(op, file, IoErrorKind::OverBudget, refused.to_string())
    }

    pub(crate) fn not_found(op: &'static str, file: &str) -> IoError {
        IoError::new(op, file, IoErrorKind::NotFound, "it doesn't exist")
    }

    pub(crate) fn exists(op: &'static str, file: &str) -> IoError {
        IoError::new(op, file, IoErrorKind::AlreadyExists, "it exists already")
    }

    pub(crate) fn locked(file: &str) -> IoError {
        IoError::locked_by(file, None)
    }

    pub(crate) fn locked_by(file: &str, holder: Option<&str>) -> IoError {
        let holder = holder.unwrap_or("another process or handle");
        IoError::new(
            "lock",
            file,
            IoErrorKind::Locked,
            format!("{holder} holds the lock"),
        )
    }
}

/// Tells an OS error with the operation and the file it belongs to.
pub(crate) trait At<T> {
    fn at(self, op: &'static str, file: &str) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, op: &'static str, file: &str) -> Result<T> {
        self.map_err(|error| IoError::from_os(op, file, &error))
    }
}

/// `bytes` from `offset` lie within a file of `len`.
pub(crate) fn check_range(file: &str, offset: u64, bytes: usize, len: u64) -> Result<()> {
    match offset.checked_add(bytes as u64) {
        Some(end) if end <= len => Ok(()),
        _ => Err(IoError::short_read(file, offset, bytes, len)),
    }
}

/// As `check_range`, for writes into a log file, whose length is fixed.
pub(crate) fn check_log_range(file: &str, offset: u64, bytes: usize, len: u64) -> Result<()> {
    check_range(file, offset, bytes, len).map_err(|error| {
        IoError::new(
            "write",
            file,
            IoErrorKind::Other,
            format!("{} (a log's length is fixed)", error.detail),
        )
    })
}

/// A plain file name: one component, nothing that leads elsewhere.
pub(crate) fn check_name(op: &'static str, name: &str) -> Result<()> {
    let bad = name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']);
    match bad {
        true => Err(IoError::new(
            op,
            name,
            IoErrorKind::Other,
            "not a plain file name",
        )),
        false => Ok(()),
    }
}
