//! `ramlet snapshot`: snapshots of a running server's collections, listed, made, fetched, restored, deleted.

use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result, bail};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use ramlet_bench::api::collection_path;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::args::{SnapshotArgs, SnapshotCommand};
use crate::import::api::Api;
use crate::output::{self, shown};

/// Does one of them.
pub fn run(args: &SnapshotArgs) -> Result<()> {
    let api = Api::new(&args.url, args.api_key.clone(), 1)?;
    api.check_reachable()?;
    let of = args.collection.as_deref();
    match &args.command {
        SnapshotCommand::List => list(&api, of, args.json),
        SnapshotCommand::Create => {
            let made = api.ok(Method::POST, &snapshots_path(of), &Value::Null)?;
            tell(&made, args.json)
        }
        SnapshotCommand::Download { name, to } => {
            let to = to.clone().unwrap_or_else(|| Path::new(name).to_owned());
            download(&api, of, name, &to)?;
            done(
                args.json,
                "downloaded",
                json!({"name": name, "file": to.display().to_string()}),
            )
        }
        SnapshotCommand::Restore { file } => {
            let Some(collection) = of else {
                bail!("--collection must name the collection to restore");
            };
            upload(&api, collection, file)?;
            done(
                args.json,
                "restored",
                json!({"collection": collection, "file": file.display().to_string()}),
            )
        }
        SnapshotCommand::Delete { name } => {
            api.ok(Method::DELETE, &snapshot_path(of, name), &Value::Null)?;
            done(args.json, "deleted", json!({"name": name}))
        }
    }
}

/// Of a collection, or of everything.
fn snapshots_path(collection: Option<&str>) -> String {
    match collection {
        Some(collection) => format!("{}/snapshots", collection_path(collection)),
        None => "/snapshots".to_owned(),
    }
}

fn snapshot_path(collection: Option<&str>, name: &str) -> String {
    // Encoded as names of collections are.
    let name = collection_path(name);
    let name = name.strip_prefix("/collections").unwrap_or(&name);
    format!("{}{name}", snapshots_path(collection))
}

fn list(api: &Api, collection: Option<&str>, json: bool) -> Result<()> {
    let all = api.ok(Method::GET, &snapshots_path(collection), &Value::Null)?;
    let all = all.as_array().context("an answer without a list")?;
    if all.is_empty() && !json {
        return output::line(format_args!(
            "there is no snapshot; create one with `ramlet snapshot create`"
        ));
    }
    all.iter().try_for_each(|snapshot| tell(snapshot, json))
}

/// A snapshot on a line.
fn tell(snapshot: &Value, json: bool) -> Result<()> {
    if json {
        return output::line(format_args!("{snapshot}"));
    }
    let text = |name: &str| shown(snapshot[name].as_str().unwrap_or("-"));
    let size = HumanBytes(snapshot["size"].as_u64().unwrap_or(0)).to_string();
    output::line(format_args!(
        "{}  {size:>10}  {}",
        text("creation_time"),
        text("name")
    ))
}

/// What was done, on a line.
fn done(json: bool, what: &str, mut of: Value) -> Result<()> {
    if json {
        of["done"] = json!(what);
        return output::line(format_args!("{of}"));
    }
    let words: Vec<String> = of
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, value)| value.as_str().map(shown))
        .collect();
    output::line(format_args!("{what} {}", words.join(", ")))
}

/// A bar on a terminal, nothing elsewhere.
fn bar(bytes: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match bytes {
        Some(bytes) => (
            ProgressBar::new(bytes),
            "{bar:32} {percent:>3}%  {bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go",
        ),
        None => (ProgressBar::no_length(), "{spinner}  {bytes}, {bytes_per_sec}"),
    };
    let style = ProgressStyle::with_template(template).expect("a fixed template");
    bar.with_style(style.progress_chars("=> "))
}

/// The file appears under its name when it is whole. A file that is there isn't written over.
fn download(api: &Api, collection: Option<&str>, name: &str, to: &Path) -> Result<()> {
    if to.exists() {
        bail!("{} exists already", to.display());
    }
    let part = to.with_extension("part");
    let mut file = File::create(&part).with_context(|| part.display().to_string())?;
    let written = api.download(
        &snapshot_path(collection, name),
        &mut |bytes| bar(bytes),
        &mut file,
    );
    let written = written.and_then(|()| file.sync_all().context("writing it"));
    match written {
        Ok(()) => std::fs::rename(&part, to).with_context(|| to.display().to_string()),
        Err(error) => {
            let _ = std::fs::remove_file(&part);
            Err(error)
        }
    }
}

fn upload(api: &Api, collection: &str, file: &Path) -> Result<()> {
    let opened = File::open(file).with_context(|| file.display().to_string())?;
    let bytes = opened
        .metadata()
        .with_context(|| file.display().to_string())?
        .len();
    let bar = bar(Some(bytes));
    let path = format!(
        "{}/snapshots/upload?priority=snapshot",
        collection_path(collection)
    );
    let done = api.upload(&path, "snapshot", (bar.wrap_read(opened), bytes));
    bar.finish_and_clear();
    done
}
