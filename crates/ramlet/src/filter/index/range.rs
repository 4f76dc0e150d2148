//! Ranges of index keys.

/// Keys from `from` (inclusive) to `to` (exclusive), compared as bytes. Every `key ++ row` of a key in the range lies
/// in it, too, so it can be used on either.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    pub from: Vec<u8>,
    pub to: Vec<u8>,
}

impl KeyRange {
    /// All keys with tags from `first` to `last`.
    pub(super) fn tags(first: u8, last: u8) -> KeyRange {
        KeyRange {
            from: vec![first],
            to: vec![last + 1],
        }
    }

    /// All keys that begin with `prefix`; its first byte is a tag, so there is always a next one.
    pub(super) fn prefix(prefix: Vec<u8>) -> KeyRange {
        let to = after(&prefix);
        KeyRange { from: prefix, to }
    }

    /// Fixed-width keys from `low` to `high`, both inclusive.
    pub(super) fn between(low: Vec<u8>, high: &[u8]) -> KeyRange {
        KeyRange {
            from: low,
            to: after(high),
        }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && key < self.to.as_slice()
    }
}

/// The smallest bytes above everything that begins with `prefix`.
pub(super) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut bytes = prefix.to_vec();
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return bytes;
        }
    }
    vec![u8::MAX]
}

/// Sorted, with overlapping and touching ranges joined.
pub(super) fn merged(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|r| r.from < r.to);
    ranges.sort_unstable();
    let mut out: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.from <= last.to => last.to = range.to.max(std::mem::take(&mut last.to)),
            _ => out.push(range),
        }
    }
    out
}
