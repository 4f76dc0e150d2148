//! The log of a shard in a store: one writer, and readers that follow.
//!
//! [`protocol`] decides what counts, [`trim`] what may go, [`entry`] has the bytes of a slot, [`log`] asks the store, [`manifests`] has the manifests that
//! a node begins from, and [`nodes`] has what nodes say of themselves, which decides nothing.

mod entry;
mod log;
mod manifests;
mod nodes;
mod protocol;
mod trim;

pub use bytes::Bytes;

pub use entry::{Body, Entry};
pub use log::{Appended, LogError, SlotLog};
pub use manifests::{deletable, newest_covered};
pub(crate) use manifests::{may_follow, newest_covered_before};
pub use nodes::{Card, Work, card, cards, remove_card, write_card};
pub use trim::{Trim, Trimmed, trim};

pub use crate::manifest::Covered;
pub use protocol::{
    Apply, Created, Effect, Kind, Logged, Over, Position, Replayed, Rule, Slots, Taken, Written, replay,
    settle, take_over,
};
