//! The rescoring experiment: vectors on a disk, read at random places, by every way to read them.
//!
//! A query of a quantized index ends with reading the originals of its best candidates and scoring them exactly: `k` rows, or
//! `oversampling` times as many. This measures that part alone, on a file of vectors of its own: no index, no server.
//!
//! In reading order: [`IoOptions`] say what; [`Rows`] is the file; [`Slowed`] makes a network disk of a local one; [`fetch`] reads
//! and scores; [`Cell`] is one measurement of the grid; [`run`] does all of them; [`io_report`] shows them.

mod cell;
mod command;
mod fetch;
pub mod io_report;
mod options;
mod rows;
mod slowed;

use std::time::Duration;

use serde::Serialize;

pub use cell::{Cell, Figures};
pub use command::IoArgs;
pub use options::{Disk, IoOptions, Way};
pub use rows::Rows;
pub use slowed::Slowed;

/// A cell of the grid and its runs.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    #[serde(flatten)]
    pub cell: Cell,
    /// In the order they were taken.
    pub runs: Vec<Figures>,
}

impl Measured {
    /// The run with the median wall time.
    pub fn median(&self) -> &Figures {
        let mut order: Vec<&Figures> = self.runs.iter().collect();
        order.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
        order[(order.len() - 1) / 2]
    }
}

/// All that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Grid {
    pub options: IoOptions,
    /// Of the file that was read.
    pub file_bytes: u64,
    pub cells: Vec<Measured>,
    /// What couldn't be measured here, and why.
    pub skipped: Vec<String>,
}

/// Measures the whole grid: disk by disk, and with several runs all cells in turn, so that a slow moment doesn't hit one only.
/// `say` is told of each step. The error is a sentence.
pub fn run(options: &IoOptions, say: &mut dyn FnMut(&str)) -> Result<Grid, String> {
    options.check()?;
    say(&format!(
        "writing {} vectors of {} dimensions ({:.2} GB)",
        options.rows,
        options.dims,
        options.file_bytes() as f64 / 1e9
    ));
    let rows = Rows::create(options)?;
    let (ways, skipped) = usable(options, &rows);
    skipped.iter().for_each(|why| say(why));
    let mut cells: Vec<Measured> = cells(options, &ways)
        .into_iter()
        .map(|cell| Measured {
            cell,
            runs: Vec::new(),
        })
        .collect();
    for disk in &options.disks {
        for run in 0..options.repeats {
            let of_disk = cells.iter_mut().filter(|m| m.cell.disk == *disk);
            for (number, measured) in of_disk.enumerate() {
                // Rows of its own for every cell and run: what one has read, a cache below the kernel may have for the next.
                let stream = (run as u64) << 32 | number as u64;
                let figures = measured.cell.measure(options, &rows, stream)?;
                say(&progress(&measured.cell, &figures));
                measured.runs.push(figures);
            }
        }
    }
    Ok(Grid {
        options: options.clone(),
        file_bytes: rows.bytes(),
        cells,
        skipped,
    })
}

fn cells(options: &IoOptions, ways: &[Way]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &disk in &options.disks {
        for &oversampling in &options.oversampling {
            for &parallel in &options.parallel {
                cells.extend(ways.iter().map(|&way| Cell {
                    disk,
                    way,
                    oversampling,
                    parallel,
                }));
            }
        }
    }
    cells
}

/// The ways that work here, and a sentence for each that doesn't.
fn usable(options: &IoOptions, rows: &Rows) -> (Vec<Way>, Vec<String>) {
    let (mut ways, mut skipped) = (Vec::new(), Vec::new());
    for &way in &options.ways {
        match fetch::probe(way, rows) {
            Ok(()) => ways.push(way),
            Err(why) => skipped.push(format!("{} isn't measured: {why}", way.name())),
        }
    }
    (ways, skipped)
}

fn progress(cell: &Cell, figures: &Figures) -> String {
    format!(
        "{:<7} {:<19} oversampling {} parallel {}: {:.1} s, {:.0} IOPS, {:.0} % CPU",
        cell.disk.name(),
        cell.way.name(),
        cell.oversampling,
        cell.parallel,
        figures.wall_s,
        figures.iops,
        figures.cpu_percent,
    )
}

/// Milliseconds, for people.
fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
