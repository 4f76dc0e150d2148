//! Nodes, replicas and collectors of one shard, over the protocol that the servers run (`ramlet_store::shard`).

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use ramlet_store::shard::{
    Created, Effect, Kind, Logged, Over, Position, Replayed, Rule, Slots, Taken, Trim, Written, replay,
    settle, take_over, trim,
};

use super::Mutant;
use super::store::{Manifest, Name, Object, Op, Reply};
use super::world::{Acknowledged, Shared, ask, send};

const FIRST_MANIFEST: Name = Name::Manifest(0);
const LAST_MANIFEST: Name = Name::Manifest(u32::MAX);
/// Groups that an owner has on their way at once.
const WINDOW: usize = 2;
/// What an owner does before it gives up of itself.
const ACTIONS: u32 = 12;

/// Slots that are read at a time.
const BATCH: usize = 3;

impl Logged for Object {
    fn kind(&self) -> Kind {
        match self {
            Object::Seal { epoch, .. } => Kind::Seal { epoch: *epoch },
            Object::Record { epoch, .. } => Kind::Record { epoch: *epoch },
            other => panic!("a slot holds {other:?}"),
        }
    }
}

/// Nothing ends a process but the schedule.
enum Never {}

/// The store of the model, as the protocol asks it.
struct Asked<'a>(&'a Shared);

impl Slots for Asked<'_> {
    type Entry = Object;
    type LogError = Never;

    async fn create(&self, slot: u64, entry: &Object) -> Result<Created, Never> {
        let reply = ask(self.0, Op::Create(Name::Slot(slot), entry.clone())).await;
        Ok(created(reply))
    }

    async fn get(&self, slot: u64) -> Result<Option<Object>, Never> {
        Ok(match surely(self.0, Op::Get(Name::Slot(slot))).await {
            Reply::Found(object) => Some(object),
            _ => None,
        })
    }

    async fn get_run(&self, first: u64) -> Result<(Vec<Object>, bool), Never> {
        let mut read = Vec::new();
        while read.len() < BATCH {
            match self.get(first + read.len() as u64).await? {
                Some(object) => read.push(object),
                None => return Ok((read, true)),
            }
        }
        Ok((read, false))
    }

    async fn covered(&self) -> Result<u64, Never> {
        Ok(newest(self.0).await.deleted)
    }

    fn breaks(&self, rule: Rule) -> bool {
        let mutant = match rule {
            Rule::ReadBack => Mutant::WriterWithoutReadBack,
            Rule::SealProof => Mutant::TakerWithoutProof,
            Rule::ReadProof => Mutant::ReaderWithoutProof,
            Rule::KeptSeals => Mutant::CollectorDeletesSeals,
            Rule::KeptVoid => Mutant::CollectorDeletesVoid,
            Rule::OthersSeal => Mutant::LoserTakesTheSealForItsOwn,
        };
        is(self.0, mutant)
    }
}

impl Trim for Asked<'_> {
    async fn present(&self, after: u64, last: u64) -> Result<Vec<u64>, Never> {
        let names = listed(self.0, Name::Slot(after + 1), Name::Slot(last)).await;
        let slots = names.into_iter().take(BATCH).map(|name| match name {
            Name::Slot(slot) => slot,
            other => panic!("{other:?} among slots"),
        });
        Ok(slots.collect())
    }

    async fn delete(&self, slots: Vec<u64>) -> Result<(), Never> {
        for slot in slots {
            surely(self.0, Op::Delete(Name::Slot(slot))).await;
        }
        Ok(())
    }
}

fn created(reply: Reply) -> Created {
    match reply {
        Reply::Done => Created::Done,
        Reply::Exists => Created::Exists,
        _ => Created::Unknown,
    }
}

/// What never fails.
fn sure<T>(result: Result<T, Never>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

/// What a process knows of the shard.
#[derive(Clone, Default)]
struct State {
    manifest: Rc<Manifest>,
    data: Data,
    position: Position,
    /// The first of the slots that it filled one after the other with what counts; past all: none.
    own: u64,
}

#[derive(Clone, Default)]
struct Data {
    /// Of the segments, and of the log behind them.
    values: Vec<u32>,
    /// Values of the log behind the segments.
    fresh: usize,
}

impl State {
    /// What a slot does; the same for everybody.
    fn apply(&mut self, world: &Shared, object: &Object) {
        let effect = self.position.advance(object.kind());
        self.data.apply(world, (self.position, effect), object);
    }
}

impl Data {
    fn apply(&mut self, world: &Shared, (position, effect): (Position, Effect), object: &Object) {
        match (effect, object) {
            (Effect::Counts, Object::Record { value, .. }) => {
                self.values.push(*value);
                self.fresh += 1;
            }
            (Effect::Seal | Effect::Void, _) => {}
            (_, other) => fault(world, format!("at {position:?} the log holds {other:?}")),
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
            data: Data { values, fresh: 0 },
            position: Position {
                slot: manifest.covered,
                epoch: manifest.epoch,
            },
            own: u64::MAX,
            manifest,
        };
    }
}

/// Applies the log up to its first absent slot.
async fn catch_up(world: &Shared, state: &mut State) {
    loop {
        let State { data, position, .. } = state;
        let apply = &mut |at: Position, effect: Effect, object: &Object| {
            data.apply(world, (at, effect), object);
            Ok(())
        };
        match sure(replay(&Asked(world), position, apply).await) {
            Replayed::AtEnd => return,
            Replayed::Behind => *state = load(world).await,
        }
    }
}

/// Seals the first absent slot: from then on nobody of an epoch before writes. False: something came meanwhile, and is applied.
async fn seal(world: &Shared, state: &mut State, over: Over) -> bool {
    loop {
        let State { data, position, .. } = &mut *state;
        let apply = &mut |at: Position, effect: Effect, object: &Object| {
            data.apply(world, (at, effect), object);
            Ok(())
        };
        let seal = &mut |epoch| Object::Seal {
            epoch,
            nonce: world.borrow_mut().unique(),
        };
        match sure(take_over(&Asked(world), position, over, seal, apply).await) {
            Taken::Owned => {
                state.own = state.position.slot + 1;
                return true;
            }
            Taken::Yielded => return false,
            Taken::Behind => *state = load(world).await,
        }
    }
}

/// A node that owns the shard now and then.
pub async fn node(world: Shared) {
    let idle = world.borrow_mut().random.below(12);
    for _ in 0..idle {
        ask(&world, Op::Wait).await;
    }
    let mut state = load(&world).await;
    seal(&world, &mut state, Over::Anybody).await;
    own(&world, &mut state).await;
}

/// What an owner does until it is none, or gives up.
async fn own(world: &Shared, state: &mut State) {
    for _ in 0..ACTIONS {
        let action = world.borrow_mut().random.below(9);
        let goes_on = match action {
            0 | 1 => flush(world, state).await,
            2 => trim_own(world, state).await,
            _ => write(world, state).await,
        };
        if !goes_on {
            return;
        }
    }
}

/// A node that follows, and tries to own the shard at any moment. One that was taken over follows again, with what it has.
pub async fn candidate(world: Shared) {
    let mut state = load(&world).await;
    loop {
        let turns = world.borrow_mut().random.below(8);
        for _ in 0..=turns {
            look(&world, &mut state).await;
        }
        if seal(&world, &mut state, Over::Silence).await {
            own(&world, &mut state).await;
            state.own = u64::MAX;
        }
    }
}

/// Writes a few groups, some at once, and acknowledges them in order.
async fn write(world: &Shared, state: &mut State) -> bool {
    let mut waiting: VecDeque<u32> = (0..WINDOW).map(|_| world.borrow_mut().unique()).collect();
    let epoch = state.position.epoch;
    while !waiting.is_empty() {
        let group = |value: &u32| Object::Record { epoch, value: *value };
        let trusts_clock = is(world, Mutant::OwnerTrustsItsClock);
        let slots = state.position.slot + 1..;
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
            let mut created = created(answer.await);
            if created == Created::Unknown && is(world, Mutant::LeaseInsteadOfAnswer) {
                created = Created::Done;
            }
            let written = sure(settle(&Asked(world), slot, &group(&value), created).await);
            match written {
                Written::Logged => {
                    state.apply(world, &group(&value));
                    let acknowledged = Acknowledged { slot, value };
                    world.borrow_mut().acknowledged.push(acknowledged);
                }
                Written::Void(object) => {
                    state.apply(world, &object);
                    state.own = state.position.slot + 1;
                    waiting.push_back(value);
                    is_behind_void = true;
                }
                Written::Fenced if is(world, Mutant::OutOfOrder) && !is_behind_void => is_behind_void = true,
                Written::Fenced => {
                    if is(world, Mutant::DemotedKeepsItsTail) {
                        state.data.values.push(value);
                    }
                    return false;
                }
            }
        }
    }
    true
}

/// Writes what is in no segment as one, and a manifest that names it; now and then all segments become one.
async fn flush(world: &Shared, state: &mut State) -> bool {
    let number = state.manifest.number + 1;
    let (nonce, merges, keeps) = {
        let mut world = world.borrow_mut();
        (
            world.unique(),
            world.random.below(3) == 0,
            world.random.below(2) == 0,
        )
    };
    let (mut segments, values) = match merges {
        true => (Vec::new(), state.data.values.clone()),
        false => {
            let fresh = state.data.values.len() - state.data.fresh;
            (
                state.manifest.segments.clone(),
                state.data.values[fresh..].to_vec(),
            )
        }
    };
    let name = Name::Segment(number, state.position.epoch, nonce);
    // Its name is like no other: it may be sent twice.
    surely(world, Op::Put(name, Object::Segment(Rc::new(values)))).await;
    segments.push(name);
    let manifest = Rc::new(Manifest {
        number,
        nonce,
        covered: state.position.slot,
        // The log behind the manifest before stays, or only that behind this one.
        deleted: match keeps {
            true => state.manifest.covered,
            false => state.position.slot,
        },
        epoch: state.position.epoch,
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
        state.data.fresh = 0;
        return true;
    }
    // Another one has the number: an owner before, or after. The log tells.
    let before = state.position;
    let mut now = load(world).await;
    catch_up(world, &mut now).await;
    let is_owner = now.position == before;
    now.own = state.own;
    *state = now;
    is_owner
}

/// Deletes slots as the owner, or as one that believes to be it.
async fn trim_own(world: &Shared, state: &State) -> bool {
    let last = newest(world).await.deleted;
    sure(trim(&Asked(world), last, &(state.own..=state.position.slot)).await);
    true
}

/// Reads along, and says what it had at each slot.
pub async fn replica(world: Shared) {
    let mut state = load(&world).await;
    loop {
        look(&world, &mut state).await;
    }
}

/// Reads along, and now and then publishes a manifest of what it has, though it doesn't own the log.
pub async fn builder(world: Shared) {
    let mut state = load(&world).await;
    loop {
        look(&world, &mut state).await;
        let publishes = world.borrow_mut().random.below(3) == 0;
        if publishes {
            flush(&world, &mut state).await;
        }
    }
}

async fn look(world: &Shared, state: &mut State) {
    catch_up(world, state).await;
    let now = (state.position.slot, state.data.values.clone());
    world.borrow_mut().replicas.push(now);
    ask(world, Op::Wait).await;
}

/// Deletes what the newest manifest makes superfluous: covered records that counted, and segments that nobody can name any more. Manifests stay: whoever has an old one
/// would find the next number free.
pub async fn collector(world: Shared) {
    loop {
        ask(&world, Op::Wait).await;
        let newest = newest(&world).await;
        sure(trim(&Asked(&world), newest.deleted, &(u64::MAX..=u64::MAX)).await);
        collect_segments(&world, &newest).await;
        if newest.number > 0 && is(&world, Mutant::CollectorDeletesManifests) {
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

async fn collect_segments(world: &Shared, newest: &Manifest) {
    // Those that a manifest to come may name first are left alone.
    let last = match is(world, Mutant::CollectorTakesOrphans) {
        true => u32::MAX,
        false => newest.number,
    };
    let to = Name::Segment(last, u64::MAX, u32::MAX);
    let all = listed(world, Name::Segment(0, 0, 0), to).await;
    for name in all.into_iter().filter(|name| !newest.segments.contains(name)) {
        surely(world, Op::Delete(name)).await;
    }
}

/// Processes of a schedule.
pub type Begun = Pin<Box<dyn Future<Output = ()>>>;
