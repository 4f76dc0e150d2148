//! What a power loss may leave on the simulated disk.

use std::collections::{BTreeMap, VecDeque};

use super::SimStorage;
use super::disk::{Disk, Effect, Node, NodeId, ROOT};
use super::fingerprint::{Fingerprint, Mixer};
use super::pages::Pages;

const SECTOR: u64 = 512;

/// How much of what wasn't synced is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    None,
    All,
    Random,
}

pub const EXTREMES: [(Unsynced, Unsynced); 4] = [
    (Unsynced::None, Unsynced::None),
    (Unsynced::All, Unsynced::All),
    (Unsynced::All, Unsynced::None),
    (Unsynced::None, Unsynced::All),
];

/// Moments of a disk at which the power may fail, from the first on. Each step costs what its effect costs, not what the journal before it does.
pub struct CrashPoints {
    storage: SimStorage,
    place: Place,
}

impl CrashPoints {
    pub(super) fn new(storage: SimStorage) -> CrashPoints {
        let place = Place::start(&storage.disk());
        CrashPoints { storage, place }
    }

    /// On to position `at` of the journal, or to its end; never back.
    pub fn go_to(&mut self, at: usize) {
        self.place.go_to(&self.storage.disk(), at);
    }

    /// State `number` of this position: the first four are the extremes, the others random. See [`SimStorage::crash_states`].
    pub fn state(&self, seed: u64, number: usize) -> CrashState {
        let nodes = self.place.state(&self.storage.disk().journal, seed, number);
        CrashState { nodes }
    }
}

/// What a power loss may leave: a value, of which disks can be made.
#[derive(Clone)]
pub struct CrashState {
    nodes: Vec<Node>,
}

impl CrashState {
    /// Stands for all names, lengths and bytes: what reads only the disk does the same on two with the same one.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint_of(&|_| true)
    }

    /// The same of the files with such names.
    pub fn fingerprint_of(&self, is_of: &dyn Fn(&str) -> bool) -> Fingerprint {
        let mut mixer = Mixer::default();
        self.mix_directory(ROOT, is_of, &mut mixer);
        mixer.finish()
    }

    fn mix_directory(&self, directory: NodeId, is_of: &dyn Fn(&str) -> bool, mixer: &mut Mixer) {
        for (name, node) in self.nodes[directory].entries() {
            match &self.nodes[*node] {
                Node::Directory(_) => {
                    mixer.add(1);
                    mixer.add_bytes(name.as_bytes());
                    self.mix_directory(*node, is_of, mixer);
                }
                Node::File { bytes, .. } if is_of(name) => {
                    mixer.add(2);
                    mixer.add_bytes(name.as_bytes());
                    bytes.mix_into(mixer);
                }
                Node::File { .. } => {}
            }
        }
        // Where it ends.
        mixer.add(u64::MAX);
    }

    /// The disk, all of it durable, its journal empty.
    pub fn disk(&self) -> SimStorage {
        SimStorage::root_of(Disk::with_nodes(self.nodes.clone()))
    }
}

/// A place in the journal: what is durable there, and what came after.
#[derive(Default)]
struct Place {
    at: usize,
    /// Names and bytes as of the last syncs.
    durable: Vec<Node>,
    /// Per directory: positions in the journal of the changes after its last sync.
    loose_names: BTreeMap<NodeId, Vec<usize>>,
    /// The same per file.
    loose_data: BTreeMap<NodeId, Vec<usize>>,
}

impl Place {
    fn start(disk: &Disk) -> Place {
        Place {
            durable: disk.base.clone(),
            ..Place::default()
        }
    }

    /// Goes on to `at`, or to the end of the journal.
    fn go_to(&mut self, disk: &Disk, at: usize) {
        while self.at < at.min(disk.journal.len()) {
            self.pass(&disk.journal);
            self.at += 1;
        }
    }

    fn pass(&mut self, journal: &[Effect]) {
        let effect = &journal[self.at];
        if let Effect::Link { is_directory, .. } = effect {
            self.durable.push(Node::new(*is_directory));
        }
        if let Some(directory) = effect.names_of() {
            self.loose_names.entry(directory).or_default().push(self.at);
        }
        match effect {
            Effect::Write { node, .. } | Effect::Zeros { node, .. } => {
                self.loose_data.entry(*node).or_default().push(self.at);
            }
            Effect::Sync { node, bytes } => {
                self.loose_data.remove(node);
                *self.durable[*node].bytes_mut() = bytes.clone();
            }
            Effect::SyncDir { directory } => {
                let sure = self.loose_names.remove(directory).unwrap_or_default();
                sure.iter()
                    .for_each(|at| self.durable[*directory].change_names(&journal[*at]));
            }
            _ => {}
        }
    }

    fn state(&self, journal: &[Effect], seed: u64, number: usize) -> Vec<Node> {
        let random = (Unsynced::Random, Unsynced::Random);
        let (names, data) = EXTREMES.get(number).copied().unwrap_or(random);
        // Mixed, so that neighbouring seeds, positions and states have nothing in common.
        let mixed = seed ^ (self.at as u64) << 20 ^ (number as u64) << 44;
        let mut rng = Rng((mixed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9) | 1);
        let mut nodes = self.durable.clone();
        self.keep_names(&mut nodes, journal, names, &mut rng);
        self.keep_data(&mut nodes, journal, data, &mut rng);
        nodes
    }

    /// Per directory, of the changes after its last sync: the first so many, or some.
    fn keep_names(&self, nodes: &mut [Node], journal: &[Effect], keep: Unsynced, rng: &mut Rng) {
        for (directory, loose) in &self.loose_names {
            // No file system has to keep the order of changes that no sync is between.
            let in_order = keep != Unsynced::Random || rng.below(2) == 0;
            let first = keep.of(loose.len(), rng);
            for (number, at) in loose.iter().enumerate() {
                let is_kept = if in_order {
                    number < first
                } else {
                    rng.below(2) == 0
                };
                if is_kept {
                    nodes[*directory].change_names(&journal[*at]);
                }
            }
        }
    }

    /// Per file: what the last sync saw, and what the sectors got of the writes after it.
    fn keep_data(&self, nodes: &mut [Node], journal: &[Effect], keep: Unsynced, rng: &mut Rng) {
        if keep == Unsynced::None {
            return;
        }
        for (node, positions) in &self.loose_data {
            let writes: Vec<_> = positions.iter().map(|at| Loose::of(&journal[*at])).collect();
            add_loose(nodes[*node].bytes_mut(), &writes, keep, rng);
        }
    }
}

/// A write that no sync covers: bytes at an offset, or a length to be zero up to.
enum Loose<'a> {
    Bytes(u64, &'a [u8]),
    Zeros(u64),
}

impl Loose<'_> {
    fn of(effect: &Effect) -> Loose<'_> {
        match effect {
            Effect::Write { offset, bytes, .. } => Loose::Bytes(*offset, bytes),
            Effect::Zeros { len, .. } => Loose::Zeros(*len),
            _ => panic!("not a write"),
        }
    }
}

fn add_loose(pages: &mut Pages, writes: &[Loose<'_>], keep: Unsynced, rng: &mut Rng) {
    let all = writes.len();
    // The file as a whole has the first so many writes; None: every sector for itself.
    let whole = match keep {
        Unsynced::None => Some(0),
        Unsynced::All => Some(all),
        Unsynced::Random => (rng.below(2) == 0).then(|| keep.of(all, rng)),
    };
    let mut cuts = SectorCuts::default();
    for (number, write) in writes.iter().enumerate() {
        match (write, whole) {
            (Loose::Zeros(len), _) => {
                let zeroed = keep.of(*len as usize, rng) as u64;
                pages.extend_to(whole.map_or(zeroed, |cut| if number < cut { *len } else { 0 }));
            }
            (Loose::Bytes(offset, bytes), Some(cut)) if number < cut => pages.write(*offset, bytes),
            (Loose::Bytes(..), Some(_)) => {}
            // A sector reaches the disk as it was at one moment: with its first so many writes.
            (Loose::Bytes(offset, bytes), None) => each_sector(*offset, bytes, |sector, offset, bytes| {
                if number < cuts.get(sector, || keep.of(all, rng)) {
                    pages.write(offset, bytes);
                }
            }),
        }
    }
    // The length may have reached the disk without the bytes.
    if keep == Unsynced::Random && rng.below(4) == 0 {
        let end = writes.iter().map(|write| match write {
            Loose::Bytes(offset, bytes) => offset + bytes.len() as u64,
            Loose::Zeros(len) => *len,
        });
        pages.extend_to(end.max().unwrap_or(0));
    }
}

/// How many writes each sector has, from the first sector that any touched.
#[derive(Default)]
struct SectorCuts {
    first: u64,
    cuts: VecDeque<Option<usize>>,
}

impl SectorCuts {
    fn get(&mut self, sector: u64, choose: impl FnOnce() -> usize) -> usize {
        if self.cuts.is_empty() {
            self.first = sector;
        }
        while sector < self.first {
            self.cuts.push_front(None);
            self.first -= 1;
        }
        let place = (sector - self.first) as usize;
        if place >= self.cuts.len() {
            self.cuts.resize(place + 1, None);
        }
        *self.cuts[place].get_or_insert_with(choose)
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

impl Unsynced {
    /// How many of `count`; at random, none and all are as likely as everything between.
    fn of(self, count: usize, rng: &mut Rng) -> usize {
        match self {
            Unsynced::None => 0,
            Unsynced::All => count,
            Unsynced::Random => match rng.below(3) {
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
