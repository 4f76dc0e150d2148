//! A whole run, as a table and as JSON.

use std::fmt;
use std::time::Duration;

use ramlet_io::PreadStorage;
use serde_json::{Value, json};

use super::depths;
use super::disk::{DISK, FSYNC};
use super::hashing::HASHING;
use super::http::HTTP;
use super::memory::MEMORY;
use super::network::NETWORK;
use super::progress::Progress;
use super::redis::REDIS;
use super::rocksdb::ROCKSDB;
use super::row::{Row, figure};
use super::sqlite::SQLITE;
use super::suite::{Options, Report, Setup, Suite};
use super::system::SYSTEM;
use crate::Machine;
use crate::results::plot::Plot;
use crate::results::table::Table;

/// In the source's order.
pub(super) const SUITES: [Suite; 10] = [
    DISK, FSYNC, SQLITE, ROCKSDB, HTTP, REDIS, NETWORK, MEMORY, SYSTEM, HASHING,
];
/// Of the JSON.
const VERSION: u32 = 1;

/// Names of the groups.
pub fn groups() -> [&'static str; SUITES.len()] {
    SUITES.map(|suite| suite.name)
}

/// What a run found.
#[derive(Debug, Clone)]
pub struct Measured {
    pub machine: Machine,
    pub quick: bool,
    pub took: Duration,
    pub rows: Vec<Row>,
}

/// Measures the groups that are asked for, one after the other, and shows on standard error how far it is.
///
/// Takes a minute at most when it is quick, ten otherwise; up to 600 MB of memory, and [`Options::disk_bytes`] of disk. Leaves
/// nothing there, however the process ends.
pub fn measure(options: Options) -> Result<Measured, String> {
    let known = groups();
    if let Some(unknown) = options.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("{unknown} is no group; there are {}", known.join(", ")));
    }
    check_room(&options)?;
    let suites: Vec<&Suite> = SUITES
        .iter()
        .filter(|suite| options.includes(suite.name))
        .collect();
    let progress = Progress::new(suites.iter().map(|suite| (suite.plan)(&options).len()).sum());
    let setup = Setup::new(options);
    let mut rows = Vec::new();
    for suite in suites {
        let mut report = Report::new(&setup, &progress, suite);
        setup.enter(suite);
        let outcome = match setup.left().is_zero() {
            true => Ok(()),
            false => (suite.run)(&setup, &mut report),
        };
        rows.extend(report.end(outcome));
    }
    drop(progress);
    Ok(Measured {
        machine: Machine::here(),
        quick: setup.options.quick,
        took: setup.now(),
        rows,
    })
}

/// An error that states both numbers, before anything is measured.
fn check_room(options: &Options) -> Result<(), String> {
    let storage = PreadStorage::open(&options.directory).map_err(|error| error.to_string())?;
    let free = storage.free_bytes().map_err(|error| error.to_string())?;
    let needed = options.disk_bytes();
    match needed > free {
        true => Err(format!(
            "{} has {} MB free, and this run takes up to {} MB",
            options.directory.display(),
            free / 1_000_000,
            needed / 1_000_000
        )),
        false => Ok(()),
    }
}

impl Measured {
    /// The record: `{"version", "machine", "quick", "seconds", "rows": [{"group", "name", "unit", "value", "source", "ratio", ..}]}`.
    pub fn json(&self) -> Value {
        json!({
            "version": VERSION,
            "machine": self.machine,
            "quick": self.quick,
            "seconds": self.took.as_secs(),
            "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }
}

impl Measured {
    /// What the disk does with so many blocks at once.
    pub fn plot(&self) -> Plot {
        depths::plot(&self.rows)
    }
}

/// A table for each group. `x source` is how many times as fast as the source's machine.
impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine {
            cpu,
            kernels,
            cores,
            ram_bytes,
            kernel,
            ..
        } = &self.machine;
        writeln!(
            f,
            "{cpu} ({kernels}), {cores} cores, {} GB of RAM, Linux {kernel}",
            ram_bytes / 1_000_000_000
        )?;
        for group in groups() {
            let mut rows = self.rows.iter().filter(|row| row.group == group).peekable();
            if rows.peek().is_none() {
                continue;
            }
            let mut table = Table::new(&[group, "here", "unit", "source", "x source", "also"]);
            rows.for_each(|row| table.row(cells(row)));
            write!(f, "\n{table}")?;
            let of_group = |row: &&Row| row.group == group;
            if let Some(differs) = self.rows.iter().find(of_group).and_then(|row| row.differs) {
                writeln!(f, "* another size, so no ratio: {differs}")?;
            }
        }
        let kind = if self.quick { "quick" } else { "full" };
        writeln!(
            f,
            "\nA {kind} run, {} s. What each line measures: docs/machine.md",
            self.took.as_secs()
        )
    }
}

fn cells(row: &Row) -> [String; 6] {
    let or_dash = |value: Option<f64>| value.map_or("-".to_owned(), figure);
    let also = match &row.value {
        Err(why) => why.clone(),
        Ok(_) => {
            let also = row
                .also
                .iter()
                .map(|(value, unit)| format!("{} {unit}", figure(*value)));
            also.collect::<Vec<_>>().join(", ")
        }
    };
    [
        match row.differs {
            Some(_) => format!("{} *", row.name),
            None => row.name.clone(),
        },
        or_dash(row.value.as_ref().ok().copied()),
        row.unit.name().to_owned(),
        or_dash(row.source()),
        or_dash(row.ratio()),
        also,
    ]
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::machine::row::Unit;
    use crate::machine::source::SOURCE;

    fn options(quick: bool) -> Options {
        Options {
            quick,
            directory: PathBuf::new(),
            program: PathBuf::new(),
            only: Vec::new(),
        }
    }

    #[test]
    fn every_figure_of_the_source_has_its_line() {
        for quick in [true, false] {
            let options = options(quick);
            let lines: Vec<(&str, String)> = SUITES
                .iter()
                .flat_map(|suite| {
                    (suite.plan)(&options)
                        .into_iter()
                        .map(|row| (suite.name, row.name))
                })
                .collect();
            for (group, name, _) in SOURCE {
                let found = lines.iter().filter(|(g, n)| *g == group && n == name).count();
                assert_eq!(found, 1, "{group}: {name}, quick {quick}");
            }
            let mut all = lines.clone();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), lines.len());
        }
    }

    #[test]
    fn groups_share_the_time() {
        let shares = SUITES.map(|suite| suite.seconds);
        let all = shares
            .into_iter()
            .fold((0, 0), |(quick, full), (q, f)| (quick + q, full + f));
        // The last measurement of each group may end later, and the profile takes three seconds.
        assert!(all.0 <= 55 && all.1 <= 570, "{all:?}");
        assert!(options(true).time_limit() <= Duration::from_secs(55));
        assert!(options(false).time_limit() <= Duration::from_secs(570));
    }

    #[test]
    fn a_table_and_its_json() {
        let row = |name: &str, value| Row {
            group: "hashing",
            name: name.into(),
            unit: Unit::Mebibytes,
            value,
            also: vec![(5.0, "x")],
            differs: None,
        };
        let measured = Measured {
            machine: Machine::here(),
            quick: true,
            took: Duration::from_secs(3),
            rows: vec![
                row("md5", Ok(808.3)),
                row("own", Ok(1.0)),
                row("sha1", Err("not installed: x".into())),
            ],
        };
        let text = measured.to_string();
        let line = |name: &str| {
            text.lines()
                .find(|line| line.starts_with(&format!("| {name} ")))
                .expect("a line")
        };
        let words: Vec<&str> = line("md5").split_whitespace().collect();
        assert_eq!(
            words,
            [
                "|", "md5", "|", "808", "|", "MiB/s", "|", "404", "|", "2", "|", "5", "x", "|"
            ]
        );
        assert!(
            line("sha1").contains("not installed: x") && line("own").contains('-'),
            "{text}"
        );
        let json = measured.json();
        assert_eq!(
            (
                json["rows"][0]["ratio"].as_f64(),
                json["rows"][2]["value"].is_null()
            ),
            (Some(2.0), true)
        );
        assert_eq!(json["rows"][2]["why"], "not installed: x");
    }

    #[test]
    fn an_unknown_group_is_told() {
        let bad = Options {
            only: vec!["disks".into()],
            ..options(true)
        };
        let why = measure(bad).expect_err("unknown");
        assert!(why.contains("disks") && why.contains("rocksdb"), "{why}");
    }
}
