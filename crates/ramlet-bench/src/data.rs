//! What is searched in a measurement: base vectors, queries, and the true neighbours; made up, from people's files, or a running collection's.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use indicatif::HumanCount;
use ramlet_testdata::{Difficulty, Element, Metric, Nearest, Set, Shape, WriteOptions, write_set};

use crate::files::{self, Distance, Rows, open_rows};
use crate::{Progress, count, count_within};

/// Which data, on the command line.
#[derive(Debug, Clone, Args)]
pub struct DataArgs {
    /// Vectors to load: .hdf5 (ann-benchmarks, with its queries and truth), .fbin .u8bin .i8bin .npy .fvecs .bvecs, or the prefix of a set
    /// that `ramlet-bench make` wrote [default: a made-up set, kept in --cache]
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Queries that belong to --data, a file of the same kinds
    #[arg(long, value_name = "FILE", requires = "data")]
    pub queries_file: Option<PathBuf>,
    /// True neighbours of the queries: .ivecs .npy .hdf5, else big-ann's form (.ibin .bin) [default: found by comparing everything]
    #[arg(long, value_name = "FILE", requires = "queries_file")]
    pub truth: Option<PathBuf>,
    /// Distance of the vectors [default: what the file says, else Cosine]
    #[arg(long, value_enum, ignore_case = true)]
    pub distance: Option<Distance>,
    /// Vectors to make or to take of the file [default: 1000000 made, all of a file]
    #[arg(long, value_name = "N", value_parser = |text: &str| count_within(1..=4_000_000_000, text))]
    pub points: Option<u64>,
    /// Queries, at most
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = at_least_one)]
    pub queries: usize,
    /// Dimensions of made-up vectors
    #[arg(long, value_name = "D", default_value_t = 100, value_parser = dims)]
    pub dims: usize,
    /// How hard the neighbours of made-up vectors are to find
    #[arg(long = "set", value_enum, default_value_t = Hardness::Hard)]
    pub hardness: Hardness,
    /// Results wanted of a query, by which recall is counted
    #[arg(long, default_value_t = 10, value_parser = at_least_one)]
    pub k: usize,
    /// Where made-up sets are kept for the next run [default: ~/.cache/ramlet-bench]
    #[arg(long, value_name = "DIR", env = "RAMLET_BENCH_CACHE")]
    pub cache: Option<PathBuf>,
}

/// [`Difficulty`] by the names that people type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Hardness {
    /// As word vectors are
    Hard,
    Easy,
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match count(text) {
        Ok(0) | Err(_) => Err("it takes a whole number from 1, like 5000, 10k or 1M".into()),
        Ok(n) => usize::try_from(n).map_err(|e| e.to_string()),
    }
}

/// As many as collections take.
const DIMS_MAX: usize = 65_536;

fn dims(text: &str) -> Result<usize, String> {
    one_to(DIMS_MAX, text)
}

pub(crate) fn one_to(most: usize, text: &str) -> Result<usize, String> {
    let value = count_within(1..=most as u64, text);
    value
        .map(|value| value as usize)
        .map_err(|_| format!("it takes 1 to {most}"))
}

/// Neighbours in the truth of made-up sets.
const TRUTH_WIDTH: usize = 100;
/// Clusters of a made-up set of a million; in proportion for others.
const CLUSTERS: u64 = 15_000;
/// Rows compared with the queries at once.
const CHUNK_ROWS: usize = 4_096;
/// Row numbers that an f32 holds exactly: readers of numbers widen to it.
const EXACT_MAX: u64 = 1 << 24;

/// Vectors, queries, truth. Holds the queries and `k` numbers of each one's truth; the base stays in its file.
#[derive(Debug)]
pub struct Data {
    pub name: String,
    pub dims: usize,
    pub points: u64,
    pub distance: Distance,
    pub queries: Vec<Vec<f32>>,
    /// The `k` nearest rows of each query.
    pub truth: Vec<Vec<u64>>,
    base: Base,
}

#[derive(Debug, Clone)]
enum Base {
    Bare(PathBuf, files::Element),
    File(PathBuf, &'static str),
}

/// Datasets of ann-benchmarks' files.
const HDF5_BASE: &str = "train";
const HDF5_QUERIES: &str = "test";
const HDF5_TRUTH: &str = "neighbors";

impl Data {
    /// Opens or makes what the arguments say.
    pub fn open(args: &DataArgs, progress: &Progress) -> Result<Data> {
        let data = match &args.data {
            None => made(args, progress)?,
            Some(path) if with_ending(path, "json").exists() => {
                let set = Set::open(path, args.dims).with_context(|| path.display().to_string())?;
                of_set(&set, args)?
            }
            Some(path) => of_file(path, args, progress)?,
        };
        if data.queries.is_empty() {
            bail!("{}: no queries", data.name);
        }
        Ok(data)
    }

    /// The base from its first row.
    pub fn base(&self) -> Result<Box<dyn Rows>> {
        match &self.base {
            Base::Bare(path, element) => files::open_bare(path, *element, self.dims),
            Base::File(path, key) => open_rows(path, key),
        }
    }

    pub fn queries(&self) -> impl Iterator<Item = &[f32]> {
        self.queries.iter().map(Vec::as_slice)
    }

    /// For a record: what was searched, without this machine's directories.
    pub fn describe(&self) -> serde_json::Value {
        serde_json::json!({
            "name": self.name, "points": self.points, "dims": self.dims, "distance": self.distance.api_name(),
            "queries": self.queries.len(), "k": self.truth.first().map_or(0, Vec::len),
        })
    }
}

fn with_ending(prefix: &Path, ending: &str) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!(".{ending}"));
    name.into()
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Where made-up sets are kept.
fn cache(args: &DataArgs) -> Result<PathBuf> {
    let home = || {
        let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        base.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
    };
    let directory = args
        .cache
        .clone()
        .or_else(|| home().map(|base| base.join("ramlet-bench")));
    let directory =
        directory.context("there is no home directory; --cache says where made-up sets are kept")?;
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    Ok(directory)
}

/// A made-up set, made at the first use. It gets its name when it is whole.
fn made(args: &DataArgs, progress: &Progress) -> Result<Data> {
    let points = args.points.unwrap_or(1_000_000);
    let queries = args.queries;
    if args.k > TRUTH_WIDTH {
        bail!(
            "--k {}: of a made-up set the {TRUTH_WIDTH} nearest are known",
            args.k
        );
    }
    let hardness = match args.hardness {
        Hardness::Hard => "hard",
        Hardness::Easy => "easy",
    };
    let prefix = cache(args)?.join(format!("{hardness}-{points}x{}-{queries}q", args.dims));
    let told = |e| anyhow!("{}: {e}", prefix.display());
    if !with_ending(&prefix, "json").exists() {
        let shape = Shape {
            dims: args.dims,
            seed: 1,
            difficulty: match args.hardness {
                Hardness::Hard => Difficulty::Hard,
                Hardness::Easy => Difficulty::Easy,
            },
            clusters: (points * CLUSTERS / 1_000_000).clamp(50, CLUSTERS) as usize,
        };
        let options = WriteOptions {
            rows: points,
            queries,
            element: Element::F32,
            truth_width: TRUTH_WIDTH,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            with_bin: false,
        };
        progress.say(format!(
            "making {} vectors with their exact neighbours",
            HumanCount(points)
        ));
        let show = &mut |done| {
            progress.show(format!(
                "making vectors: {} of {}",
                HumanCount(done),
                HumanCount(points)
            ))
        };
        write_set(&prefix, shape, options, show).map_err(told)?;
    }
    let set = Set::open(&prefix, args.dims).map_err(told)?;
    of_set(&set, args)
}

fn of_set(set: &Set, args: &DataArgs) -> Result<Data> {
    let info = &set.info;
    let name = name_of(&set.base_path())
        .replace(".base.f32", "")
        .replace(".base.u8", "");
    if args.points.is_some_and(|points| points != info.rows) {
        bail!(
            "the set {name} has {} rows and their truth; --points goes with a made-up set or another file",
            info.rows
        );
    }
    if args.k > info.truth_width && (info.truth_width as u64) < info.rows {
        bail!(
            "--k {}: of the set {name} the {} nearest are known",
            args.k,
            info.truth_width
        );
    }
    let queries = set.queries(args.queries)?;
    let truth = set.truth(args.queries, args.k)?;
    Ok(Data {
        name,
        dims: info.dims,
        points: info.rows,
        distance: match info.metric {
            Metric::Cosine => Distance::Cosine,
            Metric::Euclid => Distance::Euclid,
        },
        queries: queries
            .chunks_exact(set.row_bytes())
            .map(|row| info.element.floats(row))
            .collect(),
        truth: truth
            .into_iter()
            .map(|list| list.into_iter().map(u64::from).collect())
            .collect(),
        base: Base::Bare(
            set.base_path(),
            match info.element {
                Element::F32 => files::Element::F32,
                Element::U8 => files::Element::U8,
            },
        ),
    })
}

fn of_file(path: &Path, args: &DataArgs, progress: &Progress) -> Result<Data> {
    let is_hdf5 = matches!(path.extension().and_then(|e| e.to_str()), Some("hdf5" | "h5"));
    let base = open_rows(path, HDF5_BASE)?;
    let points = args.points.unwrap_or(base.rows()).min(base.rows());
    let mut queries = match &args.queries_file {
        Some(file) => open_rows(file, HDF5_QUERIES)?,
        None if is_hdf5 && has_dataset(path, HDF5_QUERIES)? => open_rows(path, HDF5_QUERIES)?,
        None => bail!(
            "{}: it has no queries of its own{}; --queries-file names a file with them",
            path.display(),
            match is_hdf5 {
                true => " (a dataset `test`, as files of ann-benchmarks have)",
                false => "",
            }
        ),
    };
    if queries.dim() != base.dim() {
        bail!(
            "the queries have {} dimensions, the vectors {}",
            queries.dim(),
            base.dim()
        );
    }
    if let (None, Some(name)) = (args.distance, base.unknown_distance()) {
        bail!(
            "{}: its distance is '{name}', which the API doesn't have; --distance chooses another",
            path.display()
        );
    }
    let mut data = Data {
        name: name_of(path),
        dims: base.dim(),
        points,
        distance: args.distance.or(base.distance()).unwrap_or(Distance::Cosine),
        queries: read_vectors(queries.as_mut(), args.queries)?,
        truth: Vec::new(),
        base: Base::File(path.to_path_buf(), HDF5_BASE),
    };
    // The truth of a file is about all of its rows.
    let whole = points == base.rows();
    data.truth = match &args.truth {
        Some(file) if whole => read_truth(file, data.queries.len(), args.k)?,
        None if is_hdf5 && whole && has_dataset(path, HDF5_TRUTH)? => {
            read_truth(path, data.queries.len(), args.k)?
        }
        _ => exact_truth(&data, args.k, progress)?,
    };
    let longest = data.truth.iter().flatten().max();
    if longest.is_some_and(|row| *row >= points) {
        bail!("the truth names a row beyond the {points} that there are: it belongs to other data");
    }
    Ok(data)
}

fn has_dataset(path: &Path, name: &str) -> Result<bool> {
    Ok(files::hdf5_datasets(path)?.iter().any(|known| known == name))
}

fn read_vectors(rows: &mut dyn Rows, most: usize) -> Result<Vec<Vec<f32>>> {
    let (mut out, mut row) = (Vec::new(), Vec::new());
    while out.len() < most && rows.read(&mut row)? {
        out.push(row.clone());
    }
    Ok(out)
}

/// The first `k` numbers of each query's row.
fn read_truth(path: &Path, queries: usize, k: usize) -> Result<Vec<Vec<u64>>> {
    if files::is_bigann_truth(path) {
        return files::read_bigann_truth(path, queries, k);
    }
    let mut rows = open_rows(path, HDF5_TRUTH)?;
    if rows.dim() < k || rows.rows() < queries as u64 {
        bail!(
            "{}: {} rows of {} neighbours; {queries} of {k} are wanted",
            path.display(),
            rows.rows(),
            rows.dim()
        );
    }
    let lists = read_vectors(rows.as_mut(), queries)?;
    let number = |value: &f32| match *value >= 0.0 && (*value as u64) < EXACT_MAX {
        true => Ok(*value as u64),
        false => Err(anyhow!(
            "{}: row {value} is beyond the {EXACT_MAX} that are read",
            path.display()
        )),
    };
    lists
        .iter()
        .map(|list| list[..k].iter().map(number).collect())
        .collect()
}

/// Compares every row with every query: about ten nanoseconds each at 100 dimensions.
fn exact_truth(data: &Data, k: usize, progress: &Progress) -> Result<Vec<Vec<u64>>> {
    let metric = match data.distance {
        Distance::Cosine | Distance::Dot => Metric::Cosine,
        Distance::Euclid => Metric::Euclid,
        Distance::Manhattan => {
            bail!("the neighbours by Manhattan distance aren't found here; --truth names a file with them")
        }
    };
    progress.say(format!(
        "finding the exact neighbours of {} queries",
        data.queries.len()
    ));
    let unit = data.distance == Distance::Cosine;
    let encode = |row: &[f32], out: &mut Vec<u8>| {
        let norm = row
            .iter()
            .map(|v| v * v)
            .sum::<f32>()
            .sqrt()
            .max(f32::MIN_POSITIVE);
        let scale = if unit { 1.0 / norm } else { 1.0 };
        out.extend(row.iter().flat_map(|v| (v * scale).to_le_bytes()));
    };
    let mut queries = Vec::new();
    data.queries().for_each(|row| encode(row, &mut queries));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let k = k.min(data.points as usize);
    let mut nearest = Nearest::new(metric, Element::F32, data.dims, &queries, k);
    let (mut base, mut row, mut chunk, mut at) = (data.base()?, Vec::new(), Vec::new(), 0);
    while at < data.points {
        chunk.clear();
        let count = CHUNK_ROWS.min((data.points - at) as usize);
        for _ in 0..count {
            base.read(&mut row)?;
            encode(&row, &mut chunk);
        }
        nearest.offer(at as u32, &chunk, threads);
        at += count as u64;
        progress.show(format!(
            "exact neighbours: {} of {} rows",
            HumanCount(at),
            HumanCount(data.points)
        ));
    }
    let lists = nearest.sorted();
    Ok(lists
        .iter()
        .map(|list| list.iter().map(|found| u64::from(found.1)).collect())
        .collect())
}
