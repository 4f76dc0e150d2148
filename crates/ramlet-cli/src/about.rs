//! The program's version, shell completions and manual pages.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};

use crate::args::{Cli, CompletionArgs, ManArgs};
use crate::output;
use crate::settings::with_names;

/// `0.1.0 (0123456789ab)`; a build for development has no commit.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Version, commit, features and target, a line each.
pub fn long_version() -> String {
    let commit = match env!("RAMLET_CLI_COMMIT") {
        "" => "unknown",
        commit => commit,
    };
    let features = [
        ("hashes", cfg!(feature = "hashes")),
        ("parquet", cfg!(feature = "parquet")),
        ("store", cfg!(feature = "store")),
    ];
    let features: Vec<_> = features
        .iter()
        .filter(|(_, on)| *on)
        .map(|(name, _)| *name)
        .collect();
    format!(
        "{VERSION}\ncommit: {commit}\nfeatures: {}\ntarget: {}",
        features.join(" "),
        env!("RAMLET_CLI_TARGET")
    )
}

/// The command line as people see it: with the names of the settings.
pub fn command() -> Command {
    with_names(Cli::command()).long_version(kept(long_version()))
}

/// clap keeps names for ever, as does a command line: some twenty texts, and then the program ends.
fn kept(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Prints a shell's script.
pub fn completion(args: &CompletionArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "ramlet", &mut script);
    output::text(String::from_utf8_lossy(&script))
}

/// Writes a page for the program and one for each command.
pub fn man(args: &ManArgs) -> Result<()> {
    let told = || format!("pages of the manual, {}", args.dir.display());
    std::fs::create_dir_all(&args.dir).with_context(told)?;
    let mut all = command();
    all.build();
    page(&all, "ramlet", &args.dir).with_context(told)
}

fn page(command: &Command, name: &str, dir: &Path) -> Result<()> {
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            page(inner, &format!("{name}-{}", inner.get_name()), dir)?;
        }
    }
    // The date of a build would make two builds of one source differ.
    let manual = clap_mangen::Man::new(command.clone().name(kept(name.to_owned())).version(VERSION))
        .date("")
        .source(format!("ramlet {VERSION}"))
        .manual("Ramlet");
    let mut file = std::fs::File::create(dir.join(format!("{name}.1")))?;
    manual.render(&mut file)?;
    Ok(file.flush()?)
}
