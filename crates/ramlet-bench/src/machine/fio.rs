//! fio as the judge of the disk lines: the same transfers on the same file, in turns.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ramlet_io::measure::{Kind, Method, TestFile};

use super::disk::{Case, cases};
use super::tool::Tool;
use crate::results::summary::Summary;

/// Times that the turns of a line are taken, at most.
const ROUNDS: usize = 3;

/// A line by us and by fio.
#[derive(Debug, Clone, PartialEq)]
pub struct FioComparison {
    pub name: String,
    /// Operations a second, turn by turn.
    pub ours: Vec<f64>,
    pub fio: Vec<f64>,
    /// fio once more in each turn: by how much two equal runs differ on this disk.
    pub again: Vec<f64>,
}

impl FioComparison {
    /// Ours over fio's, of medians: the order of who comes first goes round, and what others do on the machine meets all alike. (The best turns, which
    /// stood here before, are luck on a disk that now and then is half as fast again for a moment.)
    pub fn ratio(&self) -> f64 {
        let both: Vec<f64> = self.fio.iter().chain(&self.again).copied().collect();
        median(&self.ours) / median(&both)
    }

    /// fio over fio.
    pub fn equal_runs(&self) -> f64 {
        median(&self.again) / median(&self.fio)
    }

    /// Within a tenth of fio's figure.
    pub fn agrees(&self) -> bool {
        (0.9..=1.1).contains(&self.ratio())
    }

    /// Whether it agrees, and fio with itself: otherwise more turns are due, and the medians are those of all.
    fn is_settled(&self) -> bool {
        self.agrees() && (0.9..=1.1).contains(&self.equal_runs())
    }

    /// What stands over [`FioComparison::line`].
    pub fn head() -> String {
        format!(
            "{:<48}{:>10}{:>10}{:>8}{:>10}",
            "", "here", "fio", "ratio", "fio's A/A"
        )
    }

    /// One line of a table.
    pub fn line(&self) -> String {
        let (ours, fio) = (median(&self.ours), median(&self.fio));
        let (ratio, equal) = (self.ratio(), self.equal_runs());
        format!(
            "{:<48}{ours:>10.0}{fio:>10.0}{ratio:>8.3}{equal:>10.3}",
            self.name
        )
    }
}

fn median(figures: &[f64]) -> f64 {
    Summary::of(figures).map_or(f64::NAN, |summary| summary.median)
}

/// The lines that mean the same to fio. With several writes in flight it lets all of them end before an fsync; ours has an
/// fsync of its own for each.
pub fn comparable(quick: bool) -> Vec<Case> {
    let is_same = |case: &Case| case.depth == 1 || matches!(case.kind, Kind::Read | Kind::Write);
    cases(quick).into_iter().filter(is_same).collect()
}

/// Takes `turns` turns of `time` each, of every case, on one file of noise in `directory`, three times as many of a line that isn't settled; `told`
/// hears each line when it is done.
pub fn against_fio(
    directory: &Path,
    file_bytes: u64,
    cases: &[Case],
    turns: usize,
    time: Duration,
    told: &mut dyn FnMut(&FioComparison),
) -> Result<Vec<FioComparison>, String> {
    let said = |error: ramlet_io::IoError| error.to_string();
    let file = TestFile::create(directory, file_bytes, 1, &mut |_| {}).map_err(said)?;
    let start = Instant::now();
    let mut lines = Vec::with_capacity(cases.len());
    for case in cases {
        let mut line = FioComparison {
            name: case.name(),
            ours: Vec::new(),
            fio: Vec::new(),
            again: Vec::new(),
        };
        for turn in 0..turns * ROUNDS {
            if turn > 0 && turn % turns == 0 && line.is_settled() {
                break;
            }
            // Each comes first as often as the others: disks of hosts let off a little more after a rest.
            for who in 0..3 {
                match (turn + who) % 3 {
                    0 => {
                        let transfer = case.transfer(time, u64::MAX);
                        let done = file.transfer(&transfer, &|| start.elapsed()).map_err(said)?;
                        line.ours.push(done.ops_per_second());
                    }
                    1 => line.fio.push(fio(&file, case, time)?),
                    _ => line.again.push(fio(&file, case, time)?),
                }
            }
        }
        told(&line);
        lines.push(line);
    }
    Ok(lines)
}

/// Operations a second, by fio.
fn fio(file: &TestFile, case: &Case, time: Duration) -> Result<f64, String> {
    let engine = match case.method {
        Method::Sync => "psync",
        Method::Aio => "posixaio",
        Method::Uring => "io_uring",
    };
    let order = if case.random { "rand" } else { "" };
    let kind = if case.kind == Kind::Read { "read" } else { "write" };
    let mut command = Command::new("fio");
    command
        .args([
            "--name=ramlet",
            "--time_based",
            "--norandommap",
            "--randrepeat=0",
            "--output-format=json",
        ])
        .arg(format!("--filename={}", file.path().display()))
        .arg(format!("--size={}", file.bytes()))
        .arg(format!("--rw={order}{kind}"))
        .arg(format!("--ioengine={engine}"))
        .arg(format!("--bs={}", case.block_bytes))
        .arg(format!("--iodepth={}", case.depth))
        .arg(format!("--direct={}", u8::from(file.is_direct())))
        .arg(format!("--runtime={}ms", time.as_millis()));
    match case.kind {
        Kind::WriteSync => command.arg("--fsync=1"),
        Kind::WriteDataSync => command.arg("--fdatasync=1"),
        Kind::Read | Kind::Write => &mut command,
    };
    let mut json = String::new();
    Tool::start(&mut command, "fio")?.lines(time + Duration::from_secs(30), &mut |line| {
        // Remarks may stand before it.
        if !json.is_empty() || line.starts_with('{') {
            json.push_str(line);
            json.push('\n');
        }
    })?;
    operations(&json, kind).ok_or_else(|| format!("fio says no figure of {}", case.name()))
}

fn operations(json: &str, kind: &str) -> Option<f64> {
    let said: serde_json::Value = serde_json::from_str(json).ok()?;
    said["jobs"][0][kind]["iops"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn medians_are_compared() {
        let line = FioComparison {
            name: "x".into(),
            ours: vec![50.0, 95.0, 190.0],
            fio: vec![100.0, 20.0, 101.0],
            again: vec![100.0, 90.0, 1000.0],
        };
        assert!((line.ratio() - 0.95).abs() < 1e-9 && line.agrees());
        assert_eq!(line.equal_runs(), 1.0);
        assert!(line.is_settled());
        let slow = FioComparison {
            ours: vec![80.0],
            ..line.clone()
        };
        assert!(!slow.agrees());
        assert!(!FioComparison { ours: vec![], ..line }.agrees());
    }

    #[test]
    fn what_fio_says() {
        let json = r#"{"jobs": [{"jobname": "ramlet", "read": {"iops": 63812.5}, "write": {"iops": 0}}]}"#;
        assert_eq!(operations(json, "read"), Some(63_812.5));
        assert_eq!((operations("", "read"), operations("{}", "read")), (None, None));
    }

    /// Where fio is installed it takes every kind of transfer that we do; otherwise one sentence says how to get it.
    #[test]
    fn fio_does_what_we_do() {
        let cases = comparable(true)
            .into_iter()
            .filter(|case| case.block_bytes <= 256 << 10);
        let time = Duration::from_millis(2);
        let one_of_each: Vec<Case> = cases.step_by(4).collect();
        match against_fio(&std::env::temp_dir(), 4 << 20, &one_of_each, 1, time, &mut |_| {}) {
            Ok(lines) => {
                assert_eq!(lines.len(), one_of_each.len());
                assert!(
                    lines.iter().all(|line| line.ours[0] > 0.0 && line.fio[0] > 0.0),
                    "{lines:?}"
                );
            }
            Err(why) => assert!(
                why.contains("apt-get install fio") || why.contains("io_uring"),
                "{why}"
            ),
        }
    }
}
