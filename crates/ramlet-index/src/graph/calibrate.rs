//! The recall by patience, measured at the build on rows of the graph itself.
//!
//! A row serves as query while its own node is left out of the beam search, as if it weren't there. One beam search per row serves
//! all patiences: with less of it the same beam search would have ended sooner.

use ramlet_io::{IoContext, Storage};
use ramlet_memory::AnonBuf;

use super::beam_search::{BeamSearch, GraphLists};
use super::clusters::{number_of, vector_of};
use super::disk_graph::Graph;
use super::expected::{GraphCalibration, GraphPoint};
use crate::error::Result;
use crate::rows::reading::stream;
use crate::search::calibration::{DEPTHS, steps};
use crate::search::search_stats::SearchStats;
use crate::{Metric, Query, RowsFile, TopK, decode_row};

/// Most patience measured: so much, or a share (one in so many) of a small graph's nodes. And reads of one beam search.
const PATIENCE_MAX: u32 = 400;
const PATIENCE_MIN: u32 = 64;
const PATIENCE_SHARE: u32 = 32;
const READS_MAX: usize = 2000;

/// Rows that serve as queries: one in this many, and at most so many.
const HELD_OUT_SHARE: usize = 64;
const HELD_OUT_MAX: usize = 300;

/// A row that serves as query.
struct HeldOut {
    node: u32,
    number: u32,
    query: Query,
    /// Its nearest nodes, and itself.
    top: TopK,
}

/// Measures a graph whose rows are `rows`, in the order of its nodes.
pub(super) fn measure(
    graph: &Graph,
    rows: &RowsFile,
    storage: &dyn Storage,
    threads: usize,
    batch_bytes: usize,
) -> Result<GraphCalibration> {
    let (mut io, mut buf) = (IoContext::for_storage(storage, 16)?, AnonBuf::new(64 << 10));
    let mut held_out = hold_out(graph, rows, &mut io, &mut buf)?;
    find_truth(&mut held_out, rows, threads, batch_bytes, &mut io, &mut buf)?;
    let most = (rows.rows() / PATIENCE_SHARE).clamp(PATIENCE_MIN, PATIENCE_MAX);
    let patiences: Vec<u32> = steps(most as usize).map(|step| step as u32).collect();
    let share = held_out.len().div_ceil(threads.max(1)).max(1);
    let parts: Vec<Result<Sums>> = std::thread::scope(|scope| {
        let handles: Vec<_> = held_out
            .chunks_mut(share)
            .map(|part| scope.spawn(|| search_all(graph, part, &patiences, storage)))
            .collect();
        let joined = handles.into_iter().map(|handle| handle.join());
        joined.map(|part| part.expect("searches don't panic")).collect()
    });
    let mut sums = Sums::new(patiences.len());
    for part in parts {
        sums.add(&part?);
    }
    Ok(sums.calibration(&patiences))
}

/// Evenly out of all rows.
fn hold_out(graph: &Graph, rows: &RowsFile, io: &mut IoContext, buf: &mut AnonBuf) -> Result<Vec<HeldOut>> {
    let shape = &graph.meta.shape;
    let count = HELD_OUT_MAX.min((rows.rows() as usize).div_ceil(HELD_OUT_SHARE));
    let places =
        (0..count as u64).map(|i| ((2 * i + 1) * u64::from(rows.rows()) / (2 * count as u64)) as u32);
    let places: Vec<u32> = places.collect();
    let mut held_out = Vec::with_capacity(count);
    let (mut vector, mut reads) = (Vec::new(), Vec::new());
    crate::rows::reading::read_positions(rows, &places, &mut reads, buf, io, &mut |node, row| {
        vector.clear();
        decode_row(shape.element, vector_of(row), &mut vector);
        // What is like nothing has no neighbours to be found.
        if shape.metric == Metric::Cosine && vector.iter().all(|value| *value == 0.0) {
            return Ok(());
        }
        held_out.push(HeldOut {
            node,
            number: number_of(row)?,
            query: Query::new(shape.metric, shape.element, &vector),
            top: TopK::new(DEPTHS[1] + 1),
        });
        Ok(())
    })?;
    Ok(held_out)
}

/// One pass over the rows.
fn find_truth(
    held_out: &mut [HeldOut],
    rows: &RowsFile,
    threads: usize,
    batch_bytes: usize,
    io: &mut IoContext,
    buf: &mut AnonBuf,
) -> Result<()> {
    let stride = rows.stride();
    let at_once = (batch_bytes / stride).max(64);
    let mut batch: Vec<u8> = Vec::with_capacity(at_once * stride);
    stream(rows, buf, io, &mut |node, row| {
        batch.extend_from_slice(row);
        if batch.len() == at_once * stride || node + 1 == rows.rows() {
            compare(held_out, &batch, stride, threads);
            batch.clear();
        }
        Ok(())
    })
}

fn compare(held_out: &mut [HeldOut], batch: &[u8], stride: usize, threads: usize) {
    let share = held_out.len().div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        for part in held_out.chunks_mut(share) {
            scope.spawn(move || {
                let mut distances = [0.0f32; 64];
                for one in part {
                    for rows in batch.chunks(64 * stride) {
                        let distances = &mut distances[..rows.len() / stride];
                        one.query.distances_of_rows(rows, stride, distances);
                        for (distance, row) in distances.iter().zip(rows.chunks_exact(stride)) {
                            // A row of this file has a number behind it.
                            if *distance <= one.top.threshold() {
                                one.top.push(*distance, number_of(row).unwrap_or(0));
                            }
                        }
                    }
                }
            });
        }
    });
}

/// Sums over beam searches, by depth and patience.
struct Sums {
    searches: u32,
    found: [Vec<u64>; 2],
    wanted: [u64; 2],
    reads: [Vec<u64>; 2],
}

impl Sums {
    fn new(patiences: usize) -> Sums {
        let zeros = || [vec![0; patiences], vec![0; patiences]];
        Sums {
            searches: 0,
            found: zeros(),
            wanted: [0; 2],
            reads: zeros(),
        }
    }

    fn add(&mut self, other: &Sums) {
        self.searches += other.searches;
        for depth in 0..2 {
            self.wanted[depth] += other.wanted[depth];
            let add =
                |to: &mut Vec<u64>, from: &[u64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            add(&mut self.found[depth], &other.found[depth]);
            add(&mut self.reads[depth], &other.reads[depth]);
        }
    }

    fn calibration(&self, patiences: &[u32]) -> GraphCalibration {
        if self.wanted.contains(&0) {
            return GraphCalibration::default();
        }
        let share = |part: u64, all: u64| (part as f64 / all as f64) as f32;
        let points = patiences.iter().enumerate().map(|(i, patience)| GraphPoint {
            patience: *patience,
            recall: [0, 1].map(|depth| share(self.found[depth][i], self.wanted[depth])),
            reads: [0, 1].map(|depth| share(self.reads[depth][i], u64::from(self.searches))),
        });
        GraphCalibration {
            points: points.collect(),
        }
    }
}

fn search_all(
    graph: &Graph,
    held_out: &mut [HeldOut],
    patiences: &[u32],
    storage: &dyn Storage,
) -> Result<Sums> {
    let mut io = IoContext::for_storage(storage, 4)?;
    let (mut lists, mut buf) = (GraphLists::default(), AnonBuf::new(64 << 10));
    let mut sums = Sums::new(patiences.len());
    for one in held_out {
        search_one(graph, one, patiences, &mut lists, &mut buf, &mut io, &mut sums)?;
    }
    Ok(sums)
}

/// What one depth has found so far.
struct Depth {
    truth: Vec<u32>,
    top: TopK,
    stale: u32,
    /// Patiences that have ended.
    ended: usize,
}

fn search_one(
    graph: &Graph,
    one: &mut HeldOut,
    patiences: &[u32],
    lists: &mut GraphLists,
    buf: &mut AnonBuf,
    io: &mut IoContext,
    sums: &mut Sums,
) -> Result<()> {
    let (node, number) = (one.node, one.number);
    let hits = one.top.sorted().iter();
    let nearest: Vec<u32> = hits.map(|hit| hit.row).filter(|row| *row != number).collect();
    let mut depths = DEPTHS.map(|depth| Depth {
        truth: nearest[..depth.min(nearest.len())].to_vec(),
        top: TopK::new(depth.min(nearest.len())),
        stale: 0,
        ended: 0,
    });
    let mut stats = SearchStats::default();
    let mut beam = BeamSearch {
        graph,
        lists,
        buf,
        kernels: one.query.kernels(),
        skipped: Some(node),
    };
    beam.start(one.query.floats(), READS_MAX, &mut stats);
    let mut reads = 0;
    let ended = |depths: &[Depth; 2]| depths.iter().all(|depth| depth.ended == patiences.len());
    while reads < READS_MAX && !ended(&depths) {
        let mut offered = None;
        let visited = beam.round(1, io, &mut stats, &mut |node, _, _| {
            offered = Some((one.query.distance_of_row(node.vector()), node.number()));
            Ok(())
        })?;
        let Some((distance, row)) = offered.filter(|_| visited > 0) else {
            break;
        };
        reads += 1;
        for (i, depth) in depths.iter_mut().enumerate() {
            let full = depth.top.len() == depth.top.k();
            depth.stale = if depth.top.push(distance, row) {
                0
            } else {
                depth.stale + 1
            };
            while full && patiences.get(depth.ended).is_some_and(|p| depth.stale >= *p) {
                sums.end(i, depth, reads);
            }
        }
    }
    for (i, depth) in depths.iter_mut().enumerate() {
        while depth.ended < patiences.len() {
            sums.end(i, depth, reads);
        }
        sums.wanted[i] += depth.truth.len() as u64;
    }
    sums.searches += 1;
    Ok(())
}

impl Sums {
    /// The beam search with the next patience ends here.
    fn end(&mut self, i: usize, depth: &mut Depth, reads: usize) {
        let hits = depth.top.sorted();
        let found = hits.iter().filter(|hit| depth.truth.contains(&hit.row)).count();
        self.found[i][depth.ended] += found as u64;
        self.reads[i][depth.ended] += reads as u64;
        depth.ended += 1;
    }
}
