//! What a build made, seen from outside: for benches and for explaining a search.

use std::ops::Range;

use super::inverted_file::Ivf;
use super::lists::Lists;
use super::visit_order::sort_more;
use crate::Query;
use crate::centroids::Centroids;

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

impl Ivf {
    /// The centroids in the space of the rows, for a build that goes on from them (`IvfParams::seed_centroids`).
    ///
    /// Holds [`Centroids::bytes_for`] of them; their rounding is rounded once more.
    pub fn centroids(&self) -> Centroids {
        let ranked = self.meta.centroids();
        let dims = self.meta.shape.dims;
        let mut mean = vec![0.0; dims];
        ranked.centre(&mut mean);
        mean.iter_mut().for_each(|value| *value = -*value);
        let mut scratch = Vec::new();
        let mut turn_back = |vector: &mut [f32]| {
            if let Some(rotation) = &self.rotation {
                rotation.undo(vector, &mut scratch);
            }
        };
        turn_back(&mut mean);
        let mut centroids = Centroids::with_capacity(&mean, ranked.count());
        let mut vector = Vec::with_capacity(dims);
        for cluster in 0..ranked.count() as u32 {
            let (step, levels) = ranked.parts(cluster);
            vector.clear();
            vector.extend(levels.iter().map(|level| step * (f32::from(*level) - 128.0)));
            turn_back(&mut vector);
            centroids.push_relative(&vector);
        }
        centroids
    }
}
