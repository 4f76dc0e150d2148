//! `cargo xtask rig NAME [arguments]`: a script of `tests/rigs`, started with the tests' own Python where there is one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs the rig and ends as it does. Without a known name: the list of all.
pub fn run(root: &Path, name: Option<&str>, arguments: &[String]) -> ExitCode {
    let rigs = all(&root.join("tests/rigs"));
    let Some((_, script)) = rigs.iter().find(|(known, _)| Some(known.as_str()) == name) else {
        if let Some(name) = name {
            eprintln!("there is no rig `{name}`");
        }
        eprintln!("usage: cargo xtask rig NAME [arguments]; `--help` tells which. The rigs:");
        for (known, script) in &rigs {
            eprintln!("  {known:16} {}", summary(script));
        }
        return ExitCode::FAILURE;
    };
    match Command::new(python(root)).arg(script).args(arguments).status() {
        // None: it was ended by a signal.
        Ok(status) => status
            .code()
            .map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)),
        Err(error) => {
            eprintln!("rig {}: {error}", script.display());
            ExitCode::FAILURE
        }
    }
}

fn python(root: &Path) -> PathBuf {
    let own = root.join(".venv/bin/python");
    if own.exists() {
        own
    } else {
        PathBuf::from("python3")
    }
}

/// Names and scripts: `power-loss` is `power_loss.py`.
fn all(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let scripts = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"));
    let named = scripts.filter_map(|path| Some((path.file_stem()?.to_str()?.replace('_', "-"), path)));
    let mut rigs: Vec<_> = named.collect();
    rigs.sort();
    rigs
}

/// The first line of a script's description.
fn summary(script: &Path) -> String {
    let text = fs::read_to_string(script).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("\"\"\""));
    line.unwrap_or_default().trim_matches('"').to_owned()
}
