//! What a power loss may leave on the simulated disk.

use std::collections::BTreeMap;

use super::disk::{Disk, Effect, Node, NodeId};
use super::pages::Pages;

const SECTOR: u64 = 512;

/// How much of what wasn't synced is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    None,
    All,
    Random,
}

const EXTREMES: [(Keep, Keep); 4] = [
    (Keep::None, Keep::None),
    (Keep::All, Keep::All),
    (Keep::All, Keep::None),
    (Keep::None, Keep::All),
];

/// The extremes, then `how_many` random states.
pub fn states(disk: &Disk, at: usize, seed: u64, how_many: usize) -> impl Iterator<Item = Disk> {
    let at = at.min(disk.journal.len());
    let plans = EXTREMES
        .into_iter()
        .chain(std::iter::repeat_n((Keep::Random, Keep::Random), how_many));
    plans.enumerate().map(move |(number, (names, data))| {
        // Mixed, so that neighbouring seeds, positions and states have nothing in common.
        let mixed = seed ^ (at as u64) << 20 ^ (number as u64) << 44;
        let mut rng = Rng((mixed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9) | 1);
        state(disk, &disk.journal[..at], names, data, &mut rng)
    })
}

fn state(disk: &Disk, journal: &[Effect], names: Keep, data: Keep, rng: &mut Rng) -> Disk {
    let mut nodes = disk.base.clone();
    for effect in journal {
        if let Effect::Link { is_directory, .. } = effect {
            nodes.push(Node::new(*is_directory));
        }
    }
    keep_names(&mut nodes, journal, names, rng);
    keep_data(&mut nodes, journal, data, rng);
    Disk::with_nodes(nodes)
}

/// Per directory: the changes before its last sync, and of those after it the first so many, or some.
fn keep_names(nodes: &mut [Node], journal: &[Effect], keep: Keep, rng: &mut Rng) {
    let mut changes: BTreeMap<NodeId, (Vec<&Effect>, usize)> = BTreeMap::new();
    for effect in journal {
        if let Some(directory) = effect.names_of() {
            changes.entry(directory).or_default().0.push(effect);
        }
        if let Effect::SyncDir { directory } = effect {
            let (made, durable) = changes.entry(*directory).or_default();
            *durable = made.len();
        }
    }
    for (directory, (made, durable)) in changes {
        let (sure, loose) = made.split_at(durable);
        sure.iter()
            .for_each(|effect| nodes[directory].change_names(effect));
        // No file system has to keep the order of changes that no sync is between.
        let in_order = keep != Keep::Random || rng.below(2) == 0;
        let first = keep.of(loose.len(), rng);
        for (number, effect) in loose.iter().enumerate() {
            let is_kept = if in_order {
                number < first
            } else {
                rng.below(2) == 0
            };
            if is_kept && nodes[directory].can_change_names(effect) {
                nodes[directory].change_names(effect);
            }
        }
    }
}

/// A write that no sync covers: bytes at an offset, or a length to be zero up to.
enum Loose<'a> {
    Bytes(u64, &'a [u8]),
    Zeros(u64),
}

/// Per file: what the last sync saw, and what the sectors got of the writes after it.
fn keep_data(nodes: &mut [Node], journal: &[Effect], keep: Keep, rng: &mut Rng) {
    let mut loose: BTreeMap<NodeId, Vec<Loose<'_>>> = BTreeMap::new();
    for effect in journal {
        match effect {
            Effect::Write { node, offset, bytes } => {
                loose.entry(*node).or_default().push(Loose::Bytes(*offset, bytes));
            }
            Effect::Zeros { node, len } => loose.entry(*node).or_default().push(Loose::Zeros(*len)),
            Effect::Sync { node, bytes } => {
                loose.remove(node);
                set_bytes(&mut nodes[*node], bytes.clone());
            }
            _ => {}
        }
    }
    for (node, writes) in loose {
        let Node::File { bytes, .. } = &mut nodes[node] else {
            panic!("only files are written")
        };
        add_loose(bytes, &writes, keep, rng);
    }
}

fn set_bytes(node: &mut Node, pages: Pages) {
    match node {
        Node::File { bytes, .. } => *bytes = pages,
        Node::Directory(_) => panic!("only files are synced"),
    }
}

fn add_loose(pages: &mut Pages, writes: &[Loose<'_>], keep: Keep, rng: &mut Rng) {
    let all = writes.len();
    // The file as a whole has the first so many writes; None: every sector for itself.
    let whole = match keep {
        Keep::None => Some(0),
        Keep::All => Some(all),
        Keep::Random => (rng.below(2) == 0).then(|| keep.of(all, rng)),
    };
    let mut sector_cuts = BTreeMap::new();
    for (number, write) in writes.iter().enumerate() {
        match write {
            Loose::Zeros(len) => {
                let zeroed = keep.of(*len as usize, rng) as u64;
                pages.extend_to(whole.map_or(zeroed, |cut| if number < cut { *len } else { 0 }));
            }
            Loose::Bytes(offset, bytes) => each_sector(*offset, bytes, |sector, offset, bytes| {
                // A sector reaches the disk as it was at one moment: with its first so many writes.
                let cut =
                    whole.unwrap_or_else(|| *sector_cuts.entry(sector).or_insert_with(|| keep.of(all, rng)));
                if number < cut {
                    pages.write(offset, bytes);
                }
            }),
        }
    }
    // The length may have reached the disk without the bytes.
    if keep == Keep::Random && rng.below(4) == 0 {
        let end = writes.iter().map(|write| match write {
            Loose::Bytes(offset, bytes) => offset + bytes.len() as u64,
            Loose::Zeros(len) => *len,
        });
        pages.extend_to(end.max().unwrap_or(0));
    }
}

fn each_sector(offset: u64, bytes: &[u8], mut visit: impl FnMut(u64, u64, &[u8])) {
    let (mut offset, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let len = ((SECTOR - offset % SECTOR) as usize).min(rest.len());
        let (part, behind) = rest.split_at(len);
        visit(offset / SECTOR, offset, part);
        offset += len as u64;
        rest = behind;
    }
}

impl Keep {
    /// How many of `count`; at random, none and all are as likely as everything between.
    fn of(self, count: usize, rng: &mut Rng) -> usize {
        match self {
            Keep::None => 0,
            Keep::All => count,
            Keep::Random => match rng.below(3) {
                0 => 0,
                1 => count,
                _ => rng.below(count as u64 + 1) as usize,
            },
        }
    }
}

/// xorshift64*
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}
