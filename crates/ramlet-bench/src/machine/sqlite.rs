//! Inserts into SQLite as it is installed, in the source's four settings.

use std::path::Path;
use std::time::{Duration, Instant};

use ramlet_io::IoErrorKind;
use ramlet_io::measure::{Connection, Sqlite};
use ramlet_testdata::Random;

use super::row::{Also, Planned, Unit};
use super::suite::{Options, Report, Setup, Suite, planned};

pub const SQLITE: Suite = Suite {
    name: "sqlite",
    seconds: (5, 30),
    plan,
    run,
};

/// `PRAGMA synchronous`, rows a transaction.
const SETTINGS: [(&str, usize); 4] = [("normal", 1000), ("normal", 1), ("off", 1000), ("off", 1)];
const ROW_BYTES: usize = 1000;
/// The source's.
const ROWS_MAX: u64 = 1_000_000;

fn name((synchronous, batch): (&str, usize)) -> String {
    let rows = if batch == 1 { "row" } else { "rows" };
    format!("WAL, synchronous {synchronous}, {batch} {rows} a transaction")
}

fn plan(_: &Options) -> Vec<Planned> {
    SETTINGS
        .into_iter()
        .map(|setting| planned(name(setting), Unit::Inserts))
        .collect()
}

fn run(setup: &Setup, report: &mut Report<'_>) -> Result<(), String> {
    let sqlite = Sqlite::load().map_err(|error| match error.kind {
        IoErrorKind::NotFound => "not installed: apt-get install libsqlite3-0".to_owned(),
        _ => error.to_string(),
    })?;
    let time = setup.pick(Duration::from_millis(900), Duration::from_secs(5));
    for setting in SETTINGS {
        let name = name(setting);
        if !report.begin(&name) {
            break;
        }
        // A database for each: none starts with the pages of the one before.
        let scratch = setup.scratch()?;
        let measured = inserts(&sqlite, &scratch.path().join("bench.db"), setting, time);
        report.take(&name, measured.map_err(|error| error.to_string()));
    }
    Ok(())
}

/// Rows a second, until `time` is over or there are as many as the source's.
fn inserts(
    sqlite: &Sqlite,
    path: &Path,
    (synchronous, batch): (&str, usize),
    time: Duration,
) -> ramlet_io::Result<(f64, Vec<Also>)> {
    let db = sqlite.open(path)?;
    db.run(&format!(
        "PRAGMA journal_mode = wal; PRAGMA synchronous = {synchronous}"
    ))?;
    db.run("CREATE TABLE bench (id INTEGER PRIMARY KEY, data BLOB NOT NULL)")?;
    let (start, mut rows) = (Instant::now(), 0);
    let mut random = Random::new(1, 0);
    let mut data = [0u8; ROW_BYTES];
    let mut insert = db.insert("INSERT INTO bench (data) VALUES (?)")?;
    let mut transaction = |db: &Connection| -> ramlet_io::Result<()> {
        if batch > 1 {
            db.run("BEGIN")?;
        }
        for _ in 0..batch {
            for word in data.as_chunks_mut::<8>().0 {
                *word = random.next_u64().to_le_bytes();
            }
            insert.run(&data)?;
        }
        match batch > 1 {
            true => db.run("COMMIT"),
            false => Ok(()),
        }
    };
    while start.elapsed() < time && rows < ROWS_MAX {
        transaction(&db)?;
        rows += batch as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = rows as f64 / seconds;
    Ok((
        rate,
        vec![
            (rate * ROW_BYTES as f64 / 1e6, "MB/s"),
            (1e6 / rate, "us a row"),
            (rows as f64, "rows"),
        ],
    ))
}
