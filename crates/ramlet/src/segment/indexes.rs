//! Writes a vector's rows with an index beside them: clusters and codes, or a graph.

use ramlet_format::component::Component;
use ramlet_format::manifest::FileEntry;
use ramlet_index::graph::{DEGREE_MAX, GraphFiles, GraphParams, build_graph};
use ramlet_index::ivf::{IvfCodes, IvfFiles, IvfParams, Progress, build_ivf};
use ramlet_index::{CodeKind, IndexError};

use super::build::Job;
use super::names::{seed, segment_file};
use super::sink::FileSink;
use super::source::{Reads, RowSource, keep};
use crate::error::{Error, Result};
use crate::query::index_error;
use crate::schema::VectorField;
use crate::settings::{CodeSpec, IndexKind, codes_wanted};

/// Which index a segment gets for a vector. Another kind of index comes in here, and in `VectorColumn::open`.
enum Kind {
    Clusters,
    Graph,
}

/// Neighbours of a node, and rows looked at to find them, unless the settings say otherwise.
const DEGREE: usize = 64;
const CANDIDATES: usize = 100;

/// Writes the vectors with an index. False: the job's scratch is too small for one, and nothing is left of it.
pub fn build_index(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    rows: u32,
    job: &mut Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<bool> {
    let kind = kind_of(vector, rows, job);
    let components = components_of(&kind, vector);
    let storage = job.shelf.storage.as_ref();
    let sink = |component: &Component| FileSink::create(storage, segment_file(id, *component), *component);
    let mut sinks = components.iter().map(sink).collect::<Result<Vec<_>>>()?;
    let built = match kind {
        Kind::Clusters => build_clusters(id, vector, source, rows, job, &mut sinks),
        Kind::Graph => build_graph_of(id, vector, source, rows, job, &mut sinks),
    };
    match built? {
        Built::Whole => {}
        Built::TooLittleScratch {
            needed_bytes,
            given_bytes,
        } => {
            tracing::warn!(
                segment = id, vector = %vector.name, needed_bytes, given_bytes,
                "too little job scratch for an approximate index: searches scan all rows"
            );
            drop(sinks);
            for component in components {
                storage.remove(&segment_file(id, component))?;
            }
            return Ok(false);
        }
    }
    for sink in sinks {
        files.push(sink.finish()?);
    }
    Ok(true)
}

/// Clusters, unless not even their smallest codes that spare most reads would fit into RAM: a graph needs nothing there.
fn kind_of(vector: &VectorField, rows: u32, job: &Job<'_>) -> Kind {
    match vector.settings.index {
        _ if !vector.metric.has_codes() => Kind::Clusters,
        IndexKind::Ivf => Kind::Clusters,
        IndexKind::Hnsw => Kind::Graph,
        IndexKind::Auto => {
            let codes = [Some(CodeKind::Coarse), CodeKind::fine_low(vector.dim)];
            let bytes = |kind: CodeKind| kind.bytes_for(rows, vector.dim, rows);
            let least: u64 = codes.into_iter().flatten().map(bytes).sum();
            if least <= job.shelf.pins.consumer.cap() {
                Kind::Clusters
            } else {
                Kind::Graph
            }
        }
    }
}

/// The files that are written, in the order in which the build takes them.
fn components_of(kind: &Kind, vector: &VectorField) -> Vec<Component> {
    let slot = vector.slot;
    let position = Component::Position { slot };
    match kind {
        Kind::Graph => vec![Component::Graph { slot }, position, Component::GraphMeta { slot }],
        Kind::Clusters => [
            Component::Vector { slot },
            position,
            Component::Centroids { slot },
        ]
        .into_iter()
        .chain(codes_of(vector).into_iter().map(|(component, _)| component))
        .collect(),
    }
}

/// The files of codes that a build writes beside the rows. Disk is cheap: which of them go to RAM is chosen when the segment
/// is opened, and again when there is more room or less. Those that the settings ask for come first.
fn codes_of(vector: &VectorField) -> Vec<(Component, CodeKind)> {
    let slot = vector.slot;
    if !vector.metric.has_codes() || !vector.settings.may_pin_codes() {
        return Vec::new();
    }
    let wanted = codes_wanted(vector.settings.quantization.as_ref(), vector.dim);
    let fine = match wanted.first() {
        Some(CodeSpec::Bits { halves }) if *halves <= 2 => None,
        Some(CodeSpec::Bits { halves }) => Some(CodeKind::Fine {
            bits: halves.div_ceil(2).min(8),
        }),
        Some(CodeSpec::Product { .. }) | None => Some(CodeKind::fine(vector.dim)),
    };
    let bytes = |kind: CodeKind| kind.row_bytes(vector.dim, 0);
    let low = CodeKind::fine_low(vector.dim).filter(|low| fine.is_some_and(|fine| bytes(*low) < bytes(fine)));
    let mut codes = vec![(Component::Codes { slot }, CodeKind::Coarse)];
    codes.extend(fine.map(|kind| (Component::Fine { slot }, kind)));
    codes.extend(low.map(|kind| (Component::FineLow { slot }, kind)));
    codes
}

/// Bytes of a vector's codes in RAM, the best that are written.
pub fn codes_bytes(vector: &VectorField) -> u64 {
    let best = codes_of(vector).into_iter().take(2);
    // As part of many: codes of one bit come in groups.
    const MANY: u32 = 1 << 20;
    best.map(|(_, kind)| kind.bytes_for(MANY, vector.dim, MANY).div_ceil(u64::from(MANY)))
        .sum()
}

/// How a build ended.
enum Built {
    Whole,
    TooLittleScratch { needed_bytes: u64, given_bytes: u64 },
}

fn ended<T>(result: ramlet_index::Result<T>) -> Result<std::result::Result<T, Built>> {
    match result {
        Ok(built) => Ok(Ok(built)),
        Err(IndexError::Scratch {
            needed_bytes,
            given_bytes,
        }) => Ok(Err(Built::TooLittleScratch {
            needed_bytes,
            given_bytes,
        })),
        Err(error) => Err(index_error(error)),
    }
}

fn build_clusters(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    rows: u32,
    job: &mut Job<'_>,
    sinks: &mut [FileSink],
) -> Result<Built> {
    let slot = vector.slot;
    let [vectors, positions, centroids, codes @ ..] = sinks else {
        unreachable!("three files and those of codes");
    };
    // About a hundredth of the vectors, or less: part of what the scratch doesn't count.
    let seeds = source.centroids(slot);
    let params = IvfParams {
        metric: vector.metric,
        element: vector.element,
        dims: vector.dim,
        segment_rows: source.rows(),
        scratch_bytes: job.scratch_bytes,
        threads: job.threads,
        seed: id,
        clusters: None,
        seed_centroids: seeds.as_ref(),
        progress: Progress::default(),
    };
    let codes = codes.iter_mut().zip(codes_of(vector));
    let codes = codes.map(|(file, (component, kind))| IvfCodes {
        kind,
        file,
        seed: seed(id, component),
    });
    let mut targets = IvfFiles {
        rows: vectors,
        rows_seed: seed(id, Component::Vector { slot }),
        positions,
        positions_seed: seed(id, Component::Position { slot }),
        centroids,
        codes: codes.collect(),
    };
    let storage = job.shelf.storage.as_ref();
    let mut replay = Replay::new(source, slot, rows, job);
    let built = build_ivf(&params, &mut replay, storage, &mut targets);
    replay.error?;
    Ok(match ended(built)? {
        Err(little) => little,
        Ok(built) => {
            let (rows, clusters) = (built.rows, built.clusters);
            tracing::info!(segment = id, vector = %vector.name, rows, clusters, "vector index built");
            Built::Whole
        }
    })
}

fn build_graph_of(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    rows: u32,
    job: &mut Job<'_>,
    sinks: &mut [FileSink],
) -> Result<Built> {
    let slot = vector.slot;
    let [nodes, positions, meta] = sinks else {
        unreachable!("three files");
    };
    let params = GraphParams {
        metric: vector.metric,
        element: vector.element,
        dims: vector.dim,
        segment_rows: source.rows(),
        scratch_bytes: job.scratch_bytes,
        threads: job.threads,
        seed: id,
        // The API's `m` is half of what a node of the lowest layer may have.
        degree: vector
            .settings
            .hnsw
            .m
            .map_or(DEGREE, |m| (2 * m).clamp(4, DEGREE_MAX)),
        candidates: vector
            .settings
            .hnsw
            .ef_construct
            .map_or(CANDIDATES, |ef| ef.clamp(16, 512)),
    };
    let storage = job.shelf.storage.as_ref();
    let open = |component| storage.open(&segment_file(id, component));
    let mut targets = GraphFiles {
        nodes,
        nodes_seed: seed(id, Component::Graph { slot }),
        positions,
        positions_seed: seed(id, Component::Position { slot }),
        meta,
        open_nodes: &|| open(Component::Graph { slot }),
        open_positions: &|| open(Component::Position { slot }),
    };
    let mut replay = Replay::new(source, slot, rows, job);
    let built = build_graph(&params, &mut replay, storage, &mut targets);
    replay.error?;
    Ok(match ended(built)? {
        Err(little) => little,
        Ok(built) => {
            let (rows, degree) = (built.rows, built.degree);
            tracing::info!(segment = id, vector = %vector.name, rows, degree, "graph built");
            Built::Whole
        }
    })
}

/// A source's vectors, as an index build reads them.
struct Replay<'a, 'b> {
    source: &'a dyn RowSource,
    slot: u16,
    rows: u32,
    reads: Reads<'b>,
    error: Result<()>,
}

impl ramlet_index::RowSource for Replay<'_, '_> {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn replay(
        &mut self,
        each: &mut dyn FnMut(u32, &[u8]) -> ramlet_index::Result<()>,
    ) -> ramlet_index::Result<()> {
        let mut theirs = Ok(());
        let ours = self
            .source
            .vectors(self.slot, &mut self.reads, &mut |row, bytes| {
                each(row, bytes).map_err(|e| {
                    theirs = Err(e);
                    Error::corrupt("stopped by the index build")
                })
            });
        theirs?;
        ours.map_err(|e| keep(e, &mut self.error))
    }
}

impl<'a, 'b> Replay<'a, 'b> {
    fn new(source: &'a dyn RowSource, slot: u16, rows: u32, job: &'b mut Job<'_>) -> Replay<'a, 'b> {
        Replay {
            source,
            slot,
            rows,
            reads: Reads {
                io: job.io,
                scratch: job.scratch,
            },
            error: Ok(()),
        }
    }
}
