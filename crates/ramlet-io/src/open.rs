//! Choosing a backend for a directory.

use std::path::Path;
use std::sync::Arc;

use crate::posix::{MmapStorage, PreadStorage, UringStorage};
use crate::storage::{IoErrorKind, Result, Storage};

/// How a directory is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// `Uring` where the kernel and the file system allow it, `Pread` otherwise.
    #[default]
    Auto,
    /// Buffered reads, one at a time.
    Pread,
    /// io_uring with O_DIRECT: many reads at once, no page cache. Fails where it is refused.
    Uring,
    /// Memory mapping. Random access costs kernel memory: about 0.5 % of what is mapped.
    Mmap,
}

/// Opens (and creates, when missing) the directory `path`. With `Auto`, the text says why it isn't io_uring.
pub fn open_best(path: &Path, choice: Backend) -> Result<(Arc<dyn Storage>, Option<String>)> {
    let storage = match choice {
        Backend::Pread => PreadStorage::open(path)?,
        Backend::Mmap => MmapStorage::open(path)?,
        Backend::Uring => UringStorage::open(path)?,
        Backend::Auto => match UringStorage::open(path) {
            Ok(storage) => storage,
            Err(refused) if refused.kind == IoErrorKind::Unsupported => {
                return Ok((PreadStorage::open(path)?, Some(refused.to_string())));
            }
            Err(error) => return Err(error),
        },
    };
    Ok((storage, None))
}
