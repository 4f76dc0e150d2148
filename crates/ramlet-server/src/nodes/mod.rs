//! Nodes over one shared log: roles, changes of collections in the log, requests sent to the owner.

pub mod changes;
pub mod forward;
pub mod forwarder;
pub mod keys;
pub mod node;
pub mod peer;
