//! `ramlet serve --store`: a node that owns the log of a store, or follows it.
//!
//! The owner's writes are in the store before they are acknowledged. The data directory is a copy. `store.json` in it says of which store, and up to which
//! slot it surely is ([`directory`]). Groups of changes are told apart by their numbers, changes of collections by those of the collections: so what a
//! directory has beyond its slot is passed over when it is replayed.
//!
//! Who owns the log changes while nodes run. A candidate that hears nothing of the owner for long tries to take over ([`liveness`]); an owner that finds a
//! seal of somebody else, or can't know what became of a write, follows again. A directory never has a group that the log lacks, so nothing is undone then.

mod backup;
mod building;
mod claim;
mod directory;
mod liveness;
mod placement;
mod shards;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ramlet::{Engine, Follower, GroupLog};
use ramlet_memory::{Consumer, Reservation};
use ramlet_server::{NodeStatus, PeerNode, Replayer, Role, SharedLog};
use ramlet_store::StoreError;
use ramlet_store::shard::{
    Appended, Body, Bytes, Card, Effect, Entry, LogError, Over, Position, Replayed, SlotLog, Taken, Work,
    card, cards, newest_covered, remove_card, write_card,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use self::backup::before;
use self::building::Publishing;
pub use self::directory::{Prepared, prepare};
use self::directory::{STATE, State};
use self::liveness::{Peers, Rhythm, Vigil, turn};
use self::shards::Standing;
use super::{now, state};
use crate::args::NodeRole;
use crate::output::{many, say};

/// How often a reader looks for the next slot, and a writer whether somebody took over.
const READER_POLL: Duration = Duration::from_millis(100);
const WRITER_POLL: Duration = Duration::from_secs(1);
/// So many looks, then a list of the manifests: a slot may be absent because a backup covers it.
const POLLS_PER_LIST: u32 = 50;
/// How long a start asks a failing store, and a reader before it says so. A writer asks as long as it runs: what became of its last group must be known.
const RETRY_FOR: Duration = Duration::from_secs(30);
const READER_RETRY_FOR: Duration = Duration::from_secs(5);
/// From then on a writer refuses further writes, until the store answers.
const FAILURE_TOLD_AFTER: Duration = Duration::from_secs(2);
/// How long a group that is in the log may be on its way into the directory before an owner that was taken over goes on without it.
const SETTLE: Duration = Duration::from_secs(30);
/// How often the slot is noted in the directory, where it changes.
const NOTE_EVERY: Duration = Duration::from_secs(5);

/// Whose seal it is.
#[derive(Serialize, Deserialize)]
struct About {
    writer: String,
    #[serde(default)]
    node: Option<String>,
}

/// What changes while a node runs.
struct Known {
    role: Role,
    position: Position,
    changes: u64,
    /// Where the owner is reached, and which node it is.
    writer: Option<String>,
    owner: Option<String>,
    /// When the look began that found all that was there applied, or a write that its owner made.
    current: Option<Instant>,
    /// Nothing of a time as the owner is on its way into the directory: all up to the position is there.
    is_settled: bool,
    /// What is behind this slot is to be applied once more.
    again_behind: Option<u64>,
    peers: Peers,
    /// The newest backup of a node that builds for this one, while one lives; 0: it made none yet.
    builder: Option<u64>,
    fault: Option<String>,
    /// Bytes of groups since the last backup.
    fresh_bytes: u64,
    noted: (u64, Instant),
}

impl Known {
    /// Whose seal it is, where it was applied before this process began: what cards say.
    fn find_owner(&mut self) {
        let epoch = self.position.epoch;
        if self.owner.is_none()
            && let Some(owner) = self.peers.owner(epoch)
        {
            (self.writer, self.owner) = (Some(owner.url.clone()), Some(owner.node.clone()));
        }
    }
}

/// A node's end of the log.
pub struct NodeLog {
    log: SlotLog,
    memory: Consumer,
    setting: NodeRole,
    dir: PathBuf,
    id: String,
    node: String,
    /// Of a divided store, and whether it goes to another one that needs it more.
    shard: Option<u32>,
    moves: bool,
    /// The epoch in which this node owned the log when it ended.
    owned: Option<u64>,
    memory_bytes: u64,
    /// Where other nodes and clients reach this one.
    url: OnceLock<String>,
    backup_every: u64,
    keep: usize,
    adopts: bool,
    rhythm: Rhythm,
    /// For what other nodes say of themselves.
    _cards: Reservation,
    known: Mutex<Known>,
    /// Held while an owner appends.
    appending: Mutex<Position>,
    /// The slot of a group that is in the log, and not yet in the directory; 0: none.
    under_way: AtomicU64,
    /// The number of the next card. It begins with the time: a node that is started again is heard.
    beats: AtomicU64,
    /// Of the directory, now and then.
    disk_bytes: AtomicU64,
    /// The newest backup that this node made since its start; 0: none.
    backup: AtomicU64,
    /// Counts wishes that the threads look now.
    wishes: Mutex<u64>,
    wished: Condvar,
    stopped: AtomicBool,
    /// Its slots are gone.
    is_behind: AtomicBool,
    behind: Notify,
}

impl NodeLog {
    pub fn new(prepared: Prepared) -> Arc<NodeLog> {
        let position = prepared.position;
        Arc::new(NodeLog {
            log: prepared.log,
            memory: prepared.memory,
            setting: prepared.role,
            dir: prepared.dir,
            id: prepared.id,
            node: prepared.node,
            shard: prepared.shard,
            moves: prepared.moves,
            owned: prepared.owned,
            memory_bytes: prepared.memory_bytes,
            url: OnceLock::new(),
            backup_every: prepared.backup_every,
            keep: prepared.keep,
            adopts: prepared.adopts,
            rhythm: prepared.rhythm,
            _cards: prepared.cards,
            known: Mutex::new(Known {
                role: Role::Reader,
                position,
                changes: prepared.changes,
                writer: None,
                owner: None,
                current: None,
                is_settled: true,
                again_behind: None,
                peers: Peers::default(),
                builder: prepared.builder.then_some(0),
                fault: None,
                fresh_bytes: 0,
                noted: (position.slot, Instant::now()),
            }),
            appending: Mutex::new(position),
            under_way: AtomicU64::new(0),
            beats: AtomicU64::new(now().unwrap_or_default() << 20),
            disk_bytes: AtomicU64::new(0),
            backup: AtomicU64::new(0),
            wishes: Mutex::default(),
            wished: Condvar::new(),
            stopped: AtomicBool::new(false),
            is_behind: AtomicBool::new(false),
            behind: Notify::new(),
        })
    }

    /// Slots that this directory lacks are gone: the process is to begin anew, and fills it then.
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Acquire)
    }

    /// Waits until [`NodeLog::is_behind`].
    pub async fn falls_behind(&self) {
        self.behind.notified().await;
    }

    fn fall_behind(&self) {
        self.is_behind.store(true, Ordering::Release);
        self.behind.notify_one();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn role(&self) -> Role {
        self.known().role
    }

    fn role_name(&self) -> &'static str {
        if self.setting.builds() {
            "build"
        } else {
            self.role().name()
        }
    }

    /// Waits for so long, or until somebody wishes that a thread looks now. `seen`: the wishes that the thread has heard.
    fn pause(&self, longest: Duration, seen: &mut u64) {
        let wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .wished
            .wait_timeout_while(wishes, longest, |wishes| *wishes == *seen && !self.is_stopped());
        *seen = *waited.unwrap_or_else(PoisonError::into_inner).0;
    }

    fn wish(&self) {
        *self.wishes.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.wished.notify_all();
    }

    /// Why an owner takes nothing more for the moment.
    fn store_failure(&self, role: Role) -> Option<String> {
        let (since, error) = self.log.store_failure()?;
        let told = role == Role::Writer && since.elapsed() > FAILURE_TOLD_AFTER;
        told.then(|| format!("the store fails, writes wait until it answers: {error}"))
    }

    /// Notes why the log isn't followed, once.
    fn fault(&self, why: &str) {
        let mut known = self.known();
        if known.fault.is_none() {
            tracing::error!("{why}");
            known.fault = Some(why.to_owned());
        }
    }

    /// From now on nothing is written here; the log's thread follows once all is settled.
    fn step_down(&self, why: &str, again_behind: Option<u64>) {
        let mut known = self.known();
        if let Some(slot) = again_behind {
            known.again_behind = Some(known.again_behind.map_or(slot, |before| before.min(slot)));
        }
        if known.role == Role::Writer {
            tracing::warn!("this node follows from now on: {why}");
            (known.role, known.current) = (Role::Reader, None);
            drop(known);
            self.wish();
        }
    }

    fn put(&self, body: Body) -> std::result::Result<u64, String> {
        let mut position = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let known = self.known();
            if known.role != Role::Writer {
                return Err(
                    "this node doesn't write any more: what became of the write before isn't known"
                        .to_owned(),
                );
            }
        }
        let is_group = matches!(body, Body::Group { .. });
        let bytes = match &body {
            Body::Group { group, .. } => group.len(),
            Body::Seal(json) | Body::Request(json) => json.len(),
        };
        let begun = Instant::now();
        let why = match self.log.append(&mut position, body) {
            Ok(Appended::At(slot)) => {
                let mut known = self.known();
                known.position = *position;
                known.fresh_bytes += bytes as u64;
                known.current = Some(begun);
                if is_group {
                    self.under_way.store(slot, Ordering::Release);
                }
                return Ok(slot);
            }
            Ok(Appended::Fenced) => self.fenced(position.slot + 1),
            Err(LogError::Stopped) => return Err(LogError::Stopped.to_string()),
            Err(LogError::Failed(why)) => {
                format!("whether the last write is in the store isn't known yet: {why}")
            }
        };
        self.step_down(&why, None);
        Err(why)
    }

    /// Why an owner that found `slot` taken owns the log no more.
    fn fenced(&self, slot: u64) -> String {
        let about = match self.log.peek(slot) {
            Ok(Some(Entry {
                body: Body::Seal(json),
                ..
            })) => named(&json),
            _ => None,
        };
        let who = about.as_ref().map_or("another node", |about| &about.writer);
        let why = format!(
            "{who} took over as the writer of {} at slot {slot}",
            self.log.store()
        );
        if let Some(about) = about {
            let mut known = self.known();
            (known.writer, known.owner) = (Some(about.writer), about.node);
        }
        why
    }

    /// Applies the log from the store on.
    fn apply(
        &self,
        engine: &Engine,
        replayer: &Replayer,
        follower: &mut Follower,
        (at, effect, entry): (Position, Effect, &Entry),
    ) -> std::result::Result<(), LogError> {
        let slot = at.slot;
        let failed = |why: String| LogError::Failed(format!("slot {slot}: {why}"));
        let mut bytes = 0;
        match (effect, &entry.body) {
            (Effect::Fault, _) => {
                return Err(failed("a record of an epoch that was never begun".to_owned()));
            }
            (Effect::Void, _) => {}
            (_, Body::Seal(json)) => {
                let about = named(json);
                let mut known = self.known();
                known.owner = about.as_ref().and_then(|about| about.node.clone());
                known.writer = about.map(|about| about.writer);
            }
            (_, Body::Group { id, lsn, group }) => {
                bytes = group.len();
                let followed = engine.follow_group(id, *lsn, group, follower);
                followed.map_err(|e| failed(e.to_string()))?;
            }
            (_, Body::Request(_)) if slot <= self.known().changes => {}
            (_, Body::Request(json)) => {
                replayer.replay(json).map_err(failed)?;
                // Before anything behind it: made twice then, it would undo that.
                self.known().changes = slot;
                self.note(at).map_err(|e| failed(format!("{e:#}")))?;
            }
        }
        let mut known = self.known();
        known.position = at;
        known.fresh_bytes += bytes as u64;
        Ok(())
    }

    /// Applies all that is there, and takes over where nobody is to be waited for. Before the server answers.
    pub fn begin(self: &Arc<Self>, engine: &Arc<Engine>, replayer: &Replayer, address: &str) -> Result<()> {
        let (begun, from) = (Instant::now(), self.known().position);
        let _ = self.url.set(address.to_owned());
        engine.set_group_log(self.clone());
        let mut follower = engine.follower()?;
        let mut position = from;
        let adopted = match self.adopts {
            true => Some(self.push(engine)?.0),
            false => None,
        };
        let apply =
            &mut |at, effect, entry: &Entry| self.apply(engine, replayer, &mut follower, (at, effect, entry));
        let taken = match self.setting {
            NodeRole::Writer => self
                .log
                .take_over(&mut position, (Over::Anybody, &self.about()), apply)?,
            NodeRole::Auto | NodeRole::Reader | NodeRole::Build => match self
                .log
                .replay(&mut position, apply)?
            {
                Replayed::Behind => Taken::Behind,
                Replayed::AtEnd => match self.needs_no_silence(position)? && self.setting == NodeRole::Auto {
                    true => self
                        .log
                        .take_over(&mut position, (Over::Silence, &self.about()), apply)?,
                    false => Taken::Yielded,
                },
            },
        };
        if taken == Taken::Behind {
            self.fall_behind();
            bail!(
                "{}: slots that this directory lacks are deleted",
                self.log.store()
            );
        }
        if let Some(number) = adopted {
            let newest = newest_covered(self.log.store())?.map(|(number, _)| number);
            if taken != Taken::Owned || position.slot != 1 || newest != Some(number) {
                bail!("{}: another node began there at the same time", self.log.store());
            }
        }
        {
            let mut known = self.known();
            known.position = position;
            known.current = Some(Instant::now());
        }
        self.note(position)?;
        match taken {
            Taken::Owned => self.own(position),
            _ => self.log.set_retry_for(Some(READER_RETRY_FOR)),
        }
        say(format_args!(
            "{} of {}, epoch {}, {} applied in {:.1} s",
            self.role_name(),
            self.log.store(),
            position.epoch,
            many(position.slot - from.slot, "slot"),
            begun.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    /// What the seal of this node says.
    fn about(&self) -> Bytes {
        let about = About {
            writer: self.url.get().cloned().unwrap_or_default(),
            node: Some(self.node.clone()),
        };
        serde_json::to_vec(&about)
            .expect("it has string keys only")
            .into()
    }

    /// Whether a start takes over at once: nobody ever owned the log, or the owner was this node, or has said that it goes.
    fn needs_no_silence(&self, position: Position) -> Result<bool> {
        let store = self.log.store();
        let is_over = |card: &Card| card.epoch == position.epoch && card.work != Work::Follows;
        let own =
            self.owned == Some(position.epoch) || card(store, &self.node)?.is_some_and(|card| is_over(&card));
        let mut known = self.known();
        known
            .peers
            .look(cards(store)?, &self.node, self.rhythm.gone() / 2);
        known.find_owner();
        let owner = known.peers.owner(position.epoch);
        let has_left = owner.is_some_and(|card| card.work == Work::Left);
        Ok(position.epoch == 0 || own || has_left || known.owner.as_ref() == Some(&self.node))
    }

    /// The log is this node's, from this position on.
    fn own(&self, position: Position) {
        *self.appending.lock().unwrap_or_else(PoisonError::into_inner) = position;
        self.log.set_retry_for(None);
        let mut known = self.known();
        known.role = Role::Writer;
        (known.position, known.current, known.fault) = (position, Some(Instant::now()), None);
        (known.writer, known.owner) = (self.url.get().cloned(), Some(self.node.clone()));
        known.is_settled = false;
        drop(known);
        self.wish();
    }

    /// What goes on while the server answers.
    pub fn run(self: &Arc<Self>, engine: &Arc<Engine>, replayer: Replayer) -> Result<Vec<JoinHandle<()>>> {
        let (log, engine, adopting) = (self.clone(), engine.clone(), engine.clone());
        let store = thread::Builder::new().name("store".to_owned());
        let store = store.spawn(move || {
            while !log.is_stopped() && !log.is_behind() {
                match log.role() {
                    Role::Reader => log.follow(&engine, &replayer),
                    Role::Writer => log.keep(&engine, &replayer),
                }
            }
        });
        let log = self.clone();
        let beat = thread::Builder::new().name("heartbeat".to_owned());
        let beat = beat.spawn(move || log.beat());
        let mut threads = vec![
            store.context("starting a thread")?,
            beat.context("starting a thread")?,
        ];
        if !self.setting.builds() {
            let log = self.clone();
            let adopt = thread::Builder::new().name("adopt".to_owned());
            let adopt = adopt.spawn(move || log.adopt(&adopting));
            threads.push(adopt.context("starting a thread")?);
        }
        Ok(threads)
    }

    /// Whoever waits for the store waits no more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.log.stop();
        self.wish();
    }

    /// Notes in the directory how far it is, once the engine is closed, and tells others that this node has gone.
    pub fn close(&self) {
        let (position, is_settled, role) = {
            let known = self.known();
            (known.position, known.is_settled, known.role)
        };
        let surely = if is_settled { position } else { before(position) };
        if let Err(e) = self.note(surely) {
            tracing::warn!("{e:#}");
        }
        let card = self.card(role);
        let left = Card {
            work: Work::Left,
            // Who didn't own the log leaves nothing that somebody has to take over.
            epoch: if role == Role::Writer { card.epoch } else { 0 },
            ..card
        };
        if self.log.store_failure().is_none()
            && let Err(e) = write_card(self.log.store(), &left)
        {
            tracing::debug!("{e}");
        }
    }

    fn card(&self, role: Role) -> Card {
        let known = self.known();
        Card {
            node: self.node.clone(),
            url: self.url.get().cloned().unwrap_or_default(),
            work: match role {
                Role::Writer => Work::Owns,
                Role::Reader => Work::Follows,
            },
            epoch: known.position.epoch,
            slot: known.position.slot,
            beat: self.beats.fetch_add(1, Ordering::Relaxed),
            memory_bytes: self.memory_bytes,
            is_candidate: self.setting.is_candidate(),
            disk_bytes: self.disk_bytes.load(Ordering::Relaxed),
            chooses: false,
            moves: self.moves,
            builds: self.setting.builds(),
            backup: self.backup.load(Ordering::Acquire),
        }
    }

    /// How this node stands to the log, where it may have to leave its shard. All that it acknowledged is in the store; what it doesn't know is no reason to go.
    pub fn standing(&self) -> Standing {
        let known = self.known();
        let owns = known.role == Role::Writer;
        let is_sound = known.fault.is_none() && (owns || known.is_settled);
        Standing {
            owns,
            may_leave: is_sound && self.log.store_failure().is_none() && !self.is_behind(),
        }
    }

    /// Makes the directory that of another shard's node, once all is closed: what is in it is a copy, and is removed.
    pub fn leave_for(&self, (shard, store): (u32, String)) -> Result<()> {
        directory::leave_for(&self.dir, &self.node, (shard, store))
    }

    fn measure(&self) {
        match directory::bytes(&self.dir) {
            Ok(bytes) => self.disk_bytes.store(bytes, Ordering::Relaxed),
            Err(e) => tracing::debug!("{e:#}"),
        }
    }

    /// Says that this node lives, looks at the others, and whether it still owns the log.
    fn beat(&self) {
        let (mut said, mut looked, mut seen) = (None::<(Role, Instant)>, None::<Instant>, 0);
        let mut told = 0;
        let mut measured = None::<Instant>;
        let (begun, mut moved) = (Instant::now(), (0, Instant::now()));
        while !self.is_stopped() {
            let (role, slot) = {
                let known = self.known();
                (known.role, known.position.slot)
            };
            if slot != moved.0 {
                moved = (slot, Instant::now());
            }
            if role == Role::Writer {
                self.check_ownership();
            }
            // Before the first card, and then as often as others are looked at: all files of the directory are listed.
            if measured.is_none_or(|at| at.elapsed() >= self.rhythm.looks()) {
                measured = Some(Instant::now());
                self.measure();
            }
            let is_due = said.is_none_or(|(before, at)| {
                // Whoever writes is heard.
                let quiet = at.elapsed().min(moved.1.elapsed());
                before != role
                    || self.setting.builds() && at.elapsed() >= self.rhythm.beat()
                    || at.elapsed() >= self.rhythm.announce()
                    || role == Role::Writer && quiet >= self.rhythm.beat()
            });
            let card = self.card(role);
            if (is_due || card.backup != told) && role == self.role() {
                match write_card(self.log.store(), &card) {
                    Ok(()) => (said, told) = (Some((role, Instant::now())), card.backup),
                    Err(e) => tracing::debug!("no sign of life: {e}"),
                }
            }
            // Those that are started together find each other at once.
            let every = match begun.elapsed() < self.rhythm.looks() {
                true => self.rhythm.beat(),
                false => self.rhythm.looks(),
            };
            if looked.is_none_or(|at| at.elapsed() >= every) {
                looked = Some(Instant::now());
                if let Err(e) = self.look_at_peers(role) {
                    tracing::debug!("{e}");
                }
            }
            self.pause(WRITER_POLL.min(self.rhythm.beat() / 2), &mut seen);
        }
    }

    fn look_at_peers(&self, role: Role) -> std::result::Result<(), StoreError> {
        let cards = cards(self.log.store())?;
        let gone = {
            let mut known = self.known();
            known.peers.look(cards, &self.node, self.rhythm.gone() / 2);
            known.find_owner();
            known.peers.gone()
        };
        if role == Role::Writer {
            gone.iter()
                .try_for_each(|node| remove_card(self.log.store(), node))?;
        }
        Ok(())
    }

    fn note(&self, position: Position) -> Result<()> {
        // Held, so that no older state is written over a newer one.
        let mut known = self.known();
        let state = State {
            store: self.id.clone(),
            node: self.node.clone(),
            shard: self.shard,
            filling: None,
            slot: position.slot,
            epoch: position.epoch,
            changes: known.changes,
        };
        state::write(&self.dir, STATE, &state)?;
        known.noted = (position.slot, Instant::now());
        Ok(())
    }

    fn note_now_and_then(&self, position: Position) {
        let (slot, at) = self.known().noted;
        if slot != position.slot
            && at.elapsed() > NOTE_EVERY
            && let Err(e) = self.note(position)
        {
            tracing::warn!("{e:#}");
        }
    }

    /// Waits until what an owner had under way is in the directory, or can't come there: groups, and changes of collections.
    fn settle(&self, replayer: &Replayer) {
        drop(self.appending.lock().unwrap_or_else(PoisonError::into_inner));
        let begun = Instant::now();
        while self.under_way.load(Ordering::Acquire) != 0 && begun.elapsed() < SETTLE && !self.is_stopped() {
            thread::sleep(Duration::from_millis(1));
        }
        let left = self.under_way.swap(0, Ordering::AcqRel);
        replayer.between_changes(|| ());
        let mut known = self.known();
        let again_behind = [known.again_behind.take(), left.checked_sub(1)];
        if let Some(slot) = again_behind.into_iter().flatten().min() {
            known.position.slot = known.position.slot.min(slot);
        }
        known.is_settled = true;
    }

    /// Follows until this node owns the log.
    fn follow(&self, engine: &Arc<Engine>, replayer: &Replayer) {
        if !self.known().is_settled {
            self.settle(replayer);
            self.log.set_retry_for(Some(READER_RETRY_FOR));
        }
        let mut follower = loop {
            match engine.follower() {
                Ok(follower) => break follower,
                Err(e) => self.fault(&e.to_string()),
            }
            if self.is_stopped() {
                return;
            }
            thread::sleep(WRITER_POLL);
        };
        let (mut looks, mut seen, mut vigil) = (0, 0, Vigil::new(self.rhythm));
        let mut publishing = Publishing::new();
        while !self.is_stopped() {
            let (begun, from) = (Instant::now(), self.known().position);
            let mut position = from;
            looks += 1;
            let followed = match looks < POLLS_PER_LIST && self.log.peek(position.slot + 1) == Ok(None) {
                true => Ok(Taken::Yielded),
                false => {
                    looks = 0;
                    let apply = &mut |at, effect, entry: &Entry| {
                        self.apply(engine, replayer, &mut follower, (at, effect, entry))
                    };
                    self.log
                        .replay(&mut position, apply)
                        .map(|replayed| match replayed {
                            Replayed::AtEnd => Taken::Yielded,
                            Replayed::Behind => Taken::Behind,
                        })
                }
            };
            if followed == Ok(Taken::Yielded) {
                let mut known = self.known();
                known.current = Some(begun);
                if known.fault.take().is_some() {
                    tracing::info!("following the log again");
                }
                match known.position == from {
                    true => vigil.silent(),
                    false => vigil.heard(),
                }
            }
            let followed = match followed {
                Ok(Taken::Yielded) if self.may_try(&mut vigil) => {
                    tracing::info!("nothing is heard of the owner: trying to take over");
                    let apply = &mut |at, effect, entry: &Entry| {
                        self.apply(engine, replayer, &mut follower, (at, effect, entry))
                    };
                    vigil.heard();
                    let mut position = self.known().position;
                    let over = (Over::Silence, &self.about());
                    let taken = self.log.take_over(&mut position, over, apply);
                    if taken == Ok(Taken::Owned) {
                        tracing::info!(
                            epoch = position.epoch,
                            slot = position.slot,
                            "took over: this node writes"
                        );
                        self.own(position);
                        return;
                    }
                    taken
                }
                followed => followed,
            };
            let pause = match followed {
                Ok(Taken::Behind) => {
                    self.fault("slots that this node lacks are deleted: it begins anew from a backup");
                    self.fall_behind();
                    return;
                }
                Ok(_) => READER_POLL,
                Err(LogError::Stopped) => return,
                Err(LogError::Failed(why)) => {
                    vigil.heard();
                    self.fault(&format!("the log can't be followed: {why}"));
                    WRITER_POLL
                }
            };
            let position = self.known().position;
            self.note_now_and_then(position);
            if self.setting.builds() && pause == READER_POLL {
                self.publish(engine, &mut publishing);
            }
            self.pause(pause, &mut seen);
        }
    }

    /// Whether the owner is silent for so long that it is this node's turn.
    fn may_try(&self, vigil: &mut Vigil) -> bool {
        if !self.setting.is_candidate() {
            return false;
        }
        let (owner, epoch) = {
            let known = self.known();
            (known.owner.clone(), known.position.epoch)
        };
        // Its own seal: it stepped down, or was ended and started again, and nobody came.
        if owner.as_ref() == Some(&self.node) {
            return true;
        }
        if vigil.wants_card() {
            let found = owner
                .as_ref()
                .map_or(Ok(None), |owner| card(self.log.store(), owner));
            match found {
                Ok(card) => vigil.card(card.filter(|card| card.epoch == epoch).as_ref()),
                Err(_) => vigil.heard(),
            }
        }
        if !vigil.is_over(0) {
            return false;
        }
        let own = self.card(Role::Reader);
        let known = self.known();
        let others = known.peers.alive(self.rhythm.gone()).map(|peer| &peer.card);
        vigil.is_over(turn(&own, others, (&self.id, owner.as_deref())))
    }

    /// An owner that nobody gives a write learns here that it is one no more.
    fn check_ownership(&self) {
        let Ok(position) = self.appending.try_lock() else {
            return;
        };
        let (next, begun) = (position.slot + 1, Instant::now());
        match self.log.peek(next) {
            Ok(Some(_)) => {
                let why = self.fenced(next);
                self.step_down(&why, None);
            }
            Ok(None) => self.known().current = Some(begun),
            Err(_) => {}
        }
    }
}

fn named(json: &[u8]) -> Option<About> {
    serde_json::from_slice(json).ok()
}

impl GroupLog for NodeLog {
    fn append(&self, collection: &str, lsn: u64, group: &[u8]) -> std::result::Result<(), String> {
        let body = Body::Group {
            id: collection.to_owned(),
            lsn,
            group: Bytes::copy_from_slice(group),
        };
        self.put(body).map(|_| ())
    }

    fn kept(&self, is_kept: bool) {
        if !is_kept {
            let slot = self.under_way.load(Ordering::Acquire);
            let why = "a group that is in the log can't be kept on this disk";
            self.step_down(why, slot.checked_sub(1));
        }
        self.under_way.store(0, Ordering::Release);
    }
}

impl SharedLog for NodeLog {
    fn status(&self) -> NodeStatus {
        let known = self.known();
        let role = known.role;
        NodeStatus {
            role,
            is_candidate: self.setting.is_candidate(),
            builds: self.setting.builds(),
            builds_elsewhere: known.builder.is_some(),
            node: self.node.clone(),
            url: self.url.get().cloned().unwrap_or_default(),
            store: self.log.store().to_string(),
            writer: known.writer.clone(),
            owner: known.owner.clone(),
            epoch: known.position.epoch,
            slot: known.position.slot,
            seen: known.current.map(|at| at.elapsed()),
            covered: self.log.known_covered().slot,
            deleted: self.log.known_covered().deleted,
            memory_bytes: self.memory_bytes,
            disk_bytes: self.disk_bytes.load(Ordering::Relaxed),
            fault: known.fault.clone().or_else(|| self.store_failure(role)),
        }
    }

    fn peers(&self) -> Vec<PeerNode> {
        let known = self.known();
        let alive = known.peers.alive(self.rhythm.gone());
        alive
            .filter(|peer| !peer.card.url.is_empty())
            .map(|peer| peer.told(known.owner.as_ref() == Some(&peer.card.node)))
            .collect()
    }

    fn look(&self) {
        self.wish();
    }

    fn append(&self, change: Vec<u8>) -> std::result::Result<u64, String> {
        self.put(Body::Request(change.into()))
    }

    fn made(&self, slot: u64) -> std::result::Result<(), String> {
        let position = {
            let mut known = self.known();
            known.changes = slot;
            before(known.position)
        };
        let noted = self.note(position).map_err(|e| format!("{e:#}"));
        noted.inspect_err(|why| self.step_down(why, Some(slot - 1)))
    }

    fn fail(&self, slot: u64, why: &str) {
        self.step_down(why, Some(slot - 1));
    }
}
