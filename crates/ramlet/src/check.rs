//! Verifying a data directory without opening it for use: every file's checksum, every block's, and that they agree.

use std::sync::Arc;

use ramlet_format::FileCrc;
use ramlet_format::catalog::Catalog;
use ramlet_format::manifest::{FileEntry, Manifest};
use ramlet_index::{IndexError, IndexScratch};
use ramlet_io::{BlockCache, IoContext, OverlayStorage, Storage};
use ramlet_memory::{AnonBuf, Ledger};

use crate::closed::{guarded, is_shortage};
use crate::encoding::decode_vector;
use crate::engine::{Engine, EngineOptions, SNAPSHOTS};
use crate::error::{Error, Result};
use crate::jobs::Settings;
use crate::leftovers::unlisted_collections;
use crate::log::Log;
use crate::pins::Pins;
use crate::query::index_error;
use crate::schema::Schema;
use crate::segment::{Segment, Shelf, read_deletes};
use crate::snapshot::{Workspace, verify_snapshot};
use crate::store::{self, Generations, Numbered};
use crate::types::PointId;

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Collection's directory and file.
    pub place: String,
    pub bytes: u64,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// Why it was not looked at, or only in part.
    pub skipped: Option<String>,
}

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub collections: u64,
    pub files: u64,
    pub bytes: u64,
    pub points: u64,
    /// Groups of changes in the logs that are not in segments yet.
    pub log_groups: u64,
    pub snapshots: u64,
    pub problems: u64,
    /// Places that were not looked at, or only in part.
    pub skipped: u64,
}

/// Bytes of RAM that a check may take for what segments hold open; their files are streamed.
const CHECK_MEMORY: u64 = 256 << 20;

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
        let directory = storage.subdir(&entry.id)?;
        if let Err(e) = guarded(|| checker.collection(&entry.name, directory)) {
            checker.say(&entry.name, 0, Err(e));
        }
        checker.start(storage, &catalog, &entry.name);
    }
    if storage.list_subdirs()?.iter().any(|name| name == SNAPSHOTS) {
        checker.snapshots(storage.subdir(SNAPSHOTS)?.as_ref())?;
    }
    Ok(checker.report)
}

/// Opens one collection as a start does, its log replayed, over the files as they are: what is written meanwhile stays in RAM.
fn try_start(storage: &Arc<dyn Storage>, catalog: &Catalog, name: &str) -> Result<()> {
    let others = catalog.collections.iter().filter(|entry| entry.name != name);
    let others: Vec<String> = others.map(|entry| entry.name.clone()).collect();
    let over: Arc<dyn Storage> = Arc::new(OverlayStorage::new(storage.clone()));
    let engine = Engine::recovered(over, EngineOptions::in_process(CHECK_MEMORY, 1)?, &others)?;
    let closed = engine
        .closed_collections()
        .into_iter()
        .find(|(closed, _)| closed == name);
    closed.map_or(Ok(()), |(_, why)| Err(why))
}

struct Checker<'a> {
    each: &'a mut dyn FnMut(&Checked),
    report: CheckReport,
}

impl Checker<'_> {
    fn say(&mut self, place: &str, bytes: u64, result: Result<()>) {
        self.report.files += 1;
        self.report.bytes += bytes;
        self.report.problems += u64::from(result.is_err());
        let problem = result.err().map(|e| e.to_string());
        (self.each)(&Checked {
            place: place.to_string(),
            bytes,
            problem,
            skipped: None,
        });
    }

    fn skip(&mut self, place: &str, why: String) {
        self.report.skipped += 1;
        (self.each)(&Checked {
            place: place.to_string(),
            bytes: 0,
            problem: None,
            skipped: Some(why),
        });
    }

    fn start(&mut self, storage: &Arc<dyn Storage>, catalog: &Catalog, name: &str) {
        let place = format!("{name}/start");
        match try_start(storage, catalog, name) {
            Err(e) if is_shortage(&e) => {
                self.skip(&place, format!("it was not opened as by a start: {e}"));
            }
            done => self.say(&place, 0, done),
        }
    }

    /// The snapshots where they lie when nothing else is said, each frame of them and what is beside them.
    fn snapshots(&mut self, root: &dyn Storage) -> Result<()> {
        let ledger = Ledger::new(CHECK_MEMORY);
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
        let (generations, newest) = Generations::<T>::newest(storage)?;
        if let Some(newest) = &newest {
            self.say(&format!("{place}{}", T::file_name(newest.number())), 0, Ok(()));
        }
        if let Some((name, number)) = generations.kept() {
            let read = store::read_numbered::<T>(storage, &name, number);
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
                "a file is damaged, so that they were not compared with each other".into(),
            ),
        }
        let log = Log::verify(storage.as_ref(), &manifest);
        let log = log.map(|groups| self.report.log_groups += groups);
        self.say(&format!("{name}/log"), 0, log);
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
        let ledger = Ledger::new(CHECK_MEMORY);
        let mut io = IoContext::for_storage(storage.as_ref(), 16)?;
        let shelf = Shelf {
            storage,
            cache: BlockCache::new(&ledger.consumer("block cache", 0), 0)?,
            metadata: ledger.consumer("segment metadata", u64::MAX),
            pinned: ledger.consumer("pinned files", 0),
            pins: Pins::new(&ledger, 0),
            graph_width: 1,
        };
        for entry in &manifest.segments {
            let result = Segment::open(entry.clone(), &shelf, schema, &mut io).and_then(|segment| {
                if let Some(deletes) = &entry.deletes {
                    let gone = read_deletes(&shelf, deletes, entry.rows)?.len();
                    if gone + u64::from(entry.live) != u64::from(entry.rows) {
                        let (rows, live) = (entry.rows, entry.live);
                        return Err(Error::corrupt(format!(
                            "{rows} rows, {live} live, {gone} deleted"
                        )));
                    }
                }
                agree(&segment, &mut io)?;
                rows_decode(&segment, schema, &mut io)
            });
            self.report.points += u64::from(entry.live);
            self.say(&format!("{name}/segment {}", entry.id), 0, result);
        }
        Ok(())
    }
}

fn whole_file(storage: &dyn Storage, entry: &FileEntry) -> Result<()> {
    let file = storage.open(&entry.name)?;
    if file.len() != entry.bytes {
        let found = file.len();
        return Err(Error::corrupt(format!(
            "{found} bytes, the manifest says {}",
            entry.bytes
        )));
    }
    let mut crc = FileCrc::new();
    let mut buf = AnonBuf::new(1 << 20);
    let mut at = 0;
    while at < entry.bytes {
        let n = buf.len().min((entry.bytes - at) as usize);
        file.read_at(&mut buf[..n], at)?;
        crc.update(&buf[..n]);
        at += n as u64;
    }
    match crc.value() == entry.crc {
        true => Ok(()),
        false => Err(Error::corrupt(format!(
            "checksum {:08x}, the manifest says {:08x}",
            crc.value(),
            entry.crc
        ))),
    }
}

/// Every id of the table leads to a row that has this id, and every row has a payload that is JSON.
fn agree(segment: &Segment, io: &mut IoContext) -> Result<()> {
    let mut by_row: Vec<Option<PointId>> = vec![None; segment.rows() as usize];
    segment.for_each_id(io, &mut |row, id, _| {
        by_row[row as usize] = Some(id);
        Ok(())
    })?;
    let mut buf = AnonBuf::new(ramlet_io::PAGE);
    let (mut seen, mut wrong) = (0u64, None);
    segment.ids_from(None, io, &mut buf, &mut |id, row| {
        seen += 1;
        if by_row.get(row as usize).copied().flatten() != Some(id) {
            wrong = Some((id, row));
        }
        wrong.is_none()
    })?;
    if let Some((id, row)) = wrong {
        return Err(Error::corrupt(format!(
            "id {id} leads to row {row}, which is another point's"
        )));
    }
    if seen != u64::from(segment.rows()) {
        return Err(Error::corrupt(format!("{seen} ids for {} rows", segment.rows())));
    }
    segment.for_each_payload(io, &mut |row, payload| {
        if payload.is_empty() {
            return Ok(());
        }
        crate::payload::validate(payload, usize::MAX)
            .map_err(|e| Error::corrupt(format!("payload of row {row}: {e}")))
    })
}

/// Every row of a length of its own is a vector.
fn rows_decode(segment: &Segment, schema: &Schema, io: &mut IoContext) -> Result<()> {
    let mut scratch = IndexScratch::new(AnonBuf::new(0));
    for field in schema
        .vectors
        .iter()
        .filter(|field| field.fixed_bytes().is_none())
    {
        let Some(column) = segment.vector(field.slot) else {
            continue;
        };
        let read = column.index.for_each_row(&mut scratch, io, &mut |row, bytes| {
            let decoded = match column.has(row) {
                true => decode_vector(field, bytes).map(drop),
                false => Ok(()),
            };
            decoded.map_err(|e| IndexError::Filter(Box::new(Error::corrupt(format!("row {row}: {e}")))))
        });
        read.map_err(index_error)?;
    }
    Ok(())
}
