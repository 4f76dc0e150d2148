//! The progress file of an import of files, for resuming it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::ids::Numbering;

const WRITE_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    files: Vec<PathBuf>,
    /// Of all files.
    bytes: u64,
    to: String,
    collection: String,
    /// Points of the files that are acknowledged without a gap.
    points: u64,
    /// The ids that those have, and the others will.
    numbering: Option<Numbering>,
}

impl State {
    fn files_named(&self) -> String {
        let names: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        names.join(", ")
    }

    /// That the files have other bytes now, as they do once a line is corrected: whether the points before are the same is for the user to say.
    fn changed(&self, bytes: u64, place: &str) -> String {
        let again = format!("remove {place} to start again");
        let how = match (&self.numbering, self.points) {
            (_, 0) | (None, _) => again,
            (Some(numbering), points) => format!(
                "if its first {points} points are the same as then, continue with {} instead of --resume; otherwise {again}",
                numbering.going_on(points)
            ),
        };
        format!(
            "{} changed since the import that {place} is of ({} bytes then, {bytes} now): {how}",
            self.files_named(),
            self.bytes
        )
    }
}

/// The file, and what it says. Not synced: an older place costs a few requests that are sent again.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    state: State,
    written: Mutex<Instant>,
}

impl Place {
    /// What an import of the same file into the same collection left, or a beginning. The state of another import is refused.
    pub fn open(path: &Path, files: &[PathBuf], url: &str, collection: &str) -> Result<Place> {
        let place = || path.display().to_string();
        let mut bytes = 0;
        for file in files {
            bytes += fs::metadata(file)
                .with_context(|| file.display().to_string())?
                .len();
        }
        let mut state = State {
            files: files.to_vec(),
            bytes,
            to: url.to_string(),
            collection: collection.to_string(),
            points: 0,
            numbering: None,
        };
        match fs::read(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e).with_context(place),
            Ok(text) => {
                let there: State = serde_json::from_slice(&text)
                    .with_context(|| format!("{}, the progress file of an import, can't be read", place()))?;
                state.points = there.points;
                state.numbering.clone_from(&there.numbering);
                let changed = State {
                    bytes: there.bytes,
                    ..state.clone()
                };
                if there != state && there == changed {
                    bail!("{}", there.changed(bytes, &place()));
                }
                if there != state {
                    bail!(
                        "{} is of an import of {} ({} bytes) into '{}' at {}: finish that import, remove the file, or name another file with --state",
                        place(),
                        there.files_named(),
                        there.bytes,
                        there.collection,
                        there.to
                    );
                }
            }
        }
        Ok(Place {
            path: path.to_owned(),
            state,
            written: Mutex::new(Instant::now()),
        })
    }

    /// Points that were in when it was opened.
    pub fn points(&self) -> u64 {
        self.state.points
    }

    /// What an import before has numbered by.
    pub fn numbering(&self) -> Option<&Numbering> {
        self.state.numbering.as_ref()
    }

    /// Numbers by this from now on.
    pub fn number_by(&mut self, numbering: &Numbering) -> Result<()> {
        self.state.numbering = Some(numbering.clone());
        self.write(self.state.points)
    }

    /// Begins again.
    pub fn restart(&mut self) -> Result<()> {
        self.state.points = 0;
        self.write(0)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// So many are in now; written once a second.
    pub fn at(&self, points: u64) -> Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.elapsed() < WRITE_EVERY {
            return Ok(());
        }
        *written = Instant::now();
        self.write(points)
    }

    /// As [`Place::at`], at once. Whole or not at all.
    pub fn write(&self, points: u64) -> Result<()> {
        let state = State {
            points,
            ..self.state.clone()
        };
        let tmp = self.path.with_extension("tmp");
        let write = || {
            fs::write(&tmp, serde_json::to_vec(&state)?)?;
            fs::rename(&tmp, &self.path)
        };
        write().with_context(|| self.path.display().to_string())
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
}
