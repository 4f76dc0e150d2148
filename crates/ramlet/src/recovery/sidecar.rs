//! Small JSON files beside the data, for people.

use ramlet_io::{IoErrorKind, PAGE, Storage};
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};

/// No file is read further.
const FILE_BYTES_MAX: u64 = 1 << 16;

/// The text of a file; `None` when there is none.
pub(crate) fn load(storage: &dyn Storage, name: &str) -> Result<Option<Vec<u8>>> {
    let file = match storage.open(name) {
        Ok(file) => file,
        Err(error) if error.kind == IoErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = vec![0; file.len().min(FILE_BYTES_MAX) as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

/// Writes a file anew: who reads it finds the old text or the new one.
pub(crate) fn store(storage: &dyn Storage, name: &str, value: &impl Serialize) -> Result<()> {
    let new = format!("{name}.tmp");
    let mut json =
        serde_json::to_vec_pretty(value).map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
    if storage.list()?.contains(&new) {
        storage.remove(&new)?;
    }
    let mut file = storage.create(&new)?;
    // Whole pages, filled up by us: zeros, as the storage would put there, aren't JSON to other programs.
    json.resize((json.len() + 1).next_multiple_of(PAGE), b'\n');
    file.append(&json)?;
    file.sync()?;
    storage.rename(&new, name)?;
    Ok(storage.sync_dir()?)
}
