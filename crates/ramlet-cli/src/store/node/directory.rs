//! The data directory of a node: a copy of what is in the store, which is filled where it lacks something.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use indicatif::HumanBytes;
use ramlet_io::PAGE;
use ramlet_memory::{Consumer, Ledger, Reservation};
use ramlet_store::limits::{CARD_BYTES_MAX, CARDS_MAX};
use ramlet_store::shard::{Position, SlotLog, Work, cards, newest_covered};
use ramlet_store::{Pull, Store, StoreUrl, nonce, settle_shards, shard_count};
use serde::{Deserialize, Serialize};

use super::RETRY_FOR;
use super::liveness::Rhythm;
use super::shards::{Directory, Newcomer, Places, choose};
use crate::args::NodeRole;
use crate::output::say;
use crate::serve_settings::StoreSettings;
use crate::store::{pull, state, trusted};

pub(super) const STATE: &str = "store.json";
/// What nodes say of themselves takes no more, twice.
const CARDS_BYTES: u64 = 2 * (CARDS_MAX as u64) * CARD_BYTES_MAX;
/// The least memory: of a node that may write, which also sends backups, or builds, and of one that only reads.
const WRITER_MEMORY_MIN: u64 = 64_000_000;
const READER_MEMORY_MIN: u64 = 40_000_000;

/// What `store.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The id of the store.
    pub store: String,
    /// Of this node, from its first start on.
    #[serde(default)]
    pub node: String,
    /// Of a divided store: which shard this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
    /// Of a directory that is being filled: the backup. Its slot means nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filling: Option<u64>,
    pub slot: u64,
    pub epoch: u64,
    /// Changes of collections are made up to this slot, and none behind but perhaps the next.
    pub changes: u64,
}

/// A directory that is ready to be opened, and the log behind it.
pub struct Prepared {
    pub(super) log: SlotLog,
    pub(super) memory: Consumer,
    pub(super) role: NodeRole,
    pub(super) dir: PathBuf,
    /// Of the store.
    pub(super) id: String,
    pub(super) node: String,
    pub(super) memory_bytes: u64,
    pub(super) position: Position,
    pub(super) changes: u64,
    /// The directory had data before the store did.
    pub(super) adopts: bool,
    pub(super) backup_every: u64,
    pub(super) keep: usize,
    pub(super) rhythm: Rhythm,
    pub(super) cards: Reservation,
    /// Where the store is divided: its id, all shards, and the own one.
    pub(super) whole: String,
    pub(super) places: Option<Places>,
    pub(super) shard: Option<u32>,
    /// It goes to another shard that needs it more.
    pub(super) moves: bool,
    pub(super) owned: Option<u64>,
    /// A card says that its node builds for this one. Whether that node lives is found out later: until then nothing is built here.
    pub(super) builder: bool,
}

/// Opens the store and fills the directory, where it is empty. Before the engine opens it.
pub fn prepare(
    settings: &StoreSettings,
    dir: &Path,
    (memory_bytes, ledger): (u64, &Arc<Ledger>),
) -> Result<Prepared> {
    let role = settings.role;
    let least = match role {
        NodeRole::Auto | NodeRole::Writer | NodeRole::Build => WRITER_MEMORY_MIN,
        NodeRole::Reader => READER_MEMORY_MIN,
    };
    // A cgroup's limit is cut to whole pages.
    if memory_bytes + (PAGE as u64) <= least {
        bail!("{memory_bytes} bytes of memory are below the {least} that a node of this role needs");
    }
    let store = ramlet_store::open(&StoreUrl::parse(&settings.url)?, role.is_candidate())?;
    match role {
        NodeRole::Auto | NodeRole::Writer => {
            trusted(&store)?;
            store.claim()?;
        }
        NodeRole::Build => {
            store.must_be_ours()?;
            trusted(&store)?;
        }
        NodeRole::Reader => store.must_be_ours()?,
    }
    let shards = shards_of(&store, settings)?;
    let state = state::read::<State>(dir, STATE)?;
    let node = state
        .as_ref()
        .map(|state| state.node.clone())
        .filter(|node| !node.is_empty())
        .unwrap_or_else(nonce);
    // The log's entries are most of it; backups and the filling of a directory come beside.
    let memory = ledger.consumer("store", ledger.limit());
    let cards_held = memory.reserve(CARDS_BYTES * u64::from(shards))?;
    let rhythm = Rhythm::new(settings.takeover_after, shards > 1);
    let places = match shards {
        1 => None,
        _ => {
            let wanted = wanted_shard(settings, dir, state.as_ref())?;
            let new = Newcomer {
                node: &node,
                memory_bytes,
                is_candidate: role.is_candidate(),
                rhythm,
            };
            Some(choose(&store, shards, new, wanted)?)
        }
    };
    let whole = store.id()?;
    let store = match &places {
        None => store,
        Some(places) => {
            say(format_args!("shard {} of {shards}", places.own));
            places.stores[places.own as usize].clone()
        }
    };
    let id = store.id()?;
    let mut prepared = Prepared {
        log: SlotLog::new(store, &memory, RETRY_FOR)?,
        memory,
        role,
        dir: dir.to_owned(),
        id,
        node,
        memory_bytes,
        position: Position::default(),
        changes: 0,
        adopts: false,
        backup_every: settings.backup_every,
        keep: settings.keep,
        rhythm,
        cards: cards_held,
        whole,
        shard: places.as_ref().map(|places| places.own),
        moves: places.is_some() && role == NodeRole::Auto && settings.shard.is_none(),
        owned: places.as_ref().and_then(|places| places.owned),
        places,
        builder: false,
    };
    prepared.fill()?;
    if !role.builds() {
        let all = cards(prepared.store())?;
        let mut others = all.iter().filter(|card| card.node != prepared.node);
        prepared.builder = others.any(|card| card.builds && card.work != Work::Left);
    }
    Ok(prepared)
}

/// Into how many shards the store is divided; says it where this is the first node.
fn shards_of(store: &Store, settings: &StoreSettings) -> Result<u32> {
    let shards = match settings.role {
        NodeRole::Reader | NodeRole::Build => shard_count(store)?.unwrap_or(1),
        NodeRole::Auto | NodeRole::Writer => settle_shards(store, settings.shards)?,
    };
    if let Some(wanted) = settings.shards.filter(|wanted| *wanted != shards) {
        bail!(
            "--shards {wanted}: {store} has {shards} since its beginning, which stays so. Another number is another store"
        );
    }
    if let Some(shard) = settings.shard.filter(|shard| *shard >= shards) {
        bail!("--shard {shard}: {store} has {shards}, from 0 to {}", shards - 1);
    }
    Ok(shards)
}

/// The shard that a node is to hold, as its flag or its directory says.
fn wanted_shard(settings: &StoreSettings, dir: &Path, state: Option<&State>) -> Result<Option<u32>> {
    let held = state.and_then(|state| state.shard);
    match (settings.shard, held) {
        (Some(wanted), Some(held)) if wanted != held => bail!(
            "--shard {wanted}: {} holds shard {held}. Give the node an empty directory",
            dir.display()
        ),
        (wanted, held) => Ok(wanted.or(held)),
    }
}

impl Prepared {
    /// Whether indexes are to come from another node.
    pub fn expects_builder(&self) -> bool {
        self.builder
    }

    /// The shards of a divided store.
    pub fn directory(&mut self) -> Option<Arc<Directory>> {
        let places = self.places.take()?;
        let new = Newcomer {
            node: &self.node,
            memory_bytes: self.memory_bytes,
            is_candidate: self.role.is_candidate(),
            rhythm: self.rhythm,
        };
        Some(Directory::new(places, self.whole.clone(), new, self.moves))
    }

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
                if let Some(places) = &self.places {
                    bail!(
                        "{} holds data, and {} is shard {} of {}: a divided store begins empty, and its collections are filled through the API",
                        self.dir.display(),
                        self.store(),
                        places.own,
                        places.stores.len()
                    );
                }
                if self.role.is_candidate() && is_new {
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
        if newest.is_none() && !self.role.is_candidate() && self.log.peek(1)?.is_none() {
            bail!("{}: no writer has begun there yet", self.store());
        }
        fs::create_dir_all(&self.dir).with_context(|| self.dir.display().to_string())?;
        let number = newest.as_ref().map_or(0, |(number, _)| *number);
        self.write_state(Some(number))?;
        self.position = Position::default();
        self.changes = 0;
        if newest.is_none() {
            clear(&self.dir, &HashSet::new())?;
        }
        if let Some((number, info)) = newest {
            let begun = Instant::now();
            let covered = info.covered.unwrap_or_default();
            let pull = Pull::within(self.store(), Some(number), &self.memory)?;
            // What a filling of a backup before left is mostly of this one too.
            let _held = self
                .memory
                .reserve(pull.names().map(|name| name.len() as u64 + 64).sum())?;
            clear(&self.dir, &pull.names().collect())?;
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
        Ok(own_entries(&self.dir)?.next().is_some())
    }

    fn write_state(&self, filling: Option<u64>) -> Result<()> {
        state::write(
            &self.dir,
            STATE,
            &State {
                store: self.id.clone(),
                node: self.node.clone(),
                shard: self.shard,
                filling,
                slot: self.position.slot,
                epoch: self.position.epoch,
                changes: self.changes,
            },
        )
    }
}

/// Makes a directory that of a node of another shard, whose store has this id. From then on what is in it counts for nothing, and it is removed.
pub(super) fn leave_for(dir: &Path, node: &str, (shard, store): (u32, String)) -> Result<()> {
    let state = State {
        store,
        node: node.to_owned(),
        shard: Some(shard),
        filling: Some(0),
        slot: 0,
        epoch: 0,
        changes: 0,
    };
    state::write(dir, STATE, &state)?;
    clear(dir, &HashSet::new())
}

/// Catalogs and directories of collections.
fn own_entries(dir: &Path) -> Result<impl Iterator<Item = PathBuf> + use<>> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        found => {
            let found = found.and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
            found.with_context(|| dir.display().to_string())?
        }
    };
    let own = entries.into_iter().filter(is_own);
    Ok(own.map(|entry| entry.path()))
}

fn is_own(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_str().is_some_and(|name| {
        let is_collection = name
            .strip_prefix('c')
            .is_some_and(|rest| rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_digit()));
        is_collection || name.starts_with("CATALOG-")
    })
}

/// Bytes of the engine's files. One that goes meanwhile counts for nothing; there may be thousands, and no list of them is made.
pub(super) fn bytes(dir: &Path) -> Result<u64> {
    let bytes_of = |entry: fs::DirEntry| entry.metadata().map_or(0, |meta| meta.len());
    let mut bytes = 0;
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        if is_own(&entry) {
            bytes += match fs::read_dir(entry.path()) {
                Ok(entries) => entries.flatten().map(bytes_of).sum(),
                Err(_) => bytes_of(entry),
            };
        }
    }
    Ok(bytes)
}

/// Removes files of the engine but those that are named, as `file` or `directory/file`.
fn clear(dir: &Path, kept: &HashSet<&str>) -> Result<()> {
    let directories: HashSet<&str> = kept
        .iter()
        .filter_map(|name| Some(name.split_once('/')?.0))
        .collect();
    for path in own_entries(dir)? {
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

fn remove(path: &Path) -> Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    removed.with_context(|| path.display().to_string())
}
