//! What a built index holds: its report, and statistics for benches and `explain`. The owner of cached codes reports these.

use std::ops::Range;

use super::inverted_file::Ivf;
use super::lists::Lists;
use super::visit_order::sort_more;
use crate::centroids::SeedCentroids;
use crate::report::{Calibrated, IndexReport, PartUse, REPORTED};
use crate::vector_index::IndexSearchParams;
use crate::{Query, RowsFile};

/// Nearest rows that the reported efforts are for.
const WANTED: u32 = 10;

fn part(name: &'static str, file: &RowsFile) -> PartUse {
    let file = file.file();
    PartUse {
        name,
        heap_bytes: 0,
        pinned_bytes: file.ram_bytes(),
        disk_bytes: file.len(),
    }
}

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

    pub(super) fn described(&self) -> IndexReport {
        let centroids = self.meta.memory_bytes();
        let mut parts = vec![
            part("rows", &self.rows),
            part("positions", &self.positions),
            PartUse {
                name: "centroids",
                heap_bytes: centroids,
                pinned_bytes: 0,
                disk_bytes: centroids,
            },
        ];
        parts.extend(self.sq8.as_ref().map(|sq8| part("SQ8 rows", &sq8.file)));
        let calibrated = |recall| {
            let want = IndexSearchParams {
                recall: Some(recall),
                ..IndexSearchParams::default()
            };
            let effort = self.effort(f64::from(WANTED), &want);
            Calibrated {
                recall,
                wanted: WANTED,
                probes: effort.probes,
                epsilon: self.scanned().map(|_| effort.epsilon.scanned),
            }
        };
        IndexReport {
            clusters: self.clusters(),
            parts,
            calibrated: REPORTED.map(calibrated).to_vec(),
        }
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
