//! `ramlet bench ram`: how much RAM a server needs, and how fast it is with it.
//!
//! Method of the article "Minimal RAM you need to serve a million vectors": a hard limit by the kernel, the page cache dropped before
//! each run, and a binary search for the smallest limit that serves; here with recall beside every speed, and repeated.

mod args;
mod minimum;
mod placement;
mod ram_article;
mod ram_report;
mod ram_rig;

use args::LoadIn;
pub use args::RamArgs;
pub(crate) use args::{connections, object, seconds};
pub use placement::Placement;

use anyhow::{Result, bail};
use indicatif::HumanCount;

use crate::data::Data;
use crate::host::cgroup::Tree;
use crate::host::server::{check_is_disk, check_limits, check_line, check_process};
use crate::traffic::api::Api;
use crate::traffic::http::Target;
use crate::{ByteSize, Machine, Progress};
use minimum::Minimum;
use ram_report::Report;
use ram_rig::{Rig, Row, Verdict};

/// Runs all of it; prints the tables.
pub fn run(args: &RamArgs) -> Result<()> {
    check(args)?;
    let progress = Progress::new(0);
    let data = Data::open(&args.data, &progress)?;
    let rig = Rig::new(args, &data, &progress)?;
    let mut report = Report::new(args, &data);
    report.cgroup = rig.cgroup_version();
    progress.note(ahead(args));
    for &placement in &args.placements {
        budgets(&rig, placement, &mut report)?;
        if args.server.is_none() && !args.no_minimum {
            let serves = smallest(&rig, placement, &mut report)?;
            report.minima.push((placement, serves));
        }
    }
    report.server = rig.about.borrow().clone();
    report.caches_kept = rig.caches.borrow().clone();
    drop(rig);
    drop(progress);
    report.finish()?;
    match report.rows.iter().any(|row| row.verdict == Verdict::Served) {
        true => Ok(()),
        false => bail!("the server served in none of the limits"),
    }
}

/// What is going to be done: it may take hours, and shows what it found row by row.
fn ahead(args: &RamArgs) -> String {
    if args.server.is_some() {
        return "a server that runs: its speed, without limits".to_owned();
    }
    let (placements, limits) = (args.placements.len(), args.memory.len());
    let loads = match args.load {
        LoadIn::Each => {
            "each loaded inside its limit (--load once: the largest alone, which takes a quarter of the time)"
        }
        LoadIn::Once => "loaded once in the largest",
    };
    let searches = match args.no_minimum {
        true => "",
        false => "; then the smallest limit that serves is looked for (--no-minimum: not)",
    };
    format!("{placements} placements in {limits} limits, {loads}{searches}")
}

/// What can be known to fail before vectors are made or read.
fn check(args: &RamArgs) -> Result<()> {
    args.output.check()?;
    if let Some(url) = &args.server {
        let target = Target::parse(url, args.api_key.as_deref()).map_err(anyhow::Error::msg)?;
        if !Api::new(target.clone()).is_ready() {
            bail!("no server answers at {}; --server names another", target.url());
        }
        return match args.pid {
            Some(pid) => check_process(pid),
            None => Ok(()),
        };
    }
    check_line(args.exec.as_deref())?;
    check_is_disk(&args.dir)?;
    check_limits("--memory", &args.memory)?;
    if !args.no_cgroup {
        // Removed at once.
        Tree::here().group("check", 64_000_000)?;
    }
    Ok(())
}

/// The limits that were asked for, the largest first, down to the first that doesn't serve. The first that serves tells the noise.
fn budgets(rig: &Rig, placement: Placement, report: &mut Report) -> Result<()> {
    let mut limits: Vec<u64> = rig.args.memory.iter().map(|size| size.0).collect();
    limits.sort_unstable_by(|a, b| b.cmp(a));
    limits.dedup();
    if rig.args.server.is_some() {
        // It has no limit of ours: once.
        limits.truncate(1);
    }
    for limit in limits {
        let turns = if report.aa.is_empty() { rig.args.aa } else { 0 };
        let row = rig.row(placement, limit, rig.args.repeats.max(2 * turns), false)?;
        tell(rig, &row);
        report.note_aa(&row, turns);
        let serves = row.verdict == Verdict::Served;
        report.rows.push(row);
        report.keep_so_far()?;
        if !serves {
            // In less it wouldn't either, and finding that out may cost a load each.
            break;
        }
    }
    Ok(())
}

/// The smallest limit that serves, in all repeats; its row is among the report's. The search opens what was loaded in the smallest limit
/// so far; what it finds is loaded inside that limit as well, unless `--load once` was asked for.
fn smallest(rig: &Rig, placement: Placement, report: &mut Report) -> Result<Option<u64>> {
    let ceiling = Machine::here().ram_bytes / 2;
    let mut search = Minimum::new(rig.args.precision / 100.0, ceiling / 1_000_000 * 1_000_000);
    let of_ours = |row: &&Row| row.placement == placement;
    for row in report.rows.iter().filter(of_ours) {
        search.note(row.memory_bytes.unwrap_or(0), row.verdict == Verdict::Served);
    }
    loop {
        while let Some(limit) = search.next() {
            let row = rig.row(placement, limit, 1, true)?;
            tell(rig, &row);
            search.note(limit, row.verdict == Verdict::Served);
            report.rows.push(row);
            report.keep_so_far()?;
        }
        let Some(found) = search.serves() else {
            return Ok(None);
        };
        let repeats = rig.args.repeats;
        let position = report
            .rows
            .iter()
            .rposition(|row| of_ours(&row) && row.memory_bytes == Some(found));
        let is_measured = position.is_some_and(|at| {
            let row = &report.rows[at];
            // Inside a limit that it wasn't loaded in: not yet, unless that was asked for.
            let inside = row
                .loaded
                .as_ref()
                .is_some_and(|loaded| loaded.memory_bytes == row.memory_bytes);
            row.start_seconds.len() >= repeats && (inside || rig.args.load == LoadIn::Once)
        });
        if is_measured {
            return Ok(Some(found));
        }
        let row = rig.row(placement, found, repeats, false)?;
        tell(rig, &row);
        let serves = row.verdict == Verdict::Served;
        match position {
            Some(at) => report.rows[at] = row,
            None => report.rows.push(row),
        }
        report.keep_so_far()?;
        if serves {
            return Ok(Some(found));
        }
        // At the edge it serves once and fails once: it doesn't serve.
        search.note(found, false);
    }
}

fn tell(rig: &Rig, row: &Row) {
    let limit = row
        .memory_bytes
        .map_or("no limit".into(), |bytes| ByteSize(bytes).to_string());
    let what = match (&row.verdict, row.runs.last()) {
        (Verdict::Served, Some(run)) => format!(
            "{} queries/s, recall {:.3}",
            HumanCount(run.queries_per_s as u64),
            run.recall
        ),
        (verdict, _) => ram_report::words(verdict),
    };
    rig.progress
        .note(format!("{}, {limit}: {what}", row.placement.name()));
}
