//! `ramlet bench`: the commands.

use anyhow::Result;
use clap::{Args, Subcommand};

/// Measure a server from outside: how much RAM it needs, how fast it answers.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// One experiment each.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// How much RAM a server needs: hard limits, the smallest that serves, the speed in each, beside the article's figures
    Ram(Box<crate::ram::RamArgs>),
    /// How fast a server answers at which recall: a curve over its efforts, in a closed loop or at a rate
    Search(Box<crate::search::SearchArgs>),
    Io(Box<crate::io::IoArgs>),
    Ingest(Box<crate::ingest::IngestArgs>),
    Text(Box<crate::text::TextArgs>),
    /// Removes what a killed run left behind; started by the other commands
    #[command(hide = true)]
    Guard,
}

impl BenchArgs {
    /// Runs the experiment to its end; prints its table.
    pub fn run(&self) -> Result<()> {
        match &self.command {
            BenchCommand::Io(args) => args.run(),
            BenchCommand::Ingest(args) => args.run(),
            BenchCommand::Text(args) => crate::text::run(args),
            BenchCommand::Ram(args) => crate::ram::run(args),
            BenchCommand::Search(args) => crate::search::run(args),
            BenchCommand::Guard => {
                crate::host::guard::serve();
                Ok(())
            }
        }
    }
}
