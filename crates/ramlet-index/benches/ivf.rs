//! Building and searching, without codes in RAM and with them: `cargo bench -p ramlet-index --bench ivf -- 200000`
//! on made-up clustered vectors, or `-- PREFIX DIMS [4|8]` on `PREFIX.base.f32` and `PREFIX.query.f32` (cosine; truth from
//! `PREFIX.gt.i32`, 100 ids a query); with a number of bits, only codes of so many.
//!
//! Prints seconds to build, and per effort: recall@10, searches per second of 1 and 2 threads, rows and reads per
//! search.

use std::sync::Arc;
use std::time::Instant;

use ramlet_format::footer::Footer;
use ramlet_format::rows::RowsMeta;
use ramlet_format::{PAGE, block};
use ramlet_index::ivf::{IvfCodes, IvfFiles, IvfParams, Progress, build_ivf};
use ramlet_index::{
    Allowed, CodeBits, Element, IndexScratch, Ivf, Metric, Query, Result, RowSource, RowsFile, SearchStats,
    TopK, VectorIndex, Want, encode_row,
};
use ramlet_io::{Backend, BlockFile, IoContext, Storage, open_best};
use ramlet_memory::{AnonBuf, Ledger};

const MADE_DIMS: usize = 100;
const SEED: u64 = 1;
const METRIC: Metric = Metric::Cosine;
const RECALL: f32 = 0.95;
/// Neighbours in the file of truth.
const TRUTH: usize = 100;

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
        Set {
            element: Element::F32,
            dims,
            rows: (base.len() / dims) as u32,
            base,
            queries: queries.chunks_exact(dims).map(<[f32]>::to_vec).collect(),
            truth: Some(truth.chunks_exact(TRUTH).map(|ids| ids[..10].to_vec()).collect()),
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

fn open(storage: &dyn Storage, name: &str, pin: bool) -> RowsFile {
    let mut file = BlockFile::new(storage.open(name).expect("a file"), SEED, block::verify, None);
    let (mut io, mut buf) = (
        IoContext::for_storage(storage, 64).expect("a reader"),
        AnonBuf::new(PAGE),
    );
    let last = file.pages() - 1;
    let page = file.read(&mut io, last, 1, &mut buf).expect("a footer");
    let meta = RowsMeta::open(&Footer::parse(page, SEED, last).expect("a footer")).expect("rows");
    if pin {
        let consumer = Ledger::new(8 << 30).consumer("bench", 8 << 30);
        let pages = meta.layout.block_pages();
        file.pin(&consumer, &mut io, &mut |page| {
            if page < meta.data_pages { pages } else { 1 }
        })
        .expect("sound blocks")
        .expect("room");
    }
    RowsFile::new(Arc::new(file), meta).expect("few rows")
}

fn build(storage: &dyn Storage, set: &mut Set, bits: CodeBits) {
    let names = ["rows", "positions", "centroids", "codes"];
    let mut files = names.map(|name| {
        let _ = storage.remove(name);
        storage.create(name).expect("a new file")
    });
    let [rows_file, positions, centroids, codes] = &mut files;
    let params = IvfParams {
        metric: METRIC,
        element: set.element,
        dims: set.dims,
        segment_rows: set.rows,
        scratch_bytes: 64 << 20,
        threads: 2,
        seed: 1,
        clusters: None,
        seed_centroids: None,
        progress: Progress::default(),
    };
    let mut out = IvfFiles {
        rows: &mut **rows_file,
        rows_seed: SEED,
        positions: &mut **positions,
        positions_seed: SEED,
        centroids: &mut **centroids,
        codes: Some(IvfCodes {
            file: &mut **codes,
            seed: SEED,
            bits,
        }),
    };
    let start = Instant::now();
    let built = build_ivf(&params, set, storage, &mut out).expect("a build");
    files.iter_mut().for_each(|file| file.sync().expect("syncing"));
    let (clusters, largest) = (built.clusters, built.largest_cluster);
    println!(
        "built {clusters} clusters, largest {largest}, {bits:?} bits: {:.1} s",
        start.elapsed().as_secs_f32()
    );
}

fn open_index(storage: &dyn Storage, with_codes: bool) -> Ivf {
    let file = storage.open("centroids").expect("a file");
    let mut centroids = AnonBuf::new(file.len() as usize);
    file.read_at(&mut centroids, 0).expect("reading");
    let (rows, positions) = (open(storage, "rows", false), open(storage, "positions", false));
    let ivf = Ivf::open(rows, positions, centroids, RECALL).expect("an index");
    if with_codes {
        ivf.with_codes(open(storage, "codes", true)).expect("codes")
    } else {
        ivf
    }
}

/// What was found, and the sums of what was done.
fn search(ivf: &Ivf, storage: &dyn Storage, want: &Want, queries: &[Query]) -> (Vec<Vec<u32>>, SearchStats) {
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

/// Searches per second of so many threads, each asking all queries.
fn rate(ivf: &Ivf, storage: &dyn Storage, want: &Want, queries: &[Query], threads: usize) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| search(ivf, storage, want, queries));
        }
    });
    (queries.len() * threads) as f64 / start.elapsed().as_secs_f64()
}

fn report(ivf: &Ivf, storage: &dyn Storage, truth: &[Vec<u32>], queries: &[Query]) {
    for effort in [32, 64, 128, 256] {
        let want = Want {
            exact: false,
            effort: Some(effort),
            ..Want::default()
        };
        let (found, stats) = search(ivf, storage, &want, queries);
        let hits: usize = truth
            .iter()
            .zip(&found)
            .map(|(t, f)| f.iter().filter(|row| t.contains(row)).count())
            .sum();
        let each = |count: u64| count as f64 / queries.len() as f64;
        println!(
            "effort {effort:>3}: recall {:.4}, {:>7.1} and {:>7.1} searches/s of 1 and 2 threads; each: {:.0} clusters, \
             {:.0} codes, {:.1} rows, {:.1} pages in {:.1} reads",
            hits as f64 / (queries.len() * 10) as f64,
            rate(ivf, storage, &want, queries, 1),
            rate(ivf, storage, &want, queries, 2),
            each(stats.probes),
            each(stats.codes_scored),
            each(stats.rows_scored),
            each(stats.pages_read),
            each(stats.reads),
        );
    }
}

fn main() {
    // `cargo test --all-targets` runs this too: then small, to see that it works.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let mut set = match &arguments[..] {
        [prefix, dims] | [prefix, dims, _] => Set::read(prefix, dims.parse().expect("dimensions")),
        [rows] => Set::made(rows.parse().expect("rows")),
        _ => Set::made(5000),
    };
    let path = std::env::temp_dir().join(format!("ramlet-bench-{}", std::process::id()));
    let (storage, _) = open_best(&path, Backend::Auto).expect("a directory");
    println!("{} rows, {}", set.rows, storage.backend());
    let queries: Vec<Query> = set
        .queries
        .iter()
        .map(|vector| Query::new(METRIC, set.element, vector))
        .collect();
    let all = [CodeBits::Four, CodeBits::Eight];
    let chosen = match arguments.get(2).map(String::as_str) {
        Some("4") => &all[..1],
        Some("8") => &all[1..],
        _ => &all[..],
    };
    for bits in chosen.iter().copied() {
        build(&*storage, &mut set, bits);
        let plain = open_index(&*storage, false);
        let exact = Want {
            exact: true,
            effort: None,
            ..Want::default()
        };
        let truth = match &set.truth {
            Some(truth) => truth.clone(),
            None => search(&plain, &*storage, &exact, &queries).0,
        };
        if bits == CodeBits::Four && chosen.len() > 1 {
            println!("rows on disk:");
            let few = queries.len().min(60);
            report(&plain, &*storage, &truth[..few], &queries[..few]);
        }
        println!("{bits:?} bits in RAM, rows on disk:");
        let some = queries.len().min(1000);
        report(
            &open_index(&*storage, true),
            &*storage,
            &truth[..some],
            &queries[..some],
        );
    }
    let _ = std::fs::remove_dir_all(&path);
}
