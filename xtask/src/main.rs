//! `cargo xtask`: the house rules that are programs.

mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => run_tidy(),
        _ => {
            eprintln!("usage: cargo xtask tidy    check the tree against the rules of CONTRIBUTING.md");
            ExitCode::FAILURE
        }
    }
}

fn run_tidy() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace");
    match tidy::run(root) {
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
