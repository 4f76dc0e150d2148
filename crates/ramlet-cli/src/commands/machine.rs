//! `ramlet machine`: every figure of "memory speed" measured here, and the profile that `plan` and `serve` read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use ramlet::plan::Machine;
use ramlet_bench::machine::{Options, Scratch, groups, measure};
use ramlet_bench::server::check_is_disk;
use ramlet_io::{Backend, open_best};

use crate::args::MachineArgs;
use crate::output::{self, note};
use crate::serve_settings::data_directory;
use crate::serving::profile;
use crate::settings::Sources;

/// The group that is the engine's own probe.
const PROFILE: &str = "profile";

/// Measures, prints the table, writes the profile and the JSON.
pub fn run(args: &MachineArgs) -> Result<()> {
    check_groups(&args.only)?;
    check_plot(args)?;
    let places = Places::of(args)?;
    if check_is_disk(&places.disk).is_err() {
        note!(
            "{} is in RAM, so the disk figures are those of RAM; name a directory on a disk with --dir",
            places.disk.display()
        );
    }
    for (option, file) in [("--json", &args.json), ("--plot", &args.plot)] {
        if let Some(file) = file {
            check_place(option, file)?;
        }
    }
    let wants_profile = args.only.is_empty() || args.only.iter().any(|group| group == PROFILE);
    let profile = match wants_profile {
        true => Some(write_profile(&places)?),
        false => None,
    };
    let only: Vec<String> = args
        .only
        .iter()
        .filter(|group| *group != PROFILE)
        .cloned()
        .collect();
    let mut record = serde_json::json!({ "profile": profile });
    if args.only.is_empty() || !only.is_empty() {
        let measured = measure(Options {
            quick: args.quick,
            directory: places.disk.clone(),
            program: std::env::current_exe().context("the path of this program")?,
            only,
        });
        let measured = measured.map_err(|why| anyhow!("{why}"))?;
        output::text(&measured)?;
        if let Some(file) = &args.plot {
            measured.plot().write_svg(file)?;
        }
        let profile = record["profile"].take();
        record = measured.json();
        record["profile"] = profile;
    }
    if let Some(machine) = &profile {
        output::line(format_args!("{}", sentence(machine, &places.data)))?;
    }
    if let Some(json) = &args.json {
        let mut text = serde_json::to_string_pretty(&record)?;
        text.push('\n');
        std::fs::write(json, text).with_context(|| format!("writing {}", json.display()))?;
    }
    Ok(())
}

fn check_groups(only: &[String]) -> Result<()> {
    let known = || std::iter::once(PROFILE).chain(groups());
    match only.iter().find(|group| known().all(|name| name != *group)) {
        Some(unknown) => {
            let names: Vec<&str> = known().collect();
            bail!("--only {unknown}: the groups are {}", names.join(", "))
        }
        None => Ok(()),
    }
}

/// What is drawn is the disk's figures over what is in flight, as SVG.
fn check_plot(args: &MachineArgs) -> Result<()> {
    let Some(file) = &args.plot else { return Ok(()) };
    if file.extension().is_none_or(|extension| extension != "svg") {
        bail!(
            "--plot {}: the plot is an SVG; the name must end in .svg",
            file.display()
        );
    }
    if !args.only.is_empty() && !args.only.iter().any(|group| group == "disk") {
        bail!("--plot needs the figures of the group disk, which --only leaves out");
    }
    Ok(())
}

/// Said before a run of ten minutes, not after it.
fn check_place(option: &str, file: &Path) -> Result<()> {
    let parent = match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if file.is_dir() {
        bail!("{option} {}: it is a directory", file.display());
    }
    if !parent.is_dir() {
        bail!(
            "{option} {}: {} is not a directory",
            file.display(),
            parent.display()
        );
    }
    Ok(())
}

struct Places {
    /// Where the profile goes: the data directory, or what `--dir` says.
    data: PathBuf,
    /// On the same disk, and there already.
    disk: PathBuf,
}

impl Places {
    fn of(args: &MachineArgs) -> Result<Places> {
        if let Some(dir) = &args.dir {
            if !dir.is_dir() {
                bail!("--dir {}: it is not a directory", dir.display());
            }
            return Ok(Places {
                data: dir.clone(),
                disk: dir.clone(),
            });
        }
        let data = data_directory(None, &Sources::new(&[], None)?);
        let above = std::path::absolute(&data)?;
        let disk = above.ancestors().find(|path| path.is_dir());
        let disk = disk
            .ok_or_else(|| anyhow!("{}: its directory is unknown", data.display()))?
            .to_owned();
        Ok(Places { data, disk })
    }
}

/// By the engine's own probe, on a file that goes away even when this process is killed.
fn write_profile(places: &Places) -> Result<Machine> {
    let scratch = Scratch::new(&places.disk).map_err(|why| anyhow!("{why}"))?;
    let (probed, fallback) = open_best(scratch.path(), Backend::Auto)?;
    if let Some(why) = fallback {
        note!("reading by pread, not by io_uring: {why}");
    }
    let machine = profile::measure(probed.as_ref(), None)?;
    let (kept, _) = open_best(&places.data, Backend::Auto)?;
    machine.store(kept.as_ref())?;
    Ok(machine)
}

fn sentence(machine: &Machine, data: &Path) -> String {
    let disk = &machine.disk;
    format!(
        "{}: {:.0} random reads a second, {:.0} us each alone, {:.1} us of CPU; `ramlet plan` and `ramlet serve` use it",
        data.join(Machine::FILE).display(),
        disk.iops_depth64,
        disk.latency_us_p50,
        disk.cpu_us_depth64
    )
}
