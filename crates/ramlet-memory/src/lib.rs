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

pub use anon_buf::AnonBuf;
pub use append::{AppendRegion, Appender, Span};
pub use budget::{BudgetRequest, BudgetRow, BudgetTable, RowKind, TooSmall};
pub use heap::give_back_heap;
pub use ledger::{Consumer, ConsumerReport, Ledger, Reclaim};
pub use reclaimable_buf::{ReclaimableBuf, ReclaimableView};
pub use reservation::{OverBudget, Reservation};

/// Granularity of mapped memory, in bytes; also the alignment of every [`AnonBuf`].
pub const PAGE: usize = 4096;

/// `bytes` rounded up to whole pages.
pub(crate) fn page_up(bytes: usize) -> usize {
    bytes
        .checked_next_multiple_of(PAGE)
        .expect("a length within the address space")
}
