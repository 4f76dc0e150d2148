//! What a copy of a store's data says of itself: a file of JSON in the data directory, which is replaced as a whole.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What the file says; `None` if there is none.
pub fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>> {
    let path = dir.join(name);
    match fs::read(&path) {
        Ok(bytes) => {
            let read = serde_json::from_slice(&bytes).with_context(|| path.display().to_string());
            read.map(Some)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

/// On the disk when it returns.
pub fn write<T: Serialize>(dir: &Path, name: &str, state: &T) -> Result<()> {
    let (path, made) = (dir.join(name), dir.join(format!("{name}.tmp")));
    let written = fs::create_dir_all(dir)
        .and_then(|()| fs::write(&made, serde_json::to_vec(state)?))
        .and_then(|()| fs::File::open(&made)?.sync_all())
        .and_then(|()| fs::rename(&made, &path))
        .and_then(|()| fs::File::open(dir)?.sync_all());
    written.with_context(|| path.display().to_string())
}
