//! Writes a vector's rows with an index beside them: clusters and codes, or a graph.

use ramlet_format::component::Component;
use ramlet_format::manifest::FileEntry;
use ramlet_index::graph::{DEGREE_MAX, GraphFiles, GraphParams, build_graph, bytes_for, degree_for};
use ramlet_index::ivf::{IvfCodes, IvfFiles, IvfParams, build_ivf};
use ramlet_index::{CodeKind, Phase, Progress, graph, ivf};
use ramlet_memory::Reservation;

use super::files::FileContext;
use super::job::Job;
use super::layout;
use super::layout::{Kind, Room, Rows, may_become_graph};
use super::names::{seed, segment_file};
use super::sink::FileSink;
use super::source::{Reads, RowSource, keep};
use crate::error::{Error, Result};
use crate::jobs::progress::JobUnderWay;
use crate::schema::VectorField;
use crate::settings::IndexKind;

/// Rows looked at to find a node's neighbours, unless the settings say otherwise.
const CANDIDATES: usize = 100;

/// What an index lacks: bytes of metadata that things work without ([`FileContext::spare_bytes`]). In small budgets a build takes some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    pub needed_bytes: u64,
    pub given_bytes: u64,
    /// Others held the rest for a moment, as requests and searches do: a build that is tried again will get it.
    pub passes: bool,
}

impl Lack {
    /// Whether a build is worth another try. One that lacked what nobody gives back needs plenty: the build itself holds some of it.
    pub fn has_passed(self, file_context: &FileContext) -> bool {
        let spare = file_context.spare_bytes();
        match self.passes {
            // The latter: with less scratch than it gets now, it needed more.
            true => spare >= self.needed_bytes || spare >= file_context.free_after_requests() / 4 * 3,
            false => spare / 2 >= self.needed_bytes,
        }
    }
}

/// Writes the vectors with an index; of another kind, where the memory doesn't do for the one that is best. `Some`: it does for none, and
/// nothing is left of what was tried.
pub fn build_index(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    rows: u32,
    job: &mut Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<Option<Lack>> {
    let scratch = job.scratch_bytes as u64 + job.file_context.spare_bytes() / 2;
    let room = room_of(job.file_context, scratch);
    let best = layout::kind(vector, rows, &room);
    let other = match best {
        Kind::Graph => Some(Kind::Clusters),
        Kind::Clusters => {
            let may = vector.settings.index == IndexKind::Auto && vector.metric.has_codes();
            (may && may_become_graph(vector, rows, &room)).then_some(Kind::Graph)
        }
    };
    let Some(lack) = build_as(best, id, vector, source, rows, job, files)? else {
        return Ok(None);
    };
    let Some(other) = other else {
        return Ok(Some(lack));
    };
    let Some(least) = build_as(other, id, vector, source, rows, job, files)? else {
        return Ok(None);
    };
    Ok(Some(if least.needed_bytes < lack.needed_bytes {
        least
    } else {
        lack
    }))
}

/// Writes the vectors with an index of a kind; `Some`: there isn't the memory, and nothing was written.
fn build_as(
    kind: Kind,
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    rows: u32,
    job: &mut Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<Option<Lack>> {
    let of = Rows {
        here: rows,
        all: job.collection_rows,
    };
    let codes = layout::codes(vector, of, job.file_context.caches.consumer.cap());
    let components = components_of(&kind, vector, &codes);
    let mut held = match working_memory(kind, vector, rows, &codes, job) {
        Ok(held) => held,
        Err(lack) => return Ok(Some(lack)),
    };
    let storage = job.storage.clone();
    let sink =
        |component: &Component| FileSink::create(storage.as_ref(), segment_file(id, *component), *component);
    let mut sinks = components.iter().map(sink).collect::<Result<Vec<_>>>()?;
    let scratch_bytes = job.scratch_bytes;
    job.scratch_bytes += held.scratch_bytes;
    let built = match kind {
        Kind::Clusters => {
            let how = (&codes[..], held.clusters.as_ref());
            build_clusters(id, vector, source, rows, job, how, &mut sinks)
        }
        Kind::Graph => build_graph_of(id, vector, source, rows, job, &mut sinks),
    };
    job.scratch_bytes = scratch_bytes;
    (held.borrowed, held.clusters) = (None, None);
    built?;
    for sink in sinks {
        files.push(sink.finish()?);
    }
    Ok(None)
}

/// What a build works with beside what its job has.
struct Working {
    borrowed: Option<Reservation>,
    /// Of it, what the build may hold.
    scratch_bytes: usize,
    clusters: Option<Clusters>,
}

/// How many, and what is borrowed for them alone.
struct Clusters {
    count: u32,
    borrowed: Option<Reservation>,
}

/// Reserves what a build lacks; an error where that isn't to be had.
fn working_memory(
    kind: Kind,
    vector: &VectorField,
    rows: u32,
    codes: &[(Component, CodeKind)],
    job: &Job<'_>,
) -> std::result::Result<Working, Lack> {
    let kinds: Vec<CodeKind> = codes.iter().map(|(_, kind)| *kind).collect();
    let lack = |needed_bytes| Lack {
        needed_bytes,
        given_bytes: job.file_context.spare_bytes(),
        passes: job.has_less_scratch || job.file_context.free_after_requests() >= needed_bytes,
    };
    let (needed, clusters) = match kind {
        Kind::Graph => {
            let needed_bytes = graph_held_bytes(vector, rows.into());
            job.file_context
                .spare(needed_bytes)
                .ok_or_else(|| lack(needed_bytes))?;
            (graph::scratch_least(vector.element, vector.dim), None)
        }
        Kind::Clusters => {
            let needed = ivf::scratch_least(vector.dim, &kinds);
            let scratch = job.scratch_bytes.max(needed) as u64;
            // All that it lacks, or it would be tried again for what is the least of it.
            let scratch_bytes = 2 * needed.saturating_sub(job.scratch_bytes) as u64;
            let lack = |centroids| lack(centroids + scratch_bytes);
            let count = layout::clusters(vector, rows, &room_of(job.file_context, scratch)).map_err(lack)?;
            let metadata = job.file_context.metadata.waiting();
            // They find it now: what holds it for the moment shows that caches give way.
            let held = u64::from(count) * ivf::centroid_bytes(vector.metric, vector.dim);
            metadata.reserve(held).map_err(|_| lack(held))?;
            // With less of it clusters are divided that are trained together otherwise.
            let (least, all) = ivf::centroids_beside(count.into(), scratch, vector.metric, vector.dim);
            // Scratch comes first: there is no index without.
            let room = match scratch_bytes {
                0 => job.file_context.centroids_room(),
                _ => job.file_context.spare_bytes().saturating_sub(scratch_bytes),
            };
            let beside = all.min(room.saturating_sub(held)).max(least);
            let borrowed = metadata.reserve(beside).ok().filter(|_| beside > 0);
            (needed, Some(Clusters { count, borrowed }))
        }
    };
    let lacking = needed.saturating_sub(job.scratch_bytes);
    // As much again is for the files that are written, as of all that a job has.
    let borrowed = match 2 * lacking as u64 {
        0 => None,
        bytes => Some(job.file_context.spare(bytes).ok_or_else(|| lack(bytes))?),
    };
    Ok(Working {
        borrowed,
        scratch_bytes: lacking,
        clusters,
    })
}

/// Metadata that the build of a graph holds: twice what stays in RAM of it, and what it is opened with.
pub fn graph_held_bytes(vector: &VectorField, rows: u64) -> u64 {
    let (dim, element) = (vector.dim, vector.element);
    let ram = bytes_for(rows, dim, element, degree_for(rows, dim, element), 1).ram;
    2 * (ram + GRAPH_META_PER_DIM * dim as u64)
}

/// Bytes a dimension of a graph's own file beside its entry points.
const GRAPH_META_PER_DIM: u64 = 32;

/// What there is for an index, with so much scratch.
fn room_of(file_context: &FileContext, scratch: u64) -> Room {
    Room {
        most: file_context.caches.consumer.cap(),
        scratch,
        centroids: file_context.centroids_room(),
        disk_free: file_context.storage.free_bytes().unwrap_or(0),
    }
}

/// Whether so many rows of a vector get a graph, and if so whether somebody asked for it.
pub fn becomes_graph(vector: &VectorField, rows: u32, file_context: &FileContext) -> Option<bool> {
    let kind = || layout::kind(vector, rows, &room_of(file_context, u64::MAX));
    let graph = vector.fixed_bytes().is_some() && kind() == Kind::Graph;
    graph.then_some(vector.settings.index == IndexKind::Hnsw)
}

/// The files that are written, in the order in which the build takes them.
fn components_of(kind: &Kind, vector: &VectorField, codes: &[(Component, CodeKind)]) -> Vec<Component> {
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
        .chain(codes.iter().map(|(component, _)| *component))
        .collect(),
    }
}

fn build_clusters(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    rows: u32,
    job: &mut Job<'_>,
    (kinds, clusters): (&[(Component, CodeKind)], Option<&Clusters>),
    sinks: &mut [FileSink],
) -> Result<()> {
    let slot = vector.slot;
    let [vectors, positions, centroids, codes @ ..] = sinks else {
        unreachable!("three files and those of codes");
    };
    let progress = job.progress.clone();
    let hear = |phase, done, total| note(progress.as_deref(), vector, phase, done, total);
    let params = IvfParams {
        metric: vector.metric,
        element: vector.element,
        dims: vector.dim,
        segment_rows: source.rows(),
        scratch_bytes: job.scratch_bytes,
        // Without it there are as many as the scratch does for.
        centroid_bytes: clusters
            .and_then(|clusters| clusters.borrowed.as_ref())
            .map_or(0, |borrowed| borrowed.bytes() as usize),
        threads: job.threads,
        seed: id,
        clusters: clusters.map(|clusters| clusters.count),
        seed_centroids: source.seeds(slot),
        progress: Progress(Some(&hear)),
    };
    let codes = codes.iter_mut().zip(kinds);
    let codes = codes.map(|(file, (component, kind))| IvfCodes {
        kind: *kind,
        file,
        seed: seed(id, *component),
    });
    let mut targets = IvfFiles {
        rows: vectors,
        rows_seed: seed(id, Component::Vector { slot }),
        positions,
        positions_seed: seed(id, Component::Position { slot }),
        centroids,
        codes: codes.collect(),
    };
    let storage = job.storage.clone();
    let mut replay = Replay::new(source, slot, rows, job);
    let built = build_ivf(&params, &mut replay, storage.as_ref(), &mut targets);
    replay.error?;
    let built = built?;
    let (rows, clusters) = (built.rows, built.clusters);
    let (scratch_bytes, centroid_bytes) = (params.scratch_bytes, params.centroid_bytes);
    tracing::info!(segment = id, vector = %vector.name, rows, clusters, scratch_bytes, centroid_bytes, "vector index built");
    Ok(())
}

fn build_graph_of(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    rows: u32,
    job: &mut Job<'_>,
    sinks: &mut [FileSink],
) -> Result<()> {
    let slot = vector.slot;
    let [nodes, positions, meta] = sinks else {
        unreachable!("three files");
    };
    let progress = job.progress.clone();
    let hear = |phase, done, total| note(progress.as_deref(), vector, phase, done, total);
    let usual = || degree_for(rows.into(), vector.dim, vector.element);
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
            .map_or_else(usual, |m| (2 * m).clamp(4, DEGREE_MAX)),
        candidates: vector
            .settings
            .hnsw
            .ef_construct
            .map_or(CANDIDATES, |ef| ef.clamp(16, 512)),
        progress: Progress(Some(&hear)),
    };
    let storage = job.storage.clone();
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
    let built = build_graph(&params, &mut replay, storage.as_ref(), &mut targets);
    replay.error?;
    let built = built?;
    let (rows, degree) = (built.rows, built.degree);
    tracing::info!(segment = id, vector = %vector.name, rows, degree, "graph built");
    Ok(())
}

fn note(progress: Option<&JobUnderWay>, vector: &VectorField, phase: Phase, done: u64, total: u64) {
    if let Some(job) = progress {
        job.note(&vector.name, phase, done, total);
    }
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
