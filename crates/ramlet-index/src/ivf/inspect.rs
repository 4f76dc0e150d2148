//! What a build made, seen from outside: for benches and for explaining a search.

use std::ops::Range;

use super::search::{Ivf, sort_more};
use crate::Query;
use crate::scan::Lists;

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
