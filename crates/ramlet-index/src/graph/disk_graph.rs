//! An open graph.

use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, Consumer};

use super::expected::GraphCalibration;
use super::meta::Meta;
use super::ram::{self, GraphInRam, Ram, RamForm};
use crate::error::{IndexError, Result};
use crate::rows::reading::check_stride;
use crate::rows::rows_file::RowsFile;
use crate::search::scratch::IndexScratch;
use crate::{Element, Metric};

/// Nodes read at once at most.
pub(super) const WIDTH_MAX: usize = 32;

/// A graph on disk: a search reads one node after another, each nearer to the query, until it has gone on for a while
/// without finding anything better ("patience", calibrated at build for the recall target).
///
/// RAM: entry points ([`super::bytes_for`]), no byte per vector. A search compares the entry points' codes, and per
/// node read, that node exactly and its neighbours' codes.
#[derive(Debug)]
pub struct Graph {
    pub(super) nodes: RowsFile,
    pub(super) positions: RowsFile,
    pub(super) meta: Meta,
    pub(super) recall: f32,
    pub(super) width: usize,
    pub(super) ram: Option<GraphInRam>,
}

impl Graph {
    /// `meta` is the whole file of that name, which stays in RAM; its reservation is the graph's. `recall` (0 to 1) is
    /// the target that effort 128 aims at.
    pub fn open(nodes: RowsFile, positions: RowsFile, meta: AnonBuf, recall: f32) -> Result<Graph> {
        let meta = Meta::parse(meta)?;
        let shape = meta.shape;
        check_stride(&nodes, meta.layout.row_bytes())?;
        check_stride(&positions, 4)?;
        if nodes.rows() != shape.rows || positions.rows() != shape.segment_rows {
            let (nodes, positions) = (nodes.rows(), positions.rows());
            return Err(IndexError::Mismatch(format!(
                "{shape:?} with {nodes} nodes and {positions} positions"
            )));
        }
        Ok(Graph {
            nodes,
            positions,
            meta,
            recall,
            width: 1,
            ram: None,
        })
    }

    /// Reads so many nodes at once (1 to 32): 1 or 2 when many searches share the disk, 4 to 8 when one has it alone.
    /// A wider search is sooner done and reads somewhat more.
    pub fn with_width(mut self, width: usize) -> Graph {
        self.width = width.clamp(1, WIDTH_MAX);
        self
    }

    /// Takes codes and the first edges of each node into RAM, by one pass over the nodes: from now on beam searches read nothing, and
    /// only the nodes found nearest are read; not even these if the vectors are in RAM too. About
    /// `2.2 * edges + dims / 2 + 8` bytes per vector, and itself; fails if the consumer hasn't them.
    pub fn into_ram(
        mut self,
        form: RamForm,
        consumer: &Consumer,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
    ) -> Result<Graph> {
        self.ram = Some(self.in_ram_of(form, consumer, scratch, io)?);
        Ok(self)
    }

    /// What [`Graph::into_ram`] takes, for [`Graph::with_ram`].
    pub fn in_ram_of(
        &self,
        form: RamForm,
        consumer: &Consumer,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
    ) -> Result<GraphInRam> {
        let ram = Ram::load(&self.meta, &self.nodes, form, consumer, io, &mut scratch.buf)?;
        Ok(GraphInRam::new(ram))
    }

    /// What is in RAM; another view of the same graph may take it.
    pub fn in_ram(&self) -> Option<&GraphInRam> {
        self.ram.as_ref()
    }

    /// Takes what another view of the same graph has in RAM.
    pub fn with_ram(mut self, ram: GraphInRam) -> Graph {
        self.ram = Some(ram);
        self
    }

    /// Bytes that [`Graph::into_ram`] takes, about.
    pub fn ram_bytes(&self, form: RamForm) -> u64 {
        ram::bytes_for(self.meta.shape.rows.into(), &self.meta.layout, form)
    }

    pub fn metric(&self) -> Metric {
        self.meta.shape.metric
    }

    pub fn element(&self) -> Element {
        self.meta.shape.element
    }

    pub fn dims(&self) -> usize {
        self.meta.shape.dims
    }

    /// Most neighbours of a node.
    pub fn degree(&self) -> usize {
        self.meta.shape.degree
    }

    pub fn entries(&self) -> usize {
        self.meta.entries
    }

    /// What was measured at build.
    pub fn calibration(&self) -> &GraphCalibration {
        &self.meta.calibration
    }
}
