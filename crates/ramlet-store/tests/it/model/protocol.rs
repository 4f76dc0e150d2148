//! The protocol: owners, replicas and collectors of one shard over a store. docs/adr/0070-shards-over-an-object-store.md says why.
//!
//! One rule stands behind it: **what was read of a slot counts only if a list of manifests, asked for afterwards, shows none that covers the slot.** A slot
//! that is covered may be gone, and its name taken anew by somebody who is late. Seals are kept for ever, and so are records that count for nothing. So an
//! owner's create that simply succeeds needs no such list: whoever took over sealed that very slot, or one before, or found a record there that stays.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::Mutant;
use super::store::{Manifest, Name, Object, Op, Reply};
use super::world::{Acknowledged, Shared, ask, send};

const FIRST_MANIFEST: Name = Name::Manifest(0);
const LAST_MANIFEST: Name = Name::Manifest(u32::MAX);
/// Groups that an owner has on their way at once.
const WINDOW: usize = 2;
/// What an owner does before it gives up of itself.
const ACTIONS: u32 = 12;

/// What a process knows of the shard.
#[derive(Clone, Default)]
struct State {
    manifest: Rc<Manifest>,
    /// Of the segments, and of the log behind them.
    values: Vec<u32>,
    /// Values of the log behind the segments.
    fresh: usize,
    /// The last slot that was applied.
    slot: u32,
    epoch: u32,
}

impl State {
    /// What a slot does; the same for everybody.
    fn apply(&mut self, world: &Shared, object: &Object) {
        self.slot += 1;
        match object {
            Object::Seal { epoch, .. } => self.epoch = self.epoch.max(*epoch),
            Object::Record { epoch, value } if *epoch == self.epoch => {
                self.values.push(*value);
                self.fresh += 1;
            }
            // Sent before its owner knew of the seal in front of it.
            Object::Record { epoch, .. } if *epoch < self.epoch => {}
            other => fault(
                world,
                format!("slot {} holds {other:?} in epoch {}", self.slot, self.epoch),
            ),
        }
    }
}

fn fault(world: &Shared, what: String) {
    world.borrow_mut().faults.push(what);
}

fn is(world: &Shared, mutant: Mutant) -> bool {
    world.borrow().mutant == mutant
}

/// Asks until there is an answer; for what may be asked twice.
async fn surely(world: &Shared, op: Op) -> Reply {
    loop {
        match ask(world, op.clone()).await {
            Reply::Failed => {}
            reply => return reply,
        }
    }
}

/// The newest manifest's number and what it says.
async fn newest(world: &Shared) -> Rc<Manifest> {
    loop {
        let names = listed(world, FIRST_MANIFEST, LAST_MANIFEST).await;
        let Some(name) = names.last() else {
            return Rc::default();
        };
        // A newer one may have come, and this one be gone.
        if let Reply::Found(Object::Manifest(manifest)) = surely(world, Op::Get(*name)).await {
            return manifest;
        }
    }
}

/// The state as of the newest manifest.
async fn load(world: &Shared) -> State {
    'newest: loop {
        let manifest = newest(world).await;
        let mut values = Vec::new();
        for segment in &manifest.segments {
            match surely(world, Op::Get(*segment)).await {
                Reply::Found(Object::Segment(more)) => values.extend_from_slice(&more),
                _ => continue 'newest,
            }
        }
        return State {
            values,
            fresh: 0,
            slot: manifest.covered,
            epoch: manifest.epoch,
            manifest,
        };
    }
}

/// Applies the log up to its first absent slot.
async fn replay(world: &Shared, state: &mut State) {
    loop {
        let mut read = Vec::new();
        let at_end = loop {
            let slot = state.slot + 1 + read.len() as u32;
            match surely(world, Op::Get(Name::Slot(slot))).await {
                Reply::Found(object) => read.push(object),
                _ => break true,
            }
            if read.len() == 3 {
                break false;
            }
        };
        if !is(world, Mutant::ReaderWithoutProof) && newest(world).await.covered > state.slot {
            *state = load(world).await;
            continue;
        }
        for object in &read {
            state.apply(world, object);
        }
        if at_end {
            return;
        }
    }
}

/// Whether a slot that was read, or created, was the log's: no manifest covers it now.
async fn is_of_log(world: &Shared, slot: u32) -> bool {
    newest(world).await.covered < slot
}

/// Seals the first absent slot: from then on nobody of an epoch before writes.
async fn take_over(world: &Shared) -> State {
    let mut state = load(world).await;
    loop {
        replay(world, &mut state).await;
        let (slot, epoch) = (state.slot + 1, state.epoch + 1);
        let nonce = world.borrow_mut().unique();
        let seal = Object::Seal { epoch, nonce };
        let is_mine = match ask(world, Op::Create(Name::Slot(slot), seal.clone())).await {
            Reply::Done => true,
            Reply::Failed => surely(world, Op::Get(Name::Slot(slot))).await == Reply::Found(seal.clone()),
            _ => false,
        };
        if is_mine && (is(world, Mutant::TakerWithoutProof) || is_of_log(world, slot).await) {
            state.apply(world, &seal);
            return state;
        }
    }
}

/// What became of a group.
enum Written {
    Acknowledged,
    /// The slot holds what counts for nothing: the group has to go elsewhere.
    Void(Object),
    /// Somebody took over, or may have; whether the group is in the log isn't known.
    Fenced,
}

/// A node that owns the shard now and then.
pub async fn node(world: Shared) {
    let idle = world.borrow_mut().random.below(12);
    for _ in 0..idle {
        ask(&world, Op::Wait).await;
    }
    let mut state = take_over(&world).await;
    for _ in 0..ACTIONS {
        let action = world.borrow_mut().random.below(4);
        let goes_on = match action {
            0 => flush(&world, &mut state).await,
            _ => write(&world, &mut state).await,
        };
        if !goes_on {
            return;
        }
    }
}

/// Writes a few groups, some at once, and acknowledges them in order.
async fn write(world: &Shared, state: &mut State) -> bool {
    let mut waiting: VecDeque<u32> = (0..WINDOW).map(|_| world.borrow_mut().unique()).collect();
    let epoch = state.epoch;
    while !waiting.is_empty() {
        let group = |value: &u32| Object::Record { epoch, value: *value };
        let trusts_clock = is(world, Mutant::OwnerTrustsItsClock);
        let slots = state.slot + 1..;
        let sent: Vec<_> = slots
            .zip(waiting.drain(..))
            .map(|(slot, value)| {
                let (name, object) = (Name::Slot(slot), group(&value));
                let op = match trusts_clock {
                    true => Op::Put(name, object),
                    false => Op::Create(name, object),
                };
                (slot, value, send(world, op))
            })
            .collect();
        let mut is_behind_void = false;
        for (slot, value, answer) in sent {
            let reply = answer.await;
            let written = settle(world, slot, &group(&value), reply).await;
            match written {
                Written::Acknowledged => {
                    state.apply(world, &group(&value));
                    let acknowledged = Acknowledged { slot, value };
                    world.borrow_mut().acknowledged.push(acknowledged);
                }
                Written::Void(object) => {
                    state.apply(world, &object);
                    waiting.push_back(value);
                    is_behind_void = true;
                }
                Written::Fenced if is(world, Mutant::OutOfOrder) && !is_behind_void => is_behind_void = true,
                Written::Fenced => return false,
            }
        }
    }
    true
}

/// Finds out what became of a group that was sent to a slot.
async fn settle(world: &Shared, slot: u32, group: &Object, mut reply: Reply) -> Written {
    let name = Name::Slot(slot);
    let (mut is_first, Object::Record { epoch, .. }) = (true, group) else {
        unreachable!("groups are records");
    };
    loop {
        match reply {
            // Sent once and done: had somebody else ever had this slot, what it held would still be there.
            Reply::Done if is_first => return Written::Acknowledged,
            Reply::Done => match is_of_log(world, slot).await {
                true => return Written::Acknowledged,
                false => return Written::Fenced,
            },
            Reply::Exists if !is_first && is(world, Mutant::WriterWithoutReadBack) => {
                return Written::Acknowledged;
            }
            _ => {}
        }
        let found = surely(world, Op::Get(name)).await;
        if !is_of_log(world, slot).await {
            return Written::Fenced;
        }
        match found {
            Reply::Found(object) if object == *group => return Written::Acknowledged,
            // An owner before had it on its way when it was fenced.
            Reply::Found(Object::Record { epoch: of, value }) if of < *epoch => {
                return Written::Void(Object::Record { epoch: of, value });
            }
            Reply::Found(_) => return Written::Fenced,
            _ => {}
        }
        is_first = false;
        reply = ask(world, Op::Create(name, group.clone())).await;
    }
}

/// Writes what is in no segment as one, and a manifest that names it; now and then all segments become one.
async fn flush(world: &Shared, state: &mut State) -> bool {
    let number = state.manifest.number + 1;
    let (nonce, merges) = {
        let mut world = world.borrow_mut();
        (world.unique(), world.random.below(3) == 0)
    };
    let (mut segments, values) = match merges {
        true => (Vec::new(), state.values.clone()),
        false => {
            let fresh = state.values.len() - state.fresh;
            (state.manifest.segments.clone(), state.values[fresh..].to_vec())
        }
    };
    let name = Name::Segment(number, state.epoch, nonce);
    // Its name is like no other: it may be sent twice.
    surely(world, Op::Put(name, Object::Segment(Rc::new(values)))).await;
    segments.push(name);
    let manifest = Rc::new(Manifest {
        number,
        nonce,
        covered: state.slot,
        epoch: state.epoch,
        segments,
    });
    let object = Object::Manifest(manifest.clone());
    let created = ask(world, Op::Create(Name::Manifest(number), object.clone())).await;
    let is_mine = match created {
        Reply::Done => true,
        _ => surely(world, Op::Get(Name::Manifest(number))).await == Reply::Found(object),
    };
    if is_mine {
        state.manifest = manifest;
        state.fresh = 0;
        return true;
    }
    // Another one has the number: an owner before, or after. The log tells.
    let (slot, epoch) = (state.slot, state.epoch);
    let mut now = load(world).await;
    replay(world, &mut now).await;
    let is_owner = now.epoch == epoch && now.slot == slot;
    *state = now;
    is_owner
}

/// Reads along, and says what it had at each slot.
pub async fn replica(world: Shared) {
    let mut state = load(&world).await;
    loop {
        replay(&world, &mut state).await;
        world
            .borrow_mut()
            .replicas
            .push((state.slot, state.values.clone()));
        ask(&world, Op::Wait).await;
    }
}

/// Deletes what the newest manifest makes superfluous: covered records that counted, older manifests, segments that nobody can name any more.
pub async fn collector(world: Shared) {
    loop {
        ask(&world, Op::Wait).await;
        let newest = newest(&world).await;
        collect_slots(&world, newest.covered).await;
        collect_segments(&world, &newest).await;
        if newest.number > 0 {
            let older = Name::Manifest(newest.number - 1);
            for name in listed(&world, FIRST_MANIFEST, older).await {
                surely(&world, Op::Delete(name)).await;
            }
        }
    }
}

async fn listed(world: &Shared, from: Name, to: Name) -> Vec<Name> {
    let Reply::Names(mut names) = surely(world, Op::List(from, to)).await else {
        unreachable!("a list is answered with names");
    };
    names.sort();
    names
}

/// A seal stays, and so does a record that counts for nothing: an owner who is late finds its slot taken. The others were created by the only owner who could.
async fn collect_slots(world: &Shared, covered: u32) {
    let mut epoch = 0;
    for name in listed(world, Name::Slot(0), Name::Slot(covered)).await {
        let superfluous = match surely(world, Op::Get(name)).await {
            Reply::Found(Object::Seal { epoch: sealed, .. }) => {
                epoch = epoch.max(sealed);
                is(world, Mutant::CollectorDeletesSeals)
            }
            Reply::Found(Object::Record { epoch: of, .. }) => {
                of == epoch || is(world, Mutant::CollectorDeletesVoid)
            }
            _ => false,
        };
        if superfluous {
            surely(world, Op::Delete(name)).await;
        }
    }
}

async fn collect_segments(world: &Shared, newest: &Manifest) {
    // Those that a manifest to come may name first are left alone.
    let last = match is(world, Mutant::CollectorTakesOrphans) {
        true => u32::MAX,
        false => newest.number,
    };
    let to = Name::Segment(last, u32::MAX, u32::MAX);
    let all = listed(world, Name::Segment(0, 0, 0), to).await;
    for name in all.into_iter().filter(|name| !newest.segments.contains(name)) {
        surely(world, Op::Delete(name)).await;
    }
}

/// Processes of a schedule.
pub type Begun = Pin<Box<dyn Future<Output = ()>>>;
