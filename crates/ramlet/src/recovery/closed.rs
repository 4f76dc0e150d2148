//! Collections that couldn't be opened: they are listed with the reason, and can be dropped; the others are served.

use ramlet_format::catalog::CollectionEntry;
use ramlet_io::Storage;

use crate::error::{Error, ErrorKind};
use crate::faults::panics::guarded;
use crate::jobs::Settings;
use crate::read::info::{CollectionInfo, CollectionStatus};
use crate::recovery::manifest_store;
use crate::types::CollectionConfig;

/// A collection whose files are there and aren't in use. Nothing writes to its directory.
pub struct ClosedCollection {
    /// Its own directory, then those of its shards.
    pub directories: Vec<String>,
    why: Error,
    /// As far as its manifest can be read.
    config: CollectionConfig,
}

impl ClosedCollection {
    pub fn new(entry: &CollectionEntry, storage: Option<&dyn Storage>, why: Error) -> ClosedCollection {
        ClosedCollection {
            directories: entry.directories().map(str::to_owned).collect(),
            why,
            config: storage.and_then(config_of).unwrap_or_default(),
        }
    }

    /// What the opening met.
    pub fn why(&self) -> &Error {
        &self.why
    }

    /// Whether it wants more memory than there is, and nothing else.
    pub fn is_too_large(&self) -> bool {
        self.why.is_over_budget()
    }

    /// What whoever asks for it is told (503).
    pub fn error(&self, name: &str) -> Error {
        if self.is_too_large() {
            let what = format!(
                "collection `{name}` doesn't fit into this budget: {}. Its files are sound, and nothing writes to them: start with more --memory to open it",
                self.why.fact()
            );
            return Error::new(ErrorKind::CollectionClosed, what);
        }
        let what = format!(
            "collection `{name}` could not be opened at the start: {}. Nothing writes to its files ({}). `ramlet check` tells more, `ramlet salvage` \
             writes what can be read as a snapshot; a restart tries again; it can be deleted, or restored from a snapshot",
            self.why,
            self.directories.join(", ")
        );
        Error::new(ErrorKind::CollectionClosed, what)
    }

    pub fn info(&self, name: &str) -> CollectionInfo {
        CollectionInfo {
            status: CollectionStatus::Red,
            optimizer_error: Some(self.error(name).to_string()),
            points_count: 0,
            indexed_vectors_count: 0,
            vectors_count: Vec::new(),
            segments_count: 0,
            config: self.config.clone(),
            payload_index_points: Vec::new(),
            disk_bytes: 0,
            last_operation_id: 0,
            update_queue: 0,
            memory: Vec::new(),
        }
    }
}

fn config_of(storage: &dyn Storage) -> Option<CollectionConfig> {
    // What ended the opening may end this as well.
    let manifest = guarded(|| manifest_store::newest_manifest(storage))
        .ok()
        .flatten()?;
    let settings: Settings = serde_json::from_value(manifest.config).ok()?;
    Some(settings.config)
}
