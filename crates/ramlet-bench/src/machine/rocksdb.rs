//! RocksDB by its own benchmark, as Debian has it.

use std::process::Command;

use super::row::{Also, Planned, Unit};
use super::suite::{Options, Report, Setup, Suite, planned};
use super::tool::Tool;

pub const ROCKSDB: Suite = Suite {
    name: "rocksdb",
    seconds: (11, 120),
    plan,
    run,
};

const PACKAGE: &str = "rocksdb-tools";
/// In the source's order, each on what the one before left.
const BENCHMARKS: [&str; 4] = ["fillseq", "readrandom", "overwrite", "readwhilewriting"];

fn plan(_: &Options) -> Vec<Planned> {
    BENCHMARKS
        .into_iter()
        .map(|name| planned(name, Unit::Ops))
        .collect()
}

fn run(setup: &Setup, report: &mut Report<'_>) -> Result<(), String> {
    let scratch = setup.scratch()?;
    let keys = setup.pick(200_000, 1_000_000);
    for name in BENCHMARKS {
        if !report.begin(name) {
            break;
        }
        let writes_alone = ["fillseq", "overwrite"].contains(&name);
        let threads = if writes_alone { 1 } else { setup.cores };
        let mut command = Command::new("db_bench");
        command
            .arg(format!("--benchmarks={name}"))
            .arg(format!("--db={}", scratch.path().join("db").display()))
            .arg(format!("--use_existing_db={}", name != "fillseq"))
            .arg(format!("--num={keys}"))
            .arg(format!("--threads={threads}"))
            .args([
                "--key_size=16",
                "--value_size=800",
                "--compression_type=snappy",
                "--seed=1",
                "--histogram=true",
            ])
            // As the source's: values that shrink to a half, and in the last that don't.
            .arg(format!(
                "--compression_ratio={}",
                if name == "readwhilewriting" { 1.0 } else { 0.5 }
            ));
        if !writes_alone {
            command.arg(format!("--duration={}", setup.pick(2, 10)));
        }
        let (mut found, mut shares) = (None, Vec::new());
        let ended = Tool::start(&mut command, PACKAGE)?.lines(setup.left(), &mut |line| {
            found = found.take().or_else(|| parse(name, line));
            shares = percentiles(line).unwrap_or_else(|| std::mem::take(&mut shares));
        });
        let measured = ended.and_then(|()| found.ok_or("db_bench says no figure".to_owned()));
        let with_size = measured.map(|(value, mut also)| {
            also.append(&mut shares);
            also.push((threads as f64, "threads"));
            also.push((f64::from(keys), "keys"));
            (value, also)
        });
        report.take(name, with_size);
    }
    Ok(())
}

/// `Percentiles: P50: 2.98 P75: 4.50 P99: 9.87 P99.9: 28.14 P99.99: 220.63`, microseconds, behind a benchmark.
fn percentiles(line: &str) -> Option<Vec<Also>> {
    let words: Vec<&str> = line.strip_prefix("Percentiles:")?.split_whitespace().collect();
    let of = |name: &str| -> Option<f64> {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)?.parse().ok()
    };
    Some(vec![(of("P50:")?, "us p50"), (of("P99:")?, "us p99")])
}

/// `fillseq      :       5.288 micros/op 189094 ops/sec 52.883 seconds 10000000 operations;  147.2 MB/s`.
fn parse(name: &str, line: &str) -> Option<(f64, Vec<Also>)> {
    let (head, figures) = line.split_once(':')?;
    if head.trim() != name {
        return None;
    }
    let words: Vec<&str> = figures.split_whitespace().collect();
    let before = |unit: &str| -> Option<f64> {
        let at = words.iter().position(|word| word.trim_end_matches(';') == unit)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    let mut also = vec![(before("micros/op")?, "us")];
    also.extend(before("MB/s").map(|rate| (rate, "MB/s")));
    Some((before("ops/sec")?, also))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_db_bench() {
        let line = "fillseq      :       5.288 micros/op 189094 ops/sec 52.883 seconds 10000000 operations;  147.2 MB/s";
        assert_eq!(
            parse("fillseq", line),
            Some((189_094.0, vec![(5.288, "us"), (147.2, "MB/s")]))
        );
        let line = "readrandom   : 4.215 micros/op 3779991 ops/sec; 294.2 MB/s (1000335 of 10000000 found)";
        assert_eq!(
            parse("readrandom", line).map(|(value, _)| value),
            Some(3_779_991.0)
        );
        let line = "Percentiles: P50: 2.98 P75: 4.50 P99: 9.87 P99.9: 28.14 P99.99: 220.63";
        assert_eq!(percentiles(line), Some(vec![(2.98, "us p50"), (9.87, "us p99")]));
        assert_eq!(percentiles("Percentiles: P50:"), None);
        for other in [
            "overwrite : 1 micros/op 2 ops/sec",
            "fillseq :",
            "fillseq : ops/sec",
            "DB path: [./db]",
            "",
        ] {
            assert_eq!(parse("fillseq", other), None, "{other}");
        }
    }
}
