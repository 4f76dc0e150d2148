//! Token counts of a memtable's rows, so that a search needn't tokenize their texts.
//!
//! | of each scored field, in the order of the schema | bytes |
//! |---|---|
//! | length of the text | u32 |
//! | distinct tokens | u32; `0xFFFFFFFF`: too many, they aren't here |
//! | of each, ascending | u64: 48 bits of the token's XXH64, then how often it comes, 65,535 at most |
//!
//! Two of a million distinct words share their 48 bits with a chance of 1 in 500, and then only count for each other until the
//! memtable is flushed.

use std::sync::Arc;

use super::terms::Terms;
use crate::payload::Path;
use crate::schema::Schema;
use crate::text::{COUNT_BITS, TextField, TextLength, TokenHash, entry_of, tokens_of};

/// Bytes that the tokens of a row take at most; of a longer one they are counted in its payload when they are asked for.
const ROW_BYTES_MAX: usize = 64 << 10;
const HEAD: usize = 8;
const NOT_HERE: u32 = u32::MAX;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// The scored fields that a memtable keeps tokens of.
#[derive(Debug)]
pub struct MemtableTexts {
    fields: Vec<MemtableField>,
}

#[derive(Debug)]
struct MemtableField {
    slot: u16,
    path: Path,
    text: Arc<TextField>,
}

impl MemtableTexts {
    pub fn of(schema: &Schema) -> MemtableTexts {
        let fields = schema.fields.iter().filter_map(|field| {
            let text = field.scored()?.clone();
            let path = Path::parse(&field.path).ok()?;
            let slot = field.slot;
            Some(MemtableField { slot, path, text })
        });
        MemtableTexts {
            fields: fields.collect(),
        }
    }

    /// Appends what is kept of a payload's texts.
    pub fn encode(&self, payload: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        for field in &self.fields {
            let taken = out.len() - begin + HEAD;
            let mut counts = Counts::new(ROW_BYTES_MAX.saturating_sub(taken) / 8);
            let (mut length, mut hash) = (TextLength::default(), TokenHash::default());
            tokens_of((&field.text, false), &field.path, payload, &mut |token| {
                length.add(&token);
                hash.follow(&token);
                if !counts.are_too_many {
                    counts.add(entry_of(hash.of(token.text)));
                }
            });
            let entries = counts.finish();
            out.extend_from_slice(&length.words().to_le_bytes());
            let kept = entries.as_ref().map_or(NOT_HERE, |entries| entries.len() as u32);
            out.extend_from_slice(&kept.to_le_bytes());
            for entry in entries.iter().flatten() {
                out.extend_from_slice(&entry.to_le_bytes());
            }
        }
    }

    /// Counts the terms of a field in what was encoded: the text's tokens, and by term how often it comes. `None`: the payload
    /// has to be asked.
    pub fn count(&self, slot: u16, encoded: &[u8], terms: &Terms, counts: &mut [u32]) -> Option<u32> {
        let (tokens, entries) = self.find(slot, encoded)?;
        for (hash, count) in terms.hashes().iter().zip(counts) {
            *count = count_of(entries, *hash)?;
        }
        Some(tokens)
    }

    /// Whether what was encoded has no such word in a field; false: it has, or the payload has to be asked.
    pub fn lacks(&self, slot: u16, encoded: &[u8], hash: u64) -> bool {
        self.find(slot, encoded)
            .is_some_and(|(_, entries)| count_of(entries, hash) == Some(0))
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// The place of a field among those that are kept.
    pub fn place(&self, slot: u16) -> Option<usize> {
        self.fields.iter().position(|field| field.slot == slot)
    }

    /// Shows `each` the fields of what was encoded, each with its slot.
    pub fn for_each(&self, encoded: &[u8], each: &mut dyn FnMut(u16, Kept<'_>)) {
        let mut rest = encoded;
        for field in &self.fields {
            let Some((kept, after)) = split(rest) else { return };
            each(field.slot, kept);
            rest = after;
        }
    }

    fn find<'a>(&self, slot: u16, encoded: &'a [u8]) -> Option<(u32, &'a [[u8; 8]])> {
        let mut rest = encoded;
        for field in &self.fields {
            let (kept, after) = split(rest)?;
            if field.slot == slot {
                return kept.entries.map(|entries| (kept.tokens, entries));
            }
            rest = after;
        }
        None
    }
}

/// The distinct tokens of a text, as long as there are no more than may be kept: of a longer one none is.
struct Counts {
    /// Entries, of which several may be of the same token.
    entries: Vec<u64>,
    most: usize,
    are_too_many: bool,
}

impl Counts {
    fn new(most: usize) -> Counts {
        Counts {
            entries: Vec::new(),
            most,
            are_too_many: false,
        }
    }

    fn add(&mut self, hash: u64) {
        // Twice as many, so that each of them is sorted only a few times.
        if self.entries.len() > 2 * self.most {
            self.merge();
        }
        self.entries.push(hash | 1);
    }

    /// Each token once.
    fn merge(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup_by(|next, kept| {
            let is_same = *next >> COUNT_BITS == *kept >> COUNT_BITS;
            if is_same {
                let count = (*next & COUNT_MAX) + (*kept & COUNT_MAX);
                *kept = *kept >> COUNT_BITS << COUNT_BITS | count.min(COUNT_MAX);
            }
            is_same
        });
        if self.entries.len() > self.most {
            self.are_too_many = true;
            self.entries = Vec::new();
        }
    }

    /// The entries, ascending; `None`: they are too many.
    fn finish(mut self) -> Option<Vec<u64>> {
        self.merge();
        (!self.are_too_many).then_some(self.entries)
    }
}

/// What is kept of one field's texts in a row.
pub struct Kept<'a> {
    pub tokens: u32,
    /// Of each distinct word; `None`: they aren't here.
    pub entries: Option<&'a [[u8; 8]]>,
}

/// The first field, and what is behind it.
fn split(encoded: &[u8]) -> Option<(Kept<'_>, &[u8])> {
    let (tokens, after) = encoded.split_first_chunk::<4>()?;
    let (kept, after) = after.split_first_chunk::<4>()?;
    let kept = u32::from_le_bytes(*kept);
    let bytes = if kept == NOT_HERE { 0 } else { kept as usize * 8 };
    let (entries, after) = after.split_at_checked(bytes)?;
    let is_here = kept != NOT_HERE;
    let kept = Kept {
        tokens: u32::from_le_bytes(*tokens),
        entries: is_here.then_some(entries.as_chunks().0),
    };
    Some((kept, after))
}

/// The word's hash, of an entry.
pub fn hash_in(entry: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*entry) >> COUNT_BITS << COUNT_BITS
}

/// How often the word comes, of an entry; 65,535: so often or more.
pub fn count_in(entry: &[u8; 8]) -> u32 {
    (u64::from_le_bytes(*entry) & COUNT_MAX) as u32
}

/// How often a token comes; `None`: more often than is kept.
fn count_of(entries: &[[u8; 8]], hash: u64) -> Option<u32> {
    let at = entries.partition_point(|entry| u64::from_le_bytes(*entry) < hash);
    let Some(entry) = entries.get(at).map(|entry| u64::from_le_bytes(*entry)) else {
        return Some(0);
    };
    let count = entry & COUNT_MAX;
    match entry - count == hash {
        true => (count < COUNT_MAX).then_some(count as u32),
        false => Some(0),
    }
}
