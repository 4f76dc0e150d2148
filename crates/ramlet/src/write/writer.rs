//! The writer of one collection: groups go to the log, then into the memtable, then become visible.
//!
//! All of it happens under one lock, on one thread at a time: the engine's writer thread for changes, a job at its very end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ramlet_format::manifest::{LogEntry, Manifest};
use ramlet_io::Storage;
use ramlet_memory::{Consumer, OverBudget};

use crate::error::{Error, ErrorKind, Result};
use crate::faults::mutants;
use crate::read::lookup::Lookup;
use crate::read::view::View;
use crate::recovery::manifest_store::{self, CommitError, Generations};
use crate::schema::{Schema, Slots};
use crate::segment::SegmentView;
use crate::types::{CollectionConfig, PointId};
use crate::write::change::Change;
use crate::write::group::Group;
use crate::write::log::{Log, NextFile};
use crate::write::memtable::MemtableWriter;

/// A memtable that waits to become a segment. Its rows are all of groups up to `applied_lsn`, and maybe some of the next one.
pub struct Frozen {
    pub memtable: MemtableWriter,
    pub applied_lsn: u64,
}

/// State of the writing side. What readers see of it is what was last published.
pub struct Writer {
    /// `None` only while the log is being replayed.
    pub log: Option<Log>,
    pub active: MemtableWriter,
    /// The next active memtable, empty: freezing must not need memory when there is none.
    pub spare: Option<MemtableWriter>,
    pub frozen: Option<Frozen>,
    pub segments: Vec<SegmentView>,
    /// As last committed.
    pub manifest: Manifest,
    pub manifests: Generations<Manifest>,
    pub config: CollectionConfig,
    pub slots: Slots,
    pub schema: Arc<Schema>,
    /// Of the last change that was applied.
    pub operation: u64,
    /// Last group that is wholly in the memtables or segments.
    pub applied_lsn: u64,
    /// Why no more changes are taken, after a failed write to log or manifest.
    pub stopped: Option<String>,
    /// Whether `stopped` is set, for those who mustn't wait for the writer.
    pub has_stopped: Arc<AtomicBool>,
    pub memtables: Consumer,
}

/// A put that found no room in the memtables; what was before it in the group is applied.
pub struct NoRoom(pub OverBudget);

impl Writer {
    pub fn check_writable(&self) -> Result<()> {
        match &self.stopped {
            None => Ok(()),
            Some(why) => Err(Error::new(
                ErrorKind::WritesStopped,
                format!("writes have stopped until a restart: {why}"),
            )),
        }
    }

    /// Notes that log or manifest can't be trusted any more, and gives the error back.
    pub fn stop(&mut self, error: Error) -> Error {
        self.stopped.get_or_insert_with(|| error.to_string());
        self.has_stopped.store(true, Ordering::Release);
        Error::new(
            ErrorKind::WritesStopped,
            format!(
                "writes have stopped until a restart, reads continue: {error}. Check the disk, then restart the server; no acknowledged write is lost"
            ),
        )
    }

    /// What readers may see now.
    pub fn view(&self) -> View {
        let frozen = self.frozen.iter().map(|f| f.memtable.view());
        View {
            schema: self.schema.clone(),
            segments: self.segments.clone(),
            memtables: frozen.chain([self.active.view()]).collect(),
            operation: self.operation,
            keyed: Vec::new(),
        }
    }

    /// The number of the next group; its log file has room for it. As [`Writer::commit_group`] fails where it hasn't.
    pub fn begin_group(&mut self, bytes: usize, salt: u64) -> Result<u64> {
        self.make_room(bytes, salt)?;
        Ok(self.log().last_lsn() + 1)
    }

    /// The log files as the manifest lists them, and how far each is written.
    pub fn log_ends(&self) -> Vec<(LogEntry, u64)> {
        let log = self.log.as_ref().expect("files are copied after recovery");
        let of = |entry: &LogEntry| (entry.clone(), log.end_of(entry));
        self.manifest.logs.iter().map(of).collect()
    }

    /// Makes a group durable. On failure writing stops for good, except when disk or descriptors were lacking before anything was written.
    pub fn commit_group(&mut self, group: &[u8], salt: u64) -> Result<u64> {
        self.make_room(group.len(), salt)?;
        self.log().commit(group).map_err(|e| self.stop(e))
    }

    /// The same of a group that stands in its record already.
    pub fn commit_record(&mut self, group: &mut Group, salt: u64) -> Result<u64> {
        self.make_room(group.bytes().len(), salt)?;
        self.log().commit_record(group.record()).map_err(|e| self.stop(e))
    }

    /// Sees to it that the log file has room for a group.
    fn make_room(&mut self, bytes: usize, salt: u64) -> Result<()> {
        self.check_writable()?;
        let next = self.log().room_for(bytes, salt);
        self.go_on_in(next)
    }

    fn log(&mut self) -> &mut Log {
        self.log.as_mut().expect("groups come after recovery")
    }

    /// Goes on in the log's next file, if there is to be one, after a manifest has named it. A full disk leaves all as it was.
    fn go_on_in(&mut self, next: Result<Option<NextFile>>) -> Result<()> {
        let next = match next {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(()),
            Err(e) if e.is_full() => return Err(e),
            Err(e) => return Err(self.stop(e)),
        };
        if mutants::is("log-not-listed") {
            self.log().switch(next);
            return Ok(());
        }
        let storage = self.log().storage().clone();
        let mut manifest = self.manifest.clone();
        manifest.number = self.manifests.next();
        match self.commit_manifest(storage.as_ref(), manifest, Some(next.entry())) {
            Ok(()) => self.log().switch(next),
            Err(e) => {
                // Else it can't be told whether a manifest names it.
                if e.is_full() {
                    self.log().discard(next);
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// Makes `manifest`, of a number from `manifests`, the state, with the log as it is, and with `next`, its next file. On failure writing stops for good,
    /// except when disk or descriptors were lacking before the old one was touched.
    pub fn commit_manifest(
        &mut self,
        storage: &dyn Storage,
        mut manifest: Manifest,
        next: Option<&LogEntry>,
    ) -> Result<()> {
        // While the log is replayed it is as the manifest has it.
        if let Some(log) = &self.log {
            manifest.logs = log.entries(manifest.applied_lsn);
            manifest.logs.extend(next.cloned());
            if !mutants::is("durable-not-noted") {
                manifest.durable_lsn = log.last_lsn();
            }
        }
        manifest.durable_lsn = manifest.durable_lsn.max(manifest.applied_lsn);
        let mut done = manifest_store::commit(storage, &mut self.manifests, &manifest);
        if matches!(&done, Err(CommitError::Before(e)) if e.kind() == ErrorKind::DiskFull)
            && self.drop_spare_logs()
        {
            // Not a block was left for the manifest: what the log keeps for later is of more use so.
            done = manifest_store::commit(storage, &mut self.manifests, &manifest);
        }
        match done {
            Ok(()) => {
                self.manifest = manifest;
                Ok(())
            }
            Err(CommitError::Before(e)) => Err(e),
            Err(CommitError::Unknown(e)) => Err(self.stop(e)),
        }
    }

    /// Notes in the manifest how far the log goes, so that a log that ends before is known to have lost something.
    pub fn note_durable(&mut self, storage: &dyn Storage) -> Result<()> {
        let is_behind = self
            .log
            .as_ref()
            .is_some_and(|log| log.last_lsn() > self.manifest.durable_lsn);
        if self.stopped.is_some() || !is_behind {
            return Ok(());
        }
        let mut manifest = self.manifest.clone();
        manifest.number = self.manifests.next();
        self.commit_manifest(storage, manifest, None)
    }

    /// Puts one change of a durable group into the memtable.
    pub fn apply(
        &mut self,
        operation: u64,
        change: Change<'_>,
        lookup: &mut Lookup,
    ) -> Result<std::result::Result<(), NoRoom>> {
        match change {
            Change::Put(id, row) => {
                // First the new row, then the end of the old one: a put without room leaves all as it was.
                match self.active.put(id, operation, &row) {
                    Err(over) => return Ok(Err(NoRoom(over))),
                    Ok(true) => {}
                    Ok(false) => self.forget_older(id, lookup)?,
                }
            }
            Change::Delete(id) => {
                if !self.active.delete(id) {
                    self.forget_older(id, lookup)?;
                }
            }
        }
        self.operation = self.operation.max(operation);
        Ok(Ok(()))
    }

    /// Marks the row of an id in the frozen memtable or the segments as deleted. At most one is live.
    fn forget_older(&mut self, id: PointId, lookup: &mut Lookup) -> Result<()> {
        if self.frozen.as_mut().is_some_and(|f| f.memtable.delete(id)) {
            return Ok(());
        }
        for view in self.segments.iter_mut().rev() {
            let found = view.segment.find(id, &mut lookup.io, &mut lookup.buf)?;
            if found.is_some_and(|row| view.deletes.insert(row)) {
                break;
            }
        }
        Ok(())
    }

    /// Starts a new memtable; the old one is to be flushed. Needs that none waits already.
    pub fn freeze(&mut self, salt: u64) -> Result<()> {
        assert!(self.frozen.is_none(), "one frozen buffer at a time");
        let fresh = match self.spare.take() {
            Some(spare) => spare,
            None => MemtableWriter::new(self.schema.clone(), &self.memtables)?,
        };
        // Groups from here on go to a new file, so that the old ones can be released as a whole.
        if let Some(log) = &mut self.log {
            let next = log.cut(salt);
            match self.go_on_in(next) {
                // With a full disk they go on in the old file, and are released with its last one.
                Err(e) if !e.is_full() => return Err(e),
                _ => {}
            }
        }
        let memtable = std::mem::replace(&mut self.active, fresh);
        self.frozen = Some(Frozen {
            memtable,
            applied_lsn: self.applied_lsn,
        });
        Ok(())
    }

    /// A vector was dropped: what the memtables have of it is told of no more.
    pub fn forget_vector(&self, slot: u16) {
        let frozen = self.frozen.iter().map(|f| &f.memtable);
        let memtables = frozen.chain([&self.active]).chain(&self.spare);
        memtables.for_each(|writer| writer.memtable.forget_vector(slot));
    }

    /// Gives up all rows, of a collection that was deleted.
    pub fn let_go(&mut self) {
        self.frozen = None;
        self.segments.clear();
        let empty = self.spare.take().map_or_else(
            || MemtableWriter::new(self.schema.clone(), &self.memtables).ok(),
            Some,
        );
        if let Some(empty) = empty {
            self.active = empty;
        }
    }

    /// Gives log files free whose groups are all in segments.
    pub fn release_log(&mut self, applied_lsn: u64) -> Result<()> {
        match &mut self.log {
            Some(log) => log.release(applied_lsn).map_err(|e| self.stop(e)),
            None => Ok(()),
        }
    }

    /// Gives the disk back that the log keeps for its next files; false when it keeps none.
    fn drop_spare_logs(&mut self) -> bool {
        self.log.as_mut().is_some_and(Log::drop_spares)
    }

    /// The last group, if all of it is applied; 0: a part of it is.
    pub fn whole_lsn(&self) -> u64 {
        let last = self.log.as_ref().map(Log::last_lsn);
        if last == Some(self.applied_lsn) {
            self.applied_lsn
        } else {
            0
        }
    }

    pub fn log_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::bytes)
    }
}
