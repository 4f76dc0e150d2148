//! What is sent, and to whom.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::files::{DIM_MAX, Distance};

/// Where the vectors come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// Made as they are sent, from the seed: clustered, of unit length.
    Made { dims: usize },
    /// The rows of a file; `key` names the dataset of an HDF5 file.
    File { path: PathBuf, key: String },
}

/// The server.
#[derive(Debug, Clone)]
pub enum Where {
    /// This program's own `serve`, with so much memory, in a cgroup of that size unless `in_group` is false.
    Own { memory_bytes: u64, in_group: bool },
    /// A line for the shell in which `{port}`, `{dir}` and `{memory}` are replaced; in a cgroup, of this size if it is given.
    Command {
        command: String,
        memory_bytes: Option<u64>,
        in_group: bool,
    },
    /// One that runs already on this machine, by the number of its process.
    Running { url: String, pid: u32 },
}

/// An ingestion.
#[derive(Debug, Clone)]
pub struct IngestOptions {
    pub source: Source,
    /// At most.
    pub points: u64,
    pub distance: Distance,
    pub place: Where,
    pub api_key: Option<String>,
    /// Percent of the points to be deleted.
    pub delete: u64,
    /// Between two samples.
    pub every: Duration,
    /// Left alone at the start and at the end of each phase that waits, before its last sample.
    pub settle: Duration,
    /// The server's own directory is made in it, and removed.
    pub directory: PathBuf,
    pub seed: u64,
}

/// What of the options belongs into a record: nothing about where things lie on this machine.
#[derive(Debug, Clone, Serialize)]
pub struct Described {
    pub data: String,
    pub points: u64,
    pub dims: usize,
    pub distance: &'static str,
    pub server: String,
    pub memory_bytes: Option<u64>,
    pub delete_percent: u64,
    pub seed: u64,
}

impl IngestOptions {
    /// Fails with a sentence about what can't be.
    pub fn check(&self) -> Result<()> {
        if self.points == 0 {
            bail!("0 points are none to send");
        }
        if self.delete > 100 {
            bail!("{} percent can't be deleted", self.delete);
        }
        if self.every < Duration::from_millis(10) {
            bail!("samples are at least 10 ms apart");
        }
        if !self.directory.is_dir() {
            bail!("{} is not a directory", self.directory.display());
        }
        match &self.source {
            Source::Made { dims } if !(1..=DIM_MAX as usize).contains(dims) => {
                bail!("{dims} dimensions aren't within 1 to {DIM_MAX}")
            }
            Source::File { path, .. } if !path.is_file() => bail!("{} is not a file", path.display()),
            _ => Ok(()),
        }
    }

    pub(crate) fn described(&self, dims: usize) -> Described {
        let (server, memory_bytes) = match &self.place {
            Where::Own { memory_bytes, .. } => ("ramlet serve".to_owned(), Some(*memory_bytes)),
            Where::Command {
                command,
                memory_bytes,
                ..
            } => (program(command), *memory_bytes),
            Where::Running { .. } => ("running".to_owned(), None),
        };
        let data = match &self.source {
            Source::Made { .. } => "made".to_owned(),
            Source::File { path, .. } => path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        };
        Described {
            data,
            points: self.points,
            dims,
            distance: self.distance.api_name(),
            server,
            memory_bytes,
            delete_percent: self.delete,
            seed: self.seed,
        }
    }
}

/// The first word of a command that is no setting, without its directory.
fn program(command: &str) -> String {
    let mut words = command
        .split_whitespace()
        .filter(|word| *word != "exec" && !word.contains('='));
    let word = words.next().unwrap_or("command");
    word.rsplit('/').next().unwrap_or(word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        let sound = IngestOptions {
            source: Source::Made { dims: 8 },
            points: 10,
            distance: Distance::Cosine,
            place: Where::Running {
                url: "http://localhost:1".into(),
                pid: 1,
            },
            api_key: None,
            delete: 80,
            every: Duration::from_secs(1),
            settle: Duration::ZERO,
            directory: std::env::temp_dir(),
            seed: 1,
        };
        assert!(sound.check().is_ok());
        let unsound: [fn(&mut IngestOptions); 6] = [
            |o| o.points = 0,
            |o| o.delete = 101,
            |o| o.every = Duration::ZERO,
            |o| o.directory = PathBuf::from("/nowhere/at/all"),
            |o| o.source = Source::Made { dims: 70_000 },
            |o| {
                o.source = Source::File {
                    path: "/nowhere/at/all.npy".into(),
                    key: String::new(),
                }
            },
        ];
        for change in unsound {
            let mut options = sound.clone();
            change(&mut options);
            assert!(options.check().is_err());
        }
        assert_eq!(
            program("PORT={port} exec /opt/bin/other-server --x 1"),
            "other-server"
        );
    }
}
