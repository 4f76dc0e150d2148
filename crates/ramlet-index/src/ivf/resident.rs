//! Nearly exact distances from codes in RAM (1-bit, extended and residual codes of rows that have all three), and from SQ8 rows that were read.

use std::ops::Range;

use ramlet_kernels::Kernels;

use super::meta::Meta;
use super::sq8_rows::Sq8Rows;
use crate::quant::{
    CodeQuery, CodeSpace, Epsilon, ExtendedLayout, GROUP, GroupLayout, ResidualLayout, ResidualQuery,
    SQ8_AT_ONCE, Sq8Row,
};
use crate::rows::cached_rows::CachedView;

/// One thread's memory for it.
#[derive(Debug, Default)]
pub(super) struct ResidentLists {
    entered: ResidualQuery,
    /// A centroid whose levels had to be unpacked.
    centroid: Vec<u8>,
    signs: Vec<u8>,
}

/// All codes of the first rows.
#[derive(Clone)]
pub(super) struct ResidentCodes {
    pub(super) groups: (GroupLayout, CachedView),
    pub(super) extended: (ExtendedLayout, CachedView),
    pub(super) residual: (ResidualLayout, CachedView),
}

/// Finds distances, ascending positions the quickest: the query is made ready once for each cluster.
pub(super) struct ResidentDistances<'h> {
    codes: Option<&'h ResidentCodes>,
    meta: &'h Meta,
    space: CodeSpace,
    query: &'h CodeQuery,
    kernels: &'static Kernels,
    lists: &'h mut ResidentLists,
    /// Positions that the query is ready for.
    ready: Range<u32>,
    /// Where rows are looked at before they are read, if they are.
    pub(super) sq8: Option<&'h Sq8Rows>,
    /// Whether scores by the codes that are scanned may be far off.
    are_rough: bool,
}

impl ResidentCodes {
    /// The first rows so many that are there.
    pub(super) fn count(&self) -> u32 {
        let groups = self.groups.1.resident().saturating_mul(GROUP as u32);
        groups
            .min(self.extended.1.resident())
            .min(self.residual.1.resident())
    }
}

impl<'h> ResidentDistances<'h> {
    pub(super) fn new(
        codes: Option<&'h ResidentCodes>,
        meta: &'h Meta,
        space: CodeSpace,
        query: &'h CodeQuery,
        kernels: &'static Kernels,
        lists: &'h mut ResidentLists,
    ) -> ResidentDistances<'h> {
        ResidentDistances {
            codes,
            meta,
            space,
            query,
            kernels,
            lists,
            ready: 0..0,
            sq8: None,
            are_rough: false,
        }
    }

    /// With SQ8 rows on disk.
    pub(super) fn with_sq8(self, sq8: Option<&'h Sq8Rows>) -> ResidentDistances<'h> {
        ResidentDistances { sq8, ..self }
    }

    /// Beside codes by which scores may be far off.
    pub(super) fn with_rough(self, are_rough: bool) -> ResidentDistances<'h> {
        ResidentDistances { are_rough, ..self }
    }

    /// Whether hits of which neither residual codes nor SQ8 rows tell the scores are read, though nobody asked for it.
    pub(super) fn reads_hits(&self) -> bool {
        self.are_rough && self.sq8.is_none()
    }

    /// Makes the query ready for the cluster that has the position.
    fn enter(&mut self, position: u32) {
        if self.ready.contains(&position) {
            return;
        }
        let cluster = self.meta.cluster_of(position);
        self.ready = self.meta.positions(cluster);
        let one = Epsilon {
            scanned: 1.0,
            extended: 1.0,
        };
        let ResidentLists {
            entered, centroid, ..
        } = &mut *self.lists;
        let centroid = self.meta.centroids().parts(cluster, centroid);
        entered.enter(&self.space, self.query, centroid, None, &one, self.kernels);
        entered.refine(self.kernels);
    }

    /// Shows `each` consecutive SQ8 rows, of which the first is at `position`, with what it is the position of, the row's distance, and by how much
    /// that is off as a rule.
    pub(super) fn sq8_distances(
        &mut self,
        sq8: &Sq8Rows,
        mut rows: &[u8],
        mut position: u32,
        mut each: impl FnMut(u32, Sq8Row<'_>, f32, f32),
    ) {
        let stride = sq8.layout.row_bytes();
        while !rows.is_empty() {
            self.enter(position);
            let of_cluster = (self.ready.end - position) as usize;
            let count = (rows.len() / stride).min(of_cluster).min(SQ8_AT_ONCE);
            let (now, later) = rows.split_at(count * stride);
            let entered = &self.lists.entered;
            let mut at = position;
            entered.sq8(self.kernels, sq8.layout, now, |row, distance, deviation| {
                each(at, row, distance, deviation);
                at += 1;
            });
            (rows, position) = (later, at);
        }
    }

    /// The distance of the row at a position, and whether it is as good as exact; `None` if its codes aren't there, or say nothing.
    pub(super) fn distance(&mut self, position: u32) -> Option<(f32, bool)> {
        let ResidentCodes {
            groups,
            extended,
            residual,
        } = self.codes?;
        let (extended_row, residual_row) = (extended.1.row(position)?, residual.1.row(position)?);
        let group = groups.1.row(position / GROUP as u32)?;
        let lane = position as usize % GROUP;
        self.enter(position);
        let ResidentLists { entered, signs, .. } = &mut *self.lists;
        signs.resize(extended.0.plane_bytes(), 0);
        groups.0.signs(group, lane, signs);
        let add = groups.0.add(group, lane);
        let (distance, is_fixed) = entered.whole(
            self.kernels,
            (signs, add),
            (&extended.0, extended_row),
            (&residual.0, residual_row),
        );
        distance.is_finite().then_some((distance, is_fixed))
    }
}
