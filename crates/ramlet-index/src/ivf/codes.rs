//! Searches by codes in RAM: scans the 1-bit codes of the nearest clusters, compares extended codes of the candidates, and reads the rows that
//! codes can't decide.
//!
//! The extended codes lie anywhere in memory: those of one cluster are fetched while the next one is scanned.

use ramlet_kernels::{FastScanned, Kernels};

use super::candidates::Candidates;
use super::meta::{self};
use super::ranked::RankQuery;
use super::resident::{ResidentCodes, ResidentLists};
use crate::CodeKind;
use crate::error::{IndexError, Result};
use crate::quant::{
    CodeQuery, CodeSpace, Epsilon, ExtendedLayout, GroupLayout, ResidualLayout, ResidualQuery,
};
use crate::rows::cached_rows::{CachedRows, CachedView};
use crate::rows::rows_file::RowsFile;
use crate::vector_index::Effort;

/// Codes in RAM, each with what it is, and what on disk goes with them.
#[derive(Debug, Default)]
pub struct CodesInRam {
    pub scanned: Option<(CodeKind, CachedRows)>,
    /// Where `scanned` stands on disk: codes that are not in memory are read there, a few pages a cluster; without it, the
    /// cluster's rows.
    pub scanned_file: Option<RowsFile>,
    /// Of use beside `scanned` only.
    pub extended: Option<(CodeKind, CachedRows)>,
    /// Of use beside the longest extended codes only.
    pub residual: Option<(CodeKind, CachedRows)>,
    /// Rows of a byte a dimension on disk, of use beside product codes without numbers and beside codes of one or two bits.
    pub sq8: Option<RowsFile>,
}

/// Codes, and how to read them.
#[derive(Debug)]
pub(super) struct Codes {
    pub(super) groups: CachedRows,
    /// Where those that aren't in memory are read.
    pub(super) file: Option<RowsFile>,
    pub(super) layout: GroupLayout,
    pub(super) extended: Option<(ExtendedLayout, CachedRows)>,
    pub(super) residual: Option<(ResidualLayout, CachedRows)>,
    pub(super) space: CodeSpace,
}

/// One thread's memory for searching codes.
#[derive(Debug, Default)]
pub(crate) struct CodeLists {
    pub(super) query: CodeQuery,
    pub(super) ranking: RankQuery,
    /// The query as two clusters' rows are compared with it: the one being scanned and the one before.
    pub(super) entered: [ResidualQuery; 2],
    /// A centroid whose levels had to be unpacked.
    pub(super) centroid: Vec<u8>,
    /// Rows found by the last scan, and which of `entered` they belong to.
    pub(super) pending: Vec<Survivor>,
    pub(super) pending_of: usize,
    pub(super) scanned: Vec<Survivor>,
    pub(super) fast_scanned: FastScanned,
    pub(super) candidates: Candidates,
    pub(super) resident: ResidentLists,
    /// Groups that are to be read.
    pub(super) missing: Vec<MissingGroup>,
    pub(super) groups: Vec<u32>,
}

/// Rows of a cluster in a group that isn't in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct MissingGroup {
    pub(super) group: u32,
    pub(super) cluster: u32,
    /// A bit for each row that is wanted.
    pub(super) lanes: u32,
}

/// A row that the signs don't rule out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survivor {
    pub(super) position: u32,
    /// The row's number where its group was read; others are looked up in memory, for the few that it takes.
    pub(super) number: Option<u32>,
    /// What the scan summed up.
    pub(super) sum: u32,
    pub(super) add: f32,
    pub(super) distance: f32,
    pub(super) lower: f32,
}

/// What one search reads codes through.
pub(super) struct Views<'c> {
    pub(super) codes: &'c Codes,
    pub(super) kernels: &'static Kernels,
    pub(super) groups: CachedView,
    pub(super) extended: Option<(ExtendedLayout, CachedView)>,
    pub(super) resident: Option<ResidentCodes>,
    /// What errors are multiples of deviations by.
    pub(super) epsilon: Epsilon,
    /// Deviations from the k-th distance within which a row is read: by signs, by extended codes.
    pub(super) reach: Epsilon,
}

impl Codes {
    /// `None` if there are none to be searched.
    pub(super) fn new(shape: &super::meta::Shape, codes: CodesInRam) -> Result<Option<Codes>> {
        let check = |kind: CodeKind, rows: &CachedRows| {
            let (stride, count) = (
                kind.row_bytes(shape.dims, shape.segment_rows),
                kind.file_rows(shape.rows),
            );
            if shape.codes.contains(&Some(kind)) && (rows.stride(), rows.rows()) == (stride, count) {
                return Ok(());
            }
            let (rows, stride) = (rows.rows(), rows.stride());
            Err(IndexError::Mismatch(format!(
                "{shape:?} with {rows} rows of {kind:?} of {stride} bytes"
            )))
        };
        for (kind, rows) in codes.scanned.iter().chain(&codes.extended).chain(&codes.residual) {
            check(*kind, rows)?;
        }
        let extended = match codes.extended {
            Some((CodeKind::Extended { bits }, rows)) => Some((ExtendedLayout::new(shape.dims, bits), rows)),
            Some((kind, _)) => return Err(IndexError::Mismatch(format!("{kind:?} as extended codes"))),
            None => None,
        };
        let longest = meta::longest(shape.codes.into_iter().flatten());
        let residual = match codes.residual {
            Some((CodeKind::Residual { bits }, rows))
                if longest == extended.as_ref().map(|(extended, _)| extended.bits) =>
            {
                Some((ResidualLayout::new(shape.dims, bits), rows))
            }
            Some((kind, _)) => {
                return Err(IndexError::Mismatch(format!(
                    "{kind:?} as the residual of {longest:?} bits"
                )));
            }
            None => None,
        };
        let file = codes.scanned_file;
        let suits =
            |rows: &CachedRows, file: &RowsFile| (file.rows(), file.stride()) == (rows.rows(), rows.stride());
        let groups = match codes.scanned {
            Some((CodeKind::OneBit, rows)) if !file.as_ref().is_none_or(|file| suits(&rows, file)) => {
                return Err(IndexError::Mismatch(format!(
                    "1-bit codes of {file:?} in place of others"
                )));
            }
            Some((CodeKind::OneBit, rows)) => rows,
            // See `products`.
            Some((kind, _)) if kind.subquantizers().is_some() => return Ok(None),
            Some((kind, _)) => return Err(IndexError::Mismatch(format!("{kind:?} as 1-bit codes"))),
            None => return Ok(None),
        };
        Ok(Some(Codes {
            groups,
            file,
            layout: GroupLayout::new(shape.dims, shape.segment_rows),
            extended,
            residual,
            space: CodeSpace {
                metric: shape.metric,
                unit: shape.unit,
            },
        }))
    }

    pub(super) fn extended_kind(&self) -> Option<CodeKind> {
        let extended = self.extended.as_ref();
        extended.map(|(layout, _)| CodeKind::Extended { bits: layout.bits })
    }

    /// Whether scores by these codes may be far off: then those of hits are the rows' own, unless told otherwise. (The API's
    /// server does so with one and two bits.)
    pub(super) fn are_rough(&self) -> bool {
        self.extended
            .as_ref()
            .is_none_or(|(layout, _)| layout.bits <= CodeKind::ROUGH_BITS)
    }

    /// Deviation of finer estimates of a product of two vectors of length 1, a residual and what it is compared with.
    pub(super) fn blur(&self) -> Option<f64> {
        let (layout, _) = self.extended.as_ref()?;
        Some((layout.remainder_squared() / layout.dims.max(1) as f64).sqrt())
    }

    pub(super) fn views(&self, kernels: &'static Kernels, effort: &Effort) -> Views<'_> {
        let groups = self.groups.view();
        let extended = self
            .extended
            .as_ref()
            .map(|(layout, rows)| (*layout, rows.view()));
        let residual = self
            .residual
            .as_ref()
            .map(|(layout, rows)| (*layout, rows.view()));
        let resident = extended
            .clone()
            .zip(residual)
            .map(|(extended, residual)| ResidentCodes {
                groups: (self.layout, groups.clone()),
                extended,
                residual,
            });
        let Epsilon {
            scanned,
            extended: last,
        } = effort.epsilon;
        Views {
            codes: self,
            kernels,
            groups,
            resident,
            epsilon: effort.bounds(),
            reach: Epsilon {
                scanned: if extended.is_some() { scanned } else { last },
                extended: last,
            },
            extended,
        }
    }
}
