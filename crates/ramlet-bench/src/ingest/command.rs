//! `ramlet bench ingest`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use super::{Ingest, IngestOptions, Source, Where, ingest_report};
use crate::files::Distance;
use crate::host::server::{check_is_disk, check_limits, check_line};
use crate::{ByteSize, OutputArgs, Progress, count};

/// Load vectors, index, merge, delete, release: what happens to the server's memory meanwhile
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct IngestArgs {
    /// Points to send; of a file at most so many [default: 1000000; with --quick a fiftieth of that]
    #[arg(long, value_name = "N", value_parser = count)]
    points: Option<u64>,
    /// Dimensions of vectors that are made
    #[arg(long, value_name = "D", default_value_t = 768)]
    dim: usize,
    /// Send the rows of this file instead: .npy .fvecs .bvecs .fbin .u8bin .i8bin .hdf5
    #[arg(long, value_name = "FILE", conflicts_with = "dim")]
    data: Option<PathBuf>,
    /// Dataset of an HDF5 file
    #[arg(long, value_name = "NAME", default_value = "train")]
    key: String,
    #[arg(long, value_enum, ignore_case = true, default_value_t = Distance::Cosine)]
    distance: Distance,
    /// Memory of the server and limit of its cgroup [default: 512MB; with --exec no limit]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Another server to start, a line for the shell with {port}, {dir} and {memory} (bytes) to be filled in; it stays in the foreground
    #[arg(long, value_name = "COMMAND", conflicts_with = "server")]
    exec: Option<String>,
    /// A server that runs on this machine
    #[arg(long, value_name = "URL", requires = "pid", conflicts_with = "memory")]
    server: Option<String>,
    /// Process of the server of --server
    #[arg(long, value_name = "PID", requires = "server")]
    pid: Option<u32>,
    #[arg(
        long,
        env = "RAMLET_API_KEY",
        hide_env_values = true,
        value_name = "KEY",
        requires = "server"
    )]
    api_key: Option<String>,
    /// Start the server without a cgroup: page cache and kernel memory aren't known then
    #[arg(long)]
    no_cgroup: bool,
    /// Share of the points to be deleted
    #[arg(long, value_name = "PERCENT", default_value_t = 80)]
    delete: u64,
    /// Seconds between two samples
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    every: f64,
    /// Seconds of rest before the last sample of a phase that leaves the server idle
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    settle: f64,
    /// Directory on a disk for the server's data, up to 8 KB a point of 768 dimensions; all of it is removed
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    dir: PathBuf,
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Fewer points unless --points says how many, in 128 MB unless --memory says otherwise: a minute
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const MEMORY_BYTES: u64 = 512_000_000;
const QUICK_MEMORY_BYTES: u64 = 128_000_000;
const POINTS: u64 = 1_000_000;
const QUICK_POINTS: u64 = 20_000;
const SECONDS_MAX: f64 = 3_600.0;

impl IngestArgs {
    /// Runs all phases; prints the tables.
    pub fn run(&self) -> Result<()> {
        self.check()?;
        let options = self.options()?;
        let progress = Progress::new(7);
        let mut said = 0;
        let ingest = super::run(&options, &mut |phase| {
            progress.say(phase);
            if said > 0 {
                progress.step();
            }
            said += 1;
        });
        drop(progress);
        let ingest = ingest?;
        print(&ingest);
        self.output.keep(
            "bench-ingest",
            &json!({ "ingest": ingest, "article": ingest_report::ARTICLE }),
        )?;
        self.output.draw("ingest", &ingest_report::plot(&ingest))
    }

    fn options(&self) -> Result<IngestOptions> {
        let seconds = |name: &str, value: f64| match (0.0..=SECONDS_MAX).contains(&value) {
            true => Ok(Duration::from_secs_f64(value)),
            false => bail!("--{name} {value}: 0 to {SECONDS_MAX} seconds are possible"),
        };
        let default = if self.quick { QUICK_POINTS } else { POINTS };
        Ok(IngestOptions {
            source: match &self.data {
                Some(path) => Source::File {
                    path: path.clone(),
                    key: self.key.clone(),
                },
                None => Source::Made { dims: self.dim },
            },
            points: self.points.unwrap_or(default),
            distance: self.distance,
            place: self.place(),
            api_key: self.api_key.clone(),
            delete: self.delete,
            every: seconds("every", self.every)?,
            settle: seconds("settle", self.settle)?,
            directory: self.dir.clone(),
            seed: self.seed,
        })
    }

    /// What can be known to fail before vectors are made.
    fn check(&self) -> Result<()> {
        self.output.check()?;
        if self.server.is_none() {
            check_is_disk(&self.dir)?;
        }
        check_line(self.exec.as_deref())?;
        self.memory
            .map_or(Ok(()), |memory| check_limits("--memory", &[memory]))
    }

    fn place(&self) -> Where {
        let in_group = !self.no_cgroup;
        let memory = self.memory.map(|size| size.0);
        let default = if self.quick {
            QUICK_MEMORY_BYTES
        } else {
            MEMORY_BYTES
        };
        match (&self.server, self.pid, &self.exec) {
            (Some(url), Some(pid), _) => Where::Running {
                url: url.clone(),
                pid,
            },
            (_, _, Some(command)) => Where::Command {
                command: command.clone(),
                memory_bytes: memory,
                in_group,
            },
            _ => Where::Own {
                memory_bytes: memory.unwrap_or(default),
                in_group,
            },
        }
    }
}

fn print(ingest: &Ingest) {
    let options = &ingest.options;
    let memory = options
        .memory_bytes
        .map_or(String::new(), |bytes| format!(" in {}", ByteSize(bytes)));
    println!(
        "{} vectors of {} dimensions ({}) into {}{memory}; {} deleted; MB are 10^6 bytes, taken at the end of each phase",
        ingest.points, options.dims, options.data, options.server, ingest.deleted,
    );
    print!("\n{}", ingest_report::phases(ingest));
    if let Some(group) = &ingest.group {
        println!(
            "\ncgroup: peak {} MB, limit met {} times, {} OOM kills",
            group.peak_bytes.unwrap_or(0) / 1_000_000,
            group.limit_met,
            group.oom_kills
        );
    }
    if let Some(text) = ingest_report::what_stays(ingest) {
        println!("\n{text}");
    }
    print!("\n{}", ingest_report::beside_the_article(ingest));
}
