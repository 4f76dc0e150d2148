//! `ramlet-bench`: makes sets, values to filter by, and machine figures, for the rigs of `tests/rigs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use ramlet_bench::machine::{FioComparison, against_fio, comparable};
use ramlet_bench::{Comparison, Machine, Record, Summary, probe_disk};
use ramlet_testdata::args::Args;
use ramlet_testdata::{Difficulty, Element, Filters, K, Selection, Set, Shape, WriteOptions, write_set};
use serde_json::json;

const USAGE: &str = "usage:
  ramlet-bench make PREFIX [--rows 1000000] [--queries 2000] [--dims 100] [--seed 1] [--set hard|easy] [--element f32|u8]
                           [--clusters 15000] [--truth 100] [--threads N] [--bin]
      writes PREFIX.base.f32, PREFIX.query.f32, PREFIX.gt.i32, PREFIX.json; with --bin also PREFIX.fbin (.u8bin)
  ramlet-bench filters PREFIX [--dims 100] [--queries 500] [--shares 0.5,0.1,0.01,0.001] [--threads N]
      writes PREFIX.near.u16 and the filtered truth PREFIX.gt-SELECTION-SHARE.i32 of each query
  ramlet-bench texts PREFIX [--documents 500000] [--seed 42] [--docs FILE] [--queries FILE] [--field body] [--log 20000]
      writes PREFIX.docs.jsonl and PREFIX.queries.jsonl: what `ramlet bench text` searches and asks, 2,000 queries of each kind
  ramlet-bench machine [--disk DIR] [--disk-bytes 1GB] [--seconds 2]
      prints the machine's figures as JSON; with --disk also those of random reads there
  ramlet-bench fio DIR [--file-bytes 1GiB] [--turns 9] [--seconds 0.7] [--all]
      the disk lines of `ramlet machine` by us, by fio and by fio again, in turns, on one file in DIR; fails when a line's median differs by more than 10 % from fio's
  ramlet-bench record NAME [--root records] [--disk DIR]
      writes the JSON on standard input, beside the machine's figures, to ROOT/YYYY-MM-DD-MACHINE/NAME.json; prints the path
  ramlet-bench compare
      takes {\"name\": {\"a\": [..], \"b\": [..]}, ..}, figures of runs that took turns, and prints medians, spreads and the ratio b / a";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("ramlet-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("texts") {
        let prefix = words.next().ok_or(USAGE)?;
        let written = ramlet_bench::text::write_corpus(Path::new(&prefix), &words.collect::<Vec<_>>());
        return written
            .map(|documents| println!("{documents}"))
            .map_err(|e| format!("{e:#}"));
    }
    let args = Args::parse(std::env::args().skip(1), &["bin", "all"])?;
    let prefix = || args.word(1).map(Path::new).ok_or(USAGE);
    match args.word(0) {
        Some("make") => make(prefix()?, &args),
        Some("filters") => filters(prefix()?, &args),
        Some("machine") => print_machine(&args),
        Some("fio") => fio(Path::new(args.word(1).ok_or(USAGE)?), &args),
        Some("record") => record(args.word(1).ok_or(USAGE)?, &args),
        Some("compare") => compare(),
        _ => Err(USAGE.into()),
    }
}

fn threads(args: &Args) -> Result<usize, String> {
    args.value("threads", Machine::here().cores)
}

fn make(prefix: &Path, args: &Args) -> Result<(), String> {
    let shape = Shape {
        dims: args.value("dims", 100)?,
        seed: args.value("seed", 1)?,
        difficulty: match args.text("set").unwrap_or("hard") {
            "hard" => Difficulty::Hard,
            "easy" => Difficulty::Easy,
            other => return Err(format!("--set {other}: hard and easy are known")),
        },
        clusters: args.value("clusters", 15_000)?,
    };
    let options = WriteOptions {
        rows: args.value("rows", 1_000_000)?,
        queries: args.value("queries", 2_000)?,
        element: match args.text("element").unwrap_or("f32") {
            "f32" => Element::F32,
            "u8" => Element::U8,
            other => return Err(format!("--element {other}: f32 and u8 are known")),
        },
        truth_width: args.value("truth", 100)?,
        threads: threads(args)?,
        with_bin: args.has("bin"),
    };
    if shape.dims == 0 || options.rows == 0 || shape.clusters == 0 || options.rows > u64::from(u32::MAX) {
        return Err("a set has at least one row, dimension and cluster, and fewer than 2^32 rows".into());
    }
    let started = Instant::now();
    let mut told = 0;
    let set = write_set(prefix, shape, options, &mut |done| {
        if done * 20 / options.rows > told {
            told = done * 20 / options.rows;
            eprintln!(
                "{done} of {} rows, {:.0} s",
                options.rows,
                started.elapsed().as_secs_f32()
            );
        }
    });
    let set = set.map_err(|e| format!("{}: {e}", prefix.display()))?;
    println!("{}", serde_json::to_string(&set.info).map_err(|e| e.to_string())?);
    Ok(())
}

fn filters(prefix: &Path, args: &Args) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", prefix.display());
    let set = Set::open(prefix, args.value("dims", 100)?).map_err(failed)?;
    let threads = threads(args)?;
    let count = args.value("queries", 500)?;
    let encoded = set.queries(count).map_err(failed)?;
    let queries: Vec<Vec<f32>> = encoded
        .chunks_exact(set.row_bytes())
        .map(|row| set.info.element.floats(row))
        .collect();
    let values = Filters::of(&set, threads).map_err(failed)?;
    let mut shares: Vec<f64> = args.list("shares")?;
    if shares.is_empty() {
        shares = vec![0.5, 0.1, 0.01, 0.001];
    }
    for selection in Selection::ALL {
        for &share in &shares {
            let case = values.case(selection, share, &queries);
            let truth = values.truth(&set, &case, &encoded, threads).map_err(failed)?;
            let path = set.path(&format!("gt-{}-{share}.i32", selection.name()));
            write_truth(&path, &truth).map_err(failed)?;
            let line = json!({ "selection": selection.name(), "share": share, "share_mean": values.share_of(&case) });
            println!("{line}");
        }
    }
    Ok(())
}

/// `K` row numbers a query; -1 where fewer rows match.
fn write_truth(path: &PathBuf, truth: &[Vec<u32>]) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(truth.len() * K * 4);
    for list in truth {
        for at in 0..K {
            bytes.extend(list.get(at).copied().unwrap_or(u32::MAX).to_le_bytes());
        }
    }
    std::fs::write(path, bytes)
}

/// The machine's figures; those of a disk when `--disk` names a directory on it.
fn machine(args: &Args) -> Result<Machine, String> {
    let mut machine = Machine::here();
    if let Some(directory) = args.text("disk") {
        let bytes = args.bytes("disk-bytes")?.unwrap_or(1_000_000_000);
        let span = Duration::from_secs_f64(args.value("seconds", 2.0)?);
        let figures = probe_disk(Path::new(directory), bytes, span);
        machine.disk = Some(figures.map_err(|e| format!("{directory}: {e}"))?);
    }
    Ok(machine)
}

fn print_machine(args: &Args) -> Result<(), String> {
    let machine = machine(args)?;
    let mut out = serde_json::to_value(&machine).map_err(|e| e.to_string())?;
    out["name"] = machine.name().into();
    println!("{out}");
    Ok(())
}

fn fio(directory: &Path, args: &Args) -> Result<(), String> {
    let bytes = args.bytes("file-bytes")?.unwrap_or(1 << 30);
    let (turns, seconds) = (args.value("turns", 9)?, args.value("seconds", 0.7)?);
    println!("{}", FioComparison::head());
    let lines = against_fio(
        directory,
        bytes,
        &comparable(!args.has("all")),
        turns,
        Duration::from_secs_f64(seconds),
        &mut |line| println!("{}", line.line()),
    )?;
    let off = lines.iter().filter(|line| !line.agrees());
    match off.count() {
        0 => Ok(()),
        count => Err(format!(
            "{count} of {} lines differ by more than 10 %",
            lines.len()
        )),
    }
}

fn record(name: &str, args: &Args) -> Result<(), String> {
    let results =
        serde_json::from_reader(std::io::stdin().lock()).map_err(|e| format!("standard input: {e}"))?;
    let root = Path::new(args.text("root").unwrap_or("records"));
    let record = Record::new(root, machine(args)?, SystemTime::now());
    let path = record
        .write(name, &results)
        .map_err(|e| format!("{}: {e}", record.directory().display()))?;
    println!("{}", path.display());
    Ok(())
}

#[derive(serde::Deserialize)]
struct Turns {
    a: Vec<f64>,
    b: Vec<f64>,
}

fn compare() -> Result<(), String> {
    let given: BTreeMap<String, Turns> =
        serde_json::from_reader(std::io::stdin().lock()).map_err(|e| format!("standard input: {e}"))?;
    let mut out = BTreeMap::new();
    for (name, Turns { a, b }) in given {
        if a.len() != b.len() {
            return Err(format!("{name}: {} figures beside {}", a.len(), b.len()));
        }
        let figures = json!({ "a": Summary::of(&a), "b": Summary::of(&b), "ratio": Comparison::of(&a, &b) });
        out.insert(name, figures);
    }
    println!("{}", json!(out));
    Ok(())
}
