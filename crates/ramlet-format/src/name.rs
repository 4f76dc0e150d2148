//! Names of files: which are plain, and those with a number.

use crate::error::{Result, ensure};

/// Whether `name` can be a file or directory of ours and nothing else: 1 to 255 of `A-Z a-z 0-9 . _ -`, not starting with
/// a dot. So no separator, no `..`, no hidden file: a manifest can't lead outside of its directory.
pub fn is_plain_name(name: &str) -> bool {
    (1..=255).contains(&name.len())
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

pub(crate) fn ensure_plain_name(what: &'static str, name: &str) -> Result<()> {
    ensure(is_plain_name(name), what, || {
        format!("{name:?} isn't a plain file name")
    })
}

/// `PREFIX-000000000042`.
pub(crate) fn numbered(prefix: &str, number: u64) -> String {
    format!("{prefix}-{number:012}")
}

/// The number in a name that [`numbered`] made, and in no other name.
pub(crate) fn parse_numbered(prefix: &str, name: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?.strip_prefix('-')?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse().ok()?;
    (numbered(prefix, number) == name).then_some(number)
}
