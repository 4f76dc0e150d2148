//! Parts of operations, and the ways to do them.

use crate::storage::Result;

/// A part of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Read,
    Write,
    Sync,
    DataSync,
}

/// A way to do steps. Each slot has at most one in flight, and a buffer of its own (or shares one of noise that nobody looks at).
pub(super) trait Engine {
    fn start(&mut self, slot: usize, step: Step, offset: u64) -> Result<()>;
    /// Waits until at least one step ended; gives slots and what the kernel returned: bytes, or an error's number below 0.
    fn wait(&mut self, ended: &mut Vec<(usize, i32)>) -> Result<()>;
}
