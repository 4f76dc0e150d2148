//! Describes an inverted file. The owner of cached codes reports these.

use super::inverted_file::Ivf;
use crate::RowsFile;
use crate::report::{Calibrated, IndexReport, PartUse, REPORTED};
use crate::vector_index::IndexSearchParams;

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
