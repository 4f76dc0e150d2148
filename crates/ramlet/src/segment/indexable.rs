//! Vectors that can't have an index in a budget, because they are too wide for the scratch of a build.

use ramlet_index::{CodeKind, graph, ivf};
use ramlet_memory::{BudgetTable, size, size_up};

use super::files::FileContext;
use super::indexes::graph_held_bytes;
use super::layout;
use super::layout::{IndexingThreshold, Room, Rows, may_become_graph};
use crate::error::{Error, ErrorKind};
use crate::limits::INDEXING_THRESHOLD_KB;
use crate::schema::{Schema, VectorField, called};
use crate::settings::IndexKind;
use crate::state::shared::scratch_most;

/// What a build has at most: when it is alone, and segments hold nothing that isn't part of it.
#[derive(Debug, Clone, Copy)]
pub struct Means {
    /// Bytes of scratch that its job has.
    pub scratch: u64,
    /// Bytes that may be borrowed beside ([`FileContext::spare_bytes`]).
    pub spare: u64,
    /// Bytes that may be cached.
    pub most: u64,
}

/// Points beyond which a collection would have rows without an index for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointsMost {
    pub points: u64,
    pub vector: String,
    /// Bytes that the build of an index would have to borrow, and that there are at most.
    pub needed_bytes: u64,
    pub given_bytes: u64,
}

impl PointsMost {
    /// What whoever adds more is told.
    pub fn refusal(&self) -> Error {
        let what = format!(
            "the build of an index of {} would have to borrow {}, at most {} are there in this budget: so few that \
             searches compare them one by one, {} points, are all that may be here. Waiting doesn't help: start with a larger --memory",
            called(&self.vector),
            size_up(self.needed_bytes),
            size(self.given_bytes),
            self.points
        );
        Error::new(ErrorKind::MemoryFull, what)
    }
}

impl Means {
    pub fn new(scratch: u64, file_context: &FileContext) -> Means {
        Means {
            scratch,
            spare: file_context.metadata.cap() / 2,
            most: file_context.caches.consumer.cap(),
        }
    }

    /// What an engine with this budget has.
    pub fn of_budget(budget: &BudgetTable) -> Means {
        Means {
            scratch: scratch_most(budget.job_scratch, budget.pinned / 2),
            spare: budget.metadata_max() / 2,
            most: budget.pinned_max(),
        }
    }

    /// Whether so many rows of a vector are compared one by one on purpose, or can have an index.
    pub fn do_for(&self, vector: &VectorField, rows: u64) -> bool {
        let most = self.points_most_of(vector, INDEXING_THRESHOLD_KB as u64);
        most.is_none_or(|most| rows <= most.points)
    }

    /// The fewest of any vector that isn't compared row by row on purpose; `None`: every index can be built.
    pub fn points_most(&self, schema: &Schema, threshold: IndexingThreshold) -> Option<PointsMost> {
        let threshold_kb = match threshold {
            IndexingThreshold::Never => return None,
            IndexingThreshold::Kb(kb) => kb,
            IndexingThreshold::Unset => 0,
        };
        let dense = |vector: &&VectorField| vector.fixed_bytes().is_some();
        let vectors = schema.vectors.iter().filter(dense);
        let each = vectors.filter_map(|vector| self.points_most_of(vector, threshold_kb));
        each.min_by_key(|most| most.points)
    }

    fn points_most_of(&self, vector: &VectorField, threshold_kb: u64) -> Option<PointsMost> {
        // With a smaller threshold of its own a collection is red, but not refused what is quickly compared.
        let kb = threshold_kb.max(INDEXING_THRESHOLD_KB as u64);
        let rows = kb.saturating_mul(1024).div_ceil(vector.row_bytes() as u64);
        let rows = u32::try_from(rows).ok()?;
        Some(PointsMost {
            points: u64::from(rows).saturating_sub(1),
            vector: vector.name.clone(),
            needed_bytes: self.lacking(vector, rows)?,
            given_bytes: self.spare,
        })
    }

    /// What has to be borrowed for a build with so much scratch: as much again is for the files that it writes.
    fn borrowed(&self, scratch: usize) -> u64 {
        2 * (scratch as u64).saturating_sub(self.scratch)
    }

    /// Bytes to borrow for an index of so many rows, where there are too few for each kind that the vector may have.
    fn lacking(&self, vector: &VectorField, rows: u32) -> Option<u64> {
        const MOST_WANTING: CodeKind = CodeKind::Product { m: 1, row_ids: false };
        if self.borrowed(ivf::scratch_least(vector.dim, &[MOST_WANTING])) <= self.spare {
            return None;
        }
        let codes = layout::codes(vector, Rows::alone(rows), self.most);
        let kinds: Vec<CodeKind> = codes.iter().map(|(_, kind)| *kind).collect();
        let clusters = self.borrowed(ivf::scratch_least(vector.dim, &kinds));
        let least = self
            .graph(vector, rows)
            .map_or(clusters, |graph| graph.min(clusters));
        (least > self.spare).then_some(least)
    }

    /// The same for a graph, where the vector may have one.
    fn graph(&self, vector: &VectorField, rows: u32) -> Option<u64> {
        let room = Room {
            most: self.most,
            scratch: self.scratch + self.spare / 2,
            centroids: 0,
            disk_free: u64::MAX,
        };
        let may = match vector.settings.index {
            IndexKind::Ivf => false,
            IndexKind::Hnsw => vector.metric.has_codes(),
            IndexKind::Auto => vector.metric.has_codes() && may_become_graph(vector, rows, &room),
        };
        let scratch = graph::scratch_least(vector.element, vector.dim);
        may.then(|| graph_held_bytes(vector, rows.into()).max(self.borrowed(scratch)))
    }
}

#[cfg(test)]
mod tests {
    use ramlet_memory::BudgetRequest;

    use super::*;
    use crate::schema::Slots;
    use crate::types::{CollectionConfig, DEFAULT_VECTOR, Datatype, Distance, VectorParams};

    fn vector(dims: usize, datatype: Datatype, distance: Distance) -> VectorField {
        let params = VectorParams {
            size: dims,
            distance,
            datatype: Some(datatype),
            on_disk: None,
            multivector_config: None,
            other: Default::default(),
        };
        let mut config = CollectionConfig::default();
        config.vectors.insert(DEFAULT_VECTOR.to_owned(), params);
        let slots = Slots::for_config(&config);
        Schema::new(&config, &slots).unwrap().vectors.remove(0)
    }

    /// Budgets that a server starts in, in MB, and the fewest of these dimensions of which no index can be built there.
    const GRID: [(u64, Option<usize>); 8] = [
        (16, Some(8192)),
        (18, Some(12_288)),
        (20, Some(16_384)),
        (24, Some(32_768)),
        (32, Some(32_768)),
        (48, Some(65_536)),
        (64, None),
        (128, None),
    ];
    const DIMS: [usize; 10] = [384, 1536, 3072, 4096, 6144, 8192, 12_288, 16_384, 32_768, 65_536];

    fn means(memory_mb: u64) -> Means {
        let memory = memory_mb * 1_000_000;
        let mut request = BudgetRequest::new(memory, BudgetRequest::search_threads_for(memory, 2));
        request.other_threads = 8;
        Means::of_budget(&BudgetTable::plan(request).expect("a server starts"))
    }

    #[test]
    fn a_threshold_that_no_number_of_bytes_reaches_refuses_nothing() {
        let (means, wide) = (means(16), vector(65_536, Datatype::Float32, Distance::Cosine));
        assert!(
            means
                .points_most_of(&wide, INDEXING_THRESHOLD_KB as u64)
                .is_some()
        );
        for kb in [1 << 54, (1 << 54) + 1, u64::MAX] {
            assert_eq!(
                means.points_most_of(&wide, kb).map(|most| most.points),
                None,
                "{kb}"
            );
        }
    }

    #[test]
    fn vectors_of_usual_widths_have_an_index_in_every_budget_and_of_any_number() {
        for (memory_mb, first_without) in GRID {
            let means = means(memory_mb);
            for dims in DIMS {
                for datatype in [Datatype::Float32, Datatype::Float16, Datatype::Uint8] {
                    for distance in [Distance::Cosine, Distance::Manhattan] {
                        let vector = vector(dims, datatype, distance);
                        let least = INDEXING_THRESHOLD_KB * 1024 / vector.row_bytes();
                        for rows in [least, 10 * least, 1_000 * least] {
                            let has_none = means.lacking(&vector, rows as u32).is_some();
                            let expected = first_without.is_some_and(|first| dims >= first);
                            assert_eq!(
                                has_none, expected,
                                "{rows} x {dims} {datatype:?} {distance:?} in {memory_mb} MB"
                            );
                        }
                    }
                }
            }
        }
    }
}
