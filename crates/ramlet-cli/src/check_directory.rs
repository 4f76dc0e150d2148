//! `ramlet check DIR`: every checksum of a data directory, and that its files agree.

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result, bail};
use indicatif::{HumanBytes, ProgressBar};
use ramlet_io::Backend;

use crate::args::CheckArgs;
use crate::output;

/// Verifies a directory; fails when anything in it is wrong.
pub fn run(args: &CheckArgs) -> Result<()> {
    let dir = args.dir.display();
    if !args.dir.is_dir() {
        bail!("{dir} is no directory");
    }
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
        let skipped = checked.skipped.as_ref().map(|why| format!("not checked: {why}"));
        if let Some(line) = checked.problem.as_ref().or(skipped.as_ref()) {
            let line = bar.suspend(|| output::line(format_args!("{}: {line}", checked.place)));
            if told.is_ok() {
                told = line;
            }
        }
    })
    .with_context(|| format!("checking {dir}"))?;
    bar.finish_and_clear();
    output::line(format_args!(
        "{dir}: {} collections, {} files, {}, {} points, {} groups of changes in the logs, {} snapshots, {} not checked, {} problems",
        report.collections,
        report.files,
        HumanBytes(report.bytes),
        report.points,
        report.log_groups,
        report.snapshots,
        report.skipped,
        report.problems
    ))?;
    told?;
    if report.problems > 0 {
        bail!("{} of {} files are damaged", report.problems, report.files);
    }
    Ok(())
}
