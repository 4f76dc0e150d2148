//! The command line of `ramlet bench text`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::text_article;
use super::text_storage::{Searchers, Storage};
use crate::data::at_least_one;
use crate::ram::{object, seconds};
use crate::{ByteSize, OutputArgs, count_within};

/// How fast texts are searched: a query log by threads, searchers, storage and memory; while the index is replaced, and while documents
/// come in
#[derive(Debug, Clone, Args)]
#[command(allow_negative_numbers = true)]
pub struct TextArgs {
    /// Documents, an object a line: .jsonl, .jsonl.gz [default: made up]
    #[arg(long, value_name = "FILE")]
    pub docs: Option<PathBuf>,
    /// Query log, the last column of a line is the text: .tsv, .tsv.gz [default: of --docs the titles, or words; of made-up documents,
    /// made up]
    #[arg(long, value_name = "FILE", requires = "docs")]
    pub queries: Option<PathBuf>,
    /// Documents to make up, or to take of --docs [default: 500000 made, all of a file]
    #[arg(long, value_name = "N", value_parser = |text: &str| count_within(1..=1_000_000_000, text))]
    pub documents: Option<u64>,
    /// Queries of a run; a log that is shorter begins again
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = log)]
    pub log: usize,
    /// Field of the documents that is searched
    #[arg(long, value_name = "NAME", default_value = "body")]
    pub field: String,
    /// Settings of its text index, as the API takes them [default: English, with BM25 and phrases]
    #[arg(long, value_name = "JSON", value_parser = object)]
    pub index: Option<Value>,
    /// Hits of a query whose stored documents are fetched
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    pub limit: usize,
    /// Clients, and search threads of the server
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,2,3,4,5", value_parser = threads)]
    pub threads: Vec<usize>,
    /// One server for all clients, or a server for each with its part of the memory
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Searchers::Shared, Searchers::Separate])]
    pub searchers: Vec<Searchers>,
    /// Where the index is, and how it is read
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Storage::ALL)]
    pub storages: Vec<Storage>,
    /// Limits, as shares of the index [default: those of the article, 3, 8 and 12 GB of 14; in RAM always 24 of 14]
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_values_t = [0.21, 0.57, 0.86], value_parser = share)]
    pub fractions: Vec<f64>,
    /// Limits in bytes instead of shares
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        conflicts_with = "fractions"
    )]
    pub memory: Vec<ByteSize>,
    /// Least limit that a share becomes: a server needs something beside the index
    #[arg(long, value_name = "SIZE", default_value = "24MB")]
    pub memory_least: ByteSize,
    /// Limit in which the documents are loaded, and that of the parts beside the grid
    #[arg(long, value_name = "SIZE", default_value = "1GB")]
    pub load_memory: ByteSize,
    /// Longest run
    #[arg(long, value_name = "S", default_value_t = 6.0, value_parser = seconds)]
    pub seconds_max: f64,
    /// Queries that the cut-offs leave out: before the first of these, after the second [default: 5,000 and 50,000 of 340,000, as the
    /// article, by the log's length]
    #[arg(long, value_name = "FROM,TO", value_parser = pair)]
    pub cut: Option<(usize, usize)>,
    /// Parts to run
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    pub parts: Vec<Part>,
    /// Replace a part of the index whenever so many queries were answered [default: a quarter of the log]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub replace_every: Option<usize>,
    /// Share of the documents that is written anew at each replacement
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = share)]
    pub replace_share: f64,
    /// Documents a second that come in while searching; 0 is what the others are compared with
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "0,100,1000,5000", value_parser = rate)]
    pub updates: Vec<f64>,
    /// Seed of what is made up
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
    /// A minute: 20,000 documents, a short log, two threads, one limit
    #[arg(long)]
    pub quick: bool,
    /// Another server to start, a line for the shell with {port}, {dir}, {memory} (bytes), {backend} and {threads} to be filled in; it
    /// stays in the foreground
    #[arg(long, value_name = "COMMAND", conflicts_with = "serve")]
    pub exec: Option<String>,
    /// More arguments of `ramlet serve`, in one word: '--no-probe'
    #[arg(
        long,
        value_name = "ARGS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub serve: String,
    /// Directory on the disk to be measured; a temporary one is made in it
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Directory in RAM (tmpfs), for `--storages ram`; a temporary one is made in it
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub ram_dir: PathBuf,
    /// Leave the page cache as it is between runs
    #[arg(long)]
    pub keep_caches: bool,
    /// Without control groups: the server is told its limit
    #[arg(long)]
    pub no_cgroup: bool,
    /// For a server to get ready, and for an index to be built
    #[arg(long, alias = "patience", value_name = "S", default_value_t = 3600.0, value_parser = seconds)]
    pub timeout: f64,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What there is to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Threads, searchers, storages, limits
    Grid,
    /// One word, any word, all words, phrases
    Kinds,
    /// The index is replaced every so many queries
    Replace,
    /// Documents come in
    Updates,
}

impl Part {
    pub const ALL: [Part; 4] = [Part::Grid, Part::Kinds, Part::Replace, Part::Updates];
}

/// The lines of `--quick`; what was said otherwise isn't known to have been said, so that it takes everything.
impl TextArgs {
    /// The options as they are meant.
    pub fn settled(&self) -> TextArgs {
        let mut args = self.clone();
        if args.quick {
            args.documents = args.documents.or(Some(20_000));
            args.log = args.log.min(2_000);
            args.seconds_max = args.seconds_max.min(2.0);
            args.threads.retain(|threads| *threads <= 2);
            args.fractions.truncate(1);
            args.updates.retain(|rate| *rate <= 1_000.0);
        }
        args
    }

    /// Of made-up documents.
    pub fn made(&self) -> u64 {
        self.documents.unwrap_or(500_000)
    }

    /// The body that makes the text index.
    pub fn schema(&self) -> Value {
        let of_field = self.index.clone().unwrap_or_else(|| {
            json!({
                "type": "text", "tokenizer": "word", "lowercase": true, "stemmer": { "type": "snowball", "language": "english" },
                "stopwords": "english", "scoring": true, "phrase_matching": true
            })
        });
        json!({ "field_name": self.field, "field_schema": of_field })
    }

    /// Positions in the log between which the cut-off figures are taken.
    pub fn cuts(&self) -> (usize, usize) {
        match self.cut {
            Some(both) => both,
            None => {
                let of_log = |queries: f64| (queries / text_article::QUERIES * self.log as f64) as usize;
                (of_log(text_article::CUT.0), of_log(text_article::CUT.1).max(1))
            }
        }
    }
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=64).contains(&n) => Ok(n),
        _ => Err("it takes whole numbers from 1 to 64".into()),
    }
}

fn pair(text: &str) -> Result<(usize, usize), String> {
    let both = text
        .split_once(',')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    both.ok_or_else(|| "it takes two whole numbers: 300,3000".into())
}

/// A log is held in memory.
fn log(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=10_000_000).contains(&n) => Ok(n),
        _ => Err("it takes whole numbers from 1 to 10000000".into()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.001..=100.0).contains(&share) => Ok(share),
        _ => Err("it takes shares from 0.001 to 100".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.0..=1e6).contains(&rate) => Ok(rate),
        _ => Err("it takes documents a second, 0 to 1000000".into()),
    }
}
