//! What a collection consists of: `MANIFEST-000000000042`, JSON in an [`envelope`]. Written whole for every commit under a
//! new number; the greatest number whose file is intact is the truth.

use crate::component::Component;
use crate::envelope::{self, EnvelopeKind};
use crate::error::{FormatError, Result, ensure};
use crate::name::{ensure_plain_name, numbered, parse_numbered};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

const WHAT: &str = "manifest";
const PREFIX: &str = "MANIFEST";

/// The complete list of a collection's files as of one commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Of this manifest: one more than the one before.
    pub number: u64,
    /// Generated id of the collection, which is also its directory's name.
    pub collection: String,
    /// Everything up to this log sequence number is in the segments.
    pub applied_lsn: u64,
    /// Id that the next segment gets: ids are never reused.
    pub next_segment: u64,
    /// The collection's configuration; opaque here.
    pub config: Value,
    pub segments: Vec<SegmentEntry>,
    /// Log files in order, the one being written last. A file is listed before its first group is acknowledged, so one that is missing is missed.
    pub logs: Vec<LogEntry>,
    /// Everything up to this log sequence number was durable when this was written: segments and logs hold it, or have lost it.
    pub durable_lsn: u64,
}

/// A segment: immutable files and the current version of its deletes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentEntry {
    pub id: u64,
    /// Rows, deleted ones included.
    pub rows: u32,
    /// Rows that aren't deleted.
    pub live: u32,
    pub files: Vec<FileEntry>,
    /// None: nothing is deleted.
    pub deletes: Option<FileEntry>,
    pub min_lsn: u64,
    pub max_lsn: u64,
    /// Whatever the engine wants to keep with the segment; opaque here.
    #[serde(default)]
    pub extra: Value,
}

/// One file: what it holds, and what it must look like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Plain file name within the collection's directory.
    pub name: String,
    pub bytes: u64,
    /// crc32c of the whole file ([`FileCrc`](crate::FileCrc)).
    pub crc: u32,
    pub component: Component,
}

/// One log file that must be replayed from `applied_lsn` on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    pub name: String,
    pub salt: u64,
    pub first_lsn: u64,
    /// Its length, or less: an empty file may be replaced by a longer one of the same salt.
    pub bytes: u64,
}

/// `MANIFEST-%012d`.
pub fn file_name(number: u64) -> String {
    numbered(PREFIX, number)
}

/// The number of a manifest's file name; `None` for any other name.
pub fn parse_file_name(name: &str) -> Option<u64> {
    parse_numbered(PREFIX, name)
}

impl Manifest {
    /// The whole file.
    pub fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).expect("a manifest has string keys only");
        envelope::encode(EnvelopeKind::Manifest, &body)
    }

    /// `Err` too if a file's name isn't plain, a segment is listed twice, or counts contradict each other.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let body = envelope::decode(EnvelopeKind::Manifest, bytes)?;
        let manifest: Self =
            serde_json::from_slice(body).map_err(|error| FormatError::new(WHAT, error.to_string()))?;
        manifest.validate()?;
        Ok(manifest)
    }

    fn validate(&self) -> Result<()> {
        ensure_plain_name(WHAT, &self.collection)?;
        self.logs
            .iter()
            .try_for_each(|log| ensure_plain_name(WHAT, &log.name))?;
        for log in &self.logs {
            let name = &log.name;
            ensure(log.first_lsn > 0, WHAT, || format!("{name}: group 0 is none"))?;
        }
        let mut ids = BTreeSet::new();
        for segment in &self.segments {
            let id = segment.id;
            ensure(ids.insert(id), WHAT, || format!("segment {id} is listed twice"))?;
            ensure(id < self.next_segment, WHAT, || {
                format!("segment {id}, next is {}", self.next_segment)
            })?;
            segment.validate()?;
        }
        Ok(())
    }
}

impl SegmentEntry {
    /// All files, deletes included.
    pub fn all_files(&self) -> impl Iterator<Item = &FileEntry> {
        self.files.iter().chain(&self.deletes)
    }

    /// The file that holds `component`.
    pub fn file(&self, component: Component) -> Option<&FileEntry> {
        self.files.iter().find(|file| file.component == component)
    }

    fn validate(&self) -> Result<()> {
        let (id, rows, live) = (self.id, self.rows, self.live);
        ensure(live <= rows, WHAT, || {
            format!("segment {id}: {live} live of {rows} rows")
        })?;
        ensure(id < 1 << 48, WHAT, || format!("segment {id}: ids have 48 bits"))?;
        let mut components = BTreeSet::new();
        for file in &self.files {
            let component = file.component;
            ensure(components.insert(component), WHAT, || {
                format!("segment {id}: two files of {component:?}")
            })?;
        }
        for file in self.all_files() {
            ensure_plain_name(WHAT, &file.name)?;
            ensure(
                file.component.slot().is_none_or(|slot| slot < Component::SLOTS),
                WHAT,
                || {
                    format!(
                        "segment {id}: {:?}: slots are below {}",
                        file.component,
                        Component::SLOTS
                    )
                },
            )?;
        }
        Ok(())
    }
}
