//! A group of lines that are measured together, and what measuring them takes.

use std::cell::{Cell, OnceCell};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ramlet_io::measure::TestFile;

use super::progress::Progress;
use super::row::{Also, Planned, Row, Unit};
use super::scratch::Scratch;
use super::source;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Fewer lines and less time for each: a minute at most, in all.
    pub quick: bool,
    /// On the disk that is measured.
    pub directory: PathBuf,
    /// The `ramlet` binary, whose server is measured.
    pub program: PathBuf,
    /// Names of the groups that are measured; all when it is empty.
    pub only: Vec<String>,
}

impl Options {
    /// No measurement begins later.
    pub fn time_limit(&self) -> Duration {
        match self.quick {
            true => Duration::from_secs(54),
            false => Duration::from_secs(570),
        }
    }

    /// Whether a group is measured.
    pub fn includes(&self, group: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == group)
    }

    /// Bytes of disk that the run takes at most.
    pub fn disk_bytes(&self) -> u64 {
        let file = ["disk", "fsync", "memory"]
            .into_iter()
            .any(|group| self.includes(group));
        let databases = ["sqlite", "rocksdb"]
            .into_iter()
            .any(|group| self.includes(group));
        // A million rows of SQLite and their log, or RocksDB's million keys while it merges them.
        let database_bytes = if self.quick { 1 << 30 } else { 3 << 30 };
        u64::from(file) * self.file_bytes() + u64::from(databases) * database_bytes
    }

    /// Bytes of the file that is read and written.
    pub fn file_bytes(&self) -> u64 {
        match self.quick {
            true => 256 << 20,
            false => 1 << 30,
        }
    }
}

/// A group.
pub struct Suite {
    pub name: &'static str,
    /// It begins nothing after so many, in a quick run and in a full one: a slow disk leaves the others their time.
    pub seconds: (u64, u64),
    /// The lines, in their order.
    pub plan: fn(&Options) -> Vec<Planned>,
    /// Measures them. An error is said on every line that has no figure by then.
    pub run: fn(&Setup, &mut Report<'_>) -> Result<(), String>,
}

/// What all groups share.
pub struct Setup {
    pub options: Options,
    pub cores: usize,
    started: Instant,
    /// The end of the group that is measured.
    until: Cell<Duration>,
    file: OnceCell<Result<TestFile, String>>,
}

impl Setup {
    pub fn new(options: Options) -> Setup {
        Setup {
            options,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            started: Instant::now(),
            until: Cell::new(Duration::ZERO),
            file: OnceCell::new(),
        }
    }

    pub fn directory(&self) -> &Path {
        &self.options.directory
    }

    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// From here on it is this group's time.
    pub fn enter(&self, suite: &Suite) {
        let seconds = self.pick(suite.seconds.0, suite.seconds.1);
        let end = self.now() + Duration::from_secs(seconds);
        self.until.set(end.min(self.options.time_limit()));
    }

    /// The time that is left to the group.
    pub fn left(&self) -> Duration {
        self.until.get().saturating_sub(self.now())
    }

    /// What a quick run takes, or a full one.
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        match self.options.quick {
            true => quick,
            false => full,
        }
    }

    /// The file of noise, written when the first group asks for it.
    pub fn file(&self) -> Result<&TestFile, String> {
        let file = self.file.get_or_init(|| {
            TestFile::create(self.directory(), self.options.file_bytes(), 1, &mut |_| {})
                .map_err(|error| error.to_string())
        });
        file.as_ref().map_err(Clone::clone)
    }

    /// A directory for programs that want one.
    pub fn scratch(&self) -> Result<Scratch, String> {
        Scratch::new(self.directory())
    }
}

/// Takes the figures of one group.
pub struct Report<'a> {
    setup: &'a Setup,
    progress: &'a Progress,
    rows: Vec<Row>,
}

impl<'a> Report<'a> {
    pub fn new(setup: &'a Setup, progress: &'a Progress, suite: &Suite) -> Report<'a> {
        let rows = (suite.plan)(&setup.options)
            .into_iter()
            .map(|Planned { name, unit }| Row {
                group: suite.name,
                name,
                unit,
                value: Err(String::new()),
                also: Vec::new(),
                differs: source::differs(suite.name, setup.options.quick),
            });
        Report {
            setup,
            progress,
            rows: rows.collect(),
        }
    }

    /// Says what is measured now; false when the time is up.
    pub fn begin(&self, name: &str) -> bool {
        let in_time = !self.setup.left().is_zero();
        if in_time && let Some(row) = self.rows.first() {
            self.progress.now(row.group, name);
        }
        in_time
    }

    /// Fills a line. Panics when it wasn't planned.
    pub fn found(&mut self, name: &str, value: f64, also: &[Also]) {
        self.fill(name, Ok(value), also);
    }

    /// Says why a line stays empty.
    pub fn missing(&mut self, name: &str, why: &str) {
        self.fill(name, Err(why.to_owned()), &[]);
    }

    pub fn take(&mut self, name: &str, measured: Result<(f64, Vec<Also>), String>) {
        match measured {
            Ok((value, also)) => self.found(name, value, &also),
            Err(why) => self.missing(name, &why),
        }
    }

    fn fill(&mut self, name: &str, value: Result<f64, String>, also: &[Also]) {
        let row = self.rows.iter_mut().find(|row| row.name == name);
        let row = row.unwrap_or_else(|| panic!("{name} isn't planned"));
        row.value = value;
        row.also = also.to_vec();
        self.progress.done(row);
    }

    /// All lines; those without a figure say why.
    pub fn end(mut self, outcome: Result<(), String>) -> Vec<Row> {
        let why = match outcome {
            Ok(()) if self.setup.left().is_zero() => "left out: its time was over".to_owned(),
            Ok(()) => "left out".to_owned(),
            Err(why) => why,
        };
        for row in &mut self.rows {
            if row.value.as_ref().is_err_and(String::is_empty) {
                row.value = Err(why.clone());
                self.progress.done(row);
            }
        }
        self.rows
    }
}

/// A line.
pub fn planned(name: impl Into<String>, unit: Unit) -> Planned {
    Planned {
        name: name.into(),
        unit,
    }
}
