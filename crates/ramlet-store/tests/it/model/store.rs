//! The store of the model: what it holds, the requests on their way to it, and what becomes of them.
//!
//! A request takes effect at one moment between its sending and its answer, or never. It may be late by any time, also after its sender gave up. Lists come
//! in any order. What the store promises is what `ramlet store check` tries: a create has one winner, and reads and lists see what was acknowledged.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::random::Random;

/// A name in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A slot of the log, from 1.
    Slot(u64),
    Manifest(u32),
    /// A segment: the manifest that may name it first, the epoch of its writer, and a number of its own.
    Segment(u32, u64, u32),
}

/// What an object holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A write; its value is unique, and so tells who wrote it.
    Record {
        epoch: u64,
        value: u32,
    },
    /// The beginning of an epoch.
    Seal {
        epoch: u64,
        nonce: u32,
    },
    Manifest(Rc<Manifest>),
    /// Values in the order of the log.
    Segment(Rc<Vec<u32>>),
}

/// All that a collection is as of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    pub number: u32,
    pub nonce: u32,
    /// Segments hold the log up to this slot.
    pub covered: u64,
    /// Slots up to this one may be deleted.
    pub deleted: u64,
    /// The last seal up to there.
    pub epoch: u64,
    pub segments: Vec<Name>,
}

#[derive(Debug, Clone)]
pub enum Op {
    Create(Name, Object),
    /// Overwrites: only mutants do.
    Put(Name, Object),
    Get(Name),
    /// Names from one to another.
    List(Name, Name),
    Delete(Name),
    /// Nothing: time passes.
    Wait,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Done,
    /// Somebody else has the name.
    Exists,
    Found(Object),
    Absent,
    Names(Vec<Name>),
    /// Whether it was done can't be told.
    Failed,
}

/// The store's objects, and what ever was in a slot first.
#[derive(Default)]
pub struct Objects {
    pub all: BTreeMap<Name, Object>,
    pub log: BTreeMap<u64, Object>,
}

impl Objects {
    pub fn apply(&mut self, op: &Op, random: &mut Random) -> Reply {
        match op {
            Op::Create(name, _) if self.all.contains_key(name) => Reply::Exists,
            Op::Create(name, object) | Op::Put(name, object) => {
                if let Name::Slot(slot) = name {
                    self.log.entry(*slot).or_insert_with(|| object.clone());
                }
                self.all.insert(*name, object.clone());
                Reply::Done
            }
            Op::Get(name) => self
                .all
                .get(name)
                .map_or(Reply::Absent, |object| Reply::Found(object.clone())),
            Op::List(from, to) => {
                let mut names: Vec<Name> = self.all.range(*from..=*to).map(|(name, _)| *name).collect();
                for at in (1..names.len()).rev() {
                    names.swap(at, random.below(at as u32 + 1) as usize);
                }
                Reply::Names(names)
            }
            Op::Delete(name) => {
                self.all.remove(name);
                Reply::Done
            }
            Op::Wait => Reply::Done,
        }
    }

    /// What the log means: values in order, and whether there is a hole below the last slot that counts. A record of an epoch below that of a seal before
    /// it is void.
    pub fn truth(&self) -> Vec<(u64, u32)> {
        let (mut epoch, mut values) = (0, Vec::new());
        for (expected, (slot, object)) in (1..).zip(&self.log) {
            if *slot != expected {
                break;
            }
            match object {
                Object::Seal { epoch: sealed, .. } => epoch = epoch.max(*sealed),
                Object::Record { epoch: of, value } if *of == epoch => values.push((*slot, *value)),
                _ => {}
            }
        }
        values
    }
}
