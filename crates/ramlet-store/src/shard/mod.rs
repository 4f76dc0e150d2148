//! The log of a shard in a store: one writer, and readers that follow.
//!
//! [`protocol`] decides what counts, [`trim`] what may go, [`entry`] has the bytes of a slot, [`log`] asks the store, and [`manifests`] has the manifests that
//! a node begins from.

mod entry;
mod log;
mod manifests;
mod protocol;
mod trim;

pub use bytes::Bytes;

pub use entry::{Body, Entry};
pub use log::{Appended, Halt, SlotLog};
pub use manifests::{deletable, newest_covered};
pub(crate) use manifests::{may_follow, newest_covered_before};
pub use trim::{Trim, Trimmed, trim};

pub use crate::manifest::Covered;
pub use protocol::{
    Apply, Created, Effect, Kind, Logged, Position, Replayed, Rule, Slots, Written, replay, settle, take_over,
};
