//! `ramlet bench io`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;

use super::{Disk, Grid, IoOptions, Way, io_report};
use crate::host::server::check_is_disk;
use crate::{ByteSize, OutputArgs, Progress};

/// Read and score vectors at random places of a disk, by mmap, pread and io_uring
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct IoArgs {
    /// Directory on the disk to be measured; the file made there has no name and goes with the process
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    dir: PathBuf,
    /// Vectors in the file
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    rows: u64,
    /// Dimensions of a vector
    #[arg(long, value_name = "D", default_value_t = 768)]
    dim: usize,
    /// Queries of each cell
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    queries: u64,
    /// Vectors that a query rescores at oversampling 1: the article's reads a second times its seconds give 48
    #[arg(long, value_name = "N", default_value_t = 48)]
    k: usize,
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4")]
    oversampling: Vec<usize>,
    /// Queries under way at once
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4,8")]
    parallel: Vec<usize>,
    /// mmap (advised as random), mmap-ahead (not), pread, io_uring, io_uring-direct (O_DIRECT) [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = Way::by_name)]
    backends: Vec<Way>,
    /// local, network [default: both]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = Disk::by_name)]
    disks: Vec<Disk>,
    /// Milliseconds that a read from the network disk takes at least
    #[arg(long, value_name = "MS", default_value_t = 2.0)]
    latency: f64,
    /// Reads that the network disk serves in a second at most
    #[arg(long, value_name = "N", default_value_t = 7_000)]
    iops: u64,
    /// What it hands over in a second at most
    #[arg(long, value_name = "SIZE", default_value = "250MB")]
    bandwidth: ByteSize,
    /// Runs of each cell; the table shows the median one
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeats: usize,
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A fifth of the vectors, a twentieth of the queries: a minute
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl IoArgs {
    /// Runs the grid; prints its tables.
    pub fn run(&self) -> Result<()> {
        self.output.check()?;
        check_is_disk(&self.dir)?;
        let options = self.options()?;
        let steps =
            options.disks.len() * options.oversampling.len() * options.parallel.len() * options.ways.len();
        let progress = Progress::new((steps * options.repeats) as u64);
        let mut said = 0u64;
        let measured = super::run(&options, &mut |line| {
            // The first line is about the file, the others about cells.
            progress.say(line);
            if said > 0 {
                progress.step();
            }
            said += 1;
        });
        drop(progress);
        let grid = measured.map_err(|sentence| anyhow!(sentence))?;
        print(&grid);
        self.output.keep(
            "bench-io",
            &json!({ "grid": grid, "article": io_report::ARTICLE }),
        )?;
        for (name, plot) in io_report::plots(&grid) {
            self.output.draw(&name, &plot)?;
        }
        Ok(())
    }

    fn options(&self) -> Result<IoOptions> {
        if !(0.0..=1_000.0).contains(&self.latency) {
            return Err(anyhow!(
                "--latency {}: 0 to 1000 milliseconds are possible",
                self.latency
            ));
        }
        let share = |n: u64, part: u64| if self.quick { (n / part).max(1) } else { n };
        let or_all = |given: &[Way], all: &[Way]| {
            if given.is_empty() {
                all.to_vec()
            } else {
                given.to_vec()
            }
        };
        Ok(IoOptions {
            directory: self.dir.clone(),
            rows: share(self.rows, 5),
            dims: self.dim,
            queries: share(self.queries, 20),
            k: self.k,
            oversampling: self.oversampling.clone(),
            parallel: self.parallel.clone(),
            ways: or_all(&self.backends, &Way::ALL),
            disks: if self.disks.is_empty() {
                Disk::ALL.to_vec()
            } else {
                self.disks.clone()
            },
            latency: Duration::from_secs_f64(self.latency / 1e3),
            iops_max: self.iops,
            bandwidth: self.bandwidth.0,
            repeats: self.repeats,
            seed: self.seed,
        })
    }
}

fn print(grid: &Grid) {
    let options = &grid.options;
    println!(
        "{} vectors of {} dimensions ({:.2} GB), {} queries of {} x oversampling rows at random places, cold page cache before each \
         cell; CPU 100 % is one core",
        options.rows,
        options.dims,
        grid.file_bytes as f64 / 1e9,
        options.queries,
        options.k,
    );
    grid.skipped.iter().for_each(|why| println!("{why}"));
    let warmest = grid
        .cells
        .iter()
        .flat_map(|m| &m.runs)
        .map(|run| run.cached_at_start)
        .fold(0.0, f64::max);
    if warmest > 0.01 {
        println!(
            "not cold: up to {:.0} % of the file was still in the page cache",
            warmest * 100.0
        );
    }
    for &disk in &options.disks {
        println!("\n{}", io_report::disk_line(grid, disk));
        print!("\n{}", io_report::table(grid, disk));
        let ratios = io_report::ratios(grid, disk);
        if !ratios.is_empty() {
            print!("\nwall time, times as long\n\n{ratios}");
        }
    }
}
