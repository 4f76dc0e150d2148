//! `cargo xtask`: the house rules that are programs. `cargo proto`: the types of the gRPC API.

#[cfg(feature = "proto")]
mod proto;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => run_tidy(),
        #[cfg(feature = "proto")]
        Some("proto") => proto::run(root(), std::env::args().any(|arg| arg == "--check")),
        _ => {
            eprintln!("usage: cargo xtask tidy       check the tree against the rules of CONTRIBUTING.md");
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
