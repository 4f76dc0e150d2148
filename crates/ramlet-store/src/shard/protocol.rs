//! The protocol of one shard's log, as docs/adr/0070-shards-over-an-object-store.md decides it: replay, takeover, and what became of a record.
//!
//! Nodes run it over a store. The model in `tests/it/model` runs the same code over a store that is late, fails, and loses answers.
//!
//! One rule stands behind it: **what was read of a slot counts only if a list of manifests, asked for afterwards, shows none that covers the slot.** A slot
//! that is covered may be gone, and its name taken anew by somebody who is late. Seals are kept for ever, and so are records that count for nothing. So an
//! owner's create that simply succeeds needs no such list: whoever took over sealed that very slot, or one before, or found a record there that stays.

use std::future::Future;

/// What a slot holds, as far as the protocol cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The beginning of an epoch.
    Seal { epoch: u64 },
    /// A write of the owner of an epoch.
    Record { epoch: u64 },
}

impl Kind {
    pub fn epoch(self) -> u64 {
        match self {
            Kind::Seal { epoch } | Kind::Record { epoch } => epoch,
        }
    }
}

/// What a slot holds. Two are equal only if the same owner wrote both as one.
pub trait Logged: Clone + PartialEq {
    fn kind(&self) -> Kind;
}

/// How a create ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    Done,
    /// The slot is taken, perhaps by an earlier try of the same create.
    Exists,
    /// Whether it was done can't be told.
    Unknown,
}

/// A rule that only tests break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// What is in a slot that was tried twice is read back.
    ReadBack,
    /// A seal that could be created counts only if no manifest covers its slot.
    SealProof,
    /// A slot that could be read counts only if no manifest covers it.
    ReadProof,
    /// Seals are never deleted.
    KeptSeals,
    /// Records that count for nothing are never deleted.
    KeptVoid,
    /// A seal that was in the way is somebody else's.
    OthersSeal,
}

/// The store, as the protocol asks it.
pub trait Slots {
    type Entry: Logged;
    /// Why nothing is asked any more.
    type LogError;

    /// Tries once to create a slot that nobody has.
    fn create(&self, slot: u64, entry: &Self::Entry)
    -> impl Future<Output = Result<Created, Self::LogError>>;

    /// Asks until there is an answer.
    fn get(&self, slot: u64) -> impl Future<Output = Result<Option<Self::Entry>, Self::LogError>>;

    /// The entries from a slot on, as many as are read at a time, and whether the slot behind them is absent.
    fn get_run(&self, first: u64) -> impl Future<Output = Result<(Vec<Self::Entry>, bool), Self::LogError>>;

    /// The last slot that may be deleted because the newest manifest covers it; 0: none. From a list that is asked for now.
    fn covered(&self) -> impl Future<Output = Result<u64, Self::LogError>>;

    /// Whether a test breaks this rule.
    fn breaks(&self, _rule: Rule) -> bool {
        false
    }
}

/// How far somebody has applied the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The last slot that was applied; 0: none.
    pub slot: u64,
    /// The highest epoch of a seal up to there.
    pub epoch: u64,
}

/// What a slot does to those who replay it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Seal,
    Counts,
    /// Sent before its owner knew of the seal in front of it: nothing.
    Void,
    /// No owner that keeps to the protocol could have written it.
    Fault,
}

impl Position {
    /// Goes on to the next slot. The same for everybody.
    pub fn advance(&mut self, kind: Kind) -> Effect {
        self.slot += 1;
        match kind {
            Kind::Seal { epoch } => {
                self.epoch = self.epoch.max(epoch);
                Effect::Seal
            }
            Kind::Record { epoch } if epoch == self.epoch => Effect::Counts,
            Kind::Record { epoch } if epoch < self.epoch => Effect::Void,
            Kind::Record { .. } => Effect::Fault,
        }
    }
}

/// Where a replay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// At the first absent slot.
    AtEnd,
    /// A manifest covers slots that weren't applied: only a manifest leads on.
    Behind,
}

/// Takes what a slot holds; the position stands at that slot already.
pub type Apply<'a, E, H> = &'a mut dyn FnMut(Position, Effect, &E) -> Result<(), H>;

/// Whether a slot that was read, or created, was the log's: no manifest covers it now.
async fn is_of_log<S: Slots>(slots: &S, slot: u64) -> Result<bool, S::LogError> {
    Ok(slots.covered().await? < slot)
}

/// Applies the log up to its first absent slot.
pub async fn replay<S: Slots>(
    slots: &S,
    position: &mut Position,
    apply: Apply<'_, S::Entry, S::LogError>,
) -> Result<Replayed, S::LogError> {
    loop {
        let (read, is_end) = slots.get_run(position.slot + 1).await?;
        if !slots.breaks(Rule::ReadProof) && slots.covered().await? > position.slot {
            return Ok(Replayed::Behind);
        }
        for entry in &read {
            // The caller's position says what was applied, also where this one fails.
            let mut next = *position;
            let effect = next.advance(entry.kind());
            apply(next, effect, entry)?;
            *position = next;
        }
        if is_end {
            return Ok(Replayed::AtEnd);
        }
    }
}

/// Over whom somebody takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Whoever writes.
    Anybody,
    /// An owner of whom nothing came behind the position: whoever tries after a silence, and is not the first, lets the first one be.
    Silence,
}

/// How a takeover ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The caller owns the shard; its seal is applied.
    Owned,
    /// Something came meanwhile, and is applied.
    Yielded,
    /// As [`Replayed::Behind`].
    Behind,
}

/// Replays the log and seals its first absent slot: from then on nobody of an epoch before writes. `seal` makes one of an epoch, another one each time.
pub async fn take_over<S: Slots>(
    slots: &S,
    position: &mut Position,
    over: Over,
    seal: &mut dyn FnMut(u64) -> S::Entry,
    apply: Apply<'_, S::Entry, S::LogError>,
) -> Result<Taken, S::LogError> {
    let begun = *position;
    loop {
        if replay(slots, position, apply).await? == Replayed::Behind {
            return Ok(Taken::Behind);
        }
        if over == Over::Silence && *position != begun {
            return Ok(Taken::Yielded);
        }
        let (slot, mine) = (position.slot + 1, seal(position.epoch + 1));
        let is_mine = match slots.create(slot, &mine).await? {
            Created::Done => true,
            Created::Unknown => slots.get(slot).await?.is_some_and(|found| found == mine),
            Created::Exists => slots.breaks(Rule::OthersSeal),
        };
        if is_mine && (slots.breaks(Rule::SealProof) || is_of_log(slots, slot).await?) {
            let effect = position.advance(mine.kind());
            apply(*position, effect, &mine)?;
            return Ok(Taken::Owned);
        }
    }
}

/// What became of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written<E> {
    /// It is in the log, and may be acknowledged when all before it are.
    Logged,
    /// The slot holds what counts for nothing: the record has to go elsewhere.
    Void(E),
    /// Somebody took over, or may have; whether the record is in the log isn't known.
    Fenced,
}

/// Finds out what became of a record that was sent to a slot, and how that ended.
pub async fn settle<S: Slots>(
    slots: &S,
    slot: u64,
    record: &S::Entry,
    mut created: Created,
) -> Result<Written<S::Entry>, S::LogError> {
    let (mut is_first, own) = (true, record.kind().epoch());
    loop {
        match created {
            // Sent once and done: had somebody else ever had this slot, what it held would still be there.
            Created::Done if is_first => return Ok(Written::Logged),
            Created::Done => {
                return Ok(match is_of_log(slots, slot).await? {
                    true => Written::Logged,
                    false => Written::Fenced,
                });
            }
            Created::Exists if !is_first && slots.breaks(Rule::ReadBack) => return Ok(Written::Logged),
            Created::Exists | Created::Unknown => {}
        }
        let found = slots.get(slot).await?;
        if !is_of_log(slots, slot).await? {
            return Ok(Written::Fenced);
        }
        match found {
            Some(found) if found == *record => return Ok(Written::Logged),
            Some(found) => {
                // An owner before had it on its way when it was fenced.
                let is_void = matches!(found.kind(), Kind::Record { epoch } if epoch < own);
                return Ok(if is_void {
                    Written::Void(found)
                } else {
                    Written::Fenced
                });
            }
            None => {}
        }
        is_first = false;
        created = slots.create(slot, record).await?;
    }
}
