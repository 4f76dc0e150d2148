//! The `ramlet` binary.

mod args;
mod check;
mod descriptors;
mod import;
mod machine;
mod output;
mod plan;
mod profile;
mod redirect;
mod salvage;
mod search;
mod serve;
mod settings;
mod snapshots;
mod tls;
/// Sizes as people write them.
mod size {
    pub use ramlet_bench::ByteSize;
}

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use output::note;

/// In the binary only, never in the library: see docs/memory.md for its settings and why.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Import(args) => import::run(args),
        Command::Search(args) => search::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Machine(args) => machine::run(args),
        Command::Bench(args) => output::guarded(|| args.run()),
        Command::Check(args) => check::run(args),
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
