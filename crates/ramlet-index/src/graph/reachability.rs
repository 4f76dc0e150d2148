//! Makes every node reachable from an entry point.

use super::links::some;
use super::stored::Stored;
use crate::error::Result;

/// Nodes looked at with one read.
const BATCH: usize = 128;

/// A bit per node.
struct Reached(Vec<u64>);

impl Reached {
    fn add(&mut self, node: u32) -> bool {
        let (word, bit) = (&mut self.0[node as usize / 64], 1 << (node % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn has(&self, node: u32) -> bool {
        self.0[node as usize / 64] >> (node % 64) & 1 == 1
    }
}

/// The entry points with those added that no beam search from them would ever meet, ascending.
///
/// Whole passes over the lists, until one finds nothing new; edges back make that a few. Holds a bit per node.
pub(super) fn complete(links: &Stored<'_>, rows: u32, degree: usize, entries: Vec<u32>) -> Result<Vec<u32>> {
    let mut reached = Reached(vec![0; (rows as usize).div_ceil(64)]);
    let mut entries = entries;
    entries.iter().for_each(|entry| {
        reached.add(*entry);
    });
    while pass(links, rows, degree, &mut reached, |_| false)? {}
    let mut added = Vec::new();
    pass(links, rows, degree, &mut reached, |node| {
        added.push(node);
        true
    })?;
    entries.extend(added);
    entries.sort_unstable();
    Ok(entries)
}

/// Marks the neighbours of all marked nodes, and the nodes that `unreached` says; whether that marked any.
fn pass(
    links: &Stored<'_>,
    rows: u32,
    degree: usize,
    reached: &mut Reached,
    mut unreached: impl FnMut(u32) -> bool,
) -> Result<bool> {
    let (mut bytes, mut words, mut any) = (Vec::new(), Vec::new(), false);
    for first in (0..rows).step_by(BATCH) {
        let batch = BATCH.min((rows - first) as usize);
        links.read_words(
            u64::from(first) * degree as u64,
            batch * degree,
            &mut bytes,
            &mut words,
        )?;
        for (links, node) in words.chunks_exact(degree).zip(first..) {
            if !reached.has(node) && !unreached(node) {
                continue;
            }
            any |= reached.add(node);
            for id in some(links) {
                any |= reached.add(*id);
            }
        }
    }
    Ok(any)
}
