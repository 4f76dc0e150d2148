//! `cargo xtask fuzz [--seconds N] [TARGET..]`: libFuzzer on each target, one after another, and a line of figures for each.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// For each target, when nothing is said.
const SECONDS: u32 = 60;
/// Of one input: then it counts as one that hangs. The slowest take half a second of a processor under the sanitizer, and their first one makes the sample.
const TIMEOUT_S: u32 = 60;
/// Of one allocation, and of the process.
const MALLOC_MB: u32 = 256;
const RSS_MB: u32 = 2048;
/// Lines of a failed run that are shown.
const TAIL: usize = 60;

/// Runs all targets, or those that are named; `--seeds` writes the valid inputs of the corpus anew instead.
pub fn run(root: &Path, arguments: &[String]) -> ExitCode {
    let outcome = asked(arguments).and_then(|asked| match asked {
        Asked::Seeds => write_seeds(root),
        Asked::Run { seconds, named } => run_all(root, seconds, &named),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

enum Asked {
    Seeds,
    Run { seconds: u32, named: Vec<String> },
}

fn asked(arguments: &[String]) -> Result<Asked, String> {
    let (mut seconds, mut named) = (SECONDS, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seeds" => return Ok(Asked::Seeds),
            "--seconds" => {
                let given = rest.next().and_then(|value| value.parse().ok());
                seconds = given
                    .filter(|n| *n > 0)
                    .ok_or("--seconds takes a number from 1")?;
            }
            name if name.starts_with('-') => return Err(format!("{name} is not known")),
            name => named.push(name.to_owned()),
        }
    }
    Ok(Asked::Run { seconds, named })
}

fn write_seeds(root: &Path) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "-q", "-p", "ramlet-fuzz-targets", "seeds"]);
    command.current_dir(root).env("RAMLET_FUZZ_SEEDS", "write");
    succeeds(&mut command, "writing the seeds failed")
}

fn run_all(root: &Path, seconds: u32, named: &[String]) -> Result<(), String> {
    let all = targets(root)?;
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        return Err(format!(
            "there is no target `{unknown}`; there are: {}",
            all.join(" ")
        ));
    }
    check_tools()?;
    succeeds(
        nightly().args(["fuzz", "build"]).current_dir(root),
        "the build failed",
    )?;
    println!("{}", Figures::HEAD);
    let chosen = all.iter().filter(|name| named.is_empty() || named.contains(name));
    let mut failed = Vec::new();
    for target in chosen {
        if !run_one(root, target, seconds)? {
            failed.push(target.as_str());
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}", failed.join(" "))),
    }
}

/// Names of the corpus' directories.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let corpus = root.join("fuzz/corpus");
    let entries = fs::read_dir(&corpus).map_err(|e| format!("{}: {e}", corpus.display()))?;
    let mut names: Vec<_> = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Nothing is installed behind anybody's back.
fn check_tools() -> Result<(), String> {
    for (arguments, missing, install) in [
        (
            vec!["--version"],
            "there is no nightly toolchain",
            "rustup toolchain install nightly --profile minimal",
        ),
        (
            vec!["fuzz", "--version"],
            "there is no cargo-fuzz",
            "cargo install cargo-fuzz --locked",
        ),
    ] {
        let mut command = nightly();
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if !command.status().is_ok_and(|status| status.success()) {
            return Err(format!("{missing}: `{install}`"));
        }
    }
    Ok(())
}

/// Cargo of the nightly toolchain; the one that runs us told its children where it is.
fn nightly() -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly");
    for told in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(told);
    }
    command
}

fn succeeds(command: &mut Command, otherwise: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(otherwise.to_owned()),
        Err(e) => Err(format!("{otherwise}: {e}")),
    }
}

/// False if the target failed. What libFuzzer finds stays out of the tree, in `fuzz/target/found`, and is where the next run begins.
fn run_one(root: &Path, target: &str, seconds: u32) -> Result<bool, String> {
    let found = format!("fuzz/target/found/{target}");
    let faults = format!("fuzz/target/faults/{target}");
    for directory in [&found, &faults] {
        fs::create_dir_all(root.join(directory)).map_err(|e| format!("{directory}: {e}"))?;
    }
    let mut command = nightly();
    command.args([
        "fuzz",
        "run",
        target,
        &found,
        &format!("fuzz/corpus/{target}"),
        "--",
    ]);
    command.args([
        format!("-max_total_time={seconds}"),
        format!("-timeout={TIMEOUT_S}"),
        format!("-malloc_limit_mb={MALLOC_MB}"),
        format!("-rss_limit_mb={RSS_MB}"),
        format!("-artifact_prefix={faults}/"),
        "-print_final_stats=1".to_owned(),
    ]);
    let output = command.current_dir(root).stdout(Stdio::null()).output();
    let output = output.map_err(|e| format!("cargo can't be started: {e}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let ended = output.status.success();
    println!("{}", Figures::of(&told).line(target, ended));
    if !ended {
        let lines: Vec<_> = told.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL)..];
        println!("{}\n{target}: the input is in {faults}/", tail.join("\n"));
    }
    Ok(ended)
}

/// What libFuzzer says at its end.
#[derive(Debug, Default, PartialEq)]
struct Figures {
    executions: u64,
    seconds: u64,
    /// Edges that were reached, and what tells inputs apart: edges with counts.
    coverage: u64,
    features: u64,
    rss_mb: u64,
}

impl Figures {
    const HEAD: &str = "target        executions  seconds    exec/s  coverage  features  RSS MB  outcome";

    fn of(told: &str) -> Figures {
        let mut figures = Figures::default();
        for line in told.lines() {
            let mut words = line.split_whitespace();
            while let Some(word) = words.next() {
                let place = match word {
                    "stat::number_of_executed_units:" => &mut figures.executions,
                    "stat::peak_rss_mb:" => &mut figures.rss_mb,
                    "cov:" => &mut figures.coverage,
                    "ft:" => &mut figures.features,
                    // "Done 1234 runs in 61 second(s)"
                    "in" if line.starts_with("Done ") => &mut figures.seconds,
                    _ => continue,
                };
                let value = words.next().and_then(|value| value.parse().ok());
                *place = value.unwrap_or(*place);
            }
        }
        figures
    }

    fn line(&self, target: &str, ended: bool) -> String {
        let rate = self.executions / self.seconds.max(1);
        format!(
            "{target:12}  {:10}  {:7}  {rate:8}  {:8}  {:8}  {:6}  {}",
            self.executions,
            self.seconds,
            self.coverage,
            self.features,
            self.rss_mb,
            if ended { "no fault" } else { "FAULT" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let told = "#2\tINITED cov: 10 ft: 11 corp: 1/1b\n#99\tDONE   cov: 52 ft: 61 corp: 3/9b lim: 4 exec/s: 33 rss: 40Mb\n\
                    Done 99 runs in 3 second(s)\nstat::number_of_executed_units: 99\nstat::peak_rss_mb: 41\n";
        let expected = Figures {
            executions: 99,
            seconds: 3,
            coverage: 52,
            features: 61,
            rss_mb: 41,
        };
        assert_eq!(Figures::of(told), expected);
    }

    #[test]
    fn arguments_are_read() {
        let read = |words: &[&str]| asked(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert!(
            matches!(read(&["--seconds", "5", "rows"]), Ok(Asked::Run { seconds: 5, named }) if named == ["rows"])
        );
        assert!(matches!(read(&["--seeds"]), Ok(Asked::Seeds)));
        assert!(read(&["--seconds", "0"]).is_err() && read(&["--what"]).is_err());
    }
}
