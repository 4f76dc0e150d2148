//! Who may do what: keys, tokens, origins of browsers, and the record of who did it.

pub mod audit;
pub mod audit_record;
pub mod auth;
pub mod cors;
pub mod jwt;
