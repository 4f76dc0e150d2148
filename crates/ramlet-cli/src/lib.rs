//! What the `ramlet` binary does: a library, so that fuzz targets reach what reads people's files.

mod about;
mod args;
mod commands;
mod import;
mod output;
mod serve;
mod serve_settings;
mod serving;
mod settings;
#[cfg(feature = "store")]
mod store;
/// Sizes as people write them.
mod size {
    pub use ramlet_bench::ByteSize;
}

use std::ffi::OsString;
use std::path::Path;

use clap::FromArgMatches;

use args::{Cli, Command};
use commands::{check_directory, health, machine, plan, salvage, search, snapshot_commands, top};
use output::note;

#[doc(hidden)]
pub use import::each_point;

/// The program with the command line of the process. Whether all went well: else the reason is written.
pub fn run() -> bool {
    let matches = about::command().get_matches_from(words());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = match &cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Import(args) => import::run(args),
        Command::Search(args) => search::run(args),
        Command::Top(args) => top::run(args),
        Command::Snapshot(args) => snapshot_commands::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Machine(args) => machine::run(args),
        Command::Bench(args) => output::guarded(|| args.run()),
        Command::Check(args) => check_directory::run(args),
        Command::Salvage(args) => salvage::run(args),
        #[cfg(feature = "store")]
        Command::Store(args) => store::run(args),
        #[cfg(feature = "store")]
        Command::Cluster(args) => {
            let args::ClusterCommand::Demo(demo) = &args.command;
            store::demo::run(demo)
        }
        Command::Health(args) => health::run(args),
        Command::Completion(args) => about::completion(args),
        Command::Man(args) => about::man(args),
    };
    match outcome {
        Ok(()) => true,
        Err(error) => {
            note!("ramlet: {error:#}");
            false
        }
    }
}

/// The command line. By the name of the API's server, or of its start script, the program serves: a command line of it works as it is.
fn words() -> Vec<OsString> {
    let mut words: Vec<_> = std::env::args_os().collect();
    let name = words.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == "qdrant" || name == "entrypoint.sh") {
        words.insert(1, "serve".into());
    }
    words
}
