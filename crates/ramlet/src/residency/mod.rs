//! Residency of collections: an unused one is only listed in the catalog, is loaded on demand, and is unloaded for others.
//!
//! ```text
//!            load                    make_room, least recently used first
//! unloaded ───────► loaded ──────────────────────────────────────► unloaded
//!     │  (loading)     (unloading: note how far the log goes, drop)
//!     └─► closed: it can't be opened, until a restart (`recovery/closed.rs`)
//! ```
//!
//! The table of names ([`Names`]) alone decides, under its lock. While a collection is on its way from one state to the other its name is in
//! `moving`, and whoever asks for it waits. A loaded one is given up only when the table has the last handle of it, no update waits, no thread of the
//! engine works at it ([`gate::Gate`]), and none of its state is in RAM alone: what isn't in segments is in its log, which the next load replays. One whose
//! writing has stopped, or whose jobs fail, stays: the reason is in RAM.

pub mod gate;
mod load;
pub mod names;
mod unload;
mod visits;

pub use visits::Unloaded;
