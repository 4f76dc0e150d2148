//! An open inverted file.

use ramlet_format::envelope::{self, EnvelopeKind};
use ramlet_memory::AnonBuf;

use super::codes::{Codes, CodesInRam};
use super::meta::Meta;
use super::products::Products;
use super::sq8_rows::Sq8Rows;
use crate::error::{IndexError, Result};
use crate::quant::Rotation;
use crate::rows::cached_rows::CachedRows;
use crate::rows::reading::check_stride;
use crate::rows::rows_file::RowsFile;
use crate::search::calibration::{Calibration, DEPTHS};
use crate::{CodeKind, Element, Metric};

/// An inverted file: vectors lie in clusters, and a search visits those whose centroids are nearest to the query.
///
/// RAM: `dims + 12` bytes per cluster, no byte per vector but those of [`CodesInRam`]. A search of `p` of `K` clusters
/// compares `K` centroids, reads about `p / K` of the file in batches as large as the scratch's buffer, and scores what
/// it read exactly; with codes in RAM it scans those instead, and reads the few rows of which they can't tell whether
/// they are among the nearest. How many clusters reach the recall target was measured at build on held-out rows.
///
/// Sivic and Zisserman, "Video Google" (2003); Jégou, Douze, Schmid, "Product Quantization for Nearest Neighbor
/// Search" (2011), section IV.
#[derive(Debug)]
pub struct Ivf {
    pub(super) rows: RowsFile,
    pub(super) positions: RowsFile,
    pub(super) meta: Meta,
    /// Of centroids and codes; none under Manhattan.
    pub(super) rotation: Option<Rotation>,
    pub(super) codes: Option<Codes>,
    pub(super) products: Option<Products>,
    pub(super) sq8: Option<Sq8Rows>,
    /// Whether searches go by the k-th distance where they can: see `probe_threshold`.
    pub(super) by_kth_distance: [bool; DEPTHS.len()],
    pub(super) recall: f32,
}

impl Ivf {
    /// `centroids` holds the whole file of centroids, which stays in RAM; its reservation is the index's. `recall`
    /// (0 to 1) is the target that effort 128 aims at, over the 10 nearest. Fails if the parts don't belong together.
    pub fn new(
        rows: RowsFile,
        positions: RowsFile,
        centroids: AnonBuf,
        codes: CodesInRam,
        recall: f32,
    ) -> Result<Ivf> {
        let body = envelope::decode(EnvelopeKind::Centroids, &centroids)?.len();
        let meta = Meta::parse(centroids, envelope::HEADER_BYTES..envelope::HEADER_BYTES + body)?;
        let shape = meta.shape;
        check_stride(&rows, shape.element.row_bytes(shape.dims) + 4)?;
        check_stride(&positions, 4)?;
        if rows.rows() != shape.rows || positions.rows() != shape.segment_rows {
            let (rows, positions) = (rows.rows(), positions.rows());
            return Err(IndexError::Mismatch(format!(
                "{shape:?} with {rows} rows and {positions} positions"
            )));
        }
        let (mut codes, mut products) = (codes, None);
        let sq8 = codes.sq8.take().map(|file| Sq8Rows::new(&shape, file));
        if let Some((_, rows)) = codes.scanned.take_if(|(kind, _)| kind.subquantizers().is_some()) {
            let file = codes.scanned_file.take();
            products = Some(Products::new(&shape, meta.model.as_ref(), rows, file)?);
        }
        Ok(Ivf {
            rows,
            positions,
            codes: Codes::new(&shape, codes)?,
            products,
            sq8: sq8.transpose()?,
            rotation: shape.metric.has_codes().then(|| Rotation::new(shape.dims)),
            by_kth_distance: meta.calibration.prefers_kth_distance(shape.clusters as u32),
            meta,
            recall,
        })
    }

    /// The files of codes that were built beside the rows, whether this opening searches them or not; of SQ8 rows, whether it has them.
    pub fn kinds(&self) -> impl Iterator<Item = CodeKind> {
        let sq8 = self.sq8.as_ref().map(Sq8Rows::kind);
        self.meta.shape.codes.into_iter().flatten().chain(sq8)
    }

    /// The codes that are searched, of which memory may be taken back and restored.
    pub fn scanned(&self) -> Option<&CachedRows> {
        let products = self.products.as_ref().map(|products| &products.groups);
        self.codes.as_ref().map(|codes| &codes.groups).or(products)
    }

    /// The extended codes that are searched.
    pub fn extended(&self) -> Option<&CachedRows> {
        let extended = self.codes.as_ref().and_then(|codes| codes.extended.as_ref());
        extended.map(|(_, rows)| rows)
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

    pub fn clusters(&self) -> u32 {
        self.meta.shape.clusters as u32
    }

    /// What was measured at build.
    pub fn calibration(&self) -> &Calibration {
        &self.meta.calibration
    }

    /// What the extended codes leave over, if that is searched.
    pub fn residual(&self) -> Option<&CachedRows> {
        let residual = self.codes.as_ref().and_then(|codes| codes.residual.as_ref());
        residual.map(|(_, rows)| rows)
    }
}
