//! Keys of rows of which all codes are in RAM: signs, fine codes, and what those leave over.

use ramlet_kernels::Kernels;

use super::meta::Meta;
use crate::pinned::PinnedView;
use crate::quant::{CodeQuery, CodeSpace, Entered, Epsilon, FineLayout, GROUP, GroupLayout, RestLayout};

/// One thread's memory for it.
#[derive(Debug, Default)]
pub(super) struct HeldLists {
    entered: Entered,
    signs: Vec<u8>,
}

/// All codes of the first rows.
#[derive(Clone)]
pub(super) struct HeldCodes {
    pub(super) groups: (GroupLayout, PinnedView),
    pub(super) fine: (FineLayout, PinnedView),
    pub(super) rest: (RestLayout, PinnedView),
}

/// Finds keys, ascending positions the quickest: the query is made ready once for each cluster.
pub(super) struct Held<'h> {
    codes: Option<&'h HeldCodes>,
    meta: &'h Meta,
    space: CodeSpace,
    query: &'h CodeQuery,
    kernels: &'static Kernels,
    lists: &'h mut HeldLists,
    /// That the query is ready for.
    cluster: Option<u32>,
}

impl HeldCodes {
    /// The first rows so many that are there.
    pub(super) fn count(&self) -> u32 {
        let groups = self.groups.1.held().saturating_mul(GROUP as u32);
        groups.min(self.fine.1.held()).min(self.rest.1.held())
    }
}

impl<'h> Held<'h> {
    pub(super) fn new(
        codes: Option<&'h HeldCodes>,
        meta: &'h Meta,
        space: CodeSpace,
        query: &'h CodeQuery,
        kernels: &'static Kernels,
        lists: &'h mut HeldLists,
    ) -> Held<'h> {
        Held {
            codes,
            meta,
            space,
            query,
            kernels,
            lists,
            cluster: None,
        }
    }

    /// The key of the row at a position, and whether it is as good as exact; `None` if its codes aren't there, or say nothing.
    pub(super) fn key(&mut self, position: u32) -> Option<(f32, bool)> {
        let HeldCodes { groups, fine, rest } = self.codes?;
        let (fine_row, rest_row) = (fine.1.row(position)?, rest.1.row(position)?);
        let group = groups.1.row(position / GROUP as u32)?;
        let lane = position as usize % GROUP;
        let HeldLists { entered, signs } = &mut *self.lists;
        let cluster = self.meta.cluster_of(position);
        if self.cluster.replace(cluster) != Some(cluster) {
            let one = Epsilon {
                coarse: 1.0,
                fine: 1.0,
            };
            let centroid = self.meta.centroids().parts(cluster);
            entered.enter(
                &self.space,
                self.query,
                centroid,
                Some(&fine.0),
                &one,
                self.kernels,
            );
            entered.refine();
        }
        signs.resize(fine.0.plane_bytes(), 0);
        groups.0.signs(group, lane, signs);
        let add = groups.0.add(group, lane);
        let (key, is_told) = entered.whole(
            self.kernels,
            (signs, add),
            (&fine.0, fine_row),
            (&rest.0, rest_row),
        );
        key.is_finite().then_some((key, is_told))
    }
}
