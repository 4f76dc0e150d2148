//! The write-ahead log of one collection, which makes acknowledged changes durable.
//!
//! A group of changes is one record, so that a torn group can never be followed by a valid record: the next group is written only
//! after this one was synced. Files are named by their first group (`log-%020d`) and reused: a reused file keeps an older
//! header until its new one is synced, and is known by it.

use std::sync::Arc;

use ramlet_format::log::{self, Decoded, Later, LogHeader, Stop, Tail};
use ramlet_format::manifest::{LogEntry, Manifest};
use ramlet_io::{IoErrorKind, LogFile, PAGE, Storage};

use crate::error::{Error, ErrorKind, Result};
use crate::faults::mutants;
use crate::limits::{LOG_FILE_FIRST_BYTES, LOG_FILE_GROWTH};

const PREFIX: &str = "log-";
/// A log file in the making: scratch by its name, so that a crash's is removed at the next open.
const REPLACEMENT: &str = "tmp-log";
const KIND_GROUP: u8 = 1;

/// A log file that will get no more groups.
#[derive(Debug, Clone)]
struct Closed {
    entry: LogEntry,
    last_lsn: u64,
}

/// A file whose groups are all in segments.
#[derive(Debug)]
struct Spare {
    name: String,
    bytes: u64,
}

/// A log file that is to be the next one: no group goes there before a manifest names it.
pub struct NextFile {
    entry: LogEntry,
    file: Box<dyn LogFile>,
}

impl NextFile {
    /// As the manifest is to list it.
    pub fn entry(&self) -> &LogEntry {
        &self.entry
    }
}

/// The open log. Every method that fails leaves it unusable: the caller stops writing (DESIGN section 5). The exception is
/// a full disk, or no descriptor left, where a new file was to be made.
pub struct Log {
    storage: Arc<dyn Storage>,
    file: Box<dyn LogFile>,
    entry: LogEntry,
    offset: u64,
    /// Of the last group that was written and synced.
    last_lsn: u64,
    closed: Vec<Closed>,
    /// Files to take again, as long as the present one or longer.
    spare: Vec<Spare>,
    setup: LogSetup,
}

/// What new log files are made with.
#[derive(Debug, Clone, Copy)]
pub struct LogSetup {
    /// Length of a file of a collection that is written much; one larger group gets a file of its own size.
    pub file_bytes: u64,
    /// Of the first file created.
    pub salt: u64,
}

/// Read of a log file at once; a larger group takes more.
const WINDOW_BYTES: usize = 256 << 10;

fn file_name(first_lsn: u64) -> String {
    format!("{PREFIX}{first_lsn:020}")
}

fn first_lsn_of(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)
        .filter(|digits| digits.len() == 20)?
        .parse()
        .ok()
}

/// Whether a file of this name is a log's.
pub fn is_log_name(name: &str) -> bool {
    first_lsn_of(name).is_some()
}

impl Log {
    /// A new log whose first group will be `first_lsn`. Its name is made durable by the commit of the manifest that lists it.
    pub fn create(storage: Arc<dyn Storage>, first_lsn: u64, setup: LogSetup) -> Result<Log> {
        let bytes = LOG_FILE_FIRST_BYTES.min(setup.file_bytes);
        let mut file = storage.create_log(&file_name(first_lsn), bytes)?;
        let entry = start_file(file.as_mut(), setup.salt, first_lsn)?;
        Ok(Log {
            storage,
            file,
            entry,
            offset: PAGE as u64,
            last_lsn: first_lsn - 1,
            closed: Vec::new(),
            spare: Vec::new(),
            setup,
        })
    }

    /// Replays all groups that `manifest` doesn't have in segments, in order, repairs a torn tail, and goes on in the last file.
    /// Corruption, gaps, and files that the manifest lists and that aren't there, or aren't those, are refused with file and offset.
    pub fn open(
        storage: Arc<dyn Storage>,
        manifest: &Manifest,
        setup: LogSetup,
        group: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Log> {
        storage.sync_dir()?;
        let Scanned { tail, closed, unused } = scan(storage.as_ref(), manifest, true, group)?;
        for name in unused {
            storage.remove(&name)?;
        }
        let Tailing {
            mut file,
            offset,
            summary: Closed { entry, last_lsn },
        } = tail;
        clear_tail(file.as_mut(), offset)?;
        Ok(Log {
            storage,
            file,
            entry,
            offset,
            last_lsn,
            closed,
            spare: Vec::new(),
            setup,
        })
    }

    /// Reads all groups without changing anything; how many there are that aren't in segments.
    pub fn verify(storage: &dyn Storage, manifest: &Manifest) -> Result<u64> {
        let mut groups = 0;
        scan(storage, manifest, false, &mut |_, payload| {
            groups += 1;
            crate::write::change::for_each(payload, |_, _| Ok(()))
        })?;
        Ok(groups)
    }

    /// Gives all groups that can be read and aren't in segments, in order; what is damaged is passed over, and said. Fails where `group` does.
    pub fn salvage(
        storage: &dyn Storage,
        manifest: &Manifest,
        group: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Vec<String>> {
        let (mut lost, mut done) = (Vec::new(), Ok(()));
        for (at, entry) in manifest.logs.iter().enumerate() {
            let read = open_listed(storage, manifest, entry).and_then(|file| {
                let scan = Scan::of(&manifest.logs, at, file.as_ref(), manifest);
                scan.replay(manifest.applied_lsn, &mut |_, payload| {
                    group(payload).inspect_err(|e| done = Err(e.clone()))
                })
            });
            done.clone()?;
            match read {
                Err(e) if e.is_unreadable() => return Err(e),
                read => lost.extend(read.err().map(|e| e.to_string())),
            }
        }
        Ok(lost)
    }

    /// The files that hold groups after `applied_lsn`, as a manifest lists them, and the one that the next group goes to.
    pub fn entries(&self, applied_lsn: u64) -> Vec<LogEntry> {
        let closed = self.closed.iter().filter(|closed| closed.last_lsn > applied_lsn);
        let closed = closed.map(|closed| closed.entry.clone());
        closed.chain([self.entry.clone()]).collect()
    }

    /// How far a file is written that has groups; one without any ends behind its header.
    pub fn end_of(&self, entry: &LogEntry) -> u64 {
        match entry.name == self.entry.name {
            true => self.offset,
            false => entry.bytes,
        }
    }

    pub fn last_lsn(&self) -> u64 {
        self.last_lsn
    }

    /// `None`: the next group, of `payload_bytes`, has room. Else a file for it, to be named by a manifest, then to be given to
    /// [`Log::switch`]. A full disk changes nothing: it may be tried again.
    pub fn room_for(&mut self, payload_bytes: usize, salt: u64) -> Result<Option<NextFile>> {
        let bytes = (log::HEADER_BYTES + payload_bytes) as u64;
        match self.offset + bytes > self.file.len() {
            true => self.next(bytes, salt),
            false => Ok(None),
        }
    }

    /// A fresh file, so that the groups up to now can be released as a whole. `None`: the present one is fresh.
    pub fn cut(&mut self, salt: u64) -> Result<Option<NextFile>> {
        match self.offset > PAGE as u64 {
            true => self.next(0, salt),
            false => Ok(None),
        }
    }

    /// Goes on in `next`, which a manifest names by now.
    pub fn switch(&mut self, next: NextFile) {
        let entry = std::mem::replace(&mut self.entry, next.entry);
        let last_lsn = self.last_lsn;
        self.closed.push(Closed { entry, last_lsn });
        (self.file, self.offset) = (next.file, PAGE as u64);
    }

    /// The manifest that was to name it didn't come to be. The present file is as it was; another attempt makes its file anew.
    pub fn discard(&self, next: NextFile) {
        let _ = self.storage.remove(&next.entry.name);
    }

    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Writes and syncs one group, for which [`Log::room_for`] was asked. When it returns, the group is durable.
    pub fn commit(&mut self, payload: &[u8]) -> Result<u64> {
        let mut record = Vec::with_capacity(log::HEADER_BYTES + payload.len());
        log::begin(&mut record);
        record.extend_from_slice(payload);
        self.commit_record(&mut record)
    }

    /// The same of a group that stands behind room for its record's header, as [`log::begin`] makes it.
    pub fn commit_record(&mut self, record: &mut Vec<u8>) -> Result<u64> {
        let lsn = self.last_lsn + 1;
        log::end(record, 0, self.entry.salt, lsn, self.last_lsn, KIND_GROUP)
            .map_err(|e| Error::bad_input(e.to_string()))?;
        self.file.write_at(record, self.offset)?;
        if !mutants::is("group-not-synced") {
            let synced = self.file.sync();
            if mutants::is("sync-retried") && synced.is_err() {
                self.file.sync()?;
            } else {
                synced?;
            }
        }
        self.offset += record.len() as u64;
        self.last_lsn = lsn;
        Ok(lsn)
    }

    /// Bytes of all files that hold groups.
    pub fn bytes(&self) -> u64 {
        self.offset + self.closed.iter().map(|c| c.entry.bytes).sum::<u64>()
    }

    /// Takes files out of use whose groups are all at or below `applied_lsn`: those that [`Log::entries`] leaves out of a manifest that is
    /// committed by now.
    pub fn release(&mut self, applied_lsn: u64) -> Result<()> {
        let (done, keep): (Vec<_>, Vec<_>) = self.closed.drain(..).partition(|c| c.last_lsn <= applied_lsn);
        self.closed = keep;
        // Those that have become too short go as well.
        let short = self.entry.bytes;
        let (kept, mut gone): (Vec<_>, Vec<_>) = self.spare.drain(..).partition(|spare| spare.bytes >= short);
        self.spare = kept;
        for Closed { entry, .. } in done {
            let LogEntry { name, bytes, .. } = entry;
            let spare = Spare { name, bytes };
            match (short..=self.setup.file_bytes).contains(&bytes) && self.spare.len() < 2 {
                true => self.spare.push(spare),
                false => gone.push(spare),
            }
        }
        gone.iter()
            .try_for_each(|file| Ok(self.storage.remove(&file.name)?))
    }

    /// Removes the files that were to be taken again; false when there are none.
    pub fn drop_spares(&mut self) -> bool {
        let removed = self
            .spare
            .drain(..)
            .filter(|spare| self.storage.remove(&spare.name).is_ok());
        removed.count() > 0
    }

    fn next(&mut self, record_bytes: u64, salt: u64) -> Result<Option<NextFile>> {
        let first_lsn = self.last_lsn + 1;
        let (name, needed) = (file_name(first_lsn), PAGE as u64 + record_bytes);
        if name == self.entry.name {
            return self.replace(needed).map(|()| None);
        }
        let made = self.next_file(&name, first_lsn, needed, salt);
        made.map(Some).inspect_err(|_| {
            let _ = self.storage.remove(&name);
        })
    }

    /// A file of at least `needed` bytes, ready for its first group. Its name is made durable by the commit of the manifest that lists it.
    fn next_file(&mut self, name: &str, first_lsn: u64, needed: u64, salt: u64) -> Result<NextFile> {
        let bytes = needed.next_multiple_of(PAGE as u64).max(self.next_bytes(needed));
        let long = self.spare.iter().position(|spare| spare.bytes >= bytes);
        let mut file = match long.map(|at| self.spare.swap_remove(at)) {
            Some(old) => {
                self.storage.rename(&old.name, name)?;
                self.storage.open_log(name)?
            }
            None => self.storage.create_log(name, bytes)?,
        };
        let entry = start_file(file.as_mut(), salt, first_lsn)?;
        Ok(NextFile { entry, file })
    }

    /// Length of the next file: longer than one that was filled, so that a collection that is written little takes little disk.
    fn next_bytes(&self, needed: u64) -> u64 {
        let present = self.entry.bytes;
        let was_filled = self.offset + needed > present || self.offset > present / 2;
        let next = if was_filled {
            present * LOG_FILE_GROWTH
        } else {
            present
        };
        next.clamp(
            LOG_FILE_FIRST_BYTES.min(self.setup.file_bytes),
            self.setup.file_bytes,
        )
    }

    /// Puts a longer file in the place of the current one, which has no group yet and is too short for the first. With the same header, by which
    /// the manifest knows it.
    fn replace(&mut self, needed: u64) -> Result<()> {
        // Left from an attempt that found the disk full.
        let _ = self.storage.remove(REPLACEMENT);
        let mut file = self
            .storage
            .create_log(REPLACEMENT, needed.next_multiple_of(PAGE as u64))?;
        let entry = start_file(file.as_mut(), self.entry.salt, self.entry.first_lsn)?;
        self.storage.rename(REPLACEMENT, &entry.name)?;
        (self.file, self.entry) = (file, entry);
        self.storage
            .sync_dir()
            .map_err(|e| Error::new(ErrorKind::Io, e.to_string()))
    }
}

/// Writes and syncs a file's header; the file as a manifest lists it.
fn start_file(file: &mut dyn LogFile, salt: u64, first_lsn: u64) -> Result<LogEntry> {
    file.write_at(&LogHeader { salt, first_lsn }.encode(), 0)?;
    if !mutants::is("log-header-not-synced") {
        file.sync()?;
    }
    Ok(LogEntry {
        name: file_name(first_lsn),
        salt,
        first_lsn,
        bytes: file.len(),
    })
}

fn read_header(file: &dyn LogFile, name: &str) -> Result<LogHeader> {
    let mut page = vec![0; PAGE.min(file.len() as usize)];
    file.read_at(&mut page, 0)?;
    LogHeader::decode(&page).map_err(|e| Error::corrupt(format!("{name}: {e}")))
}

/// Opens a file that `manifest` lists. That it is there, whole, and the one that is meant, was sure before a manifest named it.
fn open_listed(storage: &dyn Storage, manifest: &Manifest, entry: &LogEntry) -> Result<Box<dyn LogFile>> {
    let (name, number) = (&entry.name, manifest.number);
    let file = storage.open_log(name).map_err(|e| match e.kind {
        IoErrorKind::NotFound => {
            let (place, first) = (storage.location(), entry.first_lsn);
            Error::corrupt(format!(
                "{place}/{name} is lost: manifest {number} lists it, with the groups of changes from {first} on"
            ))
        }
        _ => e.into(),
    })?;
    if file.len() < entry.bytes.max(PAGE as u64) && !mutants::is("short-log-taken") {
        let (found, listed) = (file.len(), entry.bytes);
        return Err(Error::corrupt(format!(
            "{name}: {found} bytes, manifest {number} says {listed}: it was truncated"
        )));
    }
    let header = read_header(file.as_ref(), name)?;
    if (header.salt, header.first_lsn) != (entry.salt, entry.first_lsn) {
        return Err(Error::corrupt(format!(
            "{name}: it is another file, or an older version of it, than manifest {number} lists"
        )));
    }
    Ok(file)
}

/// Whether the group that the file is named by stands at its start: then the header was once whole and is damaged.
fn has_first_record(file: &dyn LogFile, name: &str) -> Result<bool> {
    if file.len() < PAGE as u64 {
        return Ok(false);
    }
    let mut window = Window {
        file,
        start: PAGE as u64,
        bytes: Vec::new(),
    };
    if !window.fill(log::HEADER_BYTES)? {
        return Ok(false);
    }
    let salt = u64::from_le_bytes(window.bytes[8..16].try_into().expect("8 bytes"));
    loop {
        match log::decode(&window.bytes, salt) {
            Decoded::Record(record) => return Ok(Some(record.lsn) == first_lsn_of(name)),
            Decoded::NeedMore(needed) if needed > window.bytes.len() => {
                if !window.fill(needed)? {
                    return Ok(false);
                }
            }
            Decoded::NeedMore(_) | Decoded::Invalid => return Ok(false),
        }
    }
}

/// Makes an end of the log out of a torn group. Clearing its header is enough: what lies behind is no record of its own.
fn clear_tail(file: &mut dyn LogFile, offset: u64) -> Result<()> {
    let mut header = [0; log::HEADER_BYTES];
    let n = header.len().min((file.len() - offset) as usize);
    file.read_at(&mut header[..n], offset)?;
    if header[..n].iter().any(|&b| b != 0) {
        file.write_at(&[0; log::HEADER_BYTES][..n], offset)?;
        file.sync()?;
    }
    Ok(())
}

/// The last file of a log: groups go on at `offset`.
struct Tailing {
    file: Box<dyn LogFile>,
    offset: u64,
    summary: Closed,
}

/// What a pass over all files found.
struct Scanned {
    tail: Tailing,
    closed: Vec<Closed>,
    /// Files that the manifest doesn't list: those that it came after, and those that none has named yet.
    unused: Vec<String>,
}

fn scan(
    storage: &dyn Storage,
    manifest: &Manifest,
    sync: bool,
    group: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Scanned> {
    let applied_lsn = manifest.applied_lsn;
    let mut names: Vec<_> = storage.list()?.into_iter().filter(|n| is_log_name(n)).collect();
    names.sort_unstable();
    let listed = &manifest.logs;
    if listed.is_empty() {
        let what = format!(
            "{}: manifest {} lists no log",
            storage.location(),
            manifest.number
        );
        return Err(Error::corrupt(what));
    }
    names.retain(|name| listed.iter().all(|entry| entry.name != *name));
    for name in &names {
        check_unlisted(storage, manifest, name)?;
    }
    let (mut tail, mut closed) = (None::<Tailing>, Vec::new());
    let mut last_lsn = applied_lsn;
    for (at, entry) in listed.iter().enumerate() {
        let mut file = open_listed(storage, manifest, entry)?;
        if sync {
            file.sync()?;
        }
        let (name, first) = (&entry.name, entry.first_lsn);
        if first > last_lsn + 1 {
            let missing = last_lsn + 1;
            return Err(Error::corrupt(format!(
                "{name}: log starts at group {first}, group {missing} is missing"
            )));
        }
        let scan = Scan::of(listed, at, file.as_ref(), manifest);
        let (offset, last) = scan.replay(applied_lsn, group)?;
        last_lsn = last_lsn.max(last);
        closed.extend(tail.take().map(|t| t.summary));
        let summary = Closed {
            entry: LogEntry {
                bytes: file.len(),
                ..entry.clone()
            },
            last_lsn: last,
        };
        tail = Some(Tailing {
            file,
            offset,
            summary,
        });
    }
    Ok(Scanned {
        tail: tail.expect("at least one is listed"),
        closed,
        unused: names,
    })
}

/// A file that the manifest doesn't list holds nothing that isn't in segments: else the manifest that lists it is lost.
fn check_unlisted(storage: &dyn Storage, manifest: &Manifest, name: &str) -> Result<()> {
    let first = first_lsn_of(name).unwrap_or_default();
    if first <= manifest.applied_lsn || !has_first_record(storage.open_log(name)?.as_ref(), name)? {
        return Ok(());
    }
    let (place, number) = (storage.location(), manifest.number);
    Err(Error::corrupt(format!(
        "{place}/{name}: it holds group {first}, and manifest {number} doesn't list it: a later manifest is lost"
    )))
}

/// Bytes of a log that are searched at once for a record behind its end.
const LATER_WINDOW: usize = 256 << 10;

/// One pass over a file's records.
struct Scan<'a> {
    file: &'a dyn LogFile,
    name: &'a str,
    salt: u64,
    first: u64,
    /// Known from elsewhere.
    durable_lsn: u64,
}

impl<'a> Scan<'a> {
    fn of(listed: &'a [LogEntry], at: usize, file: &'a dyn LogFile, manifest: &Manifest) -> Scan<'a> {
        let entry = &listed[at];
        Scan {
            file,
            name: &entry.name,
            salt: entry.salt,
            first: entry.first_lsn,
            durable_lsn: match listed.get(at + 1) {
                // All of a file is durable before the next one begins.
                Some(next) => next.first_lsn - 1,
                None => manifest.durable_lsn.max(manifest.applied_lsn),
            },
        }
    }

    /// Returns where the next record goes, and the last group of this file.
    fn replay(
        &self,
        applied_lsn: u64,
        group: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<(u64, u64)> {
        let mut window = Window {
            file: self.file,
            start: PAGE as u64,
            bytes: Vec::new(),
        };
        let mut last = self.first - 1;
        let mut durable = self.durable_lsn;
        loop {
            let size = match log::decode(&window.bytes, self.salt) {
                Decoded::NeedMore(needed) => {
                    if window.fill(needed)? {
                        continue;
                    }
                    if needed > log::HEADER_BYTES {
                        // There was room for it before it was written.
                        let (name, at, end) = (self.name, window.start, self.file.len());
                        return Err(Error::corrupt(format!(
                            "{name} at byte {at}: a group of {needed} bytes, but the file ends at {end}: it was truncated"
                        )));
                    }
                    break;
                }
                Decoded::Record(record) if record.lsn == last + 1 => {
                    last = record.lsn;
                    durable = durable.max(record.durable_lsn);
                    if record.lsn > applied_lsn {
                        group(record.lsn, record.payload)?;
                    }
                    record.size
                }
                _ => break,
            };
            window.advance(size);
        }
        let end = window.start;
        let later = self.find_later(end)?;
        let blank = later.is_none() && self.is_blank(end)?;
        match log::judge_tail(last, durable, Stop { at: end, blank }, later) {
            Tail::Clean => Ok((end, last)),
            Tail::Torn { at } => {
                if self.was_begun(end)? {
                    tracing::warn!(log = %self.name, at, last_group = last, "the group after it wasn't written completely and never acknowledged");
                }
                Ok((end, last))
            }
            Tail::Corrupt { .. } if mutants::is("bad-record-skipped") => Ok((end, last)),
            Tail::Corrupt { at, why } => Err(Error::corrupt(format!("{} at byte {at}: {why}", self.name))),
        }
    }

    /// A valid record of this file's salt behind `from`. In windows: a log may have been made under a larger budget, and
    /// its rest, read at once after segments had filled the RAM with codes, got a process of 32 MB killed.
    fn find_later(&self, from: u64) -> Result<Option<Later>> {
        let mut bytes = Vec::new();
        for start in (from..self.file.len()).step_by(LATER_WINDOW) {
            // A header that begins in the window is whole.
            let wanted = (LATER_WINDOW + log::HEADER_BYTES) as u64;
            bytes.resize(wanted.min(self.file.len() - start) as usize, 0);
            self.file.read_at(&mut bytes, start)?;
            let mut at = 0;
            while let Some(offset) = log::find_possible(&bytes, self.salt, at).filter(|at| *at < LATER_WINDOW)
            {
                if let Some(later) = self.later_at(start + offset as u64)? {
                    return Ok(Some(later));
                }
                at = offset + 1;
            }
        }
        Ok(None)
    }

    /// The record at `offset`, if it is valid.
    fn later_at(&self, offset: u64) -> Result<Option<Later>> {
        let mut window = Window {
            file: self.file,
            start: offset,
            bytes: Vec::new(),
        };
        loop {
            let needed = match log::decode(&window.bytes, self.salt) {
                Decoded::NeedMore(needed) => needed,
                Decoded::Record(record) => {
                    return Ok(Some(Later {
                        offset,
                        lsn: record.lsn,
                        durable_lsn: record.durable_lsn,
                    }));
                }
                _ => return Ok(None),
            };
            if !window.fill(needed)? {
                return Ok(None);
            }
        }
    }

    /// Whether a record of this use of the file begins at `at`. Behind the end of a reused file lies what it held before, at every start.
    fn was_begun(&self, at: u64) -> Result<bool> {
        let mut header = [0; log::HEADER_BYTES];
        let n = header.len().min((self.file.len() - at) as usize);
        self.file.read_at(&mut header[..n], at)?;
        Ok(header[8..16] == self.salt.to_le_bytes())
    }

    /// Whether no record was begun at `at`.
    fn is_blank(&self, at: u64) -> Result<bool> {
        let mut header = [0; log::HEADER_BYTES];
        let n = header.len().min((self.file.len() - at) as usize);
        self.file.read_at(&mut header[..n], at)?;
        Ok(header.iter().all(|&b| b == 0))
    }
}

/// A part of the file in memory, from the next record on.
struct Window<'a> {
    file: &'a dyn LogFile,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Reads until `needed` bytes are there; false when the file ends before.
    fn fill(&mut self, needed: usize) -> Result<bool> {
        let have = self.bytes.len();
        let left = self.file.len() - self.start;
        if needed as u64 > left || needed <= have {
            return Ok(false);
        }
        let target = (needed.max(WINDOW_BYTES) as u64).min(left) as usize;
        self.bytes.resize(target, 0);
        self.file
            .read_at(&mut self.bytes[have..], self.start + have as u64)?;
        Ok(true)
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.drain(..bytes);
        self.start += bytes as u64;
    }
}
