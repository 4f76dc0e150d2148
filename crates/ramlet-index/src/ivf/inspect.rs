//! What a build made, seen from outside: for benches and for explaining a search.

use std::ops::Range;

use super::search::{Ivf, sort_more};
use crate::Query;

impl Ivf {
    /// All clusters as the positions of their rows, in the order in which a search of `query` visits them.
    ///
    /// Allocates 12 bytes a cluster, twice: not for the search path.
    pub fn ranked(&self, query: &Query) -> Vec<Range<u32>> {
        let mut clusters = Vec::new();
        self.rank(query, query.floats(), &mut clusters);
        let count = clusters.len();
        sort_more(&mut clusters, 0, count);
        clusters
            .iter()
            .map(|(_, cluster)| self.meta.positions(*cluster))
            .collect()
    }
}
