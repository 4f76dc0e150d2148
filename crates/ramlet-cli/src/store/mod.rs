//! `ramlet store`: backups in an object store, and whether a store can be trusted. And `ramlet serve --store`.

pub mod demo;
pub mod forward;
pub mod node;
mod progress;
mod pull;
mod push;
pub mod restore;
mod state;

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use indicatif::HumanBytes;
use ramlet_store::{BackupKind, Outcome, Store, StoreUrl, list_backups};
use serde_json::json;

use crate::args::{StoreArgs, StoreCommand};
use crate::output::{self, many, shown};

/// Does one of them.
pub fn run(args: &StoreArgs) -> Result<()> {
    let json = args.json;
    match &args.command {
        StoreCommand::Check { url } => check(&opened(url, false)?, json),
        StoreCommand::Push {
            source,
            url,
            api_key,
            memory,
            no_check,
        } => {
            let store = opened(url, true)?;
            let source = push::Source::open(source, api_key.clone())?;
            if !no_check {
                trusted(&store)?;
            }
            push::run(&store, &source, memory.memory.0, json)
        }
        StoreCommand::Pull {
            url,
            dir,
            backup,
            memory,
        } => pull::run(&opened(url, false)?, dir, *backup, memory.memory.0, json),
        StoreCommand::List { url } => list(&opened(url, false)?, json),
        StoreCommand::Prune { url, keep, memory } => {
            let pruned = ramlet_store::prune(&opened(url, false)?, *keep, memory.memory.0, now()?)?;
            if json {
                return output::line(format_args!(
                    "{}",
                    json!({
                        "sweep": pruned.sweep,
                        "kept": pruned.kept,
                        "dropped": pruned.dropped,
                        "deleted_objects": pruned.deleted_objects,
                        "deleted_bytes": pruned.deleted_bytes,
                    })
                ));
            }
            output::line(format_args!(
                "{} kept, {} dropped; {} deleted, {}",
                many(pruned.kept.len() as u64, "backup"),
                pruned.dropped.len(),
                many(pruned.deleted_objects, "object"),
                HumanBytes(pruned.deleted_bytes)
            ))
        }
    }
}

fn opened(url: &str, makes: bool) -> Result<Store> {
    Ok(ramlet_store::open(&StoreUrl::parse(url)?, makes)?)
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// Prints what each probe found; fails where one refused the store.
fn check(store: &Store, json: bool) -> Result<()> {
    let mut told = Ok(());
    let findings = ramlet_store::check(store, &mut |finding| {
        let line = match json {
            true => {
                let (word, text) = match &finding.outcome {
                    Outcome::Fine(text) => ("ok", text),
                    Outcome::NotOffered(text) => ("not offered", text),
                    Outcome::Refused(text) => ("refused", text),
                };
                json!({"probe": finding.probe, "outcome": word, "detail": text}).to_string()
            }
            false => finding.to_string(),
        };
        let said = output::line(format_args!("{line}"));
        if told.is_ok() {
            told = said;
        }
    })?;
    told?;
    refuse(store, &findings)
}

/// The same, told only where it fails.
pub fn trusted(store: &Store) -> Result<()> {
    let findings = ramlet_store::check(store, &mut |_| {})?;
    refuse(store, &findings)
}

fn refuse(store: &Store, findings: &[ramlet_store::Finding]) -> Result<()> {
    let refused: Vec<String> = findings
        .iter()
        .filter_map(|finding| match &finding.outcome {
            Outcome::Refused(why) => Some(format!("{}: {why}", finding.probe)),
            _ => None,
        })
        .collect();
    match refused.is_empty() {
        true => Ok(()),
        false => bail!("{store} can't be trusted with data: {}", refused.join("; ")),
    }
}

fn list(store: &Store, json: bool) -> Result<()> {
    for (number, created, info) in list_backups(store)? {
        let of = match info.of {
            BackupKind::Directory => "directory",
            BackupKind::Snapshot => "snapshot",
        };
        if json {
            output::line(format_args!(
                "{}",
                json!({
                    "backup": number,
                    "created": created,
                    "of": of,
                    "collections": info.collections,
                    "collection_count": info.collection_count,
                    "files": info.files,
                    "bytes": info.bytes,
                    "sent_bytes": info.sent_bytes,
                })
            ))?;
            continue;
        }
        let names: Vec<String> = info.collections.iter().take(8).map(|name| shown(name)).collect();
        let more = info.collection_count - names.len() as u64;
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        output::line(format_args!(
            "{number:>6}  {}  {of:<9}  {:>10}  {:>10} sent  {}{more}",
            time(created),
            HumanBytes(info.bytes).to_string(),
            HumanBytes(info.sent_bytes).to_string(),
            names.join(", ")
        ))?;
    }
    Ok(())
}

/// `2026-11-29 14:30:05`, UTC.
fn time(seconds: u64) -> String {
    let (day, of_day) = (ramlet_bench::date(seconds / 86_400), seconds % 86_400);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{day} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_are_right() {
        assert_eq!(time(0), "1970-01-01 00:00:00");
        assert_eq!(time(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(time(1_795_962_605), "2026-11-29 14:30:05");
    }
}
