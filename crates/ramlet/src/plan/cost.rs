//! From counts to time: processor, disk, threads.

use super::counts::Counts;
use super::machine::Machine;
use super::spec::Spec;

/// A read of several pages is slower than one of a page by so much a page: 86,800 random reads a second of 4 KiB, 70,400 of 8, 52,700 of 16 and 34,900 of 32
/// (records/2026-11-29-xeon-2core/ladder-3.txt).
const FURTHER_PAGE: f64 = 0.22;

/// Nanoseconds of one core for what the machine's calibration doesn't measure, at 100 dimensions on the reference machine.
///
/// Source: fitted by hand to records/2026-11-21-epyc-2core/million-hard.json (the graph: graph-1m-100-16mb-quiet.txt beside
/// it); the test `the_records_are_predicted` of `tests/it/plan.rs` holds them against the newest ones. docs/plan.md says how to fit them
/// anew. They scale with the machine's own figures.
struct Coefficients {
    /// A search: the query rotated, lists cleared, results written.
    search: f64,
    /// What of it is fetched from afar, of a million rows and more: of fewer, caches have it.
    fetched: f64,
    /// A cluster with sign codes: the query from its centroid, rounded, a table of sums.
    probe_signs: f64,
    /// A cluster with product codes: tables for every pair of dimensions.
    probe_product: f64,
    /// A row, beside its code's sum: bounds, comparison.
    sieve: f64,
    /// A row without an index, beside its numbers, in a segment (3.5) or just written (7.5): 3,000 to 60,000 rows of 32 and 100
    /// dimensions, records/2026-11-30-epyc-2core/flat.txt.
    row: f64,
    /// A row looked at with all bits, beside its planes: fetched from afar, bounds, lists.
    refine: f64,
    /// A node of the graph that was read: checked, its neighbours sorted in.
    node: f64,
    /// A code of the graph: an entry point's or a neighbour's.
    neighbour: f64,
    /// A neighbour's code in RAM, fetched from afar.
    neighbour_in_ram: f64,
    /// A row read and scored.
    rescore: f64,
    /// One dimension of an f32 scored exactly.
    dimension: f64,
}

const COST: Coefficients = Coefficients {
    search: 2_000.0,
    fetched: 25_000.0,
    probe_signs: 200.0,
    probe_product: 380.0,
    sieve: 1.3,
    row: 5.5,
    refine: 70.0,
    node: 5_500.0,
    neighbour: 3.0,
    neighbour_in_ram: 20.0,
    rescore: 300.0,
    dimension: 0.06,
};

const FETCHED_ROWS: f64 = 1e6;

/// Nanoseconds of one core for a request of a server over HTTP, beside its search, and for each number of its vector as JSON, the client's included. The first is
/// the same on machines whose codes differ by half: system calls and waking up.
///
/// Source: records/2026-11-25-epyc-2core/front-cpu-2.txt, where each connection has a request at a time; 20,000 rows of 384 and 1,536 dimensions that
/// lie in RAM, records/2026-11-30-epyc-2core/small-wide.txt; 3,000 and 60,000 of 32, below-threshold.txt beside it.
const REQUEST: f64 = 50_000.0;
const REQUEST_NUMBER: f64 = 120.0;

/// Under load a read waits for others.
const LOADED: f64 = 1.5;
/// What waking up costs a beam search, of what it costs a thread that had a core alone: others have kept it awake.
const WAKE_OF_MANY: f64 = 0.25;
/// Where two limits are near each other, one waits for the other: 5,600 searches by the processor and 5,700 by the disk were
/// 4,450 (64 MB, recall .95). The power of the mean that says so.
const TOGETHER: f64 = 2.5;
/// Processor time of a slow search against the mean.
const SLOW: f64 = 1.6;
/// A scan reads in parts of 256 KiB: so many times the bytes of random pages.
const SEQUENTIAL: f64 = 4.0;

/// Columns of the codes that `ns_per_code` is measured with.
const CODE_COLUMNS: f64 = 25.0;

/// How a search goes over its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// All rows, exactly.
    Flat,
    /// Clusters' rows, exactly.
    Rows,
    Signs {
        planes: u64,
    },
    Product {
        subquantizers: u64,
    },
    /// Nodes read one after another, some at once.
    Graph,
    GraphInRam,
}

/// What a search costs on a machine.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Speed {
    pub cpu_us: f64,
    /// Of all cores and threads.
    pub qps: f64,
    /// What more of would make it faster: "cpu", "disk" or "threads".
    pub limited_by: &'static str,
    /// One query in flight.
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
}

/// How data is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Pages of a read of a vector or node.
    pub pages: f64,
    /// Waits for the disk, one after another.
    pub rounds: f64,
    /// Bytes read in sequence, where whole clusters are.
    pub scan_bytes: f64,
}

/// Seconds of this machine for a search with these counts, which comes over HTTP or not.
pub fn speed(
    spec: &Spec,
    machine: &Machine,
    (work, over_http): (Work, bool),
    counts: &Counts,
    reading: &Reading,
    threads: usize,
) -> Speed {
    let disk = &machine.disk;
    let page_cost = 1.0 + FURTHER_PAGE * (reading.pages - 1.0).max(0.0);
    let scan_reads = reading.scan_bytes / (4096.0 * SEQUENTIAL);
    let load = counts.reads() * page_cost + scan_reads;
    // Waking up for a batch costs, then each read of it.
    let woken = if work == Work::Graph { WAKE_OF_MANY } else { 1.0 };
    let wake = (disk.cpu_us_depth1 - disk.cpu_us_depth64).max(0.0) * reading.rounds * woken;
    let request_us = match over_http {
        true => (REQUEST + REQUEST_NUMBER * spec.dims as f64 * slower(machine)) / 1000.0,
        false => 0.0,
    };
    let cpu_us = compute_us(spec, machine, work, counts) + request_us + wake + disk.cpu_us_depth64 * load;
    let queued_us = load * 1e6 / disk.iops_depth64;
    let wait_us = reading.rounds * disk.latency_us_p50 + queued_us;
    let by_cpu = machine.cores.min(threads) as f64 * 1e6 / cpu_us;
    let by_disk = disk.iops_depth64 / load.max(1e-9);
    let waits_us = LOADED * reading.rounds * disk.latency_us_p50 + queued_us;
    let by_threads = threads as f64 * 1e6 / (cpu_us + waits_us);
    let limits = [(by_cpu, "cpu"), (by_disk, "disk"), (by_threads, "threads")];
    let (_, limited_by) = limits.into_iter().fold((f64::INFINITY, "cpu"), |least, limit| {
        if limit.0 < least.0 { limit } else { least }
    });
    let slowness: f64 = limits.iter().map(|(limit, _)| limit.powf(-TOGETHER)).sum();
    let qps = slowness.powf(-1.0 / TOGETHER);
    Speed {
        cpu_us,
        qps,
        limited_by,
        latency_us_p50: cpu_us + wait_us,
        latency_us_p99: cpu_us * SLOW
            + wait_us
            + reading.rounds * (disk.latency_us_p99 - disk.latency_us_p50).max(0.0),
    }
}

/// How much longer takes what isn't measured. It scales as codes do: every processor has the look-ups that these want, and they wait for memory as the rest does. (With
/// AVX2 alone planes took three times the reference's time and centroids twice; with a second cache of 2 MiB centroids were a seventh
/// quicker: what lies around them took the same time on both.)
fn slower(machine: &Machine) -> f64 {
    machine.cpu.ns_per_code / super::machine::Cpu::REFERENCE.ns_per_code
}

/// Microseconds of one core, reads not counted.
fn compute_us(spec: &Spec, machine: &Machine, work: Work, counts: &Counts) -> f64 {
    let (cpu, slower) = (&machine.cpu, slower(machine));
    let wide = spec.dims as f64 / 100.0;
    let exact = COST.dimension * slower * spec.dims as f64 * spec.element.bytes() as f64 / 4.0;
    let ranked = match work {
        Work::Flat | Work::Graph | Work::GraphInRam => 0.0,
        _ => counts.clusters_ranked * cpu.ns_per_centroid * wide,
    };
    let scanned = counts.rows_scanned;
    let looked = match work {
        Work::Flat => scanned * (exact + COST.row * slower),
        Work::Rows => scanned * (exact + COST.sieve * slower),
        Work::Signs { planes } => {
            let extended = match planes {
                // By their vectors.
                0 => COST.refine * slower + exact,
                planes => cpu.ns_per_extended * wide * planes as f64 / 5.0 + COST.refine * slower,
            };
            counts.clusters_probed * COST.probe_signs * slower * wide
                + scanned * (cpu.ns_per_code * wide + COST.sieve * slower)
                + counts.rows_refined * extended
        }
        Work::Product { subquantizers } => {
            // A sub-quantizer is a column of the scan, as the signs of four dimensions are.
            let columns = subquantizers as f64 / CODE_COLUMNS;
            counts.clusters_probed * COST.probe_product * slower * wide
                + scanned * (columns * cpu.ns_per_code + COST.sieve * slower)
        }
        Work::Graph => (counts.reads_vectors * COST.node + scanned * COST.neighbour) * slower * wide,
        Work::GraphInRam => scanned * COST.neighbour_in_ram * slower * wide,
    };
    let rescored = counts.reads_vectors * (COST.rescore * slower + exact);
    let near = (spec.points as f64 / FETCHED_ROWS).min(1.0);
    let search = COST.search + COST.fetched * near;
    (search * slower * wide + ranked + looked + rescored) / 1000.0
}

/// Microseconds of one core to put a vector of 100 dimensions into an index of 8,000 clusters: assignment and codes.
/// Source: 1,000,000 in 22 s on two cores (DESIGN.md, section 6).
const BUILD_US: f64 = 40.0;
/// And into the graph: 312 s of CPU for 1,000,000 (records/2026-11-20-epyc-2core/graph-1m-100-16mb-partitions.txt).
const BUILD_GRAPH_US: f64 = 300.0;

/// Seconds to build, from stored vectors.
pub fn build_seconds(spec: &Spec, machine: &Machine, work: Work, clusters: u64, disk_bytes: u64) -> f64 {
    let reference = super::machine::Cpu::REFERENCE;
    let slower = machine.cpu.ns_per_centroid / reference.ns_per_centroid;
    let each_us = match work {
        Work::Flat => 0.0,
        Work::Graph | Work::GraphInRam => BUILD_GRAPH_US,
        _ => BUILD_US * (clusters as f64 / 8000.0).sqrt(),
    };
    let cpu = spec.points as f64 * each_us * slower * (spec.dims as f64 / 100.0) / 1e6 / machine.cores as f64;
    // Read, written to buckets, read, written.
    let disk = 3.0 * disk_bytes as f64 / (machine.disk.iops_depth64 * 4096.0 * SEQUENTIAL);
    cpu + disk
}
