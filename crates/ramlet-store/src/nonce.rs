//! Names that nobody else has.

use std::hash::{BuildHasher, RandomState};

/// 128 random bits as 32 hex digits. The operating system's randomness, by way of the hasher's keys.
pub fn nonce() -> String {
    let random = |salt: u32| RandomState::new().hash_one((salt, std::process::id()));
    format!("{:016x}{:016x}", random(0), random(1))
}
