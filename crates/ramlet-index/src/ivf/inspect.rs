//! Statistics of a built index, for benches and `explain`.

use std::ops::Range;

use super::inverted_file::Ivf;
use super::lists::Lists;
use super::visit_order::sort_more;
use crate::Query;
use crate::centroids::SeedCentroids;

impl Ivf {
    /// All clusters as the positions of their rows, in the order in which a search of `query` visits them.
    ///
    /// Allocates 16 bytes a cluster and a scratch: not for the search path.
    pub fn ranked(&self, query: &Query) -> Vec<Range<u32>> {
        let mut lists = Lists::default();
        self.rank(query, &mut lists);
        let count = lists.clusters.len();
        sort_more(&mut lists.clusters, 0, count);
        let clusters = lists.clusters.iter();
        clusters
            .map(|cluster| self.meta.positions(*cluster as u32))
            .collect()
    }
}

/// Their rounding is rounded once more.
impl SeedCentroids for Ivf {
    fn dims(&self) -> usize {
        self.meta.shape.dims
    }

    fn count(&self) -> usize {
        self.meta.shape.clusters
    }

    fn write(&self, i: usize, out: &mut Vec<f32>) {
        let ranked = self.meta.centroids();
        ranked.write(i as u32, &mut Vec::new(), out);
        ranked.uncentre(out);
        if let Some(rotation) = &self.rotation {
            rotation.undo(out, &mut Vec::new());
        }
    }
}
