//! `ramlet serve --restore URL`: a server that answers while its directory comes out of a store.
//!
//! `restore.json` in the directory says which backup it is of, until all is there. A server that is started again goes on from it, also without the flag.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::HumanBytes;
use ramlet_io::Storage;
use ramlet_memory::Ledger;
use ramlet_store::{BackupKind, Pull, Restoring, StoreErrorKind, StoreUrl};
use serde::{Deserialize, Serialize};

use super::pull::{Files, sync_dirs};
use super::state;
use crate::output::say;

const STATE: &str = "restore.json";
/// Between two tries of a store that fails.
const PAUSE: Duration = Duration::from_secs(2);

/// Which backup the directory is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    url: String,
    /// The store's id: another one may stand at the URL one day.
    store: String,
    backup: u64,
    /// All but the files of segments is there, and an engine may have written more: it isn't fetched again.
    begun: bool,
}

/// A directory that is being restored.
pub struct Restore {
    restoring: Arc<Restoring>,
    dir: PathBuf,
    begun: Instant,
}

/// Begins, or goes on; `None`: the directory is whole. Before the engine opens it.
pub fn prepare(url: Option<&str>, dir: &Path, ledger: &Arc<Ledger>) -> Result<Option<Restore>> {
    let begun = Instant::now();
    let found = state::read::<State>(dir, STATE)?;
    let url = match (&found, url) {
        (None, None) => return Ok(None),
        (None, Some(url)) if has_data(dir)? => {
            say(format_args!(
                "{} has data: nothing is restored from {url}",
                dir.display()
            ));
            return Ok(None);
        }
        (Some(state), Some(url)) if state.url != url => {
            bail!(
                "{} is being restored from {}, not from {url}",
                dir.display(),
                state.url
            )
        }
        (Some(state), _) => state.url.clone(),
        (None, Some(url)) => url.to_owned(),
    };
    let store = ramlet_store::open(&StoreUrl::parse(&url)?, false)?;
    store.must_be_ours()?;
    let id = store.id()?;
    if let Some(state) = &found
        && state.store != id
    {
        bail!(
            "{url} isn't the store that {} is being restored from",
            dir.display()
        );
    }
    let memory = ledger.consumer("restore", ledger.limit());
    let number = found.as_ref().map(|state| state.backup);
    let pull = Pull::within(&store, number, &memory)?;
    if pull.info.of == BackupKind::Snapshot {
        bail!(
            "backup {} of {url} is a snapshot, whose files aren't those of a directory: `ramlet store pull` makes one of it",
            pull.number
        );
    }
    let has_begun = found.as_ref().is_some_and(|state| state.begun);
    let mut state = State {
        url: url.clone(),
        store: id,
        backup: pull.number,
        begun: has_begun,
    };
    if found.is_none() {
        state::write(dir, STATE, &state)?;
    }
    let (number, bytes) = (pull.number, pull.info.bytes);
    let restoring = pull.run_beside(&Files(dir.to_owned()), has_begun, &mut |_| {})?;
    sync_dirs(dir)?;
    state.begun = true;
    state::write(dir, STATE, &state)?;
    let waiting = restoring.progress().bytes;
    say(format_args!(
        "restoring backup {number} of {url}: {} of {} are fetched while the server answers",
        HumanBytes(waiting),
        HumanBytes(bytes)
    ));
    Ok(Some(Restore {
        restoring,
        dir: dir.to_owned(),
        begun,
    }))
}

impl Restore {
    /// The directory, as the engine is to see it.
    pub fn over(&self, local: Arc<dyn Storage>) -> Arc<dyn Storage> {
        self.restoring.over(local)
    }

    /// Fetches the rest while the server answers.
    pub fn run(self) -> Result<Running> {
        let restoring = self.restoring.clone();
        let thread = thread::Builder::new().name("restore".to_owned());
        thread.spawn(move || self.fetch()).context("starting a thread")?;
        Ok(Running(restoring))
    }

    fn fetch(&self) {
        let mut told = false;
        loop {
            match self.restoring.fetch_all() {
                Ok(true) => break,
                Ok(false) => return,
                // It doesn't change by itself.
                Err(e) if e.kind() == StoreErrorKind::Corrupt => {
                    return tracing::error!("the restore stands still: {e}");
                }
                Err(e) if !told => {
                    tracing::warn!("the restore waits for the store: {e}");
                    told = true;
                }
                Err(_) => {}
            }
            thread::sleep(PAUSE);
        }
        let path = self.dir.join(STATE);
        let removed = fs::remove_file(&path).and_then(|()| fs::File::open(&self.dir)?.sync_all());
        if let Err(e) = removed {
            return tracing::error!("{}: {e}", path.display());
        }
        let done = self.restoring.progress();
        tracing::info!(
            "restored: {} fetched in {:.1} s while the server answered",
            HumanBytes(done.fetched),
            self.begun.elapsed().as_secs_f64()
        );
    }
}

/// What goes on beside the server.
pub struct Running(Arc<Restoring>);

impl Running {
    /// Not waited for: a store that fails is asked for long, and what is half written is verified at the next start.
    pub fn stop(&self) {
        self.0.stop();
    }
}

fn has_data(dir: &Path) -> Result<bool> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries.with_context(|| dir.display().to_string())?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("CATALOG-")) {
            return Ok(true);
        }
    }
    Ok(false)
}
