//! Verifies a data directory without opening it for use: every checksum, and that the files agree.

use std::sync::Arc;

use ramlet_format::catalog::Catalog;
use ramlet_format::manifest::Manifest;
use ramlet_io::{IoContext, OverlayStorage, Storage};
use ramlet_memory::Ledger;

use crate::engine::{AtStart, Engine, EngineOptions, SNAPSHOTS};
use crate::error::{Error, ErrorKind, Result};
use crate::faults::panics::guarded;
use crate::jobs::Settings;
use crate::recovery::manifest_store::{self, Generations, Numbered};
use crate::recovery::orphans::unlisted_collections;
use crate::recovery::verify::{VERIFY_MEMORY, file_context_of, segment_is_sound, whole_file};
use crate::schema::Schema;
use crate::snapshot::{Workspace, verify_snapshot};
use crate::write::log::{Log, is_log_name};

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Collection's directory and file.
    pub place: String,
    pub bytes: u64,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// Why this process can't look at it: whether it is sound is unknown.
    pub unreadable: Option<String>,
    /// Why it was not looked at, or only in part.
    pub skipped: Option<String>,
}

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub collections: u64,
    pub files: u64,
    pub bytes: u64,
    /// Points in segments and logs; of a collection that doesn't open, those in segments.
    pub points: u64,
    /// Groups of changes in the logs that are not in segments yet.
    pub log_groups: u64,
    pub snapshots: u64,
    pub problems: u64,
    /// Places that this process can't look at.
    pub unreadable: u64,
    /// Places that were not looked at, or only in part.
    pub skipped: u64,
}

/// Verifies everything in a data directory, telling `each` as it goes. Takes the directory's lock: no server may have it.
/// Fails with "not found" where there is no catalog: of a directory that isn't ours nothing is damaged.
pub fn check(storage: &Arc<dyn Storage>, each: &mut dyn FnMut(&Checked)) -> Result<CheckReport> {
    // Not even a lock's file is made in a directory that isn't ours.
    let newest = Generations::<Catalog>::newest(storage.as_ref());
    let is_ours = !matches!(newest, Ok((_, None)));
    let _lock = is_ours.then(|| storage.lock()).transpose()?;
    let mut checker = Checker {
        each,
        report: CheckReport::default(),
        starts: Starts {
            storage: storage.clone(),
            engine: None,
            copied: 0,
        },
    };
    let Some(catalog) = checker.newest::<Catalog>("", storage.as_ref())? else {
        return Err(Error::not_found(
            "it holds no catalog: this is no data directory, or its catalog is lost",
        ));
    };
    for what in unlisted_collections(storage.as_ref(), &catalog)? {
        checker.say("catalog", 0, Err(Error::corrupt(what)));
    }
    for entry in &catalog.collections {
        checker.report.collections += 1;
        let before = checker.report.points;
        let directory = storage.subdir(&entry.id)?;
        if let Err(e) = guarded(|| checker.collection(&entry.name, directory)) {
            checker.say(&entry.name, 0, Err(e));
        }
        for shard in &entry.shards {
            let name = format!("{}/shard {}", entry.name, shard.key);
            let directory = storage.subdir(&shard.id)?;
            if let Err(e) = guarded(|| checker.collection(&name, directory)) {
                checker.say(&name, 0, Err(e));
            }
        }
        let logs = entry.directories().filter_map(|id| storage.subdir(id).ok());
        let logs = logs.map(|directory| log_bytes(directory.as_ref())).sum();
        if let Some(points) = checker.start(&entry.name, logs) {
            checker.report.points = before + points;
        }
    }
    if storage.list_subdirs()?.iter().any(|name| name == SNAPSHOTS) {
        checker.snapshots(storage.subdir(SNAPSHOTS)?.as_ref())?;
    }
    Ok(checker.report)
}

/// Opens collections as a start does, their logs replayed, over the files as they are: what is written meanwhile stays in RAM. An engine opens many of
/// them, one after the other: for each to read the catalog anew would take the square of their number.
struct Starts {
    storage: Arc<dyn Storage>,
    engine: Option<Arc<Engine>>,
    /// Bytes of the logs that it has in RAM.
    copied: u64,
}

/// Logs that an engine holds copies of, at most, unless they are of one collection.
const COPIED_MAX: u64 = 64 << 20;

impl Starts {
    /// One whose directories have logs of so many bytes; returns how many points are in it.
    fn open(&mut self, name: &str, log_bytes: u64) -> Result<u64> {
        if self.copied + log_bytes > COPIED_MAX {
            self.engine = None;
        }
        let is_fresh = self.engine.is_none();
        match self.open_once(name, log_bytes) {
            // What others took isn't lacking.
            Err(e) if !is_fresh && (e.is_shortage() || e.kind() == ErrorKind::Busy) => {
                self.engine = None;
                self.open_once(name, log_bytes)
            }
            done => done,
        }
    }

    fn open_once(&mut self, name: &str, log_bytes: u64) -> Result<u64> {
        let engine = match &self.engine {
            Some(engine) => engine.clone(),
            None => {
                let over: Arc<dyn Storage> = Arc::new(OverlayStorage::new(self.storage.clone()));
                let options = EngineOptions::in_process(VERIFY_MEMORY, 1)?;
                self.copied = 0;
                self.engine
                    .insert(Engine::recovered(over, options, AtStart::Nothing)?)
                    .clone()
            }
        };
        self.copied += log_bytes;
        let opened = engine
            .collection(name)
            .map(|collection| collection.info().points_count);
        let Err(e) = opened else {
            engine.unload_unused();
            return opened;
        };
        let closed = engine.closed_collections().into_iter();
        let why = closed
            .filter(|(closed, _)| closed == name)
            .map(|(_, why)| why)
            .next();
        Err(why.unwrap_or(e))
    }
}

/// Bytes of a directory's logs.
fn log_bytes(storage: &dyn Storage) -> u64 {
    let names = storage.list().unwrap_or_default();
    let logs = names.iter().filter(|name| is_log_name(name));
    logs.filter_map(|name| storage.open(name).ok())
        .map(|file| file.len())
        .sum()
}

struct Checker<'a> {
    each: &'a mut dyn FnMut(&Checked),
    report: CheckReport,
    starts: Starts,
}

impl Checker<'_> {
    fn say(&mut self, place: &str, bytes: u64, result: Result<()>) {
        self.report.files += 1;
        self.report.bytes += bytes;
        let (unreadable, problem) = match result {
            Ok(()) => (None, None),
            Err(e) if e.is_unreadable() => (Some(e.to_string()), None),
            Err(e) => (None, Some(e.to_string())),
        };
        self.report.problems += u64::from(problem.is_some());
        self.report.unreadable += u64::from(unreadable.is_some());
        (self.each)(&Checked {
            place: place.to_string(),
            bytes,
            problem,
            unreadable,
            skipped: None,
        });
    }

    fn skip(&mut self, place: &str, why: String) {
        self.report.skipped += 1;
        (self.each)(&Checked {
            place: place.to_string(),
            bytes: 0,
            problem: None,
            unreadable: None,
            skipped: Some(why),
        });
    }

    /// How many points a start finds.
    fn start(&mut self, name: &str, log_bytes: u64) -> Option<u64> {
        let place = format!("{name}/start");
        match self.starts.open(name, log_bytes) {
            Ok(points) => {
                self.say(&place, 0, Ok(()));
                return Some(points);
            }
            Err(e) if e.is_shortage() && !e.is_unreadable() => {
                self.skip(&place, format!("it was not opened as by a start: {e}"));
            }
            Err(e) => self.say(&place, 0, Err(e)),
        }
        None
    }

    /// The snapshots where they lie when nothing else is said, each frame of them and what is beside them.
    fn snapshots(&mut self, root: &dyn Storage) -> Result<()> {
        let ledger = Ledger::new(VERIFY_MEMORY);
        let mut work = Workspace::new(&ledger.consumer("snapshots", u64::MAX))?;
        self.snapshots_of(root, SNAPSHOTS, &mut work)?;
        for name in root.list_subdirs()? {
            let directory = root.subdir(&name)?;
            self.snapshots_of(directory.as_ref(), &format!("{SNAPSHOTS}/{name}"), &mut work)?;
        }
        Ok(())
    }

    fn snapshots_of(&mut self, storage: &dyn Storage, path: &str, work: &mut Workspace) -> Result<()> {
        for name in storage.list()? {
            let place = format!("{path}/{name}");
            match verify_snapshot(storage, &name, work) {
                Ok(Some(bytes)) => {
                    self.report.snapshots += 1;
                    self.say(&place, bytes, Ok(()));
                }
                Ok(None) => {}
                Err(e) => self.say(&place, 0, Err(e)),
            }
        }
        Ok(())
    }

    /// The newest of the numbered files, and the one of before that is kept.
    fn newest<T: Numbered>(&mut self, place: &str, storage: &dyn Storage) -> Result<Option<T>> {
        let (_, newest) = Generations::<T>::newest(storage)?;
        if let Some(newest) = &newest {
            self.say(&format!("{place}{}", T::file_name(newest.number())), 0, Ok(()));
        }
        if let Some((name, number)) = manifest_store::kept::<T>(storage)? {
            let read = manifest_store::read_numbered::<T>(storage, &name, number);
            self.say(&format!("{place}{name}"), 0, read.map(drop));
        }
        Ok(newest)
    }

    fn collection(&mut self, name: &str, storage: Arc<dyn Storage>) -> Result<()> {
        let manifest = self
            .newest::<Manifest>(&format!("{name}/"), storage.as_ref())?
            .ok_or_else(|| Error::corrupt("its directory holds no manifest"))?;
        let settings: Settings = serde_json::from_value(manifest.config.clone())
            .map_err(|e| Error::corrupt(format!("settings: {e}")))?;
        let schema = Schema::new(&settings.config, &settings.slots)?;
        let mut sound = true;
        for file in manifest.segments.iter().flat_map(|s| s.all_files()) {
            let result = whole_file(storage.as_ref(), file);
            sound &= result.is_ok();
            self.say(&format!("{name}/{}", file.name), file.bytes, result);
        }
        match sound {
            true => self.segments(name, &manifest, &schema, storage.clone())?,
            false => self.skip(
                &format!("{name}/segments"),
                "a file is damaged or can't be read, so that they were not compared with each other".into(),
            ),
        }
        let log = Log::verify(storage.as_ref(), &manifest);
        let log = log.map(|groups| self.report.log_groups += groups);
        self.say(&format!("{name}/log"), log_bytes(storage.as_ref()), log);
        Ok(())
    }

    /// Reads every block through the same code as a server, and compares the tables with each other.
    fn segments(
        &mut self,
        name: &str,
        manifest: &Manifest,
        schema: &Schema,
        storage: Arc<dyn Storage>,
    ) -> Result<()> {
        let mut io = IoContext::for_storage(storage.as_ref(), 16)?;
        let file_context = file_context_of(storage)?;
        for entry in &manifest.segments {
            let result = segment_is_sound(entry, &file_context, schema, &mut io);
            self.report.points += u64::from(entry.live);
            self.say(&format!("{name}/segment {}", entry.id), 0, result);
        }
        Ok(())
    }
}
