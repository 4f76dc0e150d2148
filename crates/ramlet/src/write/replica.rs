//! What nodes over a shared log need of an engine: groups go there first, groups from there are applied, and the files can be copied meanwhile.
//!
//! A writer gives each group to a [`GroupLog`] before its own log file, so its directory never has a group that the shared log lacks. A reader applies the
//! groups that it finds there, by their numbers: one that its own log has already is passed over. Neither this file nor any other of the engine knows what
//! the shared log is.

use std::sync::Arc;

use ramlet_format::catalog;
use ramlet_format::manifest;
use ramlet_io::ReadFile;

use crate::collection::Collection;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::read::lookup::Lookup;
use crate::recovery::catalog::number_of;
use crate::state::core::Core;
use crate::write::group_commit::apply_followed;
use crate::write::shared_log::{Followed, GroupLog};

/// What a thread that applies groups holds.
pub struct Follower(Lookup);

/// A file of a data directory at one moment.
pub struct CopiedFile {
    /// `file` or `directory/file`.
    pub name: String,
    pub bytes: u64,
    /// Its length and the crc32c of it whole, where the manifest says so.
    pub exact: Option<(u64, u32)>,
    content: Content,
}

enum Content {
    List(Vec<u8>),
    File(Arc<dyn ReadFile>),
    /// A log file, up to what was synced; zeros follow.
    Log(Arc<dyn ReadFile>, u64),
}

impl CopiedFile {
    /// Fills `out` from `at` on.
    pub fn read_at(&self, out: &mut [u8], at: u64) -> Result<()> {
        match &self.content {
            Content::List(bytes) => {
                let at = at as usize;
                out.copy_from_slice(&bytes[at..at + out.len()]);
            }
            Content::File(file) => file.read_at(out, at)?,
            Content::Log(file, end) => {
                let written = (end.saturating_sub(at)).min(out.len() as u64) as usize;
                let (written, rest) = out.split_at_mut(written);
                if !written.is_empty() {
                    file.read_at(written, at)?;
                }
                rest.fill(0);
            }
        }
        Ok(())
    }
}

/// Takes a file of a copy.
pub type TakeFile<'a> = &'a mut dyn FnMut(&CopiedFile) -> Result<()>;

impl Engine {
    /// From now on groups are given to `log` first. Once, before the first write.
    pub fn set_group_log(&self, log: Arc<dyn GroupLog>) {
        let _ = self.shared().group_log.set(log);
        self.shared().segment_ids.share();
    }

    /// For a thread that is to apply groups.
    pub fn follower(&self) -> Result<Follower> {
        Ok(Follower(self.lookup()?))
    }

    /// Applies a group of the shared log. It is in the collection's own log when this returns.
    pub fn follow_group(
        &self,
        id: &str,
        lsn: u64,
        group: &[u8],
        follower: &mut Follower,
    ) -> Result<Followed> {
        let Some(core) = self.core_of(id)? else {
            return Ok(Followed::Gone);
        };
        let applied = core.guarded(|| apply_followed(&core, lsn, group, &mut follower.0));
        follower.0.trim();
        applied.inspect_err(|_| follower.0.settle())
    }

    /// A collection or shard by the name of its directory; `None`: it was deleted.
    pub(crate) fn core_of(&self, id: &str) -> Result<Option<Arc<Core>>> {
        Ok(self.handle_of(id)?.map(|(_, core)| core))
    }

    /// The same with its handle, which keeps it loaded.
    pub(crate) fn handle_of(&self, id: &str) -> Result<Option<(Arc<Collection>, Arc<Core>)>> {
        let name = {
            let names = self.names();
            let mut all = names.catalog.collections.iter();
            match all.find(|entry| entry.directories().any(|directory| directory == id)) {
                Some(entry) => entry.name.clone(),
                None if number_of(id).is_some_and(|number| number < names.catalog.next_id) => {
                    return Ok(None);
                }
                None => {
                    return Err(Error::corrupt(format!(
                        "the shared log has changes of {id}, which was never created here"
                    )));
                }
            }
        };
        let collection = self.collection(&name)?;
        let core = collection.cores().into_iter().find(|core| core.id == id);
        Ok(core.map(|core| (collection, core)))
    }

    /// The number that the next collection or shard gets.
    pub fn next_number(&self) -> u64 {
        self.names().catalog.next_id
    }

    /// The next collection is to get this number; false: a catalog that is committed has used it up.
    pub fn begin_number(&self, number: u64) -> bool {
        let mut names = self.names();
        let is_free = names.next_committed <= number;
        if is_free {
            // A create that failed here may have gone on.
            names.catalog.next_id = number;
        }
        is_free
    }

    /// The number of a collection, by its name or an alias.
    pub fn number_of_collection(&self, name: &str) -> Option<u64> {
        let names = self.names();
        names
            .entry(names.target(name))
            .and_then(|entry| number_of(&entry.id))
    }

    /// Tells the files of all collections, each as of one moment of its own. Writes go on; jobs wait while logs are read. Collections are neither created
    /// nor deleted meanwhile, nor are their settings changed: that is the caller's to see to.
    pub fn copy(&self, take: TakeFile<'_>) -> Result<()> {
        let catalog = self.names().catalog.clone();
        for entry in &catalog.collections {
            let collection = self.collection(&entry.name)?;
            for core in collection.cores() {
                self.copy_core(&core, take)?;
            }
        }
        take(&of_list(catalog::file_name(catalog.number), catalog.encode()))
    }

    fn copy_core(&self, core: &Core, take: TakeFile<'_>) -> Result<()> {
        let mut segments = Vec::new();
        {
            // No log file is taken out of use meanwhile, and none is written anew.
            let _job = self.shared().job();
            let storage = &core.file_context.storage;
            let mut logs = Vec::new();
            let (name, list) = {
                let writer = core.writer();
                core.check_open()?;
                writer.check_writable()?;
                for file in writer.manifest.segments.iter().flat_map(|s| s.all_files()) {
                    segments.push(CopiedFile {
                        name: format!("{}/{}", core.id, file.name),
                        bytes: file.bytes,
                        exact: Some((file.bytes, file.crc)),
                        content: Content::File(storage.open(&file.name)?),
                    });
                }
                for (entry, end) in writer.log_ends() {
                    logs.push(CopiedFile {
                        name: format!("{}/{}", core.id, entry.name),
                        bytes: entry.bytes,
                        exact: None,
                        content: Content::Log(storage.open(&entry.name)?, end),
                    });
                }
                (
                    manifest::file_name(writer.manifest.number),
                    writer.manifest.encode(),
                )
            };
            take(&of_list(format!("{}/{name}", core.id), list))?;
            logs.iter().try_for_each(&mut *take)?;
        }
        segments.iter().try_for_each(take)
    }
}

fn of_list(name: String, list: Vec<u8>) -> CopiedFile {
    CopiedFile {
        name,
        bytes: list.len() as u64,
        exact: None,
        content: Content::List(list),
    }
}
