//! The command line of `ramlet bench ram`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::placement::Placement;
use crate::data::{DataArgs, at_least_one, one_to};
use crate::{ByteSize, OutputArgs};

/// How much RAM a server needs: hard limits, the smallest that serves, and the speed in each.
#[derive(Debug, Clone, Args)]
#[command(allow_negative_numbers = true)]
pub struct RamArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Where the data shall be kept, each a row of experiments
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Placement::ALL)]
    pub placements: Vec<Placement>,
    /// Limits to measure: 135MB, 128MiB, 1.5GB, plain bytes
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "1GB,300MB,135MB,64MB,32MB,16MB"
    )]
    pub memory: Vec<ByteSize>,
    /// Don't look for the smallest limit that serves
    #[arg(long)]
    pub no_minimum: bool,
    /// How close to find the smallest limit, in percent of it
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    pub precision: f64,
    /// Where a collection is loaded: inside each limit (of the steps of the search only the last), or once in the largest (as the article
    /// did) and opened again in each
    #[arg(long, value_enum, default_value_t = LoadIn::Each)]
    pub load: LoadIn,
    /// Runs of each limit, each a fresh start of the server with a cold page cache
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one)]
    pub repeats: usize,
    /// Turns of two equal runs of the first limit, to know the noise; 0 for none
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub aa: usize,
    /// Length of a run; at least each query once
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    pub seconds: f64,
    /// Load before a run that isn't counted
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = seconds)]
    pub warm_up: f64,
    /// Rest after the server says that it is ready
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = seconds)]
    pub settle: f64,
    /// Longest run: a server that answers three times a second isn't asked every query
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = seconds)]
    pub seconds_max: f64,
    /// Requests under way at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = connections)]
    pub connections: usize,
    /// Efforts to measure (hnsw_ef) [default: the server's own choice]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = at_least_one)]
    pub ef: Vec<usize>,
    /// Another server to start, a line for the shell with {port}, {dir} and {memory} (bytes) to be filled in; it stays in the foreground
    #[arg(long, value_name = "COMMAND", conflicts_with = "server")]
    pub exec: Option<String>,
    /// A server that runs: no limits, no restarts, only the speed
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    #[arg(
        long,
        env = "RAMLET_API_KEY",
        hide_env_values = true,
        value_name = "KEY",
        requires = "server"
    )]
    pub api_key: Option<String>,
    /// Process of that server, to tell its CPU and reads
    #[arg(long, requires = "server")]
    pub pid: Option<u32>,
    /// More arguments of `ramlet serve`, in one word: '--threads 4'
    #[arg(
        long,
        value_name = "ARGS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub serve: String,
    /// Settings of the collection beside those of the placement, as the API takes them: '{"quantization_config":{...}}'
    #[arg(long, value_name = "JSON", value_parser = object)]
    pub config: Option<Value>,
    /// Directory on the disk to be measured; a temporary one is made in it
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Leave the page cache as it is between runs: flatters servers that read through it
    #[arg(long)]
    pub keep_caches: bool,
    /// Without control groups: the server is told its limit, and what is resident is measured
    #[arg(long)]
    pub no_cgroup: bool,
    /// For a server to get ready, and for an index to be built
    #[arg(long, alias = "patience", value_name = "S", default_value_t = 3600.0, value_parser = seconds)]
    pub timeout: f64,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// See [`RamArgs::load`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LoadIn {
    Each,
    Once,
}

/// A thread each.
const CONNECTIONS_MAX: usize = 4_096;

pub(crate) fn connections(text: &str) -> Result<usize, String> {
    one_to(CONNECTIONS_MAX, text)
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.1..=50.0).contains(&value) => Ok(value),
        _ => Err("it takes a number from 0.1 to 50".into()),
    }
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.0..=1e6).contains(&value) => Ok(value),
        _ => Err("it takes seconds, 0 to 1000000".into()),
    }
}

pub(crate) fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("it takes a JSON object".into()),
        Err(error) => Err(format!("no JSON: {error}")),
    }
}
