//! What nodes over a shared log need so that one of them builds for the others: how much it has built, and segments that are offered and taken.
//!
//! Whoever brings them writes their files into the collection's directory, where no manifest lists them: after a crash they are removed as what is left of
//! any job. [`Adoption::finish`] lists them, or an [`Adoption`] that is dropped removes them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ramlet_format::manifest::{Manifest, SegmentEntry};

use crate::collection::Collection;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::jobs::adopt::{self, Fits};
use crate::jobs::{Moment, candidates};
use crate::recovery::catalog::{is_directory_id, number_of};
use crate::state::core::Core;

/// What a collection makes of what another node offers.
pub enum Offered {
    /// It takes them, once their files are brought.
    Wanted(Adoption),
    /// It has them, or as good ones, or is gone.
    Nothing,
    /// They have changes that aren't here yet.
    Early,
    /// They are of no use here, and why.
    Never(String),
}

/// Segments of another node on their way into a collection, which stays loaded meanwhile.
pub struct Adoption {
    core: Arc<Core>,
    _collection: Arc<Collection>,
    offered: Manifest,
    wanted: Vec<SegmentEntry>,
}

impl Adoption {
    /// The files to be brought: `directory/file`.
    pub fn files(&self) -> impl Iterator<Item = String> + '_ {
        let files = self.wanted.iter().flat_map(|entry| entry.all_files());
        files.map(|file| format!("{}/{}", self.core.id, file.name))
    }

    /// Makes them segments of the collection; false: they are of no use by now.
    pub fn finish(self) -> Result<bool> {
        let done = self.core.guarded(|| adopt::adopt(&self.core, &self.offered))?;
        if done {
            self.core.builds_alone.store(false, Ordering::Release);
        }
        Ok(done)
    }
}

impl Drop for Adoption {
    fn drop(&mut self) {
        let cleaned = self.core.guarded(|| {
            adopt::clean(&self.core, &self.wanted);
            Ok(())
        });
        if let Err(error) = cleaned {
            tracing::debug!(collection = self.core.name(), directory = %self.core.id, %error, "what was brought of another node is removed at the next start");
        }
    }
}

impl Engine {
    /// Whether another node builds indexes and merges for this one. While it does, memtables become segments here and nothing else is built, but where
    /// memory for files is short.
    pub fn set_builds_elsewhere(&self, is_so: bool) {
        if self.shared().builds_elsewhere.swap(is_so, Ordering::AcqRel) && !is_so {
            self.shared().wake_maintenance();
        }
    }

    /// What another node builds of a collection can't be had: it is built here, until something of there is taken. By the name of its directory.
    pub fn build_alone(&self, id: &str) -> Result<()> {
        if let Some(core) = self.core_of(id)? {
            core.builds_alone.store(true, Ordering::Release);
            self.shared().wake_maintenance();
        }
        Ok(())
    }

    /// How many merges and index builds were committed since the start.
    pub fn built(&self) -> u64 {
        self.shared().built.load(Ordering::Acquire)
    }

    /// How many changes of settings were.
    pub fn changed(&self) -> u64 {
        self.shared().changed.load(Ordering::Acquire)
    }

    /// Whether something is built just now, or is about to be.
    pub fn is_building(&self) -> bool {
        self.shared().one_by_one().any(|core| {
            core.progress.job().is_some()
                || !core.is_dropped() && core.backoff.first().is_none() && {
                    let writer = core.writer();
                    let mut moments = [Moment::Busy, Moment::Idle].into_iter();
                    moments.any(|moment| !candidates(&core, &writer, moment).is_empty())
                }
        })
    }

    /// What the collection of a manifest, as another node has committed it, makes of its segments.
    pub fn offered(&self, manifest: &[u8]) -> Result<Offered> {
        let offered = Manifest::decode(manifest).map_err(|e| Error::corrupt(e.to_string()))?;
        if !is_directory_id(&offered.collection) {
            return Err(Error::corrupt(format!("a manifest of '{}'", offered.collection)));
        }
        if number_of(&offered.collection).is_none_or(|number| number >= self.next_number()) {
            return Ok(Offered::Early);
        }
        // Nothing of use, whatever is here: it isn't loaded for that.
        if !adopt::is_built(&offered) {
            return Ok(Offered::Nothing);
        }
        let Some((collection, core)) = self.handle_of(&offered.collection)? else {
            return Ok(Offered::Nothing);
        };
        let wanted = match core.guarded(|| adopt::fits(&core, &offered))? {
            Fits::Nothing => return Ok(Offered::Nothing),
            Fits::Early => return Ok(Offered::Early),
            Fits::Never(why) => return Ok(Offered::Never(why)),
            Fits::Wanted(wanted) => wanted,
        };
        let (needed, free) = (
            adopt::disk_needed(&wanted),
            core.file_context.storage.free_bytes()?,
        );
        if needed > free {
            return Ok(Offered::Never(format!(
                "its segments need {needed} bytes of free disk, and {free} are free"
            )));
        }
        // What an attempt before left may be of another build.
        adopt::clean(&core, &wanted);
        Ok(Offered::Wanted(Adoption {
            core,
            _collection: collection,
            offered,
            wanted,
        }))
    }
}
