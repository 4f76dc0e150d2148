//! Reads and writes of a file, past the page cache, by three ways.

use std::time::Duration;

use ramlet_io::measure::{Kind, Method, TestFile, Transfer};

use super::row::{Also, Planned, Unit};
use super::suite::{Options, Report, Setup, Suite, planned};

pub const DISK: Suite = Suite {
    name: "disk",
    seconds: (14, 220),
    plan,
    run,
};
pub const FSYNC: Suite = Suite {
    name: "fsync",
    seconds: (2, 12),
    plan: plan_fsync,
    run: run_fsync,
};

const KB: usize = 1024;
const BLOCKS: [usize; 3] = [256 * KB, 1024 * KB, 4 * KB];
const METHODS: [Method; 3] = [Method::Sync, Method::Aio, Method::Uring];
/// Of the ways that can do many at once, where nothing else is said.
const DEPTH: usize = 32;
const DEPTHS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// What a line measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub method: Method,
    pub kind: Kind,
    pub random: bool,
    pub block_bytes: usize,
    pub depth: usize,
}

impl Case {
    const fn new(method: Method, random: bool, kind: Kind, block_bytes: usize, depth: usize) -> Case {
        Case {
            method,
            kind,
            random,
            block_bytes,
            depth,
        }
    }

    /// `io_uring random read, 4 KB x 64`.
    pub fn name(&self) -> String {
        let method = match self.method {
            Method::Sync => "sync",
            Method::Aio => "AIO",
            Method::Uring => "io_uring",
        };
        let order = if self.random { "random" } else { "sequential" };
        let kind = match self.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::WriteSync => "write + fsync",
            Kind::WriteDataSync => "write + fdatasync",
        };
        let block = match self.block_bytes / KB {
            1024 => "1 MB".to_owned(),
            kilobytes => format!("{kilobytes} KB"),
        };
        match self.method {
            Method::Sync => format!("{method} {order} {kind}, {block}"),
            _ => format!("{method} {order} {kind}, {block} x {}", self.depth),
        }
    }

    pub fn transfer(&self, time: Duration, bytes_max: u64) -> Transfer {
        Transfer {
            method: self.method,
            kind: self.kind,
            random: self.random,
            block_bytes: self.block_bytes,
            depth: self.depth,
            time,
            bytes_max,
            seed: 1,
        }
    }
}

/// Every way, order and kind with blocks of a size.
fn grid(block_bytes: usize) -> impl Iterator<Item = Case> {
    METHODS.into_iter().flat_map(move |method| {
        let depth = if method == Method::Sync { 1 } else { DEPTH };
        [false, true].into_iter().flat_map(move |random| {
            [Kind::Write, Kind::WriteSync, Kind::Read]
                .map(|kind| Case::new(method, random, kind, block_bytes, depth))
        })
    })
}

/// Random reads and writes at every depth.
fn depths(block_bytes: usize) -> impl Iterator<Item = Case> {
    [Kind::Read, Kind::Write]
        .into_iter()
        .flat_map(move |kind| DEPTHS.map(|depth| Case::new(Method::Uring, true, kind, block_bytes, depth)))
}

pub fn cases(quick: bool) -> Vec<Case> {
    let mut cases = vec![Case::new(Method::Sync, false, Kind::Write, 1024 * KB, 1)];
    cases.extend(grid(256 * KB));
    let others = BLOCKS
        .into_iter()
        .flat_map(grid)
        .chain(BLOCKS.into_iter().flat_map(depths));
    let aio = [1, 256].map(|depth| Case::new(Method::Aio, true, Kind::Read, 4 * KB, depth));
    for case in others.chain(aio) {
        let is_quick = case.block_bytes == 4 * KB
            && case.random
            && match (case.method, case.kind) {
                (Method::Sync, Kind::Read) => true,
                (Method::Uring, Kind::Read) => [1, 4, 16, 64, 256].contains(&case.depth),
                (Method::Uring, Kind::Write) => [1, 64].contains(&case.depth),
                _ => false,
            };
        if !cases.contains(&case) && (is_quick || !quick) {
            cases.push(case);
        }
    }
    cases
}

fn plan(options: &Options) -> Vec<Planned> {
    let cases = cases(options.quick);
    cases.iter().map(|case| planned(case.name(), Unit::Ops)).collect()
}

fn run(setup: &Setup, report: &mut Report<'_>) -> Result<(), String> {
    report.begin("writing the file");
    let file = setup.file()?;
    let time = setup.pick(Duration::from_millis(400), Duration::from_secs(1));
    for case in cases(setup.options.quick) {
        let name = case.name();
        if !report.begin(&name) {
            break;
        }
        report.take(&name, measure(setup, file, case, time));
    }
    Ok(())
}

fn measure(setup: &Setup, file: &TestFile, case: Case, time: Duration) -> Result<(f64, Vec<Also>), String> {
    // What is written wears the disk: no line writes more than the file.
    let bytes_max = if case.kind == Kind::Read {
        u64::MAX
    } else {
        file.bytes()
    };
    let done = file.transfer(&case.transfer(time, bytes_max), &|| setup.now());
    let done = done.map_err(|error| error.to_string())?;
    let also = vec![
        (done.bytes_per_second() / 1e6, "MB/s"),
        (done.latency_us_p50, "us p50"),
        (done.latency_us_p99, "us p99"),
        (done.cpu.as_secs_f64() * 1e6 / done.ops.max(1) as f64, "us of CPU"),
    ];
    Ok((done.ops_per_second(), also))
}

const ONE: &str = "write 4 KB + fsync";
const IN_A_ROW: &str = "fsyncs in a row";
const DATA: &str = "write 4 KB + fdatasync";
const EXTERNAL: [(&str, Unit); 2] = [
    ("write 4 KB + fsync, external SSD", Unit::Microseconds),
    ("fsyncs in a row, external SSD", Unit::Fsyncs),
];

fn plan_fsync(_: &Options) -> Vec<Planned> {
    let own = [
        (ONE, Unit::Microseconds),
        (IN_A_ROW, Unit::Fsyncs),
        (DATA, Unit::Microseconds),
    ];
    own.into_iter()
        .chain(EXTERNAL)
        .map(|(name, unit)| planned(name, unit))
        .collect()
}

fn run_fsync(setup: &Setup, report: &mut Report<'_>) -> Result<(), String> {
    report.begin("writing the file");
    let file = setup.file()?;
    let time = setup.pick(Duration::from_millis(500), Duration::from_secs(3));
    for (kind, name) in [(Kind::WriteSync, ONE), (Kind::WriteDataSync, DATA)] {
        if !report.begin(name) {
            break;
        }
        let case = Case::new(Method::Sync, false, kind, 4 * KB, 1);
        let (per_second, also) = measure(setup, file, case, time)?;
        let also: Vec<Also> = also.into_iter().filter(|(_, unit)| *unit != "MB/s").collect();
        report.found(name, 1e6 / per_second, &also);
        if kind == Kind::WriteSync {
            report.found(IN_A_ROW, per_second, &[]);
        }
    }
    for (name, _) in EXTERNAL {
        report.missing(name, "of another disk: --dir DIR measures the one of DIR");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_cases_apart() {
        for quick in [true, false] {
            let cases = cases(quick);
            let mut names: Vec<String> = cases.iter().map(Case::name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), cases.len());
        }
        // Three ways, two orders, three kinds, three sizes; eight more depths of two kinds and three sizes; two of AIO.
        assert_eq!(cases(false).len(), 54 + 48 + 2);
        assert!(cases(true).iter().all(|case| cases(false).contains(case)));
    }
}
