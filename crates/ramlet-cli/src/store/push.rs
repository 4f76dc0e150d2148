//! `ramlet store push`: of a directory that no server has open, or of a running server through a snapshot.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use indicatif::{HumanBytes, ProgressBar};
use ramlet_io::{Backend, Storage};
use ramlet_store::{
    BackupKind, Described, Push, PushReport, SnapshotPush, SourceFile, Store, StoreError, StoreErrorKind,
    push, push_files,
};
use serde_json::{Value, json};
use ureq::http::Method;

use super::progress::Progress;
use crate::import::api::Api;
use crate::output::{self, many, note};

/// The one file of a backup of a running server.
pub use ramlet_store::limits::SNAPSHOT_FILE as SNAPSHOT;

/// What is backed up.
pub enum Source {
    Directory(Arc<dyn Storage>),
    Server(Api),
}

impl Source {
    pub fn open(source: &str, key: Option<String>) -> Result<Source> {
        if source.starts_with("http://") || source.starts_with("https://") {
            let api = Api::new(source, key, 1)?;
            api.check_reachable()?;
            return Ok(Source::Server(api));
        }
        if !Path::new(source).is_dir() {
            bail!("{source} is no directory, nor the URL of a server");
        }
        // Buffered reads: each file is read once, from its beginning to its end.
        let (storage, _) = ramlet_io::open_best(Path::new(source), Backend::Pread)
            .with_context(|| format!("opening {source}"))?;
        // Before anything is made there or in the store.
        ramlet::inventory(&storage).with_context(|| source.to_owned())?;
        Ok(Source::Directory(storage))
    }
}

/// Pushes it and says what was sent.
pub fn run(store: &Store, source: &Source, memory: u64, json: bool) -> Result<()> {
    let report = match source {
        Source::Directory(storage) => directory(store, storage, memory)?,
        Source::Server(api) => server(store, api, memory)?,
    };
    tell(store, &report, json)
}

fn directory(store: &Store, storage: &Arc<dyn Storage>, memory: u64) -> Result<PushReport> {
    let _lock = storage
        .lock()
        .with_context(|| format!("{}: is a server using it?", storage.location()))?;
    // Now nobody changes it.
    let inventory = ramlet::inventory(storage)?;
    let bytes = inventory.files.iter().map(|file| file.bytes_min).sum();
    let files: Vec<SourceFile> = inventory
        .files
        .into_iter()
        .map(|file| SourceFile {
            name: file.name,
            bytes_min: file.bytes_min,
            exact: file.exact,
        })
        .collect();
    let mut progress = Progress::new(Some(bytes));
    let pushed = push(
        store,
        memory,
        super::now()?,
        &mut |report| progress.tell(report.bytes, report.sent_bytes, "sent"),
        &mut |push| {
            push_files(push, storage, &files)?;
            Ok(Described {
                of: BackupKind::Directory,
                collections: inventory.collections.clone(),
                covered: None,
                snapshot: None,
            })
        },
    );
    progress.end();
    Ok(pushed?)
}

fn server(store: &Store, api: &Api, memory: u64) -> Result<PushReport> {
    let mut progress = Progress::new(None);
    let pushed = push(
        store,
        memory,
        super::now()?,
        &mut |report| progress.tell(report.bytes, report.sent_bytes, "sent"),
        &mut |push| {
            let failed = |e: anyhow::Error| StoreError::new(StoreErrorKind::Failed, format!("{e:#}"));
            snapshot(api, push).map_err(failed)
        },
    );
    progress.end();
    Ok(pushed?)
}

/// Has a snapshot of all made, pushes it as it comes, and has it removed.
fn snapshot(api: &Api, push: &mut Push<'_>) -> Result<Described> {
    let all = api.ok(Method::GET, "/collections", &Value::Null)?;
    let names = all["collections"]
        .as_array()
        .context("an answer without a list")?;
    let collections = names
        .iter()
        .filter_map(|collection| Some(collection["name"].as_str()?.to_owned()))
        .collect();
    let made = api.ok(Method::POST, "/snapshots", &Value::Null)?;
    let name = made["name"].as_str().context("an answer without a name")?;
    let path = format!("/snapshots/{name}");
    let sent = sent(api, &path, push);
    // It isn't needed any more, whatever became of it.
    if let Err(e) = api.ok(Method::DELETE, &path, &Value::Null) {
        note!("the server keeps its snapshot {name}: {e:#}");
    }
    sent?;
    Ok(Described {
        of: BackupKind::Snapshot,
        collections,
        covered: None,
        snapshot: None,
    })
}

fn sent(api: &Api, path: &str, push: &mut Push<'_>) -> Result<()> {
    let mut sink = Sink(SnapshotPush::begin(push, SNAPSHOT)?);
    api.download(path, &mut |_| ProgressBar::hidden(), &mut sink)?;
    Ok(sink.0.end()?)
}

struct Sink<'p, 'a>(SnapshotPush<'p, 'a>);

impl Write for Sink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn tell(store: &Store, report: &PushReport, json: bool) -> Result<()> {
    if json {
        return output::line(format_args!(
            "{}",
            json!({
                "backup": report.number,
                "files": report.files,
                "bytes": report.bytes,
                "chunks": report.chunks,
                "sent_chunks": report.sent_chunks,
                "sent_bytes": report.sent_bytes,
            })
        ));
    }
    output::line(format_args!(
        "{store}: backup {}, {}, {}; {} sent in {}",
        report.number,
        many(report.files, "file"),
        HumanBytes(report.bytes),
        HumanBytes(report.sent_bytes),
        many(report.sent_chunks, "object")
    ))
}
