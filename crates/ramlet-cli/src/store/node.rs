//! `ramlet serve --store`: a node whose writes are in a store before they are acknowledged, or that follows them.
//!
//! The data directory is a copy. `store.json` in it says of which store, and up to which slot it surely is. A node without one begins from the newest
//! backup of the store, and the log behind it; so does one that finds its slots gone, also while it runs: then the process begins anew. Groups of changes are told apart by their numbers, changes of collections by those of the collections: so what
//! a directory has beyond its slot is passed over when it is replayed.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::HumanBytes;
use ramlet::{CopiedFile, Engine, Follower, GroupLog};
use ramlet_io::PAGE;
use ramlet_memory::{Consumer, Ledger};
use ramlet_server::{NodeStatus, Replayer, Role, SharedLog};
use ramlet_store::shard::{
    Appended, Body, Bytes, Covered, Effect, Entry, Halt, Position, Replayed, SlotLog, deletable,
    newest_covered,
};
use ramlet_store::{
    BackupKind, Described, Pull, Push, Store, StoreError, StoreErrorKind, StoreUrl, prune_shard, push_within,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::{now, pull, state, trusted};
use crate::args::NodeRole;
use crate::output::{many, say};
use crate::serve_settings::StoreSettings;

const STATE: &str = "store.json";
/// How often a reader looks for the next slot, and a writer whether somebody took over.
const READER_POLL: Duration = Duration::from_millis(100);
const WRITER_POLL: Duration = Duration::from_secs(1);
/// So many looks, then a list of the manifests: a slot may be absent because a backup covers it.
const POLLS_PER_LIST: u32 = 50;
/// How long a start asks a failing store, and a reader before it says so. A writer asks as long as it runs: what became of its last group must be known.
const PATIENCE: Duration = Duration::from_secs(30);
const READER_PATIENCE: Duration = Duration::from_secs(5);
/// From then on a writer refuses further writes, until the store answers.
const TROUBLE: Duration = Duration::from_secs(2);
/// The least memory: of a writer, which also sends backups.
const MEMORY_MIN: [(Role, u64); 2] = [(Role::Writer, 64_000_000), (Role::Reader, 40_000_000)];
/// How often the slot is noted in the directory, where it changes.
const NOTE_EVERY: Duration = Duration::from_secs(5);
/// No backup sooner after the one before.
const BACKUP_PAUSE: Duration = Duration::from_secs(10);
/// Bytes of changes after which a backup is made, whatever their number.
const BACKUP_BYTES: u64 = 64 << 20;
const COPY_BYTES: usize = 1 << 20;

/// What `store.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    /// The id of the store.
    store: String,
    /// Of a directory that is being filled: the backup. Its slot means nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filling: Option<u64>,
    slot: u64,
    epoch: u64,
    /// Changes of collections are made up to this slot, and none behind but perhaps the next.
    changes: u64,
}

/// Whose seal it is.
#[derive(Serialize, Deserialize)]
struct About {
    writer: String,
}

/// A directory that is ready to be opened, and the log behind it.
pub struct Prepared {
    log: SlotLog,
    memory: Consumer,
    role: Role,
    dir: PathBuf,
    id: String,
    position: Position,
    changes: u64,
    /// The directory had data before the store did.
    adopts: bool,
    backup_every: u64,
    keep: usize,
}

/// Opens the store and fills the directory, where it is empty. Before the engine opens it.
pub fn prepare(
    settings: &StoreSettings,
    dir: &Path,
    (memory_bytes, ledger): (u64, &Arc<Ledger>),
) -> Result<Prepared> {
    let role = match settings.role {
        NodeRole::Writer => Role::Writer,
        NodeRole::Reader => Role::Reader,
    };
    for (of, least) in MEMORY_MIN {
        // A cgroup's limit is cut to whole pages.
        if of == role && memory_bytes + (PAGE as u64) <= least {
            bail!(
                "{memory_bytes} bytes of memory are below the {least} that a {} needs",
                role.name()
            );
        }
    }
    let store = ramlet_store::open(&StoreUrl::parse(&settings.url)?, role == Role::Writer)?;
    match role {
        Role::Writer => {
            trusted(&store)?;
            store.claim()?;
        }
        Role::Reader => store.must_be_ours()?,
    }
    let id = store.id()?;
    // The log's entries are most of it; backups and the filling of a directory come beside.
    let memory = ledger.consumer("store", ledger.limit());
    let mut prepared = Prepared {
        log: SlotLog::new(store, &memory, PATIENCE)?,
        memory,
        role,
        dir: dir.to_owned(),
        id,
        position: Position::default(),
        changes: 0,
        adopts: false,
        backup_every: settings.backup_every,
        keep: settings.keep,
    };
    prepared.fill()?;
    Ok(prepared)
}

impl Prepared {
    fn store(&self) -> &Store {
        self.log.store()
    }

    fn fill(&mut self) -> Result<()> {
        let state = state::read::<State>(&self.dir, STATE)?;
        if let Some(state) = &state
            && state.store != self.id
        {
            bail!(
                "{} belongs to another store than {}",
                self.dir.display(),
                self.store()
            );
        }
        let newest = newest_covered(self.store())?;
        match state {
            Some(state) if state.filling.is_none() => {
                self.position = Position {
                    slot: state.slot,
                    epoch: state.epoch,
                };
                self.changes = state.changes;
                let gone = newest.as_ref().and_then(|(_, info)| info.covered);
                let gone = gone.map_or(0, |covered| covered.deleted);
                if gone <= state.slot {
                    return Ok(());
                }
                say(format_args!(
                    "{} is at slot {} of {}, and slots up to {gone} are deleted: it is filled anew",
                    self.dir.display(),
                    state.slot,
                    self.store()
                ));
            }
            None if self.has_data()? => {
                let is_new = newest.is_none() && self.log.peek(1)?.is_none();
                if self.role == Role::Writer && is_new {
                    self.adopts = true;
                    return Ok(());
                }
                bail!(
                    "{} holds data that isn't of {}: give the node a directory of its own, an empty one",
                    self.dir.display(),
                    self.store()
                );
            }
            _ => {}
        }
        if newest.is_none() && self.role == Role::Reader && self.log.peek(1)?.is_none() {
            bail!("{}: no writer has begun there yet", self.store());
        }
        fs::create_dir_all(&self.dir).with_context(|| self.dir.display().to_string())?;
        let number = newest.as_ref().map_or(0, |(number, _)| *number);
        self.write_state(Some(number))?;
        self.position = Position::default();
        self.changes = 0;
        if newest.is_none() {
            self.clear(&HashSet::new())?;
        }
        if let Some((number, info)) = newest {
            let begun = Instant::now();
            let covered = info.covered.unwrap_or_default();
            let pull = Pull::within(self.store(), Some(number), &self.memory)?;
            // What a filling of a backup before left is mostly of this one too.
            let _held = self
                .memory
                .reserve(pull.names().map(|name| name.len() as u64 + 64).sum())?;
            self.clear(&pull.names().collect())?;
            let pulled = pull.run(&pull::Files(self.dir.clone()), &mut |_| {})?;
            pull::sync_dirs(&self.dir)?;
            say(format_args!(
                "backup {number} of {}, up to slot {}: {} fetched in {:.1} s",
                self.store(),
                covered.slot,
                HumanBytes(pulled.fetched_bytes),
                begun.elapsed().as_secs_f64()
            ));
            self.position = Position {
                slot: covered.slot,
                epoch: covered.epoch,
            };
            self.changes = covered.changes;
        }
        self.write_state(None)
    }

    fn has_data(&self) -> Result<bool> {
        Ok(self.own_entries()?.next().is_some())
    }

    /// Catalogs and directories of collections.
    fn own_entries(&self) -> Result<impl Iterator<Item = PathBuf>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            found => {
                let found = found.and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
                found.with_context(|| self.dir.display().to_string())?
            }
        };
        let is_own = |name: &str| {
            let is_collection = name
                .strip_prefix('c')
                .is_some_and(|rest| rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_digit()));
            is_collection || name.starts_with("CATALOG-")
        };
        let own = entries
            .into_iter()
            .filter(move |entry| entry.file_name().to_str().is_some_and(is_own));
        Ok(own.map(|entry| entry.path()))
    }

    /// Removes files of the engine but those that are named, as `file` or `directory/file`.
    fn clear(&self, kept: &HashSet<&str>) -> Result<()> {
        let directories: HashSet<&str> = kept
            .iter()
            .filter_map(|name| Some(name.split_once('/')?.0))
            .collect();
        for path in self.own_entries()? {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if directories.contains(name) {
                for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
                    let entry = entry?;
                    let file = entry.file_name();
                    if !kept.contains(&*format!("{name}/{}", file.to_string_lossy())) {
                        remove(&entry.path())?;
                    }
                }
            } else if !kept.contains(name) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    fn write_state(&self, filling: Option<u64>) -> Result<()> {
        state::write(
            &self.dir,
            STATE,
            &State {
                store: self.id.clone(),
                filling,
                slot: self.position.slot,
                epoch: self.position.epoch,
                changes: self.changes,
            },
        )
    }
}

fn remove(path: &Path) -> Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    removed.with_context(|| path.display().to_string())
}

/// What changes while a node runs.
struct Known {
    position: Position,
    changes: u64,
    writer: Option<String>,
    /// When a reader had applied all that was there.
    current: Option<Instant>,
    fault: Option<String>,
    /// Bytes of groups since the last backup.
    fresh_bytes: u64,
    noted: (u64, Instant),
}

/// A node's end of the log.
pub struct NodeLog {
    log: SlotLog,
    memory: Consumer,
    role: Role,
    dir: PathBuf,
    id: String,
    backup_every: u64,
    keep: usize,
    adopts: bool,
    known: Mutex<Known>,
    /// Held while a writer appends.
    appending: Mutex<Position>,
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
            role: prepared.role,
            dir: prepared.dir,
            id: prepared.id,
            backup_every: prepared.backup_every,
            keep: prepared.keep,
            adopts: prepared.adopts,
            known: Mutex::new(Known {
                position,
                changes: prepared.changes,
                writer: None,
                current: None,
                fault: None,
                fresh_bytes: 0,
                noted: (position.slot, Instant::now()),
            }),
            appending: Mutex::new(position),
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

    /// Why a writer takes nothing more for the moment.
    fn trouble(&self) -> Option<String> {
        let (since, error) = self.log.trouble()?;
        let told = self.role == Role::Writer && since.elapsed() > TROUBLE;
        told.then(|| format!("the store fails, writes wait until it answers: {error}"))
    }

    /// Notes why nothing more is written, once.
    fn fault(&self, why: &str) {
        let mut known = self.known();
        if known.fault.is_none() {
            tracing::error!("{why}");
            known.fault = Some(why.to_owned());
        }
    }

    fn put(&self, body: Body) -> std::result::Result<u64, String> {
        let mut position = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = self.known().fault.clone() {
            return Err(why);
        }
        let bytes = match &body {
            Body::Group { group, .. } => group.len(),
            Body::Seal(json) | Body::Request(json) => json.len(),
        };
        let why = match self.log.append(&mut position, body) {
            Ok(Appended::At(slot)) => {
                let mut known = self.known();
                known.position = *position;
                known.fresh_bytes += bytes as u64;
                return Ok(slot);
            }
            Ok(Appended::Fenced) => self.fenced(position.slot + 1),
            Err(Halt::Stopped) => return Err(Halt::Stopped.to_string()),
            Err(Halt::Failed(why)) => {
                format!("whether the last write is in the store isn't known, a restart finds out: {why}")
            }
        };
        self.fault(&why);
        Err(why)
    }

    /// Why a writer that found `slot` taken writes no more.
    fn fenced(&self, slot: u64) -> String {
        let writer = match self.log.peek(slot) {
            Ok(Some(Entry {
                body: Body::Seal(json),
                ..
            })) => named(&json),
            _ => None,
        };
        let who = writer.as_deref().unwrap_or("another node");
        let why = format!(
            "{who} took over as the writer of {} at slot {slot}",
            self.log.store()
        );
        self.known().writer = writer;
        why
    }

    /// Applies the log from the store on.
    fn apply(
        &self,
        engine: &Engine,
        replayer: &Replayer,
        follower: &mut Follower,
        (at, effect, entry): (Position, Effect, &Entry),
    ) -> std::result::Result<(), Halt> {
        let slot = at.slot;
        let failed = |why: String| Halt::Failed(format!("slot {slot}: {why}"));
        let mut bytes = 0;
        match (effect, &entry.body) {
            (Effect::Fault, _) => {
                return Err(failed("a record of an epoch that was never begun".to_owned()));
            }
            (Effect::Void, _) => {}
            (_, Body::Seal(json)) => self.known().writer = named(json),
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

    /// Applies all that is there; a writer begins its epoch behind it. Before the server answers.
    pub fn begin(self: &Arc<Self>, engine: &Arc<Engine>, replayer: &Replayer, address: &str) -> Result<()> {
        let (begun, from) = (Instant::now(), self.known().position);
        let mut follower = engine.follower()?;
        let mut position = from;
        let adopted = match self.adopts {
            true => Some(self.push(engine)?.0),
            false => None,
        };
        let apply =
            &mut |at, effect, entry: &Entry| self.apply(engine, replayer, &mut follower, (at, effect, entry));
        let replayed = match self.role {
            Role::Reader => self.log.replay(&mut position, apply),
            Role::Writer => {
                let about = About {
                    writer: address.to_owned(),
                };
                self.log
                    .take_over(&mut position, &serde_json::to_vec(&about)?.into(), apply)
            }
        };
        if replayed? == Replayed::Behind {
            self.fall_behind();
            bail!(
                "{}: slots that this directory lacks are deleted",
                self.log.store()
            );
        }
        if let Some(number) = adopted {
            let newest = newest_covered(self.log.store())?.map(|(number, _)| number);
            if position.slot != 1 || newest != Some(number) {
                bail!("{}: another node began there at the same time", self.log.store());
            }
        }
        *self.appending.lock().unwrap_or_else(PoisonError::into_inner) = position;
        {
            let mut known = self.known();
            known.position = position;
            known.current = Some(Instant::now());
        }
        self.note(position)?;
        say(format_args!(
            "{} of {}, epoch {}, {} applied in {:.1} s",
            self.role.name(),
            self.log.store(),
            position.epoch,
            many(position.slot - from.slot, "slot"),
            begun.elapsed().as_secs_f64()
        ));
        match self.role {
            Role::Writer => {
                engine.set_group_log(self.clone());
                self.log.set_patience(None);
            }
            Role::Reader => self.log.set_patience(Some(READER_PATIENCE)),
        }
        Ok(())
    }

    /// What goes on while the server answers.
    pub fn run(self: &Arc<Self>, engine: &Arc<Engine>, replayer: Replayer) -> Result<JoinHandle<()>> {
        let (log, engine) = (self.clone(), engine.clone());
        let thread = thread::Builder::new().name("store".to_owned());
        let body = move || match log.role {
            Role::Reader => log.follow(&engine, &replayer),
            Role::Writer => log.keep(&engine, &replayer),
        };
        thread.spawn(body).context("starting a thread")
    }

    /// Whoever waits for the store waits no more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.log.stop();
    }

    /// Notes in the directory how far it is, once the engine is closed.
    pub fn close(&self) {
        let position = self.known().position;
        if let Err(e) = self.note(before(position, self.role)) {
            tracing::warn!("{e:#}");
        }
    }

    fn note(&self, position: Position) -> Result<()> {
        // Held, so that no older state is written over a newer one.
        let mut known = self.known();
        let state = State {
            store: self.id.clone(),
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

    fn follow(&self, engine: &Arc<Engine>, replayer: &Replayer) {
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
        let mut looks = 0;
        while !self.is_stopped() {
            let mut position = self.known().position;
            looks += 1;
            let followed = match looks < POLLS_PER_LIST && self.log.peek(position.slot + 1) == Ok(None) {
                true => Ok(None),
                false => {
                    looks = 0;
                    let apply = &mut |at, effect, entry: &Entry| {
                        self.apply(engine, replayer, &mut follower, (at, effect, entry))
                    };
                    self.log.replay(&mut position, apply).map(Some)
                }
            };
            let pause = match followed {
                Ok(None | Some(Replayed::AtEnd)) => {
                    let mut known = self.known();
                    known.current = Some(Instant::now());
                    if known.fault.take().is_some() {
                        tracing::info!("following the log again");
                    }
                    READER_POLL
                }
                Ok(Some(Replayed::Behind)) => {
                    self.fault("slots that this node lacks are deleted: it begins anew from a backup");
                    self.fall_behind();
                    return;
                }
                Err(Halt::Stopped) => return,
                Err(Halt::Failed(why)) => {
                    self.fault(&format!("the log can't be followed: {why}"));
                    WRITER_POLL
                }
            };
            let position = self.known().position;
            self.note_now_and_then(position);
            thread::sleep(pause);
        }
    }

    /// Backs up now and then, and looks whether somebody took over.
    fn keep(&self, engine: &Arc<Engine>, replayer: &Replayer) {
        let mut backed = Instant::now();
        while !self.is_stopped() {
            thread::sleep(WRITER_POLL);
            self.check_ownership();
            if self.known().fault.is_some() {
                continue;
            }
            let covered = before(self.known().position, self.role);
            self.note_now_and_then(covered);
            let slots = covered.slot.saturating_sub(self.log.known_covered().slot);
            let is_due = slots >= self.backup_every || self.known().fresh_bytes >= BACKUP_BYTES && slots > 0;
            if !is_due || backed.elapsed() < BACKUP_PAUSE {
                continue;
            }
            backed = Instant::now();
            self.known().fresh_bytes = 0;
            // Changes of collections wait: a copy with one that is behind its slot would have it made twice.
            match replayer.between_changes(|| self.push(engine)) {
                Ok((number, slot)) => tracing::info!(backup = number, slot, "backed up"),
                Err(e) if self.is_stopped() => tracing::debug!("{e:#}"),
                Err(e) => tracing::warn!("no backup: {e:#}"),
            }
            if let Err(e) = self.drop_old() {
                tracing::warn!("old backups and slots stay for now: {e:#}");
            }
        }
    }

    /// Deletes backups of this log and slots that aren't kept.
    fn drop_old(&self) -> Result<()> {
        if self.keep == 0 {
            return Ok(());
        }
        let trimmed = self.log.trim(&self.memory)?;
        // A sweep reads the lists of all backups that stay.
        let most = 2 * self.keep;
        let pruned = prune_shard(self.log.store(), (self.keep, most), &self.memory, now()?)?;
        let pruned = pruned.unwrap_or_default();
        tracing::info!(
            slots = trimmed.deleted,
            seals = trimmed.kept,
            backups = pruned.dropped.len(),
            objects = pruned.deleted_objects,
            "deleted"
        );
        Ok(())
    }

    /// A writer that nobody gives a write learns here that it is one no more.
    fn check_ownership(&self) {
        let Ok(position) = self.appending.try_lock() else {
            return;
        };
        let next = position.slot + 1;
        if self.known().fault.is_none() && matches!(self.log.peek(next), Ok(Some(_))) {
            let why = self.fenced(next);
            self.fault(&why);
        }
    }

    /// Sends all files to the store, each collection as of a moment behind the slot that is said. No change of collections may be under way.
    fn push(&self, engine: &Engine) -> Result<(u64, u64)> {
        let _held = self.memory.reserve(COPY_BYTES as u64)?;
        let position = self.known().position;
        let deleted = match self.keep {
            0 => self.log.known_covered().deleted,
            keep => deletable(self.log.store(), keep)?,
        };
        let covered = Covered {
            slot: before(position, self.role).slot,
            epoch: position.epoch,
            changes: position.slot,
            deleted,
        };
        let collections = engine.collection_names();
        let report = push_within(self.log.store(), &self.memory, now()?, &mut |_| {}, &mut |push| {
            let mut failed = None;
            let mut buf = vec![0; COPY_BYTES];
            let copied = engine.copy(&mut |file| {
                send(push, file, &mut buf).map_err(|e| {
                    let plain = ramlet::Error::bad_input(e.to_string());
                    failed = Some(e);
                    plain
                })
            });
            if let Some(error) = failed {
                return Err(error);
            }
            copied.map_err(|e| StoreError::new(StoreErrorKind::Failed, e.to_string()))?;
            Ok(Described {
                of: BackupKind::Directory,
                collections: collections.clone(),
                covered: Some(covered),
                snapshot: None,
            })
        })?;
        self.log.note_covered(report.number, covered);
        Ok((report.number, covered.slot))
    }
}

/// A slot up to which all is surely in the directory: of a writer the last group may be on its way into the log file.
fn before(position: Position, role: Role) -> Position {
    match role {
        Role::Reader => position,
        Role::Writer => Position {
            slot: position.slot.saturating_sub(1),
            ..position
        },
    }
}

fn named(json: &[u8]) -> Option<String> {
    serde_json::from_slice::<About>(json)
        .ok()
        .map(|about| about.writer)
}

fn send(push: &mut Push<'_>, file: &CopiedFile, buf: &mut [u8]) -> std::result::Result<(), StoreError> {
    push.begin_file(&file.name)?;
    let mut at = 0;
    while at < file.bytes {
        let part = (buf.len() as u64).min(file.bytes - at) as usize;
        let read = file.read_at(&mut buf[..part], at);
        read.map_err(|e| StoreError::new(StoreErrorKind::Failed, format!("{}: {e}", file.name)))?;
        push.write(&buf[..part])?;
        at += part as u64;
    }
    let ended = push.end_file()?;
    match file.exact.is_none_or(|exact| exact == ended) {
        true => Ok(()),
        false => Err(StoreError::new(
            StoreErrorKind::Corrupt,
            format!("{}: its checksum isn't what its manifest says", file.name),
        )),
    }
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
}

impl SharedLog for NodeLog {
    fn status(&self) -> NodeStatus {
        let known = self.known();
        NodeStatus {
            role: self.role,
            store: self.log.store().to_string(),
            writer: known.writer.clone(),
            epoch: known.position.epoch,
            slot: known.position.slot,
            staleness: match self.role {
                Role::Reader => known.current.map(|at| at.elapsed()),
                Role::Writer => None,
            },
            covered: self.log.known_covered().slot,
            deleted: self.log.known_covered().deleted,
            fault: known.fault.clone().or_else(|| self.trouble()),
        }
    }

    fn append(&self, change: Vec<u8>) -> std::result::Result<u64, String> {
        self.put(Body::Request(change.into()))
    }

    fn made(&self, slot: u64) -> std::result::Result<(), String> {
        let position = {
            let mut known = self.known();
            known.changes = slot;
            before(known.position, self.role)
        };
        let noted = self.note(position).map_err(|e| format!("{e:#}"));
        noted.inspect_err(|why| self.fault(why))
    }

    fn fail(&self, why: String) {
        self.fault(&why);
    }
}
