//! `cargo xtask test`: all tests in Rust, and at the end those that this machine couldn't run.
//!
//! A test that needs what a machine may not have (io_uring, SQLite, a memory cgroup) ends well without it. It says so in a line of
//! standard error, `skipped: TEST: WHY`, written past the capture of the test harness.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

const MARK: &str = "skipped: ";

/// Runs `cargo test --workspace` with the arguments, and ends as it does.
pub fn run(root: &Path, arguments: &[String]) -> ExitCode {
    let mut command = Command::new("cargo");
    command.args(["test", "--workspace"]).args(arguments);
    let child = command.current_dir(root).stderr(Stdio::piped()).spawn();
    let ended = child.and_then(|mut child| {
        let errors = child.stderr.take();
        let skipped = errors.map_or_else(Vec::new, |errors| pass_on(errors, &mut std::io::stderr()));
        child.wait().map(|status| (status, skipped))
    });
    match ended {
        Ok((status, skipped)) => {
            println!("{}", summary(&skipped));
            match status.success() {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            eprintln!("cargo test: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Passes lines on, and keeps those that tell of a skipped test.
fn pass_on(from: impl Read, to: &mut impl Write) -> Vec<String> {
    let mut skipped = Vec::new();
    // What isn't text is passed on too: whoever writes it must not find the pipe closed.
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let _ = writeln!(to, "{line}");
        if let Some(what) = line.strip_prefix(MARK) {
            skipped.push(what.to_owned());
        }
    }
    skipped
}

fn summary(skipped: &[String]) -> String {
    let mut text = format!("{} tests were skipped on this machine", skipped.len());
    for what in skipped {
        text.push_str("\n  ");
        text.push_str(what);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_counted_and_told() {
        let said =
            "   Compiling a\nskipped: uring: no io_uring\nrunning 1 test\nskipped: sqlite: not installed\n";
        let mut passed_on = Vec::new();
        let skipped = pass_on(said.as_bytes(), &mut passed_on);
        assert_eq!(passed_on, said.as_bytes());
        assert_eq!(
            summary(&skipped),
            "2 tests were skipped on this machine\n  uring: no io_uring\n  sqlite: not installed"
        );
        let odd = pass_on(&b"\xff\nskipped: a: b\n"[..], &mut Vec::new());
        assert_eq!(odd, ["a: b"]);
        assert_eq!(summary(&[]), "0 tests were skipped on this machine");
    }
}
