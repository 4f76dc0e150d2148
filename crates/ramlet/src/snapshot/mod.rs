//! Snapshots: one file with a collection (or all) at one moment, and restoring it.
//!
//! Taking one holds the writer's lock only while a view is taken and the segments' files are opened; what is open is not
//! disturbed by merges that remove it. Then the file is written while writes go on: the rows of the memtables as groups
//! of the log, the deletes as they were, the segments' files as they are. Restoring builds a new directory, verified as it is
//! written and opened as any other, and only then gives the collection's name to it.

mod digest;
mod directory;
mod engine;
mod salvage;
mod sink;
mod source;
mod take;

pub mod restore;

use std::sync::Arc;

use ramlet_format::catalog::Catalog;
use ramlet_format::snapshot::{Contents, Header};
use ramlet_io::ReadFile;
use ramlet_memory::{AnonBuf, Consumer, Reservation, size, size_up};

pub use directory::{SnapshotDir, verify_snapshot};
pub use salvage::{Salvaged, salvage};
use sink::Sink;
pub use sink::SnapshotUpload;
pub use source::SnapshotReader;

use crate::collection::Collection;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{COPY_BYTES, DISK_FREE_MIN, SNAPSHOT_BYTES};
use crate::state::core::Core;

/// What a snapshot is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotScope<'a> {
    /// One collection, by its name or an alias.
    Collection(&'a str),
    /// One shard of a collection with shard keys, by its number.
    Shard(&'a str, u32),
    /// All collections and aliases.
    Everything,
}

/// A snapshot that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotDescription {
    pub name: String,
    /// Seconds since 1970.
    pub created: Option<u64>,
    pub bytes: u64,
    /// SHA-256 of the file, 64 hex digits; `None` for a file that somebody else put there.
    pub checksum: Option<String>,
}

/// A snapshot's bytes, for sending them. It stays readable when the snapshot is deleted meanwhile.
pub struct SnapshotFile {
    file: Arc<dyn ReadFile>,
    pub name: String,
}

impl SnapshotFile {
    /// A file outside the directory of snapshots.
    pub fn open(storage: &dyn ramlet_io::Storage, name: &str) -> Result<SnapshotFile> {
        Ok(SnapshotFile {
            file: storage.open(name)?,
            name: name.to_string(),
        })
    }

    pub fn bytes(&self) -> u64 {
        self.file.len()
    }

    /// Fills `out` from `offset`.
    pub fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        Ok(self.file.read_at(out, offset)?)
    }
}

/// What an operation works with: a buffer, and its share of the RAM.
pub struct Workspace {
    pub memory: Consumer,
    pub buf: AnonBuf,
    _held: Reservation,
}

impl Workspace {
    pub fn new(memory: &Consumer) -> Result<Workspace> {
        Ok(Workspace {
            buf: AnonBuf::reserved(memory, COPY_BYTES)?,
            _held: memory.reserve(SNAPSHOT_BYTES)?,
            memory: memory.clone(),
        })
    }
}

/// A snapshot of `cores`, with a catalog in front when it is of everything, or of a collection with shard keys.
pub struct Taking<'a> {
    pub dir: &'a SnapshotDir,
    pub scope: SnapshotScope<'a>,
    /// Of the file; the directory has none of it.
    pub name: String,
    /// Seconds since 1970.
    pub created: u64,
}

/// What a snapshot takes of a collection, and the handle that keeps it in RAM meanwhile.
pub(crate) type Taken = (Arc<Collection>, Vec<Arc<Core>>);

impl Taking<'_> {
    /// Writes the file under a passing name, then gives it its own. What fails leaves nothing.
    pub fn run(
        &self,
        catalog: Option<&Catalog>,
        collections: &mut dyn Iterator<Item = Result<Taken>>,
        work: &mut Workspace,
    ) -> Result<SnapshotDescription> {
        let storage = self.dir.create(self.scope)?;
        let header = Header {
            contents: match self.scope {
                SnapshotScope::Everything => Contents::Everything,
                SnapshotScope::Collection(_) | SnapshotScope::Shard(..) => Contents::Collection,
            },
            created: Some(self.created),
        };
        let sink = Sink::create(storage, &self.name)?;
        let (bytes, checksum) = sink.fill(&mut |sink| {
            sink.begin(header)?;
            if let Some(catalog) = catalog {
                sink.frame(ramlet_format::snapshot::FrameKind::Catalog, &catalog.encode())?;
            }
            for taken in &mut *collections {
                let (_collection, cores) = taken?;
                cores.iter().try_for_each(|core| take::take(core, sink, work))?;
            }
            sink.end()
        })?;
        Ok(SnapshotDescription {
            name: self.name.clone(),
            created: Some(self.created),
            bytes,
            checksum: Some(checksum),
        })
    }
}

/// Refuses what would fill the disk: `bytes` more, and what writes need.
fn check_disk(storage: &dyn ramlet_io::Storage, bytes: u64) -> Result<()> {
    let free = storage.free_bytes()?;
    let needed = bytes.saturating_add(DISK_FREE_MIN);
    match free >= needed {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::DiskFull,
            format!(
                "{} of disk are free, a snapshot needs {} here: delete old snapshots or data, or make the disk larger",
                size(free),
                size_up(needed)
            ),
        )),
    }
}
