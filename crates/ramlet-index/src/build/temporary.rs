//! Temporary files of a build.

use std::sync::Arc;

use ramlet_io::{BatchReader, IoErrorKind, ReadFile, Storage, WriteFile};

use crate::error::Result;

/// A temporary file, removed when dropped.
pub(crate) struct Temporary<'a> {
    storage: &'a dyn Storage,
    name: &'static str,
}

impl<'a> Temporary<'a> {
    /// Creates the file; what a crashed build left under that name goes first.
    pub(crate) fn create(
        storage: &'a dyn Storage,
        name: &'static str,
    ) -> Result<(Temporary<'a>, Box<dyn WriteFile>)> {
        match storage.remove(name) {
            Err(error) if error.kind != IoErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let file = storage.create(name)?;
        Ok((Temporary { storage, name }, file))
    }

    /// Opens what was written and flushed.
    pub(crate) fn open(&self) -> Result<Arc<dyn ReadFile>> {
        Ok(self.storage.open(self.name)?)
    }

    /// What reads at most so many places of it at once.
    pub(crate) fn reader(&self, depth: usize) -> Result<Box<dyn BatchReader>> {
        Ok(self.storage.reader(depth)?)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // Nothing is lost if it stays: the next build removes it, and so does the engine when it opens.
        let _ = self.storage.remove(self.name);
    }
}
