//! The grid as tables and pictures, beside the article's.

use serde::Serialize;

use super::{Disk, Grid, Measured, Way};
use crate::results::table::{figure, figure_or_dash};
use crate::{Axis, Curve, Plot, Table};

/// A row of the article's table ("Qdrant under the hood: io_uring"): vectors on a rented network drive, 4 cores, 1,000 queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    #[serde(rename = "backend")]
    pub way: Way,
    pub oversampling: usize,
    pub parallel: usize,
    /// About the most.
    pub iops: f64,
    /// Of 4 cores; 100 is one.
    pub cpu_percent: f64,
    pub wall_s: f64,
}

/// All rows of it.
pub const ARTICLE: [Published; 6] = [
    published(Way::Uring, 1, 4, 4_000.0, 200.0, 12.0),
    published(Way::Mmap, 1, 4, 2_000.0, 93.0, 43.0),
    published(Way::Uring, 1, 8, 4_000.0, 200.0, 12.0),
    published(Way::Mmap, 1, 8, 2_000.0, 90.0, 43.0),
    published(Way::Uring, 4, 8, 7_000.0, 100.0, 30.0),
    published(Way::Mmap, 4, 8, 2_300.0, 50.0, 145.0),
];

const fn published(
    way: Way,
    oversampling: usize,
    parallel: usize,
    iops: f64,
    cpu_percent: f64,
    wall_s: f64,
) -> Published {
    Published {
        way,
        oversampling,
        parallel,
        iops,
        cpu_percent,
        wall_s,
    }
}

/// What the article says of a cell's way and load, whatever the disk.
pub fn article(measured: &Measured) -> Option<&'static Published> {
    let cell = &measured.cell;
    ARTICLE
        .iter()
        .find(|row| (row.way, row.oversampling, row.parallel) == (cell.way, cell.oversampling, cell.parallel))
}

/// One line on what a disk of the grid is.
pub fn disk_line(grid: &Grid, disk: Disk) -> String {
    match disk {
        Disk::Local => "local disk, as it is".to_owned(),
        Disk::Network => format!(
            "network disk: real reads of the local disk, each delayed to at least {} ms by the program, {} and {} MB a second at \
             most; reads handed over together overlap, page faults and preads wait one after another",
            figure(super::ms(grid.options.latency)),
            figure(grid.options.iops_max as f64),
            figure(grid.options.bandwidth as f64 / 1e6),
        ),
    }
}

/// The cells of a disk. The article's figures stand beside those of the network disk, which is what it measured.
pub fn table(grid: &Grid, disk: Disk) -> Table {
    let mut head = vec![
        "backend",
        "over",
        "parallel",
        "IOPS",
        "in best s",
        "CPU %",
        "wall s",
        "q/s",
        "reads/q",
        "MB/q",
        "p50 ms",
        "p99 ms",
    ];
    if disk == Disk::Network {
        head.extend(["article IOPS", "CPU %", "wall s"]);
    }
    let mut table = Table::new(&head);
    for measured in grid.cells.iter().filter(|m| m.cell.disk == disk) {
        table.row(row(measured, disk));
    }
    table
}

fn row(measured: &Measured, disk: Disk) -> Vec<String> {
    let (cell, figures) = (&measured.cell, measured.median());
    let mut row = vec![
        cell.way.name().to_owned(),
        cell.oversampling.to_string(),
        cell.parallel.to_string(),
    ];
    row.extend(
        [
            figures.iops,
            figures.iops_max,
            figures.cpu_percent,
            figures.wall_s,
            figures.queries_per_s,
            figures.reads_per_query,
            figures.mb_read_per_query,
            figures.query_ms_p50,
            figures.query_ms_p99,
        ]
        .map(figure),
    );
    if disk == Disk::Network {
        let article = article(measured);
        let of = |value: fn(&Published) -> f64| figure_or_dash(article.map(value));
        row.extend([of(|a| a.iops), of(|a| a.cpu_percent), of(|a| a.wall_s)]);
    }
    row
}

/// Wall time of mmap by that of io_uring through the page cache, and the article's, for each load that has both.
pub fn ratios(grid: &Grid, disk: Disk) -> Table {
    let mut table = Table::new(&[
        "over",
        "parallel",
        "mmap / io_uring",
        "mmap / io_uring-direct",
        "article",
    ]);
    let of_disk = || grid.cells.iter().filter(move |m| m.cell.disk == disk);
    for mmap in of_disk().filter(|m| m.cell.way == Way::Mmap) {
        let load = (mmap.cell.oversampling, mmap.cell.parallel);
        let wall = |way| {
            let same =
                of_disk().find(|m| m.cell.way == way && (m.cell.oversampling, m.cell.parallel) == load);
            same.map(|m| mmap.median().wall_s / m.median().wall_s)
        };
        let published = |way| {
            ARTICLE
                .iter()
                .find(|a| (a.way, a.oversampling, a.parallel) == (way, load.0, load.1))
        };
        let article = published(Way::Mmap).zip(published(Way::Uring));
        table.row([
            load.0.to_string(),
            load.1.to_string(),
            figure_or_dash(wall(Way::Uring)),
            figure_or_dash(wall(Way::UringDirect)),
            figure_or_dash(article.map(|(mmap, uring)| mmap.wall_s / uring.wall_s)),
        ]);
    }
    table
}

/// Pictures of queries a second over queries in parallel: one for each disk and oversampling, with its file name.
pub fn plots(grid: &Grid) -> Vec<(String, Plot)> {
    let options = &grid.options;
    let mut plots = Vec::new();
    for &disk in &options.disks {
        for &oversampling in &options.oversampling {
            let curve = |&way: &Way| Curve {
                name: way.name().to_owned(),
                points: points(grid, disk, oversampling, way),
                marks_only: false,
            };
            let plot = Plot {
                title: format!(
                    "rescoring from a {} disk, oversampling {oversampling}",
                    disk.name()
                ),
                x: Axis::log("queries in parallel"),
                y: Axis::log("queries/s"),
                curves: options
                    .ways
                    .iter()
                    .map(curve)
                    .filter(|c| !c.points.is_empty())
                    .collect(),
                size: (0, 0),
            };
            plots.push((format!("io-{}-{oversampling}", disk.name()), plot));
        }
    }
    plots
}

fn points(grid: &Grid, disk: Disk, oversampling: usize, way: Way) -> Vec<(f64, f64)> {
    let cells = grid
        .cells
        .iter()
        .filter(|m| (m.cell.disk, m.cell.oversampling, m.cell.way) == (disk, oversampling, way));
    let mut points: Vec<_> = cells
        .map(|m| (m.cell.parallel as f64, m.median().queries_per_s))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
