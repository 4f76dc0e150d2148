//! Building and searching on made-up clustered vectors: `cargo bench -p ramlet-index -- 200000`.
//!
//! Prints seconds to build, and per effort: recall@10, searches per second of one thread, rows and reads per search.

use std::sync::Arc;
use std::time::Instant;

use ramlet_format::footer::Footer;
use ramlet_format::rows::RowsMeta;
use ramlet_format::{PAGE, block};
use ramlet_index::ivf::{IvfFiles, IvfParams, build_ivf};
use ramlet_index::{
    Allowed, Element, IndexScratch, Ivf, Metric, Query, Result, RowSource, RowsFile, TopK, VectorIndex, Want,
    encode_row,
};
use ramlet_io::{Backend, BlockFile, IoContext, Storage, open_best};
use ramlet_memory::AnonBuf;

const DIMS: usize = 100;
const SEED: u64 = 1;
const QUERIES: u64 = 100;
const METRIC: Metric = Metric::Cosine;
const ELEMENT: Element = Element::F16;

/// Points around centres that lie around centres: the row's number is the seed.
struct Made {
    rows: u32,
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
    (0..DIMS)
        .map(|_| normal(&mut centre) + 0.7 * normal(&mut sub) + 0.7 * normal(&mut own))
        .collect()
}

impl RowSource for Made {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn replay(&mut self, each: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
        let mut row = Vec::new();
        (0..self.rows).try_for_each(|number| {
            row.clear();
            encode_row(METRIC, ELEMENT, &vector(number.into()), &mut row);
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

fn build(storage: &dyn Storage, rows: u32) -> Ivf {
    let mut files = ["rows", "positions", "centroids"].map(|name| storage.create(name).expect("a new file"));
    let [rows_file, positions, centroids] = &mut files;
    let params = IvfParams {
        metric: METRIC,
        element: ELEMENT,
        dims: DIMS,
        segment_rows: rows,
        scratch_bytes: 32 << 20,
        threads: 2,
        seed: 1,
        clusters: None,
    };
    let start = Instant::now();
    Made { rows }.replay(&mut |_, _| Ok(())).expect("rows");
    println!(
        "making {rows} rows once: {:.1} s (thrice within the build)",
        start.elapsed().as_secs_f32()
    );
    let start = Instant::now();
    let mut out = IvfFiles {
        rows: &mut **rows_file,
        rows_seed: SEED,
        positions: &mut **positions,
        positions_seed: SEED,
        centroids: &mut **centroids,
    };
    let built = build_ivf(&params, &mut Made { rows }, storage, &mut out).expect("a build");
    files.iter_mut().for_each(|file| file.sync().expect("syncing"));
    let (clusters, largest) = (built.clusters, built.largest_cluster);
    println!(
        "built {clusters} clusters, largest {largest}: {:.1} s",
        start.elapsed().as_secs_f32()
    );
    for point in built.calibration.points.iter().take(12) {
        println!("calibrated: {point:?}");
    }
    let file = storage.open("centroids").expect("a file");
    let mut centroids = AnonBuf::new(file.len() as usize);
    file.read_at(&mut centroids, 0).expect("reading");
    Ivf::open(open(storage, "rows"), open(storage, "positions"), centroids, 0.95).expect("an index")
}

fn search(
    ivf: &Ivf,
    storage: &dyn Storage,
    want: &Want,
    queries: &[Query],
) -> (Vec<Vec<u32>>, f64, IndexScratch) {
    let mut io = IoContext::for_storage(storage, 64).expect("a reader");
    let mut scratch = IndexScratch::new(AnonBuf::new(512 << 10));
    let mut top = TopK::new(10);
    let mut found = Vec::new();
    let start = Instant::now();
    for query in queries {
        top.clear(10);
        ivf.search(
            query,
            want,
            &mut Allowed::default(),
            &mut scratch,
            &mut io,
            &mut top,
        )
        .expect("a search");
        found.push(top.sorted().iter().map(|hit| hit.row).collect());
    }
    (
        found,
        queries.len() as f64 / start.elapsed().as_secs_f64(),
        scratch,
    )
}

fn main() {
    // `cargo test --all-targets` runs this too: then small, to see that it works.
    let rows = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(5000);
    let path = std::env::temp_dir().join(format!("ramlet-bench-{}", std::process::id()));
    let (storage, _) = open_best(&path, Backend::Auto).expect("a directory");
    let ivf = build(&*storage, rows);
    let queries: Vec<Query> = (0..QUERIES)
        .map(|i| Query::new(METRIC, ELEMENT, &vector((1 << 40) + i)))
        .collect();
    let (truth, rate, _) = search(
        &ivf,
        &*storage,
        &Want {
            exact: true,
            effort: None,
        },
        &queries,
    );
    println!("{}: exact {rate:.1} searches/s", storage.backend());
    for effort in [16, 32, 64, 128, 256, 512] {
        let want = Want {
            exact: false,
            effort: Some(effort),
        };
        let (found, rate, scratch) = search(&ivf, &*storage, &want, &queries);
        let hits: usize = truth
            .iter()
            .zip(&found)
            .map(|(t, f)| f.iter().filter(|row| t.contains(row)).count())
            .sum();
        println!(
            "effort {effort:>3}: recall {:.3}, {rate:>7.1} searches/s, last: {:?}",
            hits as f64 / (truth.len() * 10) as f64,
            scratch.stats
        );
    }
    drop(ivf);
    let _ = std::fs::remove_dir_all(&path);
}
