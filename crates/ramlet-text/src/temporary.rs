//! Temporary files of a build: `tmp-text-*`, removed when nobody needs them any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ramlet_io::{IoErrorKind, ReadFile, Storage, WriteFile};

use crate::error::Result;

/// Numbers are never used again within a process; what an earlier process left is replaced.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A file that goes with this value.
pub(crate) struct Temporary {
    storage: Arc<dyn Storage>,
    name: String,
}

impl Temporary {
    pub fn create(storage: &Arc<dyn Storage>) -> Result<(Box<dyn WriteFile>, Temporary)> {
        let name = format!("tmp-text-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let file = match storage.create(&name) {
            Err(error) if error.kind == IoErrorKind::AlreadyExists => {
                storage.remove(&name)?;
                storage.create(&name)?
            }
            other => other?,
        };
        let temporary = Temporary {
            storage: storage.clone(),
            name,
        };
        Ok((file, temporary))
    }

    pub fn open(&self) -> Result<Arc<dyn ReadFile>> {
        Ok(self.storage.open(&self.name)?)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What can't be removed is left for the engine, which removes its temporary files when it opens.
        let _ = self.storage.remove(&self.name);
    }
}
