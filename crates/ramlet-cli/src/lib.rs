//! What the `ramlet` binary does: a library, so that fuzz targets reach what reads people's files.

mod args;
mod audit_settings;
mod check_directory;
mod descriptors;
mod env;
mod import;
mod machine;
mod output;
mod plan;
mod profile;
mod redirect;
mod salvage;
mod search;
mod serve;
mod serve_settings;
mod snapshots;
mod tls_settings;
/// Sizes as people write them.
mod size {
    pub use ramlet_bench::ByteSize;
}

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use output::note;

#[doc(hidden)]
pub use import::each_point;

/// The program, from its command line to its exit code.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Import(args) => import::run(args),
        Command::Search(args) => search::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Machine(args) => machine::run(args),
        Command::Bench(args) => output::guarded(|| args.run()),
        Command::Check(args) => check_directory::run(args),
        Command::Salvage(args) => salvage::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("ramlet: {error:#}");
            ExitCode::FAILURE
        }
    }
}
