//! `cargo xtask`: the house rules that are programs, and the rigs. `cargo proto`: the types of the gRPC API.

mod fuzz;
mod mutants;
#[cfg(feature = "proto")]
mod proto;
mod rig;
mod test;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("tidy") => run_tidy(),
        Some("test") => test::run(root(), arguments.get(1..).unwrap_or_default()),
        Some("rig") => rig::run(
            root(),
            arguments.get(1).map(String::as_str),
            arguments.get(2..).unwrap_or_default(),
        ),
        Some("fuzz") => fuzz::run(root(), arguments.get(1..).unwrap_or_default()),
        Some("mutants") => mutants::run(root(), arguments.get(1..).unwrap_or_default()),
        #[cfg(feature = "proto")]
        Some("proto") => proto::run(root(), arguments.iter().any(|arg| arg == "--check")),
        _ => {
            eprintln!("usage: cargo xtask tidy       check the tree against the rules of CONTRIBUTING.md");
            eprintln!(
                "       cargo xtask test       run all tests in Rust; tell which this machine couldn't run"
            );
            eprintln!(
                "       cargo xtask rig NAME   run a rig of tests/rigs; without a name: tell which there are"
            );
            eprintln!(
                "       cargo xtask mutants    see that the tests notice each protocol that is broken on purpose"
            );
            eprintln!(
                "       cargo xtask fuzz       run libFuzzer on each target of fuzz/; --seconds N, names of targets, --seeds"
            );
            eprintln!(
                "       cargo proto [--check]  make the types of the gRPC API from proto/, or compare them"
            );
            ExitCode::FAILURE
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

fn run_tidy() -> ExitCode {
    match tidy::run(root()) {
        Ok(report) => {
            for finding in &report.findings {
                println!("{finding}");
            }
            println!(
                "tidy: {} files, {} crates, {} findings",
                report.files,
                report.crates,
                report.findings.len()
            );
            if report.findings.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::FAILURE
        }
    }
}
