//! The progress file of an import from a server, for resuming it.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Serialize, Deserialize)]
struct State {
    from: String,
    to: String,
    collections: BTreeMap<String, Place>,
}

#[derive(Default, Serialize, Deserialize)]
struct Place {
    points: u64,
    /// The id to go on with, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<Box<RawValue>>,
    done: bool,
}

/// The file, and what it says.
pub struct Resume {
    path: PathBuf,
    state: State,
}

impl Resume {
    /// What an import between the same two servers left, or a beginning. The file of another import is refused.
    pub fn open(path: &Path, from: &str, to: &str) -> Result<Resume> {
        let place = || path.display().to_string();
        let state = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("{}, the progress file of an import, can't be read", place()))?,
            Err(e) if e.kind() == ErrorKind::NotFound => State {
                from: from.to_string(),
                to: to.to_string(),
                collections: BTreeMap::new(),
            },
            Err(e) => return Err(e).with_context(place),
        };
        if (state.from.as_str(), state.to.as_str()) != (from, to) {
            bail!(
                "{} is of an import from {} to {}: finish that import, remove the file, or name another file with --state",
                place(),
                state.from,
                state.to
            );
        }
        Ok(Resume {
            path: path.to_owned(),
            state,
        })
    }

    pub fn is_done(&self, name: &str) -> bool {
        self.state.collections.get(name).is_some_and(|place| place.done)
    }

    /// Points that are in.
    pub fn points(&self, name: &str) -> u64 {
        self.state.collections.get(name).map_or(0, |place| place.points)
    }

    /// The id to go on with.
    pub fn offset(&self, name: &str) -> Option<String> {
        let place = self.state.collections.get(name)?;
        place.offset.as_ref().map(|offset| offset.get().to_string())
    }

    /// So many points are acknowledged, and the next is `offset`.
    pub fn at(&mut self, name: &str, offset: Option<&str>, points: u64) -> Result<()> {
        let offset = offset
            .map(|text| RawValue::from_string(text.to_string()))
            .transpose()?;
        let place = self.state.collections.entry(name.to_string()).or_default();
        (place.offset, place.points) = (offset, points);
        self.write()
    }

    /// Begins a collection again.
    pub fn forget(&mut self, name: &str) -> Result<()> {
        self.state.collections.remove(name);
        self.write()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn done(&mut self, name: &str) -> Result<()> {
        self.state.collections.entry(name.to_string()).or_default().done = true;
        self.write()
    }

    /// Nothing is left to go on with.
    pub fn finish(self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(e).with_context(|| self.path.display().to_string())
            }
            _ => Ok(()),
        }
    }

    /// Whole or not at all. Not synced: an older place costs a few pages that are sent again.
    fn write(&self) -> Result<()> {
        let tmp = self.path.with_extension("tmp");
        let write = || {
            fs::write(&tmp, serde_json::to_vec(&self.state)?)?;
            fs::rename(&tmp, &self.path)
        };
        write().with_context(|| self.path.display().to_string())
    }
}
