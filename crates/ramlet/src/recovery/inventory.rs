//! What a data directory consists of: the files that a copy of it needs, and no other.

use std::sync::Arc;

use ramlet_format::catalog::{self, Catalog};
use ramlet_format::manifest::{self, Manifest};
use ramlet_io::Storage;

use crate::error::{Error, Result};
use crate::recovery::manifest_store::Generations;
use crate::write::log::is_log_name;

/// A file, as its manifest knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// `file` or `directory/file`.
    pub name: String,
    /// Its length, or less.
    pub bytes_min: u64,
    /// Its length and the crc32c of it whole; `None` for logs and lists, which say themselves whether they are sound.
    pub exact: Option<(u64, u32)>,
}

/// The files of a data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Names of the collections.
    pub collections: Vec<String>,
    pub files: Vec<DataFile>,
}

/// Lists what the newest catalog and manifests list, and all logs: nobody may have the directory open. Snapshots, older lists, the machine's profile and
/// what a crash left are not among them. Fails as a start does where the newest catalog or a manifest is damaged or lost.
pub fn inventory(storage: &Arc<dyn Storage>) -> Result<Inventory> {
    let (_, catalog) = Generations::<Catalog>::newest(storage.as_ref())?;
    let catalog = catalog.ok_or_else(|| {
        Error::not_found("it holds no catalog: this is no data directory, or its catalog is lost")
    })?;
    let mut found = Inventory::default();
    found.files.push(list_file(catalog::file_name(catalog.number)));
    for entry in &catalog.collections {
        found.collections.push(entry.name.clone());
        for id in entry.directories() {
            if !storage.list_subdirs()?.iter().any(|name| name == id) {
                let (name, place) = (&entry.name, storage.location());
                return Err(Error::corrupt(format!(
                    "{place}/{id}, of collection '{name}', is missing"
                )));
            }
            let directory = storage.subdir(id)?;
            add_collection(&mut found.files, id, directory.as_ref())?;
        }
    }
    Ok(found)
}

fn list_file(name: String) -> DataFile {
    DataFile {
        name,
        bytes_min: 0,
        exact: None,
    }
}

fn add_collection(files: &mut Vec<DataFile>, id: &str, directory: &dyn Storage) -> Result<()> {
    let (_, manifest) = Generations::<Manifest>::newest(directory)?;
    let manifest =
        manifest.ok_or_else(|| Error::corrupt(format!("{}: its manifest is lost", directory.location())))?;
    files.push(list_file(format!(
        "{id}/{}",
        manifest::file_name(manifest.number)
    )));
    for entry in manifest.segments.iter().flat_map(|segment| segment.all_files()) {
        files.push(DataFile {
            name: format!("{id}/{}", entry.name),
            bytes_min: entry.bytes,
            exact: Some((entry.bytes, entry.crc)),
        });
    }
    // Those that the manifest lists must be there. Others may hold what a later, lost manifest listed: the copy is to be refused as this is.
    let names = directory.list()?;
    let listed = |name: &str| manifest.logs.iter().find(|log| log.name == name);
    for log in &manifest.logs {
        if names.binary_search(&log.name).is_err() {
            let (name, place) = (&log.name, directory.location());
            return Err(Error::corrupt(format!("{place}/{name} is missing")));
        }
    }
    for name in names.iter().filter(|name| is_log_name(name)) {
        files.push(DataFile {
            name: format!("{id}/{name}"),
            bytes_min: listed(name).map_or(0, |log| log.bytes),
            exact: None,
        });
    }
    Ok(())
}
