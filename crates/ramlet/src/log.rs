//! The log of one collection: what makes an acknowledged change survive.
//!
//! A group of changes is one record, so that a torn group can never be followed by a valid record: the next group is written only
//! after this one was synced. Files are named by their first group (`log-%020d`) and reused: a reused file keeps an older
//! header until its new one is synced, and is known by it.

use std::sync::Arc;

use ramlet_format::log::{self, Decoded, Later, LogHeader, Stop, Tail};
use ramlet_io::{LogFile, PAGE, Storage};

use crate::error::{Error, ErrorKind, Result};

const PREFIX: &str = "log-";
/// A log file in the making: scratch by its name, so that a crash's is removed at the next open.
const REPLACEMENT: &str = "tmp-log";
const KIND_GROUP: u8 = 1;

/// A log file that will get no more groups.
#[derive(Debug, Clone)]
struct Closed {
    name: String,
    last_lsn: u64,
    bytes: u64,
}

/// The open log. Every method that fails leaves it unusable: the caller stops writing (DESIGN section 5). The exception is
/// a full disk, or no descriptor left, where a new file was to be made.
pub struct Log {
    storage: Arc<dyn Storage>,
    file: Box<dyn LogFile>,
    name: String,
    salt: u64,
    offset: u64,
    /// Of the last group that was written and synced.
    last_lsn: u64,
    closed: Vec<Closed>,
    /// Files of standard length to take again.
    spare: Vec<String>,
    record: Vec<u8>,
    setup: LogSetup,
}

/// What new log files are made with.
#[derive(Debug, Clone, Copy)]
pub struct LogSetup {
    /// Length of a file; one larger group gets a file of its own size.
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
    /// A new log whose first group will be `first_lsn`.
    pub fn create(storage: Arc<dyn Storage>, first_lsn: u64, setup: LogSetup) -> Result<Log> {
        let salt = setup.salt;
        let name = file_name(first_lsn);
        let mut file = storage.create_log(&name, setup.file_bytes)?;
        start_file(file.as_mut(), salt, first_lsn)?;
        storage.sync_dir()?;
        Ok(Log {
            storage,
            file,
            name,
            salt,
            offset: PAGE as u64,
            last_lsn: first_lsn - 1,
            closed: Vec::new(),
            spare: Vec::new(),
            record: Vec::new(),
            setup,
        })
    }

    /// Replays all groups after `applied_lsn` in order, repairs a torn tail, and goes on in the last file.
    /// Corruption and gaps are refused with file and offset.
    pub fn open(
        storage: Arc<dyn Storage>,
        applied_lsn: u64,
        setup: LogSetup,
        group: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Log> {
        storage.sync_dir()?;
        let Scanned {
            tail,
            closed,
            unused,
            last_lsn,
        } = scan(storage.as_ref(), applied_lsn, true, group)?;
        for name in unused {
            storage.remove(&name)?;
        }
        let Tailing {
            mut file,
            salt,
            offset,
            summary,
        } = tail;
        clear_tail(file.as_mut(), offset)?;
        let (name, record) = (summary.name, Vec::new());
        let mut log = Log {
            storage,
            file,
            name,
            salt,
            offset,
            last_lsn,
            closed,
            spare: Vec::new(),
            record,
            setup,
        };
        if summary.last_lsn != last_lsn {
            // Its groups end before what the segments hold: the next one starts a file of its own.
            log.rotate(last_lsn + 1, 0, setup.salt)?;
        }
        log.release(applied_lsn)?;
        Ok(log)
    }

    /// Reads all groups without changing anything; how many there are after `applied_lsn`.
    pub fn verify(storage: &dyn Storage, applied_lsn: u64) -> Result<u64> {
        let mut groups = 0;
        scan(storage, applied_lsn, false, &mut |_, payload| {
            groups += 1;
            crate::change::for_each(payload, |_, _| Ok(()))
        })?;
        Ok(groups)
    }

    pub fn last_lsn(&self) -> u64 {
        self.last_lsn
    }

    /// Makes sure that the next group, of `payload_bytes`, has room. A full disk changes nothing: it may be tried again.
    pub fn make_room(&mut self, payload_bytes: usize, salt: u64) -> Result<()> {
        let bytes = (log::HEADER_BYTES + payload_bytes) as u64;
        match self.offset + bytes > self.file.len() {
            true => self.rotate(self.last_lsn + 1, bytes, salt),
            false => Ok(()),
        }
    }

    /// Writes and syncs one group, for which [`Log::make_room`] was asked. When it returns, the group is durable.
    pub fn commit(&mut self, payload: &[u8]) -> Result<u64> {
        let lsn = self.last_lsn + 1;
        self.record.clear();
        self.record.reserve_exact(log::HEADER_BYTES + payload.len());
        log::encode(
            &mut self.record,
            self.salt,
            lsn,
            self.last_lsn,
            KIND_GROUP,
            payload,
        )
        .map_err(|e| Error::bad_input(e.to_string()))?;
        self.file.write_at(&self.record, self.offset)?;
        self.file.sync()?;
        self.offset += self.record.len() as u64;
        self.last_lsn = lsn;
        // Not kept: every collection has a log, and only one of them is written at a time.
        self.record = Vec::new();
        Ok(lsn)
    }

    /// Bytes of all files that hold groups.
    pub fn bytes(&self) -> u64 {
        self.offset + self.closed.iter().map(|c| c.bytes).sum::<u64>()
    }

    /// Takes files out of use whose groups are all at or below `applied_lsn`.
    pub fn release(&mut self, applied_lsn: u64) -> Result<()> {
        let (done, keep): (Vec<_>, Vec<_>) = self.closed.drain(..).partition(|c| c.last_lsn <= applied_lsn);
        self.closed = keep;
        for file in done {
            if file.bytes == self.setup.file_bytes && self.spare.len() < 2 {
                self.spare.push(file.name);
            } else {
                self.storage.remove(&file.name)?;
            }
        }
        Ok(())
    }

    /// Removes the files that were to be taken again; false when there are none.
    pub fn drop_spares(&mut self) -> bool {
        let removed = self
            .spare
            .drain(..)
            .filter(|name| self.storage.remove(name).is_ok());
        removed.count() > 0
    }

    /// Goes on in a fresh file, so that the groups up to now can be released as a whole.
    pub fn cut(&mut self, salt: u64) -> Result<()> {
        if self.offset > PAGE as u64 {
            self.rotate(self.last_lsn + 1, 0, salt)
        } else {
            Ok(())
        }
    }

    /// A file of at least `needed` bytes, ready for its first group and sure to be there after a crash.
    fn next_file(&mut self, name: &str, first_lsn: u64, needed: u64, salt: u64) -> Result<Box<dyn LogFile>> {
        let mut file = match self.spare.pop() {
            Some(old) if needed <= self.setup.file_bytes => {
                self.storage.rename(&old, name)?;
                // Before its header is overwritten: under its old name, a header torn by a crash would be damage.
                self.storage.sync_dir()?;
                self.storage.open_log(name)?
            }
            other => {
                self.spare.extend(other);
                let bytes = needed.next_multiple_of(PAGE as u64).max(self.setup.file_bytes);
                self.storage.create_log(name, bytes)?
            }
        };
        start_file(file.as_mut(), salt, first_lsn)?;
        self.storage.sync_dir()?;
        Ok(file)
    }

    /// Puts a longer file in the place of the current one, which has no group yet and is too short for the first.
    fn replace(&mut self, first_lsn: u64, needed: u64, salt: u64) -> Result<()> {
        // Left from an attempt that found the disk full.
        let _ = self.storage.remove(REPLACEMENT);
        let mut file = self
            .storage
            .create_log(REPLACEMENT, needed.next_multiple_of(PAGE as u64))?;
        start_file(file.as_mut(), salt, first_lsn)?;
        self.storage.rename(REPLACEMENT, &self.name)?;
        (self.file, self.salt) = (file, salt);
        self.storage
            .sync_dir()
            .map_err(|e| Error::new(ErrorKind::Io, e.to_string()))
    }

    fn rotate(&mut self, first_lsn: u64, record_bytes: u64, salt: u64) -> Result<()> {
        let name = file_name(first_lsn);
        if name == self.name {
            return self.replace(first_lsn, PAGE as u64 + record_bytes, salt);
        }
        let file = self
            .next_file(&name, first_lsn, PAGE as u64 + record_bytes, salt)
            .inspect_err(|_| {
                // The current file is as it was; another attempt makes its file anew.
                let _ = self.storage.remove(&name);
            })?;
        let bytes = self.file.len();
        let old = std::mem::replace(&mut self.name, name);
        self.closed.push(Closed {
            name: old,
            last_lsn: self.last_lsn,
            bytes,
        });
        (self.file, self.salt, self.offset) = (file, salt, PAGE as u64);
        Ok(())
    }
}

fn start_file(file: &mut dyn LogFile, salt: u64, first_lsn: u64) -> Result<()> {
    file.write_at(&LogHeader { salt, first_lsn }.encode(), 0)?;
    Ok(file.sync()?)
}

/// `None`: a file whose header was never written whole, so that nothing in it was acknowledged.
fn read_header(file: &dyn LogFile, name: &str) -> Result<Option<LogHeader>> {
    if file.len() < PAGE as u64 {
        return Ok(None);
    }
    let mut page = vec![0; PAGE];
    file.read_at(&mut page, 0)?;
    match LogHeader::decode(&page) {
        Ok(header) => Ok(Some(header)),
        Err(e) if has_first_record(file, name)? => Err(Error::corrupt(format!("{name}: {e}"))),
        Err(_) => Ok(None),
    }
}

/// Whether the group that the file is named by stands at its start: then the header was once whole and is damaged.
fn has_first_record(file: &dyn LogFile, name: &str) -> Result<bool> {
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
    salt: u64,
    offset: u64,
    summary: Closed,
}

/// What a pass over all files found.
struct Scanned {
    tail: Tailing,
    closed: Vec<Closed>,
    /// Files whose header was never synced: nothing in them was acknowledged.
    unused: Vec<String>,
    last_lsn: u64,
}

fn scan(
    storage: &dyn Storage,
    applied_lsn: u64,
    sync: bool,
    group: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Scanned> {
    let mut names: Vec<_> = storage.list()?.into_iter().filter(|n| is_log_name(n)).collect();
    names.sort_unstable();
    let (mut tail, mut closed, mut unused) = (None::<Tailing>, Vec::new(), Vec::new());
    let mut last_lsn = applied_lsn;
    for name in names {
        let mut file = storage.open_log(&name)?;
        if sync {
            file.sync()?;
        }
        let first = first_lsn_of(&name).unwrap_or_default();
        let Some(header) = read_header(file.as_ref(), &name)?.filter(|h| h.first_lsn == first) else {
            unused.push(name);
            continue;
        };
        if first > last_lsn + 1 {
            let missing = last_lsn + 1;
            return Err(Error::corrupt(format!(
                "{name}: log starts at group {first}, group {missing} is missing"
            )));
        }
        let scan = Scan {
            file: file.as_ref(),
            name: &name,
            salt: header.salt,
            first,
        };
        let (offset, last) = scan.replay(applied_lsn, &mut last_lsn, group)?;
        closed.extend(tail.take().map(|t| t.summary));
        let summary = Closed {
            name,
            last_lsn: last,
            bytes: file.len(),
        };
        tail = Some(Tailing {
            file,
            salt: header.salt,
            offset,
            summary,
        });
    }
    let Some(tail) = tail else {
        // One is made before the first manifest, and the next one before an old one goes.
        let what = match unused.first() {
            None => "there is no log file: what isn't in segments is lost".to_owned(),
            Some(name) => format!("{name}: its header is lost, and it is the only log file"),
        };
        return Err(Error::corrupt(format!("{}: {what}", storage.location())));
    };
    Ok(Scanned {
        tail,
        closed,
        unused,
        last_lsn,
    })
}

/// Bytes of a log that are searched at once for a record behind its end.
const LATER_WINDOW: usize = 256 << 10;

/// One pass over a file's records.
struct Scan<'a> {
    file: &'a dyn LogFile,
    name: &'a str,
    salt: u64,
    first: u64,
}

impl Scan<'_> {
    /// Returns where the next record goes, and the last group of this file.
    fn replay(
        &self,
        applied_lsn: u64,
        last_lsn: &mut u64,
        group: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<(u64, u64)> {
        let mut window = Window {
            file: self.file,
            start: PAGE as u64,
            bytes: Vec::new(),
        };
        let mut last = self.first - 1;
        let mut durable = 0;
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
                            "{name} at byte {at}: a group of {needed} bytes, but the file ends at {end}: it was cut"
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
                    *last_lsn = (*last_lsn).max(record.lsn);
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
                    tracing::warn!(log = %self.name, at, last_group = last, "the group behind it wasn't written whole, so nobody was told that it was");
                }
                Ok((end, last))
            }
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

/// A stretch of the file in memory, from the next record on.
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
