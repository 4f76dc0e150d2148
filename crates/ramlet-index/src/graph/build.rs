//! Building a graph within a bounded scratch: memory doesn't grow with the number of rows, but for a bit per row and
//! the means of the clusters.
//!
//! Partition and merge: rows are put in the order of clusters; each row is compared with those of the clusters around
//! its own, and chooses neighbours among the nearest; the edges' other ends choose again among the edges that came and
//! their own; what can't be reached becomes an entry point. Vectors have 8 bits a dimension in all this.

use std::sync::Arc;

use ramlet_io::{IoContext, ReadFile, Storage, WriteFile};
use ramlet_memory::AnonBuf;

use super::calibrate::{GraphCalibration, measure};
use super::clusters::{Clustered, Survey, open_rows, vector_of};
use super::code::{decode, dot};
use super::layout::{DEGREE_MAX, NodeLayout};
use super::links::FORWARD;
use super::meta::{self, Shape};
use super::near::Near;
use super::prune::Bytes8;
use super::reach;
use super::records::Records;
use super::refine::Refine;
use super::reverse::Reverse;
use super::search::Graph;
use super::temporary::{Appender, Stored};
use super::write::Nodes;
use crate::error::{IndexError, Result};
use crate::flat::stream;
use crate::{Element, Metric, RowSource};

/// What is built, and with what.
#[derive(Clone, Copy, Debug)]
pub struct GraphParams {
    pub metric: Metric,
    pub element: Element,
    pub dims: usize,
    /// Rows of the segment; each number that the source gives lies below.
    pub segment_rows: u32,
    /// Bytes that the build may hold at a time, about.
    pub scratch_bytes: usize,
    pub threads: usize,
    /// Equal seeds, rows and scratch give equal files, whatever the number of threads.
    pub seed: u64,
    /// Most neighbours of a node (the API's `M`, twice): 4 to [`DEGREE_MAX`]. Nodes may get fewer, to fit a block.
    pub degree: usize,
    /// Nearest rows among which neighbours are chosen first (the API's `ef_construct`): 16 to 512.
    pub candidates: usize,
}

/// The files of the graph, created and later synced by the caller. The seeds are those of their blocks.
pub struct GraphFiles<'f> {
    /// Rows: one node each.
    pub nodes: &'f mut dyn WriteFile,
    pub nodes_seed: u64,
    /// Rows: the node (u32) of each segment row, or [`crate::ivf::NO_POSITION`].
    pub positions: &'f mut dyn WriteFile,
    pub positions_seed: u64,
    /// An envelope: entry points and calibration.
    pub meta: &'f mut dyn WriteFile,
    /// Open what was written and flushed of `nodes` and of `positions`, for the calibration.
    pub open_nodes: &'f dyn Fn() -> ramlet_io::Result<Arc<dyn ReadFile>>,
    pub open_positions: &'f dyn Fn() -> ramlet_io::Result<Arc<dyn ReadFile>>,
}

/// What was built.
#[derive(Clone, Debug)]
pub struct GraphBuilt {
    pub rows: u32,
    /// Most neighbours of a node.
    pub degree: u32,
    /// Entry points, those included that were added because nothing led to them.
    pub entries: u32,
    pub added: u32,
    pub calibration: GraphCalibration,
}

/// Fewest bytes of scratch, and so many rows more: a build holds some hundreds of them in several forms.
const SCRATCH_MIN: usize = 1 << 20;
const SCRATCH_ROWS: usize = 64;

/// Rows that each row is compared with, per candidate that is kept. (Of 100,000 rows a tenth of the former 120 is as good
/// once neighbours are chosen again: recall .903 with 39.2 reads for .907 with 38.7.)
const COMPARED_PER_CANDIDATE: usize = 60;

/// Times that neighbours are chosen again. (A second time saves a fiftieth of the reads, and costs as much as the first.)
const ROUNDS: usize = 1;

/// Nearest rows among which a node's further neighbours are chosen, per candidate of the first ones.
const MORE_PER_CANDIDATE: usize = 5;

/// Reads of the build in flight.
const DEPTH: usize = 16;

/// Builds the graph of the source's rows. Temporary files named `tmp-graph-*` and `tmp-ivf-*` are created in `spill`
/// and removed; they take about `rows * (2 * row bytes + dims * 1.5 + 1100)` bytes. One build at a time per `spill`.
pub fn build_graph(
    params: &GraphParams,
    source: &mut dyn RowSource,
    spill: &dyn Storage,
    files: &mut GraphFiles<'_>,
) -> Result<GraphBuilt> {
    let needed = SCRATCH_MIN + SCRATCH_ROWS * params.element.row_bytes(params.dims);
    if params.scratch_bytes < needed {
        return Err(IndexError::Scratch {
            needed_bytes: needed as u64,
            given_bytes: params.scratch_bytes as u64,
        });
    }
    let clustered = Clustered::build(params, source, spill, files)?;
    let mut build = Build {
        params,
        clustered: &clustered,
        spill,
        io: IoContext::for_storage(spill, DEPTH)?,
        buf: AnonBuf::new((params.scratch_bytes / 16).clamp(64 << 10, 1 << 20)),
    };
    build.run(files)
}

struct Build<'b> {
    params: &'b GraphParams,
    clustered: &'b Clustered<'b>,
    spill: &'b dyn Storage,
    io: IoContext,
    buf: AnonBuf,
}

impl<'b> Build<'b> {
    fn run(&mut self, files: &mut GraphFiles<'_>) -> Result<GraphBuilt> {
        let params = self.params;
        let survey = self.clustered.survey(params, &mut self.io, &mut self.buf)?;
        let bytes8 = Bytes8::new(&survey.frame, survey.longest);
        let (points, codes) = self.encode(&survey, &bytes8)?;
        let rows = self.clustered.rows.rows();
        let degree = params.degree.clamp(4, DEGREE_MAX);
        let layout = NodeLayout::choose(params.element, params.dims, rows, degree);
        let mut links = self.link(&survey, &bytes8, &points, layout.degree.min(FORWARD))?;
        if layout.degree > FORWARD {
            links = self.widen(&links, &points, bytes8.stride(), layout.degree)?;
        }
        drop(points);
        let first = entries(rows);
        let count = first.len();
        let entries = reach::complete(&links, rows, layout.degree, first)?;
        let nodes = Nodes {
            rows: &self.clustered.rows,
            links: &links,
            links_degree: layout.degree,
            layout,
            seed: files.nodes_seed,
            buffer_bytes: self.buffer_bytes(),
        };
        let mut records = self.records(&codes, layout.coded_bytes());
        nodes.write(&mut records, files.nodes, &mut self.io, &mut self.buf)?;
        drop(links);
        let mut coded = Vec::new();
        for entry in &entries {
            records.copy(*entry, &mut coded)?;
        }
        drop(records);
        let shape = Shape {
            metric: params.metric,
            element: params.element,
            dims: params.dims,
            degree: layout.degree,
            rows,
            segment_rows: params.segment_rows,
        };
        let meta = |calibration: &GraphCalibration| {
            meta::encode(&shape, &survey.frame, calibration, &entries, &coded)
        };
        let calibration = self.calibrate(files, &meta(&GraphCalibration::default()))?;
        files.meta.append(&meta(&calibration))?;
        Ok(GraphBuilt {
            rows,
            degree: layout.degree as u32,
            entries: entries.len() as u32,
            added: (entries.len() - count) as u32,
            calibration,
        })
    }

    /// Each row as an 8-bit vector, and as a code.
    fn encode(&mut self, survey: &Survey, bytes8: &Bytes8) -> Result<(Stored<'b>, Stored<'b>)> {
        let (params, frame) = (self.params, &survey.frame);
        let mut points = Appender::create(self.spill, "tmp-graph-points", self.buffer_bytes())?;
        let mut codes = Appender::create(self.spill, "tmp-graph-codes", self.buffer_bytes())?;
        let coded_bytes = super::code::code_bytes(params.dims) + super::code::FACTOR_BYTES;
        let (mut vector, mut rotated, mut mixing) = (Vec::new(), Vec::new(), Vec::new());
        let (mut point, mut digits, mut coded) = (Vec::new(), Vec::new(), vec![0; coded_bytes]);
        stream(
            &self.clustered.rows,
            &mut self.buf,
            &mut self.io,
            &mut |_, row| {
                decode(params.metric, params.element, vector_of(row), &mut vector);
                frame.rotate(&vector, &mut rotated, &mut mixing);
                point.clear();
                bytes8.encode(&rotated, dot(&vector, &vector), &mut point);
                points.push(&point)?;
                frame.encode(&rotated, &mut digits, &mut coded);
                codes.push(&coded)
            },
        )?;
        Ok((points.finish()?, codes.finish()?))
    }

    fn link(
        &self,
        survey: &Survey,
        bytes8: &Bytes8,
        points: &Stored<'_>,
        degree: usize,
    ) -> Result<Stored<'b>> {
        let tiles = &self.clustered.tiles;
        let candidates = self.params.candidates.clamp(16, 512);
        let stride = bytes8.stride();
        let mut records = self.records(points, stride);
        let centres = centre_records(survey, bytes8);
        let near = Near {
            tiles,
            centres: &centres,
            compared: candidates * COMPARED_PER_CANDIDATE,
            group_bytes: self.params.scratch_bytes / 8,
            candidates,
            chosen: degree * 3 / 4,
            threads: self.params.threads,
        };
        let forward = near.link(&mut records, self.spill, self.buffer_bytes())?;
        let reverse = Reverse {
            rows: self.clustered.rows.rows(),
            degree,
            threads: self.params.threads,
            edges_bytes: self.params.scratch_bytes / 8,
            buffer_bytes: self.buffer_bytes(),
        };
        let mut links = reverse.link(&forward, &mut records, self.spill)?;
        drop((forward, records));
        let refine = Refine {
            rows: self.clustered.rows.rows(),
            stride,
            degree,
            candidates,
            kept: 0,
            chosen: degree * 3 / 4,
            filled: FORWARD,
            threads: self.params.threads,
            run_bytes: self.params.scratch_bytes / 4 * 3,
        };
        for _ in 0..ROUNDS {
            let mut out = Appender::create(self.spill, "tmp-graph-forward", self.buffer_bytes())?;
            refine.link(&links, points, &mut |links| out.push_words(links))?;
            let forward = out.finish()?;
            drop(links);
            let mut records = self.records(points, stride);
            links = reverse.link(&forward, &mut records, self.spill)?;
        }
        Ok(links)
    }

    /// Adds neighbours to all nodes' first ones: what a larger read has room for.
    fn widen(
        &self,
        links: &Stored<'_>,
        points: &Stored<'_>,
        stride: usize,
        degree: usize,
    ) -> Result<Stored<'b>> {
        let candidates = self.params.candidates.clamp(16, 512) * MORE_PER_CANDIDATE;
        let widen = Refine {
            rows: self.clustered.rows.rows(),
            stride,
            degree: FORWARD,
            candidates: candidates.max(2 * degree),
            kept: FORWARD,
            chosen: degree,
            filled: degree,
            threads: self.params.threads,
            run_bytes: self.params.scratch_bytes / 4 * 3,
        };
        let mut out = Appender::create(self.spill, "tmp-graph-wide", self.buffer_bytes())?;
        widen.link(links, points, &mut |links| out.push_words(&links[1..]))?;
        out.finish()
    }

    fn calibrate(&self, files: &mut GraphFiles<'_>, meta: &[u8]) -> Result<GraphCalibration> {
        files.nodes.flush()?;
        let mut io = IoContext::for_storage(self.spill, 1)?;
        let nodes = open_rows((files.open_nodes)()?, files.nodes_seed, &mut io)?;
        let positions = open_rows((files.open_positions)()?, files.positions_seed, &mut io)?;
        let mut held = AnonBuf::new(meta.len());
        held.copy_from_slice(meta);
        let graph = Graph::open(nodes, positions, held, 0.5)?;
        let (rows, threads) = (&self.clustered.rows, self.params.threads);
        measure(&graph, rows, self.spill, threads, self.params.scratch_bytes / 16)
    }

    fn records<'r>(&self, stored: &'r Stored<'r>, stride: usize) -> Records<'r>
    where
        'b: 'r,
    {
        Records::new(
            stored,
            stride,
            &self.clustered.tiles,
            self.params.scratch_bytes / 2,
        )
    }

    /// Buffer of one file being written or read.
    fn buffer_bytes(&self) -> usize {
        (self.params.scratch_bytes / 32).clamp(4096, 1 << 20)
    }
}

/// The means of the tiles as 8-bit vectors.
fn centre_records(survey: &Survey, bytes8: &Bytes8) -> Vec<u8> {
    let (mut out, mut rotated, mut mixing) = (Vec::new(), Vec::new(), Vec::new());
    for centre in survey.centres.chunks_exact(survey.frame.dims()) {
        survey.frame.rotate(centre, &mut rotated, &mut mixing);
        bytes8.encode(&rotated, dot(centre, centre), &mut out);
    }
    out
}

/// Evenly out of all nodes, and thereby out of all clusters.
fn entries(rows: u32) -> Vec<u32> {
    let count = meta::entries_for(rows) as u64;
    (0..count).map(|i| (i * u64::from(rows) / count) as u32).collect()
}
