//! `ramlet check DIR`: every checksum of a data directory, and that its files agree.

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result, bail};
use indicatif::{HumanBytes, ProgressBar};
use ramlet::{CheckReport, Checked};
use ramlet_io::Backend;
use serde_json::{Value, json};

use crate::args::CheckArgs;
use crate::output::{self, many};

/// Verifies a directory; fails when anything in it is wrong.
pub fn run(args: &CheckArgs) -> Result<()> {
    let dir = args.dir.display();
    if !args.dir.is_dir() {
        bail!("{dir} is not a directory");
    }
    // Each segment keeps a dozen files open; what isn't granted shows where a file can't be opened.
    let _ = ramlet_io::system::raise_open_files();
    // Buffered reads: each file is read once, from its beginning to its end.
    let (storage, _) =
        ramlet_io::open_best(&args.dir, Backend::Pread).with_context(|| format!("opening {dir}"))?;
    let bar = if stderr().is_terminal() {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::hidden()
    };
    let (mut bytes, mut told) = (0, Ok(()));
    let report = ramlet::check(&storage, &mut |checked| {
        bytes += checked.bytes;
        bar.set_message(format!("{} verified", HumanBytes(bytes)));
        bar.tick();
        if let Some(line) = line_of(checked, args.json) {
            let line = bar.suspend(|| output::line(format_args!("{line}")));
            if told.is_ok() {
                told = line;
            }
        }
    })
    .with_context(|| format!("checking {dir}"))?;
    bar.finish_and_clear();
    if args.json {
        output::line(format_args!("{}", sums(&report)))?;
        return ended(told, &report);
    }
    output::line(format_args!(
        "{dir}: {}, {}, {}, {}, {} of changes in the logs, {}, {} not checked, {}",
        many(report.collections, "collection"),
        many(report.files, "file"),
        HumanBytes(report.bytes),
        many(report.points, "point"),
        many(report.log_groups, "group"),
        many(report.snapshots, "snapshot"),
        report.skipped,
        many(report.problems, "problem")
    ))?;
    ended(told, &report)
}

/// What is to be said of one place.
fn line_of(checked: &Checked, json: bool) -> Option<String> {
    let (kind, why) = match (&checked.problem, &checked.unreadable, &checked.skipped) {
        (Some(problem), ..) => ("problem", problem),
        (None, Some(why), _) => ("unreadable", why),
        (None, None, Some(why)) => ("skipped", why),
        (None, None, None) => return None,
    };
    Some(match (json, kind) {
        (true, kind) => json!({"place": checked.place, kind: why}).to_string(),
        (false, "unreadable") => format!("{}: can't be read: {why}", checked.place),
        (false, "skipped") => format!("{}: not checked: {why}", checked.place),
        (false, _) => format!("{}: {why}", checked.place),
    })
}

fn sums(report: &CheckReport) -> Value {
    json!({
        "collections": report.collections,
        "files": report.files,
        "bytes": report.bytes,
        "points": report.points,
        "log_groups": report.log_groups,
        "snapshots": report.snapshots,
        "skipped": report.skipped,
        "unreadable": report.unreadable,
        "problems": report.problems,
    })
}

fn ended(told: Result<()>, report: &CheckReport) -> Result<()> {
    told?;
    let unread = match report.unreadable {
        0 => String::new(),
        n => format!(
            "{} can't be read by this process, and nothing is known of them: run it as the user of the server, or raise `ulimit -n`",
            many(n, "place")
        ),
    };
    match (report.problems, unread.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => bail!("{unread}"),
        (problems, true) => bail!("{problems} of {} files are damaged", report.files),
        (problems, false) => bail!("{problems} of {} files are damaged; {unread}", report.files),
    }
}
