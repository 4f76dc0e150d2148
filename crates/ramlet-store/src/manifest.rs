//! Numbered manifests: what a backup consists of, and what a sweep kept. Each is created once and stays.
//!
//! A line of JSON, and a line with the SHA-256 of the first.

use crate::nonce::nonce;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::hash::Sha;
use crate::index::Chunk;
use crate::layout::{MANIFESTS, manifest_number, manifest_path};
use crate::limits::MANIFEST_BYTES_MAX;
use crate::store::Store;

const VERSION: u32 = 1;

/// What a manifest says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    /// That of its name.
    pub number: u64,
    /// Random: tells who wrote it, when an answer was lost.
    pub nonce: String,
    /// Seconds since 1970, as the writer's clock had it. Decides nothing.
    pub created: u64,
    /// Number of the last sweep before it; 0: none.
    pub last_sweep: u64,
    #[serde(flatten)]
    pub entry: Entry,
}

/// What a number was used for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    Backup(BackupInfo),
    Sweep(Sweep),
}

/// What a backup is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackupKind {
    /// The files of a data directory.
    Directory,
    /// A snapshot of a running server.
    Snapshot,
}

/// A backup, and where the list of its files is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackupInfo {
    pub of: BackupKind,
    /// Names of collections, of many the first ones.
    pub collections: Vec<String>,
    pub collection_count: u64,
    pub files: u64,
    pub bytes: u64,
    pub chunks: u64,
    /// Bytes of chunks that weren't there before.
    pub sent_bytes: u64,
    /// Of a running shard: how much of its log it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<Covered>,
    /// Of a snapshot that a server took into the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotOf>,
    /// The list of files, in chunks.
    pub index: Vec<Chunk>,
}

/// A snapshot as the API names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotOf {
    /// Of its collection, as the engine names directories; empty: of everything.
    pub directory: String,
    pub name: String,
    /// Of the whole file.
    pub sha256: String,
}

/// What a backup has of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Covered {
    /// It has all slots up to this one, and perhaps some behind.
    pub slot: u64,
    /// The highest epoch of a seal up to there.
    pub epoch: u64,
    /// It has all changes of collections up to this slot, and none behind.
    pub changes: u64,
    /// Slots up to this one may have been deleted.
    pub deleted: u64,
}

/// Which backups a sweep kept; those before it that aren't named are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    pub kept: Vec<u64>,
}

/// What the numbers so far say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The highest number; 0: none.
    pub head: u64,
    /// The last sweep; 0: none.
    pub last_sweep: u64,
    /// Backups that are whole, in order.
    pub live: Vec<u64>,
}

impl Manifest {
    /// One to be created: of `entry`, behind what `history` has.
    pub fn next(history: &History, created: u64, entry: Entry) -> Manifest {
        Manifest {
            version: VERSION,
            number: history.head + 1,
            nonce: nonce(),
            created,
            last_sweep: history.last_sweep,
            entry,
        }
    }

    fn encode(&self) -> Bytes {
        let mut text = serde_json::to_string(self).expect("a manifest has string keys only");
        let sha = Sha::of(text.as_bytes());
        text.push_str(&format!("\n{sha}\n"));
        text.into()
    }

    fn decode(bytes: &[u8], number: u64) -> std::result::Result<Manifest, String> {
        let text = str::from_utf8(bytes).map_err(|_| "it isn't UTF-8".to_owned())?;
        let (line, sha) = text.split_once('\n').ok_or("it is cut off")?;
        if Sha::parse(sha.trim_end()) != Some(Sha::of(line.as_bytes())) {
            return Err("its SHA-256 is another".to_owned());
        }
        let manifest: Manifest = serde_json::from_str(line).map_err(|e| e.to_string())?;
        if manifest.version != VERSION {
            let version = manifest.version;
            return Err(format!("version {version}, this program reads {VERSION}"));
        }
        match manifest.number == number {
            true => Ok(manifest),
            false => Err(format!("it holds number {}", manifest.number)),
        }
    }
}

/// Reads one; `None` where there is none.
pub fn find(store: &Store, number: u64) -> Result<Option<Manifest>> {
    let path = manifest_path(number);
    let Some(bytes) = store.find(&path, MANIFEST_BYTES_MAX)? else {
        return Ok(None);
    };
    let read = Manifest::decode(&bytes, number);
    read.map(Some)
        .map_err(|why| StoreError::corrupt(format!("{store}/{path}: {why}")))
}

/// The same as [`read`], for who waits otherwise.
pub(crate) async fn read_async(store: &Store, number: u64) -> Result<Manifest> {
    let path = manifest_path(number);
    let bytes = crate::store::get(store.inner(), &store.to_string(), &path, MANIFEST_BYTES_MAX).await?;
    Manifest::decode(&bytes, number).map_err(|why| StoreError::corrupt(format!("{store}/{path}: {why}")))
}

/// Reads one that must be there.
pub fn read(store: &Store, number: u64) -> Result<Manifest> {
    let found = find(store, number)?;
    found.ok_or_else(|| StoreError::corrupt(format!("{store}/{} is missing", manifest_path(number))))
}

/// What the numbers so far say together.
pub fn history(store: &Store) -> Result<History> {
    let mut head = 0;
    store.list(MANIFESTS, &mut |listed| {
        head = head.max(manifest_number(&listed.path).unwrap_or(0));
        Ok(())
    })?;
    if head == 0 {
        return Ok(History {
            head,
            last_sweep: 0,
            live: vec![],
        });
    }
    let newest = read(store, head)?;
    let sweep = match &newest.entry {
        Entry::Sweep(_) => Some(newest),
        Entry::Backup(_) if newest.last_sweep > 0 => Some(read(store, newest.last_sweep)?),
        Entry::Backup(_) => None,
    };
    let (last_sweep, mut live) = match sweep {
        None => (0, vec![]),
        Some(Manifest {
            number,
            entry: Entry::Sweep(Sweep { kept }),
            ..
        }) => (number, kept),
        Some(other) => {
            let path = manifest_path(other.number);
            return Err(StoreError::corrupt(format!("{store}/{path} is no sweep")));
        }
    };
    live.extend(last_sweep + 1..=head);
    Ok(History {
        head,
        last_sweep,
        live,
    })
}

/// Whether a manifest got its number.
#[derive(Debug, Clone, PartialEq)]
pub enum Published {
    Done,
    /// Somebody else has the number, for this.
    Taken(Box<Manifest>),
}

/// Creates a manifest under its number. Where it can't be told whether that happened, it is read back: the nonce tells whose it is.
pub fn publish(store: &Store, manifest: &Manifest) -> Result<Published> {
    let created = store.create(&manifest_path(manifest.number), manifest.encode());
    let failure = match created {
        Ok(()) => return Ok(Published::Done),
        Err(e) if e.kind() == StoreErrorKind::Exists || e.is_unknown() => e,
        Err(e) => return Err(e),
    };
    match find(store, manifest.number)? {
        Some(found) if found.nonce == manifest.nonce => Ok(Published::Done),
        Some(found) => Ok(Published::Taken(Box::new(found))),
        None => Err(failure),
    }
}

/// All backups that are whole, oldest first.
pub fn list_backups(store: &Store) -> Result<Vec<(u64, u64, BackupInfo)>> {
    store.must_be_ours()?;
    let mut out = Vec::new();
    for number in history(store)?.live {
        let manifest = read(store, number)?;
        if let Entry::Backup(info) = manifest.entry {
            out.push((number, manifest.created, info));
        }
    }
    Ok(out)
}
