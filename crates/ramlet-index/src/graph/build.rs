//! Builds a graph in a bounded scratch: apart from entry points, memory doesn't grow with the number of rows.
//!
//! Partition and merge: rows are put in the order of clusters (the nodes' numbers); several times anew they are divided into
//! clusters that overlap, in which all are compared with each other; what the clusters tell of a row is put together and its
//! neighbours chosen; what can't be reached becomes an entry point; codes are joined to the neighbours. No search of a graph
//! that grows is needed, and no row is read at random. Vectors have 8 bits a dimension in all this.

use ramlet_io::{IoContext, Storage};
use ramlet_memory::AnonBuf;

use super::built_from::{GraphFiles, GraphParams};
use super::calibrate::measure;
use super::candidates::Candidates;
use super::clusters::{Clustered, Survey, open_rows, vector_of};
use super::code::{decode, dot};
use super::disk_graph::Graph;
use super::expected::GraphCalibration;
use super::inlined::Join;
use super::layout::{DEGREE_MAX, NodeLayout};
use super::meta::{self, Shape};
use super::prune::Bytes8;
use super::reachability;
use super::stored::{Appender, Stored};
use super::write::Nodes;
use crate::build::progress::Phase;
use crate::error::{IndexError, Result};
use crate::rows::reading::stream;
use crate::{Element, Metric, RowSource};

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
const SCRATCH_MIN: usize = 512 << 10;
const SCRATCH_ROWS: usize = 64;

/// Bytes of scratch below which no graph is built. With more its clusters are larger, and what it misses is less.
pub const fn scratch_least(element: Element, dims: usize) -> usize {
    SCRATCH_MIN + SCRATCH_ROWS * element.row_bytes(dims)
}

/// Reads of the build in flight.
const DEPTH: usize = 16;

/// Builds the graph of the source's rows. Temporary files named `tmp-graph-*` and `tmp-ivf-*` are created in `spill`
/// and removed; they take about as many bytes as the nodes. One build at a time per `spill`.
pub fn build_graph(
    params: &GraphParams<'_>,
    source: &mut dyn RowSource,
    spill: &dyn Storage,
    files: &mut GraphFiles<'_>,
) -> Result<GraphBuilt> {
    let needed = scratch_least(params.element, params.dims);
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
    params: &'b GraphParams<'b>,
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
        let find = Candidates {
            points: &points,
            rows,
            stride: bytes8.stride(),
            hollow_record: self.hollow_record(&survey, &bytes8),
            degree: layout.degree,
            nearest: (self.params.candidates / 2).clamp(16, 256),
            threads: params.threads,
            seed: params.seed,
            scratch_bytes: params.scratch_bytes,
            spill: self.spill,
            progress: params.progress,
        };
        let links = find.link(&mut self.io, &mut self.buf)?;
        drop(points);
        let first = entries(rows);
        let count = first.len();
        let entries = reachability::complete(&links, rows, layout.degree, first)?;
        let join = Join {
            links: &links,
            degree: layout.degree,
            codes: &codes,
            code_bytes: layout.coded_bytes(),
            rows,
            scratch_bytes: params.scratch_bytes,
        };
        params.progress.report(Phase::Inline, 0, rows.into());
        let mut inlined = join.join(self.spill, &mut self.io, &mut self.buf)?;
        let nodes = Nodes {
            rows: &self.clustered.rows,
            links: &links,
            layout,
            seed: files.nodes_seed,
            buffer_bytes: self.buffer_bytes(),
            at_once_bytes: params.scratch_bytes / 8,
            spill: self.spill,
        };
        params.progress.report(Phase::Nodes, 0, rows.into());
        nodes.write(&mut inlined, files.nodes, &mut self.io, &mut self.buf)?;
        drop((inlined, links));
        let (mut coded, mut read) = (Vec::new(), Vec::new());
        codes.gather(&entries, layout.coded_bytes(), &mut read, &mut coded)?;
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
        let (mut point, mut levels, mut coded) = (Vec::new(), Vec::new(), vec![0; coded_bytes]);
        stream(
            &self.clustered.rows,
            &mut self.buf,
            &mut self.io,
            &mut |_, row| {
                decode(params.metric, params.element, vector_of(row), &mut vector);
                frame.rotate(&vector, &mut rotated, &mut mixing);
                point.clear();
                let squares = dot(&vector, &vector);
                bytes8.encode(&rotated, squares, &mut point);
                points.push(&point)?;
                frame.encode((&rotated, squares), &mut levels, &mut coded);
                codes.push(&coded)
            },
        )?;
        Ok((points.finish()?, codes.finish()?))
    }

    /// Under cosine, what a row of zeros is among the points.
    fn hollow_record(&self, survey: &Survey, bytes8: &Bytes8) -> Vec<u8> {
        let (mut rotated, mut mixing, mut record) = (Vec::new(), Vec::new(), Vec::new());
        if self.params.metric == Metric::Cosine {
            let zeros = vec![0.0; self.params.dims];
            survey.frame.rotate(&zeros, &mut rotated, &mut mixing);
            bytes8.encode(&rotated, 0.0, &mut record);
        }
        record
    }

    fn calibrate(&self, files: &mut GraphFiles<'_>, meta: &[u8]) -> Result<GraphCalibration> {
        files.nodes.flush()?;
        let mut io = IoContext::for_storage(self.spill, 1)?;
        let nodes = open_rows((files.open_nodes)()?, files.nodes_seed, &mut io)?;
        let positions = open_rows((files.open_positions)()?, files.positions_seed, &mut io)?;
        let mut resident = AnonBuf::new(meta.len());
        resident.copy_from_slice(meta);
        let graph = Graph::open(nodes, positions, resident, 0.5)?;
        let (rows, threads) = (&self.clustered.rows, self.params.threads);
        measure(&graph, rows, self.spill, threads, self.params.scratch_bytes / 16)
    }

    /// Buffer of one file being written or read.
    fn buffer_bytes(&self) -> usize {
        (self.params.scratch_bytes / 32).clamp(4096, 1 << 20)
    }
}

/// Evenly out of all nodes, and thereby out of all clusters.
fn entries(rows: u32) -> Vec<u32> {
    let count = meta::entries_for(rows) as u64;
    (0..count).map(|i| (i * u64::from(rows) / count) as u32).collect()
}
