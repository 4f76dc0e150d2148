//! Writes a vector's rows with an index beside them: clusters and codes, or a graph.

use ramlet_format::component::Component;
use ramlet_format::manifest::FileEntry;
use ramlet_index::graph::{DEGREE_MAX, GraphFiles, GraphParams, build_graph, bytes_for, degree_for};
use ramlet_index::ivf::{IvfCodes, IvfFiles, IvfParams, Phase, Progress, build_ivf};
use ramlet_index::{CodeKind, graph, ivf};
use ramlet_memory::Reservation;

use super::build::Job;
use super::files::Shelf;
use super::names::{seed, segment_file};
use super::sink::FileSink;
use super::source::{Reads, RowSource, keep};
use crate::error::{Error, Result};
use crate::query::index_error;
use crate::schema::VectorField;
use crate::settings::{CodeSpec, IndexKind, codes_wanted};
use crate::tracking::JobUnderWay;

/// Which index a segment gets for a vector. Another kind of index comes in here, and in `VectorColumn::open`.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Clusters,
    Graph,
}

/// Rows looked at to find a node's neighbours, unless the settings say otherwise.
const CANDIDATES: usize = 100;

/// Dimensions from which on codes of one bit leave fewer rows to read than a graph has nodes to, and product codes of
/// twice their size and more aren't worth it: a row's error shrinks with the root of its dimensions.
const SIGNS_DIMS: usize = 400;

/// Digits that a product code may have.
const DIGITS_MAX: usize = 16_384;

/// Bytes that an index lacks: in a budget where none can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    pub needed_bytes: u64,
    pub given_bytes: u64,
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
    let best = kind_of(vector, rows, job.shelf);
    let other = match best {
        Kind::Graph => Some(Kind::Clusters),
        Kind::Clusters => {
            let may = vector.settings.index == IndexKind::Auto && vector.metric.has_codes();
            (may && disk_allows_graph(vector, rows, job.shelf)).then_some(Kind::Graph)
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
    let room = room_for_codes(vector.dim as u64, u64::from(rows), job.shelf.pins.consumer.cap());
    let codes = fitted(codes_of(vector), vector, rows, room);
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
            let how = (&codes[..], held.clusters);
            build_clusters(id, vector, source, rows, job, how, &mut sinks)
        }
        Kind::Graph => build_graph_of(id, vector, source, rows, job, &mut sinks),
    };
    job.scratch_bytes = scratch_bytes;
    held.borrowed = None;
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
    /// Where there is no room for as many as usual.
    clusters: Option<u32>,
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
    let (needed, clusters) = match kind {
        Kind::Graph => {
            // What stays in RAM, and what it is opened with.
            let (rows, dim, element) = (u64::from(rows), vector.dim, vector.element);
            let degree = degree_for(rows, dim, element);
            let needed_bytes =
                2 * (bytes_for(rows, dim, element, degree, 1).ram + GRAPH_META_PER_DIM * dim as u64);
            if job.shelf.spare(needed_bytes).is_none() {
                return Err(Lack {
                    needed_bytes,
                    given_bytes: job.shelf.spare_bytes(),
                });
            }
            (graph::scratch_least(element, dim), None)
        }
        Kind::Clusters => (
            ivf::scratch_least(vector.dim, &kinds),
            clusters_with_room(vector.dim, rows, job.shelf)?,
        ),
    };
    let lacking = needed.saturating_sub(job.scratch_bytes);
    // As much again is for the files that are written, as of all that a job has.
    let borrowed = match lacking {
        0 => None,
        lacking => match job.shelf.spare(2 * lacking as u64) {
            Some(held) => Some(held),
            None => {
                return Err(Lack {
                    needed_bytes: needed as u64,
                    given_bytes: job.scratch_bytes as u64,
                });
            }
        },
    };
    Ok(Working {
        borrowed,
        scratch_bytes: lacking,
        clusters,
    })
}

/// Bytes a dimension of a graph's own file beside its entry points.
const GRAPH_META_PER_DIM: u64 = 32;

/// Rows of a cluster at most, and clusters at least: with fewer, larger ones an index spares too little.
const ROWS_PER_CLUSTER_MAX: u64 = 4096;
const CLUSTERS_MIN: u64 = 8;

/// How many clusters find room for their centroids, where these aren't as many as usual: they stay in RAM, and a segment that couldn't be
/// opened would be no use.
fn clusters_with_room(dims: usize, rows: u32, shelf: &Shelf) -> std::result::Result<Option<u32>, Lack> {
    let (centroid, rows) = (dims as u64 + 16, u64::from(rows));
    let usual = (8 * rows.isqrt()).min(rows / 128).max(1);
    let clusters = usual.min(shelf.spare_bytes() / 2 / centroid);
    let least = rows.div_ceil(ROWS_PER_CLUSTER_MAX).min(CLUSTERS_MIN);
    // They find it now: what holds it for the moment shows that loans give way.
    match clusters >= least && shelf.spare(2 * clusters * centroid).is_some() {
        true => Ok((clusters < usual).then_some(clusters as u32)),
        false => Err(Lack {
            needed_bytes: 2 * least * centroid,
            given_bytes: shelf.spare_bytes(),
        }),
    }
}

/// Bytes of disk that must be free for each byte of a graph that nobody asked for: temporary files take as much as it does.
const GRAPH_DISK_FREE: u64 = 3;

/// Clusters, unless not even the smallest codes that make up for it would fit into RAM: a graph needs nothing there. It takes
/// much disk (two pages a row), so there must be plenty.
fn kind_of(vector: &VectorField, rows: u32, shelf: &Shelf) -> Kind {
    match vector.settings.index {
        _ if !vector.metric.has_codes() => Kind::Clusters,
        IndexKind::Ivf => Kind::Clusters,
        IndexKind::Hnsw => Kind::Graph,
        IndexKind::Auto => {
            let codes_fit = least_bytes(vector, rows) <= shelf.pins.consumer.cap();
            match codes_fit || !disk_allows_graph(vector, rows, shelf) {
                true => Kind::Clusters,
                false => Kind::Graph,
            }
        }
    }
}

/// Whether so many rows of a vector get a graph, and if so whether somebody asked for it.
pub fn becomes_graph(vector: &VectorField, rows: u32, shelf: &Shelf) -> Option<bool> {
    let graph = vector.fixed_bytes().is_some() && kind_of(vector, rows, shelf) == Kind::Graph;
    graph.then_some(vector.settings.index == IndexKind::Hnsw)
}

fn disk_allows_graph(vector: &VectorField, rows: u32, shelf: &Shelf) -> bool {
    let (rows, dim, element) = (u64::from(rows), vector.dim, vector.element);
    let degree = degree_for(rows, dim, element);
    let needed = GRAPH_DISK_FREE * bytes_for(rows, dim, element, degree, 1).disk;
    shelf.storage.free_bytes().is_ok_and(|free| free >= needed)
}

/// Bytes of RAM for the least codes of a vector with which a search reads fewer rows than it would read nodes of a graph.
fn least_bytes(vector: &VectorField, rows: u32) -> u64 {
    let kinds = || kinds_of(vector).into_iter().map(|(_, kind)| kind);
    let mut products = kinds().filter(|kind| matches!(kind, CodeKind::Product { .. }));
    let least = products.next().or(kinds().next());
    let kind = |kind: CodeKind| {
        if fits_room(vector) {
            least_digits(kind)
        } else {
            kind
        }
    };
    least.map_or(0, |least| least_pinned(kind(least), vector.dim, rows))
}

/// Bytes that must be allowed to be pinned for these codes to serve. Product codes do in part too ([`DIGITS_LEAST`]); those of one
/// bit don't, and must all fit beside the centroids.
fn least_pinned(kind: CodeKind, dims: usize, rows: u32) -> u64 {
    let beside = match kind {
        CodeKind::Product { .. } => 0,
        _ => beside_codes(dims as u64, u64::from(rows)),
    };
    kind.bytes_for(rows, dims, rows) + beside
}

/// Product codes with the fewest digits that are worth it; other codes as they are.
fn least_digits(kind: CodeKind) -> CodeKind {
    match kind {
        CodeKind::Product { m } => CodeKind::Product {
            m: (f64::from(m) * DIGITS_LEAST).ceil() as u16,
        },
        kind => kind,
    }
}

/// Share of a product code's digits down to which it does better than a graph, of the memory that codes may have at most: not all
/// of it is there. Of a million vectors of 100 dimensions, which have 50 digits, recalls of .90 and .95 take 60 and 100 reads of compact rows
/// with 34 of them in RAM (24 MB), 350 and 650 with 17 (16 MB); a graph takes 52 and 87, of two pages each, which a disk does half as many of.
const DIGITS_LEAST: f64 = 0.65;

/// Digits of a product code at least, by dimensions: with fewer it tells so little that nothing is gained.
const DIMS_PER_DIGIT_MAX: usize = 8;

/// What a segment holds in RAM beside codes: a centroid for each so many rows at least, its ids' differences, its files.
const ROWS_PER_CENTROID: u64 = 100;
const BESIDE_BYTES: u64 = 128 << 10;

/// Bytes that a segment's codes may take, of `most` that may be pinned.
fn room_for_codes(dims: u64, rows: u64, most: u64) -> u64 {
    most.saturating_sub(beside_codes(dims, rows))
}

fn beside_codes(dims: u64, rows: u64) -> u64 {
    let centroids = (8 * rows.isqrt()).min(rows / ROWS_PER_CENTROID) * (dims + 12);
    centroids + rows / 4 + BESIDE_BYTES
}

/// Digits of the product codes that an index of a segment gets where `most` bytes may be pinned and nobody asks for others.
pub(crate) fn digits_for(dims: u64, rows: u64, most: u64) -> u64 {
    let digit = rows.div_ceil(32) * 16;
    let all = dims.div_ceil(2);
    let least = dims.div_ceil(DIMS_PER_DIGIT_MAX as u64).min(all);
    (room_for_codes(dims, rows, most) / digit.max(1)).clamp(least, all)
}

/// Whether a segment gets codes, not a graph, where `most` bytes may be pinned and nobody asks for anything: the smallest that
/// do better fit.
pub(crate) fn codes_fit(dims: u64, rows: u64, most: u64) -> bool {
    let (dims, rows) = (dims as usize, u32::try_from(rows).unwrap_or(u32::MAX));
    let kind = match dims < SIGNS_DIMS {
        true => least_digits(CodeKind::product(dims)),
        false => CodeKind::Coarse,
    };
    least_pinned(kind, dims, rows) <= most
}

/// Whether the product codes of a vector are as large as there is room for, since nobody asked for others.
fn fits_room(vector: &VectorField) -> bool {
    !asked_of(vector)
        .iter()
        .any(|kind| matches!(kind, CodeKind::Product { .. }))
}

/// The codes, product codes with as many digits as there is room for.
fn fitted(
    codes: Vec<(Component, CodeKind)>,
    vector: &VectorField,
    rows: u32,
    room: u64,
) -> Vec<(Component, CodeKind)> {
    let digit = CodeKind::Product { m: 1 }
        .bytes_for(rows, vector.dim, rows)
        .max(1);
    let least = vector.dim.div_ceil(DIMS_PER_DIGIT_MAX) as u64;
    let numbered = match vector.settings.quantization {
        None if vector.metric.keys_are_products() => numbered_in(vector.dim as u64, rows.into(), room),
        _ => None,
    };
    let fit = |(component, kind): (Component, CodeKind)| match (kind, numbered) {
        (CodeKind::Product { .. }, Some(m)) => Some((component, CodeKind::Numbered { m })),
        // Signs with these take as much room, and more rows are read beside them.
        (CodeKind::Fine { .. }, Some(_)) if matches!(component, Component::FineLow { .. }) => None,
        (CodeKind::Product { m }, None) if fits_room(vector) => {
            let m = (room / digit).max(least).min(u64::from(m)) as u16;
            Some((component, CodeKind::Product { m }))
        }
        (kind, _) => Some((component, kind)),
    };
    let mut codes: Vec<_> = codes.into_iter().filter_map(fit).collect();
    let kinds: Vec<CodeKind> = codes.iter().map(|(_, kind)| *kind).collect();
    let slot = vector.slot;
    if reads_compact(&kinds, vector, rows, room) {
        codes.push((Component::Compact { slot }, CodeKind::Compact));
    }
    codes
}

/// Vectors of so many times the bytes of compact rows are worth a file of these, where they are read by the dozen: four of vectors of
/// floats lie in a page's place, two of half floats.
const COMPACT_LEAST: f64 = 1.5;

/// Whether vectors of so many bytes are.
pub(crate) fn compact_is_worth_it(row_bytes: u64, dims: u64) -> bool {
    row_bytes as f64 >= COMPACT_LEAST * CodeKind::Compact.row_bytes(dims as usize, 0) as f64
}

/// Whether searches with the best of these codes that fit in `room` would read compact rows.
fn reads_compact(codes: &[CodeKind], vector: &VectorField, rows: u32, room: u64) -> bool {
    let bytes = |kind: CodeKind| kind.bytes_for(rows, vector.dim, rows);
    let is_numbered = codes.iter().any(|kind| matches!(kind, CodeKind::Numbered { .. }));
    let product = codes.iter().find(|kind| matches!(kind, CodeKind::Product { .. }));
    let signs = codes.iter().find(|kind| **kind == CodeKind::Coarse);
    let Some(coarse) = product.or(signs).filter(|_| !is_numbered) else {
        return false;
    };
    let rows_bytes = u64::from(rows) * (vector.row_bytes() as u64 + 4);
    let rows_fit = vector.settings.may_pin_rows() && bytes(*coarse) + rows_bytes <= room;
    let better_fit = codes.iter().any(|kind| match kind {
        CodeKind::Fine { bits } => {
            *bits > CodeKind::ROUGH_BITS && bytes(CodeKind::Coarse) + bytes(*kind) <= room
        }
        _ => false,
    });
    // The rest is of the first fine codes, the finest.
    let fine = codes.iter().find(|kind| matches!(kind, CodeKind::Fine { .. }));
    let rest = codes.iter().find(|kind| matches!(kind, CodeKind::Rest { .. }));
    let rest_fits = fine
        .zip(rest)
        .is_some_and(|(fine, rest)| bytes(CodeKind::Coarse) + bytes(*fine) + bytes(*rest) <= room);
    let is_worth_it = compact_is_worth_it(vector.row_bytes() as u64, vector.dim as u64);
    !rows_fit && !better_fit && !rest_fits && is_worth_it
}

/// Digits a dimension from which on product codes with rows' numbers do more than those without: they read a fourth as many rows.
const NUMBERED_LEAST: f64 = 0.6;

/// What loans can't have of the room, one part in so many: they come in pieces, and others hold some of what they might be lent.
const ROOM_LEFT: u64 = 16;

/// Digits of product codes with numbers, where there is room for such that are worth it and none for fine codes.
fn numbered_in(dims: u64, rows: u64, room: u64) -> Option<u16> {
    let (count, width) = (u32::try_from(rows).unwrap_or(u32::MAX), dims as usize);
    let bytes = |kind: CodeKind| kind.bytes_for(count, width, count);
    let fine = bytes(CodeKind::Coarse) + bytes(CodeKind::fine(width));
    let digit = bytes(CodeKind::Product { m: 1 });
    let numbers = bytes(CodeKind::Numbered { m: 1 }) - digit;
    let left = room - room / ROOM_LEFT;
    let digits = (left.saturating_sub(numbers) / digit.max(1)).min(dims);
    let is_worth_it = digits as f64 >= (NUMBERED_LEAST * dims as f64).ceil();
    (is_worth_it && fine > room && width < SIGNS_DIMS).then_some(digits as u16)
}

/// Digits of the product codes with numbers that an index of a segment gets where `most` bytes may be pinned and nobody asks for
/// others; as many as there can be where that isn't known. `None`: it gets other codes.
pub(crate) fn numbered_for(dims: u64, rows: u64, most: Option<u64>) -> Option<u64> {
    let most = most.unwrap_or_else(|| room_of_numbered(dims, rows, dims));
    numbered_in(dims, rows, room_for_codes(dims, rows, most)).map(u64::from)
}

/// Bytes that must be allowed to be pinned for product codes with numbers of so many digits.
pub(crate) fn room_of_numbered(dims: u64, rows: u64, digits: u64) -> u64 {
    let count = u32::try_from(rows).unwrap_or(u32::MAX);
    let m = u16::try_from(digits).unwrap_or(u16::MAX);
    let bytes = CodeKind::Numbered { m }.bytes_for(count, dims as usize, count);
    let with_what_is_left = (bytes * ROOM_LEFT).div_ceil(ROOM_LEFT - 1);
    with_what_is_left + beside_codes(dims, rows)
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

/// The files of codes that a build writes beside the rows; none if they must not go to RAM.
fn codes_of(vector: &VectorField) -> Vec<(Component, CodeKind)> {
    match vector.metric.has_codes() && vector.settings.may_pin_codes() {
        true => kinds_of(vector),
        false => Vec::new(),
    }
}

/// Codes that a vector may have. Disk is cheap: which of them go to RAM is chosen when the segment is opened, and again when
/// there is more room or less. Those that the settings ask for come first, then smaller ones that take their place where
/// there is no room for them.
fn kinds_of(vector: &VectorField) -> Vec<(Component, CodeKind)> {
    let (slot, dim) = (vector.slot, vector.dim);
    let of = |kind: CodeKind| match kind {
        CodeKind::Coarse => (Component::Codes { slot }, kind),
        CodeKind::Fine { .. } => (Component::Fine { slot }, kind),
        CodeKind::Product { .. } | CodeKind::Numbered { .. } => (Component::Product { slot }, kind),
        CodeKind::Rest { .. } => (Component::Rest { slot }, kind),
        CodeKind::Compact => (Component::Compact { slot }, kind),
    };
    let mut codes: Vec<_> = asked_of(vector).into_iter().map(of).collect();
    let fine = codes
        .iter()
        .find(|(component, _)| matches!(component, Component::Fine { .. }));
    // One bit, or product codes: that is what was asked for, and there is little below.
    let Some((_, fine)) = fine.copied() else {
        return codes;
    };
    let bytes = |kind: CodeKind| kind.row_bytes(dim, 0);
    let low = CodeKind::fine_low(dim).filter(|low| bytes(*low) < bytes(fine));
    codes.extend(low.map(|kind| (Component::FineLow { slot }, kind)));
    if dim < SIGNS_DIMS {
        codes.push(of(CodeKind::product(dim)));
    }
    if let CodeKind::Fine { bits } = fine {
        let rest = CodeKind::rest(dim, bits);
        // Of vectors of bytes the vectors themselves take hardly more.
        codes.extend((vector.row_bytes() > 2 * bytes(rest)).then(|| of(rest)));
    }
    codes
}

/// The codes that the settings ask for; the engine's choice where they don't.
fn asked_of(vector: &VectorField) -> Vec<CodeKind> {
    let wanted = codes_wanted(vector.settings.quantization.as_ref(), vector.dim);
    match wanted.first() {
        None => vec![CodeKind::Coarse, CodeKind::fine(vector.dim)],
        Some(CodeSpec::Bits { halves }) if *halves <= 2 => vec![CodeKind::Coarse],
        // There are no halves of bit planes.
        Some(CodeSpec::Bits { halves }) => vec![
            CodeKind::Coarse,
            CodeKind::Fine {
                bits: halves.div_ceil(2).min(8),
            },
        ],
        // Two digits of 4 bits to a byte, and no more digits than dimensions.
        Some(CodeSpec::Product { bytes }) => vec![CodeKind::Product {
            m: (2 * bytes).clamp(1, vector.dim.clamp(1, DIGITS_MAX)) as u16,
        }],
    }
}

/// Whether an index that was built with codes `built` would get others now, because the settings have changed.
pub fn wants_other_codes(vector: &VectorField, built: &[CodeKind]) -> bool {
    // What is left over makes searching no worse where it is missing.
    let counts = |kind: &CodeKind| !matches!(kind, CodeKind::Rest { .. } | CodeKind::Compact);
    let codes = codes_of(vector).into_iter().map(|(_, kind)| kind);
    let codes: Vec<CodeKind> = codes.filter(counts).collect();
    let built: Vec<CodeKind> = built.iter().copied().filter(counts).collect();
    // Those of product codes that follow the room have as many digits as there was room for.
    let same = |a: &CodeKind, b: &CodeKind| match (a, b) {
        (CodeKind::Product { .. }, CodeKind::Product { .. }) => fits_room(vector) || a == b,
        _ => a == b,
    };
    let lacks = |wanted: &[CodeKind]| {
        wanted
            .iter()
            .any(|kind| !built.iter().any(|other| same(kind, other)))
    };
    match vector.settings.quantization {
        // What must not go to RAM may lie on disk as well as not.
        _ if codes.is_empty() => false,
        Some(_) => lacks(&codes) || built.len() != codes.len(),
        // Who asks for nothing needs no rewrite for one more of the smaller codes.
        None => lacks(&asked_of(vector)),
    }
}

/// What codes must be better by to be worth writing an index anew.
const BETTER_BY: f64 = 0.3;

/// Whether an index with codes `built` was written in another budget, and would serve much better with those that it would
/// get where `most` bytes may be pinned: smaller ones that fit, or larger ones that spare reads. What it gets then is what it
/// would get again, so that it is written anew once.
pub fn was_built_for_another_budget(vector: &VectorField, rows: u32, built: &[CodeKind], most: u64) -> bool {
    let room = room_for_codes(vector.dim as u64, u64::from(rows), most);
    let wanted = fitted(codes_of(vector), vector, rows, room);
    let wanted = wanted.into_iter().map(|(_, kind)| kind).collect::<Vec<_>>();
    // What is there may take all that may be pinned.
    worth(&wanted, vector.dim, rows, room) >= worth(built, vector.dim, rows, most) + BETTER_BY
}

/// What compact rows add to the worth of product codes: a fourth to a third of the reads is spared.
const COMPACT_WORTH: f64 = 0.4;

/// The better the more reads the best of these codes spare, of those that fit in `room`; 0 where none does.
fn worth(codes: &[CodeKind], dims: usize, rows: u32, room: u64) -> f64 {
    let bytes = |kind: CodeKind| kind.bytes_for(rows, dims, rows);
    let fits = |bytes: u64, worth: f64| if bytes <= room { worth } else { 0.0 };
    let digits = |m: u16| f64::from(m) / dims as f64;
    let compact = match codes.contains(&CodeKind::Compact) {
        true => COMPACT_WORTH,
        false => 0.0,
    };
    let one = |kind: &CodeKind| match *kind {
        CodeKind::Coarse if dims >= SIGNS_DIMS => fits(bytes(*kind), 1.0 + compact),
        // Three bits a dimension, signs included, do as much as a digit with numbers.
        CodeKind::Fine { .. } => fits(bytes(CodeKind::Coarse) + bytes(*kind), 3.0),
        CodeKind::Numbered { m } => fits(bytes(*kind), 2.0 + digits(m)),
        // They serve in part too, and codes of the other clusters are read: the more of these the worse.
        CodeKind::Product { m } => {
            let share = (room as f64 / bytes(*kind).max(1) as f64).min(1.0);
            (1.0 + digits(m) + compact) * share * share
        }
        CodeKind::Coarse | CodeKind::Rest { .. } | CodeKind::Compact => 0.0,
    };
    codes.iter().map(one).fold(0.0, f64::max)
}

/// Bytes of a vector's codes in RAM, those that the settings ask for.
pub fn codes_bytes(vector: &VectorField) -> u64 {
    // As part of many: codes of one bit come in groups.
    const MANY: u32 = 1 << 20;
    let bytes = |kind: CodeKind| kind.bytes_for(MANY, vector.dim, MANY).div_ceil(u64::from(MANY));
    match codes_of(vector).is_empty() {
        true => 0,
        false => asked_of(vector).into_iter().map(bytes).sum(),
    }
}

fn build_clusters(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    rows: u32,
    job: &mut Job<'_>,
    (kinds, clusters): (&[(Component, CodeKind)], Option<u32>),
    sinks: &mut [FileSink],
) -> Result<()> {
    let slot = vector.slot;
    let [vectors, positions, centroids, codes @ ..] = sinks else {
        unreachable!("three files and those of codes");
    };
    // About a hundredth of the vectors, or less: part of what the scratch doesn't count.
    let seeds = source.centroids(slot);
    let tracked = job.tracked.clone();
    let hear = |phase, done, total| note(tracked.as_deref(), vector, phase, done, total);
    let params = IvfParams {
        metric: vector.metric,
        element: vector.element,
        dims: vector.dim,
        segment_rows: source.rows(),
        scratch_bytes: job.scratch_bytes,
        threads: job.threads,
        seed: id,
        clusters,
        seed_centroids: seeds.as_ref(),
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
    let built = built.map_err(index_error)?;
    let (rows, clusters) = (built.rows, built.clusters);
    tracing::info!(segment = id, vector = %vector.name, rows, clusters, "vector index built");
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
    let tracked = job.tracked.clone();
    let hear = |phase, done, total| note(tracked.as_deref(), vector, phase, done, total);
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
    let built = built.map_err(index_error)?;
    let (rows, degree) = (built.rows, built.degree);
    tracing::info!(segment = id, vector = %vector.name, rows, degree, "graph built");
    Ok(())
}

fn note(tracked: Option<&JobUnderWay>, vector: &VectorField, phase: Phase, done: u64, total: u64) {
    if let Some(job) = tracked {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ramlet_memory::{BudgetRequest, BudgetTable};

    use super::*;
    use crate::schema::{Schema, Slots};
    use crate::types::{CollectionConfig, Distance, VectorParams};

    fn field(dim: usize, quantization: &str) -> VectorField {
        let params = VectorParams {
            size: dim,
            distance: Distance::Cosine,
            datatype: None,
            on_disk: None,
            multivector_config: None,
            other: serde_json::from_str(&format!("{{\"quantization_config\":{quantization}}}"))
                .expect("an object"),
        };
        let config = CollectionConfig {
            vectors: BTreeMap::from([(String::new(), params)]),
            ..CollectionConfig::default()
        };
        let slots = Slots::for_config(&config);
        Schema::new(&config, &slots).expect("a schema").vectors.remove(0)
    }

    #[test]
    fn a_graph_is_for_budgets_where_product_codes_do_not_fit() {
        const ROWS: u32 = 1_000_000;
        let fits = |memory: u64, dim| {
            let budget = BudgetTable::plan(BudgetRequest::in_process(memory, 1)).expect("a budget");
            least_bytes(&field(dim, "null"), ROWS) <= budget.pinned_max()
        };
        assert_eq!(least_bytes(&field(100, "null"), ROWS), 16_500_000);
        assert!(fits(24_000_000, 100) && !fits(16_000_000, 100));
        // One bit a dimension, and 7 bytes; 8,000 centroids, and what a segment holds beside them.
        let beside = 8_000 * (768 + 12) + 250_000 + BESIDE_BYTES;
        assert_eq!(least_bytes(&field(768, "null"), ROWS), 103_000_000 + beside);
        assert!(fits(128_000_000, 768) && !fits(100_000_000, 768));
    }

    #[test]
    fn product_codes_have_as_many_digits_as_there_is_room_for() {
        const ROWS: u32 = 1_000_000;
        let digits = |dim, settings, memory: u64, threads| {
            let field = field(dim, settings);
            let budget = BudgetTable::plan(BudgetRequest::in_process(memory, threads)).expect("a budget");
            let most = budget.pinned_max();
            let room = room_for_codes(dim as u64, u64::from(ROWS), most);
            let codes = fitted(codes_of(&field), &field, ROWS, room);
            let bytes = |kind: CodeKind| kind.bytes_for(ROWS, dim, ROWS);
            let (_, kind) = codes
                .into_iter()
                .find(|(c, _)| matches!(c, Component::Product { .. }))?;
            match kind {
                CodeKind::Product { m } => {
                    if settings == "null" {
                        assert_eq!(
                            u64::from(m),
                            digits_for(dim as u64, u64::from(ROWS), most),
                            "as planned"
                        );
                    }
                    assert!(bytes(kind) <= room || usize::from(m) == dim.div_ceil(8) || settings != "null");
                    Some(m)
                }
                _ => None,
            }
        };
        assert!(digits(100, "null", 32_000_000, 2) >= Some(48));
        assert!(digits(100, "null", 32_000_000, 4) >= Some(46));
        assert!(digits(100, "null", 16_000_000, 2) >= Some(16));
        // No fewer than tell something.
        assert_eq!(digits(384, "null", 32_000_000, 2), Some(48));
        assert_eq!(digits(768, "null", 1_000_000_000, 2), None);
        // What was asked for stays.
        let asked = r#"{"product":{"compression":"x16"}}"#;
        assert_eq!(digits(100, asked, 16_000_000, 2), Some(50));
    }

    #[test]
    fn product_codes_have_numbers_where_fine_codes_do_not_fit_and_there_is_room_for_digits() {
        const ROWS: u32 = 1_000_000;
        let built = |field: &VectorField, room: u64| -> Vec<CodeKind> {
            let codes = fitted(codes_of(field), field, ROWS, room);
            codes.into_iter().map(|(_, kind)| kind).collect()
        };
        let plain = field(100, "null");
        let of_room = |room| built(&plain, room);
        let (coarse, fine, rest) = (CodeKind::Coarse, CodeKind::fine(100), CodeKind::rest(100, 6));
        let numbered = |m| vec![coarse, fine, CodeKind::Numbered { m }, rest];
        let whole = vec![
            coarse,
            fine,
            CodeKind::Fine { bits: 3 },
            CodeKind::Product { m: 50 },
            rest,
        ];
        assert_eq!(of_room(86_500_000), whole, "fine codes fit");
        assert_eq!(
            of_room(83_999_999),
            numbered(100),
            "a digit for each dimension at most"
        );
        // A sixteenth is left.
        assert_eq!(of_room(50_240_000), numbered(88));
        assert_eq!(of_room(35_200_000), numbered(60));
        let read = [&whole[..], &[CodeKind::Compact]].concat();
        assert_eq!(of_room(35_199_000), read, "too few digits to be worth a number");
        for (field, what) in [
            (
                field(100, r#"{"scalar":{"type":"int8"}}"#),
                "others were asked for",
            ),
            (field(400, "null"), "signs tell enough"),
            (
                VectorField {
                    metric: ramlet_index::Metric::Euclid,
                    ..field(100, "null")
                },
                "words don't reach",
            ),
        ] {
            let codes = built(&field, 50_000_000);
            let has_numbers = codes.iter().any(|kind| matches!(kind, CodeKind::Numbered { .. }));
            assert!(!has_numbers, "{what}: {codes:?}");
        }
        for most in [38_000_000, 52_000_000] {
            let room = room_for_codes(100, ROWS.into(), most);
            let planned = numbered_for(100, ROWS.into(), Some(most)).expect("a number of digits");
            assert_eq!(of_room(room), numbered(planned as u16), "as planned");
        }
    }

    /// Where rows are read by the dozen, and vectors take much more.
    #[test]
    fn compact_rows_are_written_where_searches_would_read_them() {
        const ROWS: u32 = 1_000_000;
        let f16 = |dim| VectorField {
            element: ramlet_index::Element::F16,
            ..field(dim, "null")
        };
        let u8 = VectorField {
            element: ramlet_index::Element::U8,
            ..field(100, "null")
        };
        let asked = |dim, quantization: &str| field(dim, quantization);
        let (product, binary) = (r#"{"product":{"compression":"x16"}}"#, r#"{"binary":{}}"#);
        for (field, room, is_written, what) in [
            (field(100, "null"), 25_000_000, true, "product codes"),
            (
                field(100, "null"),
                50_000_000,
                false,
                "product codes with numbers",
            ),
            (field(100, "null"), 90_000_000, false, "fine codes"),
            (f16(100), 25_000_000, true, "half floats"),
            (f16(20), 5_000_000, false, "half floats that take hardly more"),
            (u8, 25_000_000, false, "bytes already"),
            (field(768, "null"), 120_000_000, true, "signs"),
            (field(768, "null"), 400_000_000, false, "codes of three bits"),
            (field(1536, "null"), 450_000_000, true, "codes of two bits"),
            (field(1536, "null"), 2_000_000_000, false, "rests too"),
            (
                asked(100, product),
                300_000_000,
                true,
                "product codes that were asked for",
            ),
            (asked(100, product), 500_000_000, false, "and vectors beside them"),
            (
                asked(768, binary),
                1_000_000_000,
                true,
                "one bit that was asked for",
            ),
            (asked(768, binary), 4_000_000_000, false, "and vectors beside it"),
        ] {
            let codes = fitted(codes_of(&field), &field, ROWS, room);
            let kinds: Vec<CodeKind> = codes.into_iter().map(|(_, kind)| kind).collect();
            assert_eq!(
                kinds.contains(&CodeKind::Compact),
                is_written,
                "{what}: {kinds:?}"
            );
            // A build in that room made what it wants there.
            assert!(
                !was_built_for_another_budget(&field, ROWS, &kinds, room),
                "{what}"
            );
        }
        let (plain, most) = (field(100, "null"), 26_000_000);
        let mut before = fitted(
            codes_of(&plain),
            &plain,
            ROWS,
            room_for_codes(100, ROWS.into(), most),
        );
        let kinds = |codes: &[(Component, CodeKind)]| -> Vec<CodeKind> {
            codes.iter().map(|(_, kind)| *kind).collect()
        };
        assert!(!was_built_for_another_budget(&plain, ROWS, &kinds(&before), most));
        before.retain(|(_, kind)| *kind != CodeKind::Compact);
        assert!(
            was_built_for_another_budget(&plain, ROWS, &kinds(&before), most),
            "by an earlier version"
        );
    }

    #[test]
    fn codes_are_rewritten_when_others_are_asked_for() {
        let settings = [
            "null",
            r#"{"scalar":{"type":"int8"}}"#,
            r#"{"product":{"compression":"x8"}}"#,
            r#"{"product":{"compression":"x64"}}"#,
            r#"{"binary":{}}"#,
            r#"{"turbo":{"bits":"bits2"}}"#,
        ];
        let kinds = |field: &VectorField| -> Vec<CodeKind> {
            codes_of(field).into_iter().map(|(_, kind)| kind).collect()
        };
        for dim in [1, 3, 100, 400, 1536, 40_000] {
            let fields = settings.map(|settings| field(dim, settings));
            for (asked, settings) in fields.iter().zip(settings) {
                for other in &fields {
                    let (wanted, built) = (kinds(asked), kinds(other));
                    assert!(built.len() <= 5, "as many as an index has");
                    let serve = match settings {
                        "null" => wanted[..2].iter().all(|kind| built.contains(kind)),
                        _ => wanted == built,
                    };
                    assert_eq!(
                        wants_other_codes(asked, &built),
                        !serve,
                        "{dim}: {built:?}, {settings}"
                    );
                }
            }
        }
    }
}
