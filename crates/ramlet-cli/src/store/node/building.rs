//! A node that builds indexes and merges for the others of its log, and how they take what it built.
//!
//! The builder follows the log as a reader. Once it has built something it makes a backup, in the owner's place, and its card says the number. The others
//! build nothing while it says that it lives. They fetch the segments that a backup has and they lack, and the engine puts them in the place of its own:
//! only where both have the same version of a row. So a backup may be old, or wrong in any way but its bytes, and no search sees a difference.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ramlet::{Adoption, Engine, Offered};
use ramlet_memory::Reservation;
use ramlet_store::shard::{Card, Work, card};
use ramlet_store::{Pull, StoreErrorKind, Target, TargetFile};

use super::backup::BACKUP_PAUSE;
use super::{NodeLog, WRITER_POLL};
use crate::store::pull::Files;

/// What is built goes out after so long, though more is to be built.
const LONGEST_BUILD: Duration = Duration::from_secs(60);
/// After so many failures in a row a collection is built here, until something of the builder fits again.
const TRIES_MAX: u32 = 10;
/// A list of a collection's segments; longer ones are built here.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// What is remembered of a collection whose offer was looked at, or failed.
const LOOKED_BYTES: u64 = 128;

/// When a builder's work goes out.
pub(super) struct Publishing {
    /// What was built when the last backup began.
    built: u64,
    /// Since when there is something that isn't in one. A start is: what was built before may be missing in the store.
    fresh: Option<Instant>,
    last: Option<Instant>,
}

impl Publishing {
    pub fn new() -> Publishing {
        Publishing {
            built: 0,
            fresh: Some(Instant::now()),
            last: None,
        }
    }

    /// Whether a backup is due where so much is built, and more is to come.
    fn is_due(&mut self, built: u64, is_building: impl Fn() -> bool) -> bool {
        if built != self.built {
            self.built = built;
            self.fresh.get_or_insert_with(Instant::now);
        }
        let is_late = |since: Instant| since.elapsed() >= LONGEST_BUILD;
        self.may_begin() && self.fresh.is_some_and(|since| is_late(since) || !is_building())
    }

    fn may_begin(&self) -> bool {
        self.last.is_none_or(|last| last.elapsed() >= BACKUP_PAUSE)
    }
}

/// A node that builds, as it was heard of.
struct Heard {
    beat: u64,
    backup: u64,
    quiet: Duration,
    has_left: bool,
}

/// Those that build for this node.
struct Builders {
    after: Duration,
    all: BTreeMap<String, Heard>,
    looked: Instant,
}

impl Builders {
    fn new(after: Duration) -> Builders {
        Builders {
            after,
            all: BTreeMap::new(),
            looked: Instant::now(),
        }
    }

    /// Takes what the cards of builders say; `None`: it couldn't be read. Whoever was stopped itself, or cut off, has heard no silence.
    fn hear(&mut self, cards: Vec<(String, Option<Card>)>) {
        let since = self.looked.elapsed().min(2 * WRITER_POLL);
        self.looked = Instant::now();
        let mut unread = Vec::new();
        for (node, card) in cards {
            let Some(card) = card else {
                unread.push(node);
                continue;
            };
            let heard = self.all.entry(node).or_insert(Heard {
                beat: card.beat,
                backup: 0,
                quiet: Duration::ZERO,
                has_left: false,
            });
            heard.quiet = match heard.beat == card.beat {
                true => heard.quiet + since,
                false => Duration::ZERO,
            };
            (heard.beat, heard.backup) = (card.beat, card.backup);
            heard.has_left = card.work == Work::Left || !card.builds;
        }
        // One that is silent stays known as long as its card is there: seen for the first time it would live.
        self.all
            .retain(|node, heard| heard.quiet < self.after || !unread.contains(node));
    }

    /// The newest backup of those that live; `None`: none does.
    fn backup(&self) -> Option<u64> {
        let living = self.all.values();
        let living = living.filter(|heard| heard.quiet < self.after && !heard.has_left);
        living.map(|heard| heard.backup).max()
    }
}

/// Files of a backup on their way into the data directory, as long as the node runs.
struct WhileRunning {
    files: Files,
    node: Arc<NodeLog>,
}

struct OneFile {
    file: Box<dyn TargetFile>,
    node: Arc<NodeLog>,
}

impl NodeLog {
    fn check_running(&self) -> io::Result<()> {
        match self.is_stopped() {
            true => Err(io::Error::other("the node ends")),
            false => Ok(()),
        }
    }
}

impl Target for WhileRunning {
    fn open(&self, name: &str, bytes: u64) -> io::Result<(Box<dyn TargetFile>, bool)> {
        self.node.check_running()?;
        let (file, was_there) = self.files.open(name, bytes)?;
        let node = self.node.clone();
        Ok((Box::new(OneFile { file, node }), was_there))
    }
}

impl TargetFile for OneFile {
    fn read_at(&mut self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_at(out, at)
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.node.check_running()?;
        self.file.write_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

/// Which lists of segments were looked at, and how often one failed.
struct Looked {
    /// By collection: the list's name.
    lists: BTreeMap<String, String>,
    failures: BTreeMap<String, u32>,
    held: Reservation,
}

impl NodeLog {
    /// Makes a backup when something was built, or much was written. On the thread that follows: what it has is all of its slot, and nothing else.
    pub(super) fn publish(&self, engine: &Engine, publishing: &mut Publishing) {
        let position = self.known().position;
        let is_long = self.is_backup_due(position, 1) && publishing.may_begin();
        if position.slot == 0
            || !publishing.is_due(engine.built() + engine.changed(), || engine.is_building()) && !is_long
        {
            return;
        }
        let fresh = publishing.fresh.take();
        publishing.last = Some(Instant::now());
        match self.push(engine) {
            Ok((number, slot)) => {
                self.known().fresh_bytes = 0;
                self.wish();
                tracing::info!(backup = number, slot, "backed up what was built");
            }
            Err(e) if self.is_stopped() => tracing::debug!("{e:#}"),
            Err(e) => {
                publishing.fresh = fresh.or_else(|| Some(Instant::now()));
                tracing::warn!("no backup of what was built: {e:#}");
            }
        }
    }

    /// Takes what other nodes build, and says whether one does.
    pub(super) fn adopt(self: &Arc<Self>, engine: &Arc<Engine>) {
        let (mut builders, mut done, mut seen) = (Builders::new(self.rhythm.after()), 0, 0);
        let mut failed = None::<Instant>;
        let mut looked = match self.memory.reserve(0) {
            Ok(held) => Looked {
                lists: BTreeMap::new(),
                failures: BTreeMap::new(),
                held,
            },
            Err(_) => return,
        };
        let begun = Instant::now();
        let pause = (self.rhythm.beat() / 2).min(WRITER_POLL);
        while !self.is_stopped() && !self.is_behind() {
            builders.hear(self.cards_of_builders(&builders));
            let backup = builders.backup();
            let is_expected = || begun.elapsed() < self.rhythm.after();
            // At a start the card alone speaks for a builder, until it should have been heard.
            if backup.is_some() || !is_expected() {
                let before = std::mem::replace(&mut self.known().builder, backup);
                if before.is_some() != backup.is_some() {
                    let what = if backup.is_some() {
                        "builds"
                    } else {
                        "doesn't build any more"
                    };
                    tracing::info!("another node {what} indexes for this one");
                }
                engine.set_builds_elsewhere(backup.is_some());
            }
            let rests = failed.is_some_and(|at| at.elapsed() < self.rhythm.beat());
            if let Some(number) = backup.filter(|number| *number > done && !rests) {
                let failures = looked.failures.values().sum::<u32>();
                failed = None;
                match self.adopt_from(engine, number, &mut looked) {
                    Ok(true) => done = number,
                    Ok(false) => {}
                    Err(e) if self.is_stopped() => tracing::debug!("{e:#}"),
                    Err(e) => {
                        failed = Some(Instant::now());
                        tracing::warn!("nothing of backup {number} is taken for now: {e:#}");
                    }
                }
                if looked.failures.values().sum::<u32>() > failures {
                    failed = Some(Instant::now());
                }
            }
            self.pause(pause, &mut seen);
        }
    }

    /// What the nodes say that are known to build, or to have built. Cards of all nodes are read by another thread.
    fn cards_of_builders(&self, known: &Builders) -> Vec<(String, Option<Card>)> {
        let mut nodes: Vec<String> = known.all.keys().cloned().collect();
        {
            let state = self.known();
            let others = state.peers.here().map(|peer| &peer.card);
            nodes.extend(others.filter(|card| card.builds).map(|card| card.node.clone()));
        }
        nodes.sort_unstable();
        nodes.dedup();
        let read = |node: String| {
            let found = card(self.log.store(), &node).ok().flatten();
            (node, found)
        };
        nodes.into_iter().map(read).collect()
    }

    /// Takes segments out of a backup; false: something of it is to be tried again.
    fn adopt_from(self: &Arc<Self>, engine: &Engine, number: u64, looked: &mut Looked) -> Result<bool> {
        // Caches give way: what comes is worth more.
        let memory = self.memory.waiting();
        let pull = match Pull::within(self.log.store(), Some(number), &memory) {
            Ok(pull) => pull,
            // A newer one is there by now.
            Err(e) if e.kind() == StoreErrorKind::NotFound => return Ok(true),
            Err(e) => return Err(e.into()),
        };
        let lists: Vec<(String, String)> = pull.names().filter_map(list_of).collect();
        let more = (lists.len() as u64 * LOOKED_BYTES).saturating_sub(looked.held.bytes());
        looked.held.grow(more)?;
        let mut is_done = true;
        for (id, list) in lists {
            if looked.lists.get(&id) == Some(&list) {
                continue;
            }
            if self.is_stopped() {
                bail!("the node ends");
            }
            match self.take(engine, &pull, &format!("{id}/{list}")) {
                Ok(true) => {
                    looked.failures.remove(&id);
                    looked.lists.insert(id, list);
                }
                Ok(false) => is_done = false,
                Err(e) => {
                    let failures = looked.failures.entry(id.clone()).or_default();
                    *failures += 1;
                    tracing::debug!("{id}: {e:#}");
                    if *failures < TRIES_MAX {
                        is_done = false;
                        continue;
                    }
                    tracing::warn!("{id} is built here: what another node built isn't to be had: {e:#}");
                    engine.build_alone(&id)?;
                    looked.failures.remove(&id);
                    looked.lists.insert(id, list);
                }
            }
        }
        Ok(is_done)
    }

    /// Takes segments of one collection; false: it lacks changes that they have.
    fn take(self: &Arc<Self>, engine: &Engine, pull: &Pull<'_>, list: &str) -> Result<bool> {
        let manifest = pull.read(list, MANIFEST_BYTES_MAX)?;
        // What it is decoded to.
        let held = self.memory.reserve(4 * manifest.len() as u64)?;
        let adoption = match engine.offered(&manifest)? {
            Offered::Nothing => return Ok(true),
            Offered::Early => return Ok(false),
            Offered::Never(why) => bail!("{why}"),
            Offered::Wanted(adoption) => adoption,
        };
        drop(manifest);
        self.bring(pull, &adoption)?;
        adoption.finish().context("taking segments of another node")?;
        drop(held);
        Ok(true)
    }

    fn bring(self: &Arc<Self>, pull: &Pull<'_>, adoption: &Adoption) -> Result<()> {
        let begun = Instant::now();
        let wanted: HashSet<String> = adoption.files().collect();
        let target = WhileRunning {
            files: Files(self.dir.clone()),
            node: self.clone(),
        };
        let pulled = pull.run_some(&|name| wanted.contains(name), &target, &mut |_| {})?;
        if pulled.files != wanted.len() as u64 {
            bail!("the backup lacks files of segments that it lists");
        }
        tracing::info!(
            files = pulled.files,
            bytes = pulled.fetched_bytes,
            took_ms = begun.elapsed().as_millis() as u64,
            "fetched segments of another node"
        );
        Ok(())
    }
}

/// Of the name of a collection's list of segments: the collection, and the list.
fn list_of(name: &str) -> Option<(String, String)> {
    let (id, list) = name.split_once('/')?;
    list.starts_with("MANIFEST-")
        .then(|| (id.to_owned(), list.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(beat: u64, backup: u64, work: Work) -> Vec<(String, Option<Card>)> {
        let card = Card {
            node: "b".to_owned(),
            work,
            beat,
            backup,
            builds: true,
            ..Card::default()
        };
        vec![("b".to_owned(), Some(card))]
    }

    #[test]
    fn a_builder_is_gone_when_it_is_silent() {
        let second = Duration::from_secs(1);
        let mut builders = Builders::new(3 * second);
        let long_ago = || {
            Instant::now()
                .checked_sub(100 * second)
                .expect("the machine runs for longer")
        };
        assert_eq!(builders.backup(), None);
        builders.hear(says(1, 0, Work::Follows));
        assert_eq!(builders.backup(), Some(0));
        builders.hear(says(2, 7, Work::Follows));
        assert_eq!(builders.backup(), Some(7));
        // A look counts for two seconds at most: this node was stopped, not the other one. What can't be read is no silence.
        builders.looked = long_ago();
        builders.hear(says(2, 7, Work::Follows));
        builders.looked = long_ago();
        builders.hear(vec![("b".to_owned(), None)]);
        assert_eq!(builders.backup(), Some(7));
        builders.looked = long_ago();
        builders.hear(says(2, 7, Work::Follows));
        assert_eq!(builders.backup(), None);
        // Its card is there for long.
        for _ in 0..1_000 {
            builders.looked = long_ago();
            builders.hear(says(2, 7, Work::Follows));
            assert_eq!(builders.backup(), None);
        }
        // It comes again, and says that it ends.
        builders.hear(says(3, 8, Work::Follows));
        assert_eq!(builders.backup(), Some(8));
        builders.hear(says(4, 8, Work::Left));
        assert_eq!(builders.backup(), None);
    }

    #[test]
    fn what_was_built_goes_out_when_nothing_is_to_come() {
        let mut publishing = Publishing::new();
        assert!(!publishing.is_due(0, || true));
        assert!(publishing.is_due(0, || false), "a start");
        publishing.fresh = None;
        assert!(!publishing.is_due(0, || false));
        assert!(!publishing.is_due(1, || true));
        assert!(publishing.is_due(1, || false));
        publishing.last = Some(Instant::now());
        assert!(!publishing.is_due(2, || false), "one was made just now");
        publishing.last = None;
        publishing.fresh = Instant::now().checked_sub(2 * LONGEST_BUILD);
        assert!(publishing.is_due(2, || true), "more is to come for long");
    }
}
