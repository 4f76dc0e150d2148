//! Directories of collections that the catalog doesn't list, after a crash, a drop or the loss of a catalog.

use ramlet_format::catalog::{self, Catalog};
use ramlet_io::Storage;

use crate::error::Result;
use crate::faults::panics::guarded;
use crate::recovery::catalog::{is_directory_id, number_of};
use crate::recovery::manifest_store;
use crate::write::log::{self, Log};

/// What a directory holds that no catalog lists.
pub enum Orphan {
    /// A collection that was being created.
    Unfinished,
    Collection,
    Foreign,
}

pub fn orphan(storage: &dyn Storage) -> Result<Orphan> {
    let Some(manifest) = manifest_store::newest_manifest(storage)? else {
        let ours =
            |name: &String| log::is_log_name(name) || name.ends_with(".tmp") || name.starts_with("tmp-");
        let unfinished = storage.list()?.iter().all(ours) && storage.list_subdirs()?.is_empty();
        return Ok(match unfinished {
            true => Orphan::Unfinished,
            false => Orphan::Foreign,
        });
    };
    let is_empty = manifest.segments.is_empty() && Log::verify(storage, &manifest)? == 0;
    Ok(match is_empty {
        true => Orphan::Unfinished,
        false => Orphan::Collection,
    })
}

/// Of a collection with points that the newest catalog there is doesn't know.
pub fn unlisted(storage: &dyn Storage, catalog: &Catalog) -> String {
    format!(
        "{}: a collection with points, which {} doesn't list: a newer catalog is missing. Bring it back, or move the directory away",
        storage.location(),
        catalog::file_name(catalog.number)
    )
}

/// Directories with points that the catalog should list and doesn't.
pub fn unlisted_collections(storage: &dyn Storage, catalog: &Catalog) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for id in storage.list_subdirs()? {
        let newer = is_directory_id(&id) && number_of(&id).is_some_and(|number| number >= catalog.next_id);
        if newer && !catalog.lists(&id) {
            let directory = storage.subdir(&id)?;
            match guarded(|| orphan(directory.as_ref())) {
                Ok(Orphan::Collection) => found.push(unlisted(directory.as_ref(), catalog)),
                Ok(Orphan::Unfinished | Orphan::Foreign) => {}
                Err(e) => found.push(format!(
                    "{}: it isn't listed, and can't be read: {e}",
                    directory.location()
                )),
            }
        }
    }
    Ok(found)
}
