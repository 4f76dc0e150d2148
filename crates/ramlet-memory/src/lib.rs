//! The budget: who may hold how many bytes.
//!
//! One [`Ledger`] per process. Whatever grows with data asks a named [`Consumer`] for a [`Reservation`] first and
//! holds it as long as the bytes. [`AnonBuf`], [`AppendRegion`] and [`ReclaimableBuf`] are the bytes themselves: memory straight from
//! the kernel that goes back to it as a whole, so that no allocator keeps fragments of it. [`BudgetTable`] says how
//! one number, the memory the user gave, is divided.

mod anon_buf;
mod append;
mod budget;
mod heap;
mod ledger;
mod reclaimable_buf;
mod reservation;

use std::sync::OnceLock;

pub use anon_buf::AnonBuf;
pub use append::{AppendRegion, Appender, Span};
pub use budget::{BudgetRequest, BudgetRow, BudgetTable, RowKind, TooSmall};
pub use heap::give_back_heap;
pub use ledger::{Consumer, ConsumerReport, Ledger, Reclaim};
pub use reclaimable_buf::{ReclaimableBuf, ReclaimableView};
pub use reservation::{OverBudget, Reservation, size, size_up};

/// The least page that a machine has, in bytes; every [`AnonBuf`] begins at a multiple of it. For what memory costs see [`page_bytes`].
pub const PAGE: usize = 4096;

/// Granularity of mapped memory on this machine, in bytes: 4 KiB on x86-64, 4, 16 or 64 KiB on ARM.
pub fn page_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    // SAFETY: it reads a constant of the system.
    *BYTES.get_or_init(|| match unsafe { libc::sysconf(libc::_SC_PAGESIZE) } {
        bytes if bytes > PAGE as libc::c_long => bytes as usize,
        _ => PAGE,
    })
}

/// `bytes` rounded up to whole pages.
pub(crate) fn page_up(bytes: usize) -> usize {
    bytes
        .checked_next_multiple_of(page_bytes())
        .expect("a length within the address space")
}
