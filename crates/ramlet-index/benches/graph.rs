//! The graph on disk: `cargo bench -p ramlet-index --bench graph -- build DIR PREFIX DIMS [ROWS] [SCRATCH_MB]` on
//! `PREFIX.base.f32` and `PREFIX.query.f32` (cosine), then `-- search DIR DIMS [THREADS] [WIDTH] [QUERIES] [EDGES_IN_RAM, and 1000 more with the vectors]` in as
//! little memory as one likes. Without arguments a small one is made and searched.
//!
//! Building prints seconds (wall and CPU) and the peak of the process;
//! searching prints per effort: recall@10, reads, codes, CPU microseconds and searches per second.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ramlet_format::footer::Footer;
use ramlet_format::rows::RowsMeta;
use ramlet_format::{PAGE, block};
use ramlet_index::graph::{GraphFiles, GraphParams, RamForm, build_graph, degree_for};
use ramlet_index::{
    Allowed, Element, Graph, IndexScratch, IndexSearchParams, Metric, Progress, Query, Result, RowSource,
    RowsFile, SearchStats, TopK, VectorIndex, encode_row,
};
use ramlet_io::{Backend, BlockFile, IoContext, Storage, open_best};
use ramlet_memory::{AnonBuf, Ledger};

const SEED: u64 = 1;
const METRIC: Metric = Metric::Cosine;
const RECALL: f32 = 0.95;
const DEPTH: usize = 10;

/// Vectors in a file, read anew each time: they take no memory.
struct Base {
    dims: usize,
    rows: usize,
    path: PathBuf,
}

impl Base {
    fn new(path: PathBuf, dims: usize, most: usize) -> Base {
        let bytes = std::fs::metadata(&path).expect("a file of vectors").len() as usize;
        Base {
            dims,
            rows: most.min(bytes / 4 / dims),
            path,
        }
    }
}

impl RowSource for Base {
    fn rows(&self) -> u32 {
        self.rows as u32
    }

    fn replay(&mut self, each: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
        let mut file = BufReader::new(File::open(&self.path).expect("a file of vectors"));
        let (mut bytes, mut vector, mut row) = (vec![0; self.dims * 4], Vec::new(), Vec::new());
        (0..self.rows as u32).try_for_each(|number| {
            file.read_exact(&mut bytes).expect("a whole vector");
            vector.clear();
            vector.extend(
                bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|bytes| f32::from_le_bytes(*bytes)),
            );
            row.clear();
            encode_row(METRIC, Element::F32, &vector, &mut row);
            each(number, &row)
        })
    }
}

fn floats(path: &Path, most: usize) -> Vec<f32> {
    let mut bytes = Vec::new();
    let file = File::open(path).expect("a file of vectors");
    let most = most.saturating_mul(4) as u64;
    file.take(most).read_to_end(&mut bytes).expect("reading");
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn save(path: &Path, words: impl Iterator<Item = u32>) {
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    std::fs::write(path, bytes).expect("writing");
}

/// Seconds of processor time of this process so far.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| {
        fields
            .get(i)
            .and_then(|field| field.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / 100.0
}

fn status(name: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or(" ?").trim_start_matches(':').trim().to_string()
}

fn build(dir: &Path, base: &mut Base, queries: &[f32], scratch_bytes: usize) {
    let dims = base.dims;
    save(&dir.join("queries"), queries.iter().map(|value| value.to_bits()));
    let (storage, _) = open_best(dir, Backend::Auto).expect("a directory");
    let mut files = ["nodes", "positions", "meta"].map(|name| {
        let _ = storage.remove(name);
        storage.create(name).expect("a new file")
    });
    let [nodes, positions, meta] = &mut files;
    let params = GraphParams {
        metric: METRIC,
        element: Element::F32,
        dims,
        segment_rows: base.rows(),
        scratch_bytes,
        threads: 2,
        seed: 1,
        degree: degree_for(base.rows().into(), dims, Element::F32),
        candidates: 100,
        progress: Progress::default(),
    };
    let mut out = GraphFiles {
        nodes: &mut **nodes,
        nodes_seed: SEED,
        positions: &mut **positions,
        positions_seed: SEED,
        meta: &mut **meta,
        open_nodes: &|| storage.open("nodes"),
        open_positions: &|| storage.open("positions"),
    };
    let (start, cpu_before) = (Instant::now(), cpu());
    let built = build_graph(&params, base, &*storage, &mut out).expect("a build");
    files.iter_mut().for_each(|file| file.sync().expect("syncing"));
    println!(
        "built {} nodes of degree {}, {} entry points ({} added): {:.1} s, {:.1} s of CPU, peak {}",
        built.rows,
        built.degree,
        built.entries,
        built.added,
        start.elapsed().as_secs_f32(),
        cpu() - cpu_before,
        status("VmHWM"),
    );
    for point in built.calibration.points.iter().step_by(6) {
        println!("  {point:?}");
    }
    truth(dir, &*storage, base.dims, queries);
}

fn open(storage: &dyn Storage, name: &str) -> RowsFile {
    let file = BlockFile::new(storage.open(name).expect("a file"), SEED, block::verify, None);
    let (mut io, mut buf) = (
        IoContext::for_storage(storage, 4).expect("a reader"),
        AnonBuf::new(PAGE),
    );
    let last = file.pages() - 1;
    let page = file.read(&mut io, last, 1, &mut buf).expect("a footer");
    let meta = RowsMeta::open(&Footer::parse(page, SEED, last).expect("a footer")).expect("rows");
    RowsFile::new(Arc::new(file), meta).expect("few rows")
}

fn open_graph(storage: &dyn Storage) -> Graph {
    let file = storage.open("meta").expect("a file");
    let mut meta = AnonBuf::new(file.len() as usize);
    file.read_at(&mut meta, 0).expect("reading");
    Graph::open(open(storage, "nodes"), open(storage, "positions"), meta, RECALL).expect("a graph")
}

/// The true nearest of each query, by one pass over the nodes.
fn truth(dir: &Path, storage: &dyn Storage, dims: usize, queries: &[f32]) {
    let graph = open_graph(storage);
    let mut io = IoContext::for_storage(storage, 16).expect("a reader");
    let mut scratch = IndexScratch::new(AnonBuf::new(1 << 20));
    let vectors = queries.chunks_exact(dims);
    let queries: Vec<Query> = vectors
        .map(|vector| Query::new(METRIC, Element::F32, vector))
        .collect();
    let mut tops: Vec<TopK> = queries.iter().map(|_| TopK::new(DEPTH)).collect();
    graph
        .for_each_row(&mut scratch, &mut io, &mut |number, row| {
            for (query, top) in queries.iter().zip(&mut tops) {
                top.push(query.distance_of_row(row), number);
            }
            Ok(())
        })
        .expect("rows");
    let hits = tops
        .iter_mut()
        .flat_map(|top| top.sorted().iter().map(|hit| hit.row));
    save(&dir.join("truth"), hits);
}

/// Rows found that are true, and the sums of what was done.
fn run(
    graph: &Graph,
    storage: &dyn Storage,
    want: &IndexSearchParams,
    queries: &[f32],
    truth: &[u32],
) -> (usize, SearchStats) {
    let mut io = IoContext::for_storage(storage, 32).expect("a reader");
    let mut scratch = IndexScratch::new(AnonBuf::new(64 << 10));
    let (mut top, mut stats, mut found) = (TopK::new(DEPTH), SearchStats::default(), 0);
    let mut query = Query::new(METRIC, Element::F32, &queries[..graph.dims()]);
    for (vector, truth) in queries.chunks_exact(graph.dims()).zip(truth.chunks_exact(DEPTH)) {
        query.prepare(METRIC, Element::F32, vector);
        top.clear(DEPTH);
        let mut allowed = Allowed::default();
        graph
            .search(&query, want, &mut allowed, &mut scratch, &mut io, &mut top)
            .expect("a search");
        stats.add(&scratch.stats);
        found += top.sorted().iter().filter(|hit| truth.contains(&hit.row)).count();
    }
    (found, stats)
}

fn search(dir: &Path, dims: usize, threads: usize, width: usize, most: usize, in_ram: usize) {
    let (storage, _) = open_best(dir, Backend::Auto).expect("a directory");
    let mut graph = open_graph(&*storage).with_width(width);
    if in_ram > 0 {
        let form = RamForm {
            edges: in_ram % 1000,
            vectors: in_ram > 1000,
        };
        let consumer = Ledger::new(u64::MAX).consumer("graph", u64::MAX);
        let mut io = IoContext::for_storage(&*storage, 16).expect("a reader");
        let mut scratch = IndexScratch::new(AnonBuf::new(1 << 20));
        graph = graph
            .into_ram(form, &consumer, &mut scratch, &mut io)
            .expect("room");
        println!(
            "{in_ram} edges a node in RAM: {} bytes",
            graph.memory().pinned_bytes
        );
    }
    let queries = floats(&dir.join("queries"), dims * most);
    let truth: Vec<u32> = floats(&dir.join("truth"), DEPTH * most)
        .iter()
        .map(|word| word.to_bits())
        .collect();
    println!(
        "{} nodes on {}, {threads} threads, width {width}, {} entry points in {} bytes",
        graph.rows(),
        storage.backend(),
        graph.entries(),
        graph.memory().heap_bytes
    );
    for effort in [32, 64, 90, 128, 180, 256, 384] {
        let want = IndexSearchParams {
            effort: Some(effort),
            ..IndexSearchParams::default()
        };
        let (start, cpu_before) = (Instant::now(), cpu());
        let results: Vec<(usize, SearchStats)> = std::thread::scope(|scope| {
            let work = || scope.spawn(|| run(&graph, &*storage, &want, &queries, &truth));
            let handles: Vec<_> = (0..threads).map(|_| work()).collect();
            handles
                .into_iter()
                .map(|handle| handle.join().expect("a search"))
                .collect()
        });
        let seconds = start.elapsed().as_secs_f64();
        let (found, stats) = results[0];
        let asked = (queries.len() / dims) as f64;
        println!(
            "effort {effort:>3}: recall {:.4}, {:>6.1} reads, {:>5.0} codes, {:.0} us of CPU, {:.0} searches/s",
            found as f64 / (asked * DEPTH as f64),
            stats.reads as f64 / asked,
            stats.codes_scored as f64 / asked,
            (cpu() - cpu_before) * 1e6 / (asked * threads as f64),
            asked * threads as f64 / seconds,
        );
    }
    println!("peak {}, now {}", status("VmHWM"), status("VmRSS"));
}

fn small() {
    let dir = std::env::temp_dir().join(format!("ramlet-graph-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let mut state = 1u64;
    let mut normal = || {
        (0..4).fold(-2.0, |sum, _| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            sum + (state >> 40) as f32 / (1u32 << 24) as f32
        })
    };
    let base = dir.join("base");
    save(&base, (0..3000 * 32).map(|_| normal().to_bits()));
    let queries: Vec<f32> = (0..50 * 32).map(|_| normal()).collect();
    build(&dir, &mut Base::new(base, 32, 3000), &queries, 8 << 20);
    search(&dir, 32, 1, 1, 50, 0);
    search(&dir, 32, 1, 1, 50, 32);
    let _ = std::fs::remove_dir_all(&dir);
}

fn main() {
    // `cargo test --all-targets` runs this too: then small, to see that it works.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let number = |i: usize, otherwise: usize| {
        arguments
            .get(i)
            .map_or(otherwise, |arg| arg.parse().expect("a number"))
    };
    match arguments.first().map(String::as_str) {
        Some("build") => {
            let (dir, prefix, dims) = (Path::new(&arguments[1]), &arguments[2], number(3, 100));
            std::fs::create_dir_all(dir).expect("a directory");
            let base = PathBuf::from(format!("{prefix}.base.f32"));
            let mut base = Base::new(base, dims, number(4, usize::MAX));
            let queries = floats(Path::new(&format!("{prefix}.query.f32")), 1000 * dims);
            build(dir, &mut base, &queries, number(5, 64) << 20);
        }
        Some("search") => search(
            Path::new(&arguments[1]),
            number(2, 100),
            number(3, 1),
            number(4, 1),
            number(5, 1000),
            number(6, 0),
        ),
        _ => small(),
    }
}
