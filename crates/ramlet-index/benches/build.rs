//! What a build costs and how well its clusters hold neighbours together:
//! `cargo bench -p ramlet-index --bench build -- PREFIX DIMS SCRATCH_MIB [CLUSTERS] [THREADS]` on `PREFIX.base.f32`,
//! `PREFIX.query.f32` and `PREFIX.gt.i32` (cosine; 100 ids a query), or without arguments on few made-up vectors.
//!
//! Prints seconds of wall clock and of CPU, peak RSS, the distribution of the clusters' sizes, and per number of
//! clusters visited: the share of the true 10 nearest in them (coverage), and the rows they hold.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::Arc;
use std::time::Instant;

use ramlet_format::footer::Footer;
use ramlet_format::rows::RowsMeta;
use ramlet_format::{PAGE, block};
use ramlet_index::ivf::{IvfBuilt, IvfFiles, IvfParams, build_ivf};
use ramlet_index::{
    Element, IndexScratch, Ivf, Metric, Progress, Query, Result, RowSource, RowsFile, SeedCentroids,
    VectorIndex, encode_row,
};
use ramlet_io::{Backend, BlockFile, IoContext, Storage, open_best};
use ramlet_memory::AnonBuf;

const SEED: u64 = 1;
const METRIC: Metric = Metric::Cosine;
/// Neighbours in the file of truth, and those whose pages are counted.
const TRUTH: usize = 100;
const NEAR: usize = 50;
const PROBES: [usize; 6] = [50, 100, 200, 300, 500, 800];
const QUERIES: usize = 1000;

/// Vectors that are read from a file at every replay, so that the peak of memory is the build's own.
struct Vectors {
    path: Option<String>,
    dims: usize,
    rows: u32,
}

impl Vectors {
    fn made(&self, row: u32) -> Vec<f32> {
        let mut state = u64::from(row % 50 + 1);
        let mut own = u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..self.dims)
            .map(|_| next(&mut state) + 0.5 * next(&mut own))
            .collect()
    }
}

fn next(state: &mut u64) -> f32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
}

impl RowSource for Vectors {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn replay(&mut self, each: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
        let mut file = self
            .path
            .as_ref()
            .map(|path| BufReader::with_capacity(256 << 10, File::open(path).expect("a file of vectors")));
        let mut bytes = vec![0; self.dims * 4];
        let mut row = Vec::new();
        (0..self.rows).try_for_each(|number| {
            let vector = match &mut file {
                Some(file) => {
                    file.read_exact(&mut bytes).expect("a vector");
                    floats(&bytes)
                }
                None => self.made(number),
            };
            row.clear();
            encode_row(METRIC, Element::F32, &vector, &mut row);
            each(number, &row)
        })
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

/// Seconds of CPU that this process has used.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks = |field: usize| fields.get(field).and_then(|ticks| ticks.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

/// Peak of resident memory in MiB.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

fn build(storage: &dyn Storage, set: &mut Vectors, params: &IvfParams<'_>) -> IvfBuilt {
    let mut files = ["rows", "positions", "centroids"].map(|name| {
        let _ = storage.remove(name);
        storage.create(name).expect("a new file")
    });
    let [rows, positions, centroids] = &mut files;
    let mut out = IvfFiles {
        rows: &mut **rows,
        rows_seed: SEED,
        positions: &mut **positions,
        positions_seed: SEED,
        centroids: &mut **centroids,
        codes: Vec::new(),
    };
    let built = build_ivf(params, set, storage, &mut out).expect("a build");
    files.iter_mut().for_each(|file| file.sync().expect("syncing"));
    built
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

fn open_index(storage: &dyn Storage) -> Ivf {
    let file = storage.open("centroids").expect("a file");
    let mut centroids = AnonBuf::new(file.len() as usize);
    file.read_at(&mut centroids, 0).expect("reading");
    Ivf::new(
        open(storage, "rows"),
        open(storage, "positions"),
        centroids,
        Default::default(),
        0.95,
    )
    .expect("an index")
}

/// The position of each row.
fn positions(ivf: &Ivf, storage: &dyn Storage) -> Vec<u32> {
    let mut io = IoContext::for_storage(storage, 64).expect("a reader");
    let mut scratch = IndexScratch::new(AnonBuf::new(512 << 10));
    let mut positions = vec![0; ivf.rows() as usize];
    let mut at = 0;
    ivf.for_each_row(&mut scratch, &mut io, &mut |row, _| {
        positions[row as usize] = at;
        at += 1;
        Ok(())
    })
    .expect("a stream");
    positions
}

fn report_sizes(ivf: &Ivf, query: &Query) {
    let mut sizes: Vec<u32> = ivf
        .ranked(query)
        .iter()
        .map(|range| range.end - range.start)
        .collect();
    sizes.sort_unstable();
    let mean = f64::from(ivf.rows()) / sizes.len() as f64;
    let at = |share: usize| f64::from(sizes[(sizes.len() - 1) * share / 100]) / mean;
    let empty = sizes.iter().take_while(|size| **size == 0).count();
    println!(
        "{} clusters, mean {mean:.1} rows, {empty} empty; in means: min {:.2}, 5% {:.2}, 25% {:.2}, 50% {:.2}, 75% {:.2}, 95% {:.2}, max {:.2}",
        sizes.len(),
        at(0),
        at(5),
        at(25),
        at(50),
        at(75),
        at(95),
        at(100),
    );
}

fn report_coverage(ivf: &Ivf, storage: &dyn Storage, queries: &[Query], truth: &[u32]) {
    let positions = positions(ivf, storage);
    let (mut found, mut rows) = ([0u64; PROBES.len()], [0u64; PROBES.len()]);
    let (mut pages, mut runs) = (0, 0);
    let per_page = (PAGE / (ivf.element().row_bytes(ivf.dims()) + 4)).max(1) as u32;
    for (query, near) in queries.iter().zip(truth.chunks_exact(TRUTH)) {
        let ranked = ivf.ranked(query);
        let mut rank_of: Vec<(u32, usize)> = ranked.iter().map(|range| range.start).zip(0..).collect();
        // Of clusters that start at the same position only the last isn't empty.
        rank_of.retain(|(_, rank)| !ranked[*rank].is_empty());
        rank_of.sort_unstable();
        let rank = |row: u32| {
            let position = positions[row as usize];
            rank_of[rank_of.partition_point(|(start, _)| *start <= position) - 1].1
        };
        let ranks: Vec<usize> = near[..10].iter().map(|row| rank(*row)).collect();
        for (i, probes) in PROBES.iter().enumerate() {
            found[i] += ranks.iter().filter(|rank| **rank < *probes).count() as u64;
            rows[i] += ranked
                .iter()
                .take(*probes)
                .map(|range| u64::from(range.end - range.start))
                .sum::<u64>();
        }
        let mut near: Vec<u32> = near[..NEAR]
            .iter()
            .map(|row| positions[*row as usize] / per_page)
            .collect();
        near.sort_unstable();
        near.dedup();
        pages += near.len();
        runs += near.chunk_by(|a, b| a + 1 == *b).count();
    }
    let each = |count: u64| count as f64 / queries.len() as f64;
    for (i, probes) in PROBES.iter().enumerate() {
        println!(
            "{probes:>4} probes: coverage {:.4}, {:>7.0} rows",
            each(found[i]) / 10.0,
            each(rows[i])
        );
    }
    println!(
        "pages of the true {NEAR}: {:.2}, in {:.2} runs",
        each(pages as u64),
        each(runs as u64)
    );
}

/// Share of some rows that lie in the cluster of the nearest centroid.
fn report_assignment(ivf: &Ivf, storage: &dyn Storage, query: &Query) {
    const EVERY: u32 = 997;
    let mut clusters = ivf.ranked(query);
    clusters.sort_by_key(|range| range.start);
    let dims = SeedCentroids::dims(ivf);
    if clusters.iter().any(|range| range.is_empty()) {
        return;
    }
    let (mut floats_of, mut centroid) = (Vec::new(), Vec::new());
    for i in 0..SeedCentroids::count(ivf) {
        ivf.write(i, &mut centroid);
        floats_of.extend_from_slice(&centroid);
    }
    let mut io = IoContext::for_storage(storage, 64).expect("a reader");
    let mut scratch = IndexScratch::new(AnonBuf::new(512 << 10));
    let (mut at, mut looked, mut nearest) = (0, 0, 0);
    ivf.for_each_row(&mut scratch, &mut io, &mut |_, row| {
        if at % EVERY == 0 {
            let row = floats(row);
            let distance =
                |centroid: &[f32]| -> f32 { centroid.iter().zip(&row).map(|(a, b)| (a - b).powi(2)).sum() };
            let own = clusters.partition_point(|range| range.end <= at);
            let least = floats_of
                .chunks_exact(dims)
                .map(distance)
                .fold(f32::INFINITY, f32::min);
            looked += 1;
            nearest += u32::from(distance(&floats_of[own * dims..][..dims]) <= least * 1.001);
        }
        at += 1;
        Ok(())
    })
    .expect("a stream");
    println!(
        "{:.3} of the rows lie in the cluster of the nearest centroid",
        f64::from(nearest) / f64::from(looked)
    );
}

fn main() {
    // `cargo test --all-targets` runs this too: then small, to see that it works.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let number = |at: usize| {
        arguments
            .get(at)
            .map(|arg| arg.parse::<usize>().expect("a number"))
    };
    let dims = number(1).unwrap_or(16);
    let path = arguments.first().map(|prefix| format!("{prefix}.base.f32"));
    let bytes = path
        .as_ref()
        .map(|path| std::fs::metadata(path).expect("a file of vectors").len());
    let mut set = Vectors {
        rows: bytes.map_or(3000, |bytes| (bytes / (dims as u64 * 4)) as u32),
        path,
        dims,
    };
    let directory = std::env::temp_dir().join(format!("ramlet-bench-{}", std::process::id()));
    let (storage, _) = open_best(&directory, Backend::Auto).expect("a directory");
    let last = Cell::new((None, Instant::now(), cpu_seconds()));
    let hear = |phase, _, _| {
        let (before, start, cpu) = last.get();
        if before != Some(phase) {
            let now = (Some(phase), Instant::now(), cpu_seconds());
            if let Some(before) = before {
                println!(
                    "{before:?}: {:.1} s, {:.1} s of CPU",
                    start.elapsed().as_secs_f64(),
                    now.2 - cpu
                );
            }
            last.set(now);
        }
    };
    let params = IvfParams {
        metric: METRIC,
        element: Element::F32,
        dims,
        segment_rows: set.rows,
        scratch_bytes: number(2).unwrap_or(2) << 20,
        threads: number(4).unwrap_or(2),
        seed: SEED,
        clusters: number(3)
            .filter(|clusters| *clusters > 0)
            .map(|clusters| clusters as u32),
        centroid_bytes: 0,
        seed_centroids: None,
        progress: Progress(Some(&hear)),
    };
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let built = build(&*storage, &mut set, &params);
    println!(
        "{:.1} s, {:.1} s of CPU, peak {:.1} MiB: {} sampled",
        start.elapsed().as_secs_f64(),
        cpu_seconds() - cpu,
        peak_mib(),
        built.sampled
    );
    println!("{:.1} s of CPU in the last phase", cpu_seconds() - last.get().2);
    let ivf = open_index(&*storage);
    let (queries, truth) = match arguments.first() {
        Some(prefix) => {
            let read = |name: &str| std::fs::read(format!("{prefix}.{name}")).expect("a file");
            let truth: Vec<u32> = read("gt.i32")
                .as_chunks()
                .0
                .iter()
                .map(|id| u32::from_le_bytes(*id))
                .collect();
            let queries = floats(&read("query.f32"));
            (
                queries
                    .chunks_exact(dims)
                    .take(QUERIES)
                    .map(<[f32]>::to_vec)
                    .collect(),
                truth,
            )
        }
        None => (vec![set.made(0)], (0..TRUTH as u32).collect::<Vec<u32>>()),
    };
    let queries: Vec<Query> = queries
        .iter()
        .map(|vector| Query::new(METRIC, Element::F32, vector))
        .collect();
    report_sizes(&ivf, &queries[0]);
    report_assignment(&ivf, &*storage, &queries[0]);
    report_coverage(&ivf, &*storage, &queries, &truth);
    let _ = std::fs::remove_dir_all(&directory);
}
