//! Digests as people read them.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The digest as 64 hex digits.
pub fn hex(digest: Sha256) -> String {
    digest.finalize().iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
