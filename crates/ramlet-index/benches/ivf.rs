//! Building and searching by tiers of codes: `cargo bench -p ramlet-index --bench ivf -- 200000` on made-up clustered
//! vectors, or `-- PREFIX DIMS DIRECTORY [CLUSTERS]` on `PREFIX.base.f32` and `PREFIX.query.f32` (cosine; truth from
//! `PREFIX.gt.i32`, as many ids for each query). What was built stays in the directory, and is searched again the next time.
//!
//! `RAMLET_TIERS` chooses among `residual`, `extended`, `low`, `scanned`, `product` and `none`, `RAMLET_PROBES` and `RAMLET_EPSILON`
//! (`scanned/extended`) what is tried, or `RAMLET_RECALL` the recall that is aimed at, separated by commas, `RAMLET_THREADS` how many
//! threads, `RAMLET_SCRATCH_MIB` what a build may hold, `RAMLET_CENTROIDS_MIB` what beside it of centroids alone. Prints recall@10, time of CPU
//! per search and what was done in it.

use std::sync::Arc;
use std::time::Instant;

use ramlet_format::footer::Footer;
use ramlet_format::rows::RowsMeta;
use ramlet_format::{PAGE, block};
use ramlet_index::ivf::{CodesInRam, IvfCodes, IvfFiles, IvfParams, build_ivf};
use ramlet_index::{
    Allowed, CachedRows, CodeKind, Effort, Element, Epsilon, IndexScratch, IndexSearchParams, Ivf, Metric,
    Progress, Query, Result, RowSource, RowsFile, SearchStats, TopK, VectorIndex, encode_row,
};
use ramlet_io::{Backend, BlockFile, IoContext, Storage, open_best};
use ramlet_memory::{AnonBuf, Ledger};

const MADE_DIMS: usize = 100;
const SEED: u64 = 1;
const METRIC: Metric = Metric::Cosine;
const RECALL: f32 = 0.95;
/// Times that each query is asked to find how fast it can be.
const PASSES: usize = 6;

/// What is indexed, what is asked, and the true 10 nearest if known.
struct Set {
    element: Element,
    dims: usize,
    /// Encoded rows, or none: then the row's number is the seed.
    base: Vec<f32>,
    rows: u32,
    queries: Vec<Vec<f32>>,
    truth: Option<Vec<Vec<u32>>>,
}

fn words<T>(path: &str, word: fn([u8; 4]) -> T) -> Vec<T> {
    let bytes = std::fs::read(path).expect("a file of vectors");
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| word(*bytes))
        .collect()
}

impl Set {
    /// Points around centres that lie around centres.
    fn made(rows: u32) -> Set {
        Set {
            element: Element::F16,
            dims: MADE_DIMS,
            base: Vec::new(),
            rows,
            queries: (0..100).map(|i| vector((1 << 40) + i)).collect(),
            truth: None,
        }
    }

    fn read(prefix: &str, dims: usize) -> Set {
        let base = words(&format!("{prefix}.base.f32"), f32::from_le_bytes);
        let queries = words(&format!("{prefix}.query.f32"), f32::from_le_bytes);
        let truth = words(&format!("{prefix}.gt.i32"), u32::from_le_bytes);
        let each = truth.len() / (queries.len() / dims);
        Set {
            element: Element::F32,
            dims,
            rows: (base.len() / dims) as u32,
            base,
            queries: queries.chunks_exact(dims).map(<[f32]>::to_vec).collect(),
            truth: Some(truth.chunks_exact(each).map(|ids| ids[..10].to_vec()).collect()),
        }
    }
}

fn normal(state: &mut u64) -> f32 {
    let mut sum = 0.0;
    for _ in 0..4 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        sum += (*state >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
    }
    sum
}

fn vector(row: u64) -> Vec<f32> {
    let mixed = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let (mut centre, mut sub, mut own) = (mixed % 50 + 1, mixed % 5000 + 100, row.wrapping_mul(77) + 7);
    (0..MADE_DIMS)
        .map(|_| normal(&mut centre) + 0.7 * normal(&mut sub) + 0.7 * normal(&mut own))
        .collect()
}

impl RowSource for Set {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn replay(&mut self, each: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
        let mut row = Vec::new();
        (0..self.rows).try_for_each(|number| {
            row.clear();
            match self.base.chunks_exact(self.dims).nth(number as usize) {
                Some(vector) => encode_row(METRIC, self.element, vector, &mut row),
                None => encode_row(METRIC, self.element, &vector(number.into()), &mut row),
            }
            each(number, &row)
        })
    }
}

fn open(storage: &dyn Storage, name: &str) -> RowsFile {
    let file = BlockFile::new(storage.open(name).expect("a file"), SEED, block::verify, None);
    let (mut io, mut buf) = (
        IoContext::for_storage(storage, 64).expect("a reader"),
        AnonBuf::new(PAGE),
    );
    let last = file.pages() - 1;
    let page = file.read(&mut io, last, 1, &mut buf).expect("a footer");
    let meta = RowsMeta::open(&Footer::parse(page, SEED, last).expect("a footer")).expect("rows");
    RowsFile::new(Arc::new(file), meta).expect("few rows")
}

fn load(storage: &dyn Storage, name: &str) -> CachedRows {
    let consumer = Ledger::new(8 << 30).consumer("bench", 8 << 30);
    let mut io = IoContext::for_storage(storage, 64).expect("a reader");
    CachedRows::load(
        &open(storage, name),
        &consumer,
        &mut io,
        &mut AnonBuf::new(1 << 20),
    )
    .expect("codes")
}

fn build(storage: &dyn Storage, set: &mut Set, clusters: Option<u32>) {
    let kinds = [
        ("scanned", Some(CodeKind::OneBit)),
        ("extended", Some(CodeKind::extended(set.dims))),
        ("low", CodeKind::extended_low(set.dims)),
        ("product", Some(CodeKind::product(set.dims))),
        ("residual", Some(residual(set.dims))),
    ];
    let create = |name: &str| {
        let _ = storage.remove(name);
        storage.create(name).expect("a new file")
    };
    let mut codes: Vec<_> = kinds
        .iter()
        .filter_map(|(name, kind)| kind.map(|kind| (kind, create(name))))
        .collect();
    let mut files = ["rows", "positions", "centroids"].map(create);
    let [rows_file, positions, centroids] = &mut files;
    let params = IvfParams {
        metric: METRIC,
        element: set.element,
        dims: set.dims,
        segment_rows: set.rows,
        scratch_bytes: mebibytes("RAMLET_SCRATCH_MIB", "64"),
        threads: 2,
        seed: 1,
        clusters,
        centroid_bytes: mebibytes("RAMLET_CENTROIDS_MIB", "0"),
        seed_centroids: None,
        progress: Progress::default(),
    };
    let mut out = IvfFiles {
        rows: &mut **rows_file,
        rows_seed: SEED,
        positions: &mut **positions,
        positions_seed: SEED,
        centroids: &mut **centroids,
        codes: codes
            .iter_mut()
            .map(|(kind, file)| IvfCodes {
                kind: *kind,
                file: &mut **file,
                seed: SEED,
            })
            .collect(),
    };
    let (start, cpu) = (Instant::now(), process_cpu_seconds());
    let built = build_ivf(&params, set, storage, &mut out).expect("a build");
    let files = files.iter_mut().chain(codes.iter_mut().map(|(_, file)| file));
    files.for_each(|file| file.sync().expect("syncing"));
    let (clusters, largest) = (built.clusters, built.largest_cluster);
    println!(
        "built {clusters} clusters, largest {largest}: {:.1} s, {:.1} s of CPU",
        start.elapsed().as_secs_f32(),
        process_cpu_seconds() - cpu
    );
}

fn residual(dims: usize) -> CodeKind {
    match CodeKind::extended(dims) {
        CodeKind::Extended { bits } => CodeKind::residual(dims, bits),
        _ => unreachable!("extended codes"),
    }
}

fn open_index(storage: &dyn Storage, dims: usize, tier: &str) -> Option<Ivf> {
    let file = storage.open("centroids").expect("a file");
    let mut centroids = AnonBuf::new(file.len() as usize);
    file.read_at(&mut centroids, 0).expect("reading");
    let (rows, positions) = (open(storage, "rows"), open(storage, "positions"));
    let extended = match tier {
        "extended" | "residual" => Some(CodeKind::extended(dims)),
        "low" => Some(CodeKind::extended_low(dims)?),
        _ => None,
    };
    let codes = CodesInRam {
        scanned: match tier {
            "none" => None,
            "product" => Some((CodeKind::product(dims), load(storage, tier))),
            _ => Some((CodeKind::OneBit, load(storage, "scanned"))),
        },
        extended: extended.map(|kind| {
            (
                kind,
                load(storage, if tier == "residual" { "extended" } else { tier }),
            )
        }),
        residual: (tier == "residual").then(|| (residual(dims), load(storage, tier))),
        scanned_file: (tier == "product").then(|| open(storage, tier)),
        sq8: None,
    };
    Some(Ivf::new(rows, positions, centroids, codes, RECALL).expect("an index"))
}

/// What was found, and the sums of what was done.
fn search(
    ivf: &Ivf,
    storage: &dyn Storage,
    want: &IndexSearchParams,
    queries: &[Query],
) -> (Vec<Vec<u32>>, SearchStats) {
    let mut io = IoContext::for_storage(storage, 64).expect("a reader");
    let mut scratch = IndexScratch::new(AnonBuf::new(512 << 10));
    let (mut top, mut stats) = (TopK::new(10), SearchStats::default());
    let mut found = Vec::new();
    for query in queries {
        top.clear(10);
        let mut allowed = Allowed::default();
        ivf.search(query, want, &mut allowed, &mut scratch, &mut io, &mut top)
            .expect("a search");
        stats.add(&scratch.stats);
        found.push(top.sorted().iter().map(|hit| hit.row).collect());
    }
    (found, stats)
}

/// Microseconds of a search on average, each query at its fastest of several passes: what is left when others disturb. Reads
/// nothing if told so.
fn fastest_us(
    ivf: &Ivf,
    storage: &dyn Storage,
    want: &IndexSearchParams,
    queries: &[Query],
    rescored: bool,
) -> f64 {
    let mut want = *want;
    want.codes.rescore = (!rescored).then_some(false);
    let mut io = IoContext::for_storage(storage, 64).expect("a reader");
    let mut scratch = IndexScratch::new(AnonBuf::new(512 << 10));
    let mut top = TopK::new(10);
    let mut fastest = vec![f64::INFINITY; queries.len()];
    for _ in 0..PASSES {
        for (query, fastest) in queries.iter().zip(&mut fastest) {
            top.clear(10);
            let mut allowed = Allowed::default();
            let start = Instant::now();
            ivf.search(query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
                .expect("a search");
            *fastest = fastest.min(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    fastest.iter().sum::<f64>() / fastest.len().max(1) as f64
}

/// Seconds of CPU that all threads of this process have taken.
fn process_cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name: hundredths of a second in user and in system mode are the 12th and 13th.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// Seconds of CPU that this thread has taken.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.unwrap_or(0.0) / 1e9
}

fn report(
    ivf: &Ivf,
    storage: &dyn Storage,
    truth: &[Vec<u32>],
    queries: &[Query],
    want: &IndexSearchParams,
    threads: usize,
) {
    search(ivf, storage, want, &queries[..queries.len().min(100)]);
    let before = cpu_seconds();
    let (found, stats) = search(ivf, storage, want, queries);
    let cpu = cpu_seconds() - before;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| search(ivf, storage, want, queries));
        }
    });
    let rate = (queries.len() * threads) as f64 / start.elapsed().as_secs_f64();
    let fastest = [true, false].map(|rescored| fastest_us(ivf, storage, want, queries, rescored));
    let hits: usize = truth
        .iter()
        .zip(&found)
        .map(|(t, f)| f.iter().filter(|row| t.contains(row)).count())
        .sum();
    let each = |count: u64| count as f64 / queries.len() as f64;
    let effort = ivf.effort(10.0, want);
    println!(
        "{:>5} probes, {:?}/{:?}: recall {:.4}, {:>6.1} us of CPU, {:.1} us at best, {:.1} without reads, {rate:>6.0}/s of {threads}; {:.0} scanned, {:.0} \
         survive, {:.0} extended, {:.1} checked, {:.2} rows read in {:.2}",
        effort.probes,
        effort.epsilon.scanned,
        effort.epsilon.extended,
        hits as f64 / (queries.len() * 10) as f64,
        cpu * 1e6 / queries.len() as f64,
        fastest[0],
        fastest[1],
        each(stats.codes_scored),
        each(stats.survivors),
        each(stats.extended_scored),
        each(stats.rows_checked),
        each(stats.rows_read),
        each(stats.reads),
    );
}

fn mebibytes(name: &str, default: &str) -> usize {
    let mib = setting(name, default, |mib| mib.parse::<f64>().expect("a number"));
    (mib[0] * f64::from(1 << 20)) as usize
}

fn setting<T>(name: &str, default: &str, parse: fn(&str) -> T) -> Vec<T> {
    let list = std::env::var(name).unwrap_or_else(|_| default.to_owned());
    list.split(',').map(parse).collect()
}

fn main() {
    // `cargo test --all-targets` runs this too: then small, to see that it works.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let mut set = match &arguments[..] {
        [prefix, dims, ..] => Set::read(prefix, dims.parse().expect("dimensions")),
        [rows] => Set::made(rows.parse().expect("rows")),
        [] => Set::made(5000),
    };
    let temporary = std::env::temp_dir().join(format!("ramlet-bench-{}", std::process::id()));
    let kept = arguments.get(2).map(std::path::PathBuf::from);
    let path = kept.as_ref().unwrap_or(&temporary);
    let (storage, _) = open_best(path, Backend::Auto).expect("a directory");
    println!("{} rows, {}", set.rows, storage.backend());
    let queries: Vec<Query> = set
        .queries
        .iter()
        .map(|vector| Query::new(METRIC, set.element, vector))
        .collect();
    if storage.open("centroids").is_err() {
        let clusters = arguments
            .get(3)
            .map(|count| count.parse().expect("a number of clusters"));
        build(&*storage, &mut set, clusters);
    }
    set.base = Vec::new();
    let exact = IndexSearchParams {
        exact: true,
        ..IndexSearchParams::default()
    };
    let plain = open_index(&*storage, set.dims, "none").expect("an index");
    let truth = match &set.truth {
        Some(truth) => truth.clone(),
        None => search(&plain, &*storage, &exact, &queries).0,
    };
    let recalls = setting("RAMLET_RECALL", "0.95", |recall| {
        recall.parse().expect("a number")
    });
    let threads = setting("RAMLET_THREADS", "1", |count| count.parse().expect("a number"))[0];
    let probes = setting("RAMLET_PROBES", "0", |count| count.parse().expect("a number"));
    let epsilons = setting("RAMLET_EPSILON", "1.9/2", |pair| {
        let (scanned, extended) = pair.split_once('/').expect("two numbers");
        let [scanned, extended] = [scanned, extended].map(|number| number.parse().expect("a number"));
        Epsilon { scanned, extended }
    });
    for tier in setting("RAMLET_TIERS", "extended,low,scanned,product", str::to_owned) {
        let Some(ivf) = open_index(&*storage, set.dims, &tier) else {
            continue;
        };
        println!("{tier}: {:?}", ivf.memory());
        for probes in &probes {
            for epsilon in &epsilons {
                let told = Effort {
                    probes: *probes,
                    epsilon: *epsilon,
                    recall_expected: 0.0,
                };
                for recall in &recalls {
                    let want = IndexSearchParams {
                        fixed_effort: (*probes > 0).then_some(told),
                        recall: Some(*recall),
                        ..IndexSearchParams::default()
                    };
                    report(&ivf, &*storage, &truth, &queries, &want, threads);
                }
            }
        }
    }
    let _ = std::fs::remove_dir_all(&temporary);
}
