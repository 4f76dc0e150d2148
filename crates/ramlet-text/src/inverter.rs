//! Tokens of many rows, gathered in RAM until there are enough for a run.

use crate::error::Result;
use crate::run::{PostingSink, Span};

/// One token: 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Occurrence {
    /// Number of the term, in the order of first sight; when it is sorted, in the order of the terms.
    term: u32,
    row: u32,
    position: u32,
}

/// Bytes beside the arena of terms: where it begins, its place in the table (half full at most), its rank and its place in the order.
const TERM_BYTES: usize = 4 + 2 * 4 + 4 + 4;

/// Gathers occurrences within a fixed number of bytes, all of them allocated at once.
pub(crate) struct Inverter {
    occurrences: Vec<Occurrence>,
    occurrences_max: usize,
    /// All terms, one after another; term `t` ends where `t + 1` begins.
    arena: Vec<u8>,
    arena_max: usize,
    starts: Vec<u32>,
    terms_max: usize,
    /// Open addressing; number of the term and one.
    table: Vec<u32>,
}

impl Inverter {
    /// Three fifths for occurrences, the rest for terms.
    pub fn new(bytes: usize) -> Inverter {
        let occurrences_max = (bytes / 5 * 3 / size_of::<Occurrence>()).max(1024);
        // A term takes 10 bytes in the mean; a table that is a power of two is between a half and a quarter full.
        let terms = (bytes / 5 * 2 / (TERM_BYTES + 10)).max(512);
        let table = (2 * terms + 2).next_power_of_two() / 2;
        let terms_max = table / 2;
        Inverter {
            occurrences: Vec::with_capacity(occurrences_max),
            occurrences_max,
            arena: Vec::with_capacity(terms_max * 10),
            arena_max: terms_max * 10,
            starts: Vec::with_capacity(terms_max + 1),
            terms_max,
            table: vec![0; table],
        }
    }

    pub fn is_empty(&self) -> bool {
        self.occurrences.is_empty()
    }

    /// Adds a token, unless there is no room for it: false then, unless nothing has been added at all.
    pub fn add(&mut self, token: &str, row: u32, position: u32) -> bool {
        if self.occurrences.len() == self.occurrences_max {
            return false;
        }
        let Some(term) = self.term(token.as_bytes()) else {
            return false;
        };
        self.occurrences.push(Occurrence { term, row, position });
        true
    }

    fn term(&mut self, token: &[u8]) -> Option<u32> {
        let mask = self.table.len() - 1;
        let mut place = hash(token) as usize & mask;
        loop {
            match self.table[place] {
                0 => break,
                known if self.bytes(known - 1) == token => return Some(known - 1),
                _ => place = (place + 1) & mask,
            }
        }
        let full = self.starts.len() == self.terms_max || self.arena.len() + token.len() > self.arena_max;
        if full && !self.starts.is_empty() {
            return None;
        }
        self.starts.push(self.arena.len() as u32);
        self.arena.extend_from_slice(token);
        self.table[place] = self.starts.len() as u32;
        Some(self.starts.len() as u32 - 1)
    }

    fn bytes(&self, term: u32) -> &[u8] {
        let start = self.starts[term as usize] as usize;
        let end = self.starts.get(term as usize + 1);
        &self.arena[start..end.map_or(self.arena.len(), |end| *end as usize)]
    }

    /// Shows `sink` everything in order, and forgets it.
    pub fn drain(&mut self, sink: &mut dyn PostingSink) -> Result<()> {
        let mut order: Vec<u32> = (0..self.starts.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.bytes(*a).cmp(self.bytes(*b)));
        let mut ranks = vec![0u32; order.len()];
        for (rank, term) in order.iter().enumerate() {
            ranks[*term as usize] = rank as u32;
        }
        for occurrence in &mut self.occurrences {
            occurrence.term = ranks[occurrence.term as usize];
        }
        drop(ranks);
        self.occurrences.sort_unstable();
        let mut deltas = Vec::new();
        for list in self.occurrences.chunk_by(|a, b| a.term == b.term) {
            let documents = || list.chunk_by(|a, b| a.row == b.row);
            let span = Span {
                rows: documents().count() as u32,
                first: list[0].row,
                last: list[list.len() - 1].row,
            };
            sink.begin(self.bytes(order[list[0].term as usize]), span)?;
            for document in documents() {
                deltas.clear();
                let mut before = 0;
                for occurrence in document {
                    deltas.push(occurrence.position - before);
                    before = occurrence.position;
                }
                sink.row(document[0].row, &deltas)?;
            }
            sink.end()?;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.occurrences.clear();
        self.arena.clear();
        self.starts.clear();
        self.table.fill(0);
    }
}

/// FNV-1a, finished by a multiplication so that the low bits depend on all.
fn hash(bytes: &[u8]) -> u32 {
    let seed = 0xcbf2_9ce4_8422_2325u64;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    (bytes.iter().fold(seed, step).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}
