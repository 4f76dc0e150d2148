//! The command line of `ramlet bench search`.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::OutputArgs;
use crate::data::{DataArgs, at_least_one};
use crate::ram::{connections, object, seconds};

/// How fast a server answers at which recall: a curve over its efforts.
#[derive(Debug, Clone, Args)]
#[command(allow_negative_numbers = true)]
pub struct SearchArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// The server
    #[arg(
        long,
        env = "RAMLET_URL",
        value_name = "URL",
        default_value = "http://localhost:6333"
    )]
    pub url: String,
    /// Search over gRPC, at this URL or at the port after that of --url; all else goes over REST
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    pub grpc: Option<String>,
    #[arg(long, env = "RAMLET_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub api_key: Option<String>,
    /// A collection that is there: queries are points of it, their truth comes from exact searches. With --data it must hold that data, ids
    /// being row numbers [default: a temporary one is loaded with the data]
    #[arg(long, value_name = "NAME")]
    pub collection: Option<String>,
    /// Which of the collection's named vectors
    #[arg(long, value_name = "NAME")]
    pub using: Option<String>,
    /// Efforts (hnsw_ef) to measure; `default` leaves it to the server, `exact` compares everything
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "default,32,64,128,256,512", value_parser = effort)]
    pub ef: Vec<Effort>,
    /// Requests under way at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = connections)]
    pub connections: usize,
    /// Requests a second, sent when they are due whatever the server does (open loop); latency counts from then
    /// [default: each connection asks again when it is answered (closed loop)]
    #[arg(long, value_name = "R,..", value_delimiter = ',', value_parser = rate)]
    pub rate: Vec<f64>,
    /// Length of a run; at least each query once
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    pub seconds: f64,
    /// Load before a run that isn't counted
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    pub warm_up: f64,
    /// Longest run
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = seconds)]
    pub seconds_max: f64,
    /// Rounds over all efforts; the middle one counts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub repeats: usize,
    /// Process of the server on this machine, to tell its CPU and reads
    #[arg(long)]
    pub pid: Option<u32>,
    /// More of the API's search parameters: '{"quantization":{"oversampling":2}}'
    #[arg(long, value_name = "JSON", value_parser = object)]
    pub params: Option<Value>,
    /// Settings of the collection that is loaded, as the API takes them
    #[arg(long, value_name = "JSON", value_parser = object, conflicts_with = "collection")]
    pub config: Option<Value>,
    /// Ask /points/search, as older servers know it, instead of /points/query
    #[arg(long)]
    pub old_route: bool,
    /// Write results.csv in the columns of ann-benchmarks' data_export, and of each run what was found as big-ann's .ibin and each query's
    /// time as .npy, into this directory
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How hard a server searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    Default,
    Ef(usize),
    Exact,
}

fn effort(text: &str) -> Result<Effort, String> {
    match text {
        "default" => Ok(Effort::Default),
        "exact" => Ok(Effort::Exact),
        number => match number.parse() {
            Ok(0) | Err(_) => Err("it takes whole numbers from 1, 'default' and 'exact'".into()),
            Ok(ef) => Ok(Effort::Ef(ef)),
        },
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.001..=1e7).contains(&rate) => Ok(rate),
        _ => Err("it takes requests a second, 0.001 to 10000000".into()),
    }
}
