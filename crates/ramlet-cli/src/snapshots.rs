//! What `ramlet serve` does about snapshots: where they lie, those to begin with, and downloads.

use std::io::Read;
use std::path::{Path, absolute};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use ramlet::{Engine, SnapshotFile};
use ramlet_io::{Backend, open_best};
use ramlet_server::{ApiError, SnapshotFetch, collection_name_fault};
use ureq::Agent;

use crate::args::ServeArgs;
use crate::settings::Settings;
use crate::tls;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Silence of the other server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const REDIRECTS: u32 = 3;
const PIECE_BYTES: usize = 64 << 10;

/// Tells the engine where snapshots go, then restores what the command line names.
pub fn prepare(engine: &Arc<Engine>, settings: &Settings, args: &ServeArgs) -> Result<()> {
    let given = settings.snapshots.clone();
    let path = given.unwrap_or_else(|| settings.data.join("snapshots"));
    // The paths of `file://` are compared with it.
    let path = absolute(&path).with_context(|| path.display().to_string())?;
    let (storage, _) = open_best(&path, settings.backend)?;
    engine
        .set_snapshots(storage)
        .with_context(|| path.display().to_string())?;
    if let Some(file) = &args.storage_snapshot {
        let names = engine
            .recover_everything(&open(file)?, args.force_snapshot)
            .with_context(|| file.display().to_string())?;
        println!("restored {} collections from {}", names.len(), file.display());
    }
    for text in &args.snapshot {
        restore(engine, text, args.force_snapshot).with_context(|| format!("--snapshot {text}"))?;
    }
    Ok(())
}

fn restore(engine: &Engine, text: &str, force: bool) -> Result<()> {
    let (file, name) = text.rsplit_once(':').context("it takes FILE:COLLECTION")?;
    if let Some(fault) = collection_name_fault(name) {
        bail!("no collection can be called '{name}': {fault}");
    }
    if !force && engine.collection(name).is_ok() {
        bail!("collection '{name}' is there already; --force-snapshot replaces it");
    }
    engine.recover_collection(name, &open(Path::new(file))?, None)?;
    println!("restored '{name}' from {file}");
    Ok(())
}

fn open(path: &Path) -> Result<SnapshotFile> {
    let path = absolute(path)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(dir), Some(name), true) = (path.parent(), name, path.is_file()) else {
        bail!("{} is no file", path.display());
    };
    let (storage, _) = open_best(dir, Backend::Pread)?;
    Ok(SnapshotFile::open(storage.as_ref(), name)?)
}

/// Reads a URL for the server.
pub fn fetch() -> SnapshotFetch {
    let config = Agent::config_builder()
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(ANSWER_TIMEOUT))
        .max_redirects(REDIRECTS)
        .tls_config(tls::of_client())
        .build();
    let agent = config.new_agent();
    Arc::new(move |url, key, sink| {
        let failed = |e: &dyn std::fmt::Display| ApiError::wrong_input(format!("downloading {url}: {e}"));
        if !["http://", "https://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return Err(failed(&anyhow!("only http:// and https:// are possible")));
        }
        let mut request = agent.get(url);
        if let Some(key) = key {
            request = request.header("api-key", key);
        }
        let mut answer = request.call().map_err(|e| failed(&e))?;
        let mut body = answer.body_mut().with_config().limit(u64::MAX).reader();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match body.read(&mut piece).map_err(|e| failed(&e))? {
                0 => return Ok(()),
                n => sink(&piece[..n])?,
            }
        }
    })
}
