//! The layout decision for a segment's vectors: which index, which codes with how many sub-quantizers, and which of them may be in RAM. It is a
//! pure function; the planner, the build and the opening all call it.

use ramlet_format::component::Component;
use ramlet_index::graph::{self, bytes_for, degree_for};
use ramlet_index::{CodeKind, Metric, WIDE, ivf};
use ramlet_memory::ReclaimableBuf;

use crate::limits::{FILL_SCRATCH, INDEXING_THRESHOLD_KB};
use crate::schema::{VectorField, VectorKind};
use crate::settings::{CodeSpec, IndexKind, codes_wanted};

/// What there is to build and to hold an index with.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Bytes that may be cached at most.
    pub most: u64,
    /// Bytes that a build may hold.
    pub scratch: u64,
    /// Bytes of metadata that centroids may take: as they are searched, and beside scratch while they are built.
    pub centroids: u64,
    pub disk_free: u64,
}

/// From how many rows on a segment gets an index for a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexingThreshold {
    Never,
    /// kB of vectors, as somebody said.
    Kb(u64),
    /// Nobody said.
    Unset,
}

/// Rows from which on an index is some times faster than comparing all of them in RAM, however few dimensions they have: 60,000 of 32 have 8,300 queries/s without
/// and 26,000 with one (records/2026-11-30-epyc-2core/below-threshold.txt).
const INDEXED_ROWS: u64 = 20_000;
/// The same where rows aren't in RAM: fewer, or fewer bytes, are a few reads.
const INDEXED_ROWS_ON_DISK: u64 = 256;
const INDEXED_BYTES_ON_DISK: u64 = 1 << 20;

impl IndexingThreshold {
    pub fn of(setting: Option<usize>) -> IndexingThreshold {
        match setting {
            None => IndexingThreshold::Unset,
            Some(0) => IndexingThreshold::Never,
            Some(kb) => IndexingThreshold::Kb(kb as u64),
        }
    }

    /// Whether so many rows get an index where `room` bytes of them may be cached. A threshold that was set decides alone. Without one it is also a matter of what comparing all rows costs:
    /// of many, or of those that each search would read from disk.
    pub fn wants(self, vector: &VectorField, rows: u64, room: &dyn Fn() -> u64) -> bool {
        let is_unset = self == IndexingThreshold::Unset;
        let costs = || rows >= INDEXED_ROWS_ON_DISK && vector.kb(rows) * 1024 >= INDEXED_BYTES_ON_DISK;
        self.wants_in_ram(vector, rows) || is_unset && costs() && compared_bytes(vector, rows) > room()
    }

    /// The same of rows that are in RAM anyway.
    pub fn wants_in_ram(self, vector: &VectorField, rows: u64) -> bool {
        match self {
            IndexingThreshold::Never => false,
            IndexingThreshold::Kb(kb) => vector.kb(rows) >= kb,
            IndexingThreshold::Unset => {
                vector.kb(rows) >= INDEXING_THRESHOLD_KB as u64 || rows >= INDEXED_ROWS
            }
        }
    }
}

/// What a vector's rows may take of so many bytes that may be cached: none where the settings say so.
pub fn room_of_rows(vector: &VectorField, most: u64) -> u64 {
    match vector.settings.may_cache_rows() {
        true => most,
        false => 0,
    }
}

/// Bytes of RAM in which so many rows are all compared without a read: theirs, those of their ids (2.5 a row), and what filling takes.
pub fn compared_bytes(vector: &VectorField, rows: u64) -> u64 {
    rows * vector.row_bytes() as u64 + rows * 5 / 2 + FILL_SCRATCH
}

/// Which index a segment gets for a vector. Another kind of index comes in here, and in `VectorColumn::open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Clusters,
    Graph,
}

/// Bytes of disk that must be free for each byte of a graph that nobody asked for: temporary files take as much as it does.
const GRAPH_DISK_FREE: u64 = 3;

/// Clusters, unless not even the smallest codes that make up for it would fit into RAM: a graph needs nothing there. It takes
/// much disk (two pages a row), so there must be plenty; and scratch.
pub fn kind(vector: &VectorField, rows: u32, room: &Room) -> Kind {
    match vector.settings.index {
        _ if !vector.metric.has_codes() => Kind::Clusters,
        IndexKind::Ivf => Kind::Clusters,
        IndexKind::Hnsw => Kind::Graph,
        IndexKind::Auto => {
            match codes_fit(vector, rows, room.most) || !may_become_graph(vector, rows, room) {
                true => Kind::Clusters,
                false => Kind::Graph,
            }
        }
    }
}

/// Whether there are disk and scratch for a graph that nobody asked for.
pub fn may_become_graph(vector: &VectorField, rows: u32, room: &Room) -> bool {
    let (rows, dim, element) = (u64::from(rows), vector.dim, vector.element);
    let degree = degree_for(rows, dim, element);
    let disk = GRAPH_DISK_FREE.saturating_mul(bytes_for(rows, dim, element, degree, 1).disk);
    room.disk_free >= disk && room.scratch >= graph::scratch_least(element, dim) as u64
}

/// Rows of a cluster at most, and clusters at least: with fewer, larger ones an index spares too little.
const ROWS_PER_CLUSTER_MAX: u64 = 4096;
const CLUSTERS_MIN: u64 = 8;

/// Clusters of a segment of so many rows: as many as are wanted, or as there are scratch for and room for their centroids. They stay in
/// RAM. The error is the room that the fewest take.
pub fn clusters(vector: &VectorField, rows: u32, room: &Room) -> Result<u32, u64> {
    let (metric, dims, rows) = (vector.metric, vector.dim, u64::from(rows));
    let centroid = ivf::centroid_bytes(metric, dims);
    let least = rows.div_ceil(ROWS_PER_CLUSTER_MAX).min(CLUSTERS_MIN);
    let built = ivf::clusters_most(room.scratch, room.centroids, metric, dims).max(least);
    let clusters = ivf::clusters_wanted(rows)
        .min(built)
        .min(room.centroids / centroid);
    match clusters >= least {
        true => Ok(clusters.max(1) as u32),
        false => Err(least * centroid),
    }
}

/// Rows of a segment, and of its collection, whose segments have one budget.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    pub here: u32,
    pub all: u64,
}

impl Rows {
    pub fn alone(rows: u32) -> Rows {
        Rows {
            here: rows,
            all: u64::from(rows),
        }
    }

    /// Whether the segment has less than half of them, as those have that an import writes.
    fn are_part(&self) -> bool {
        u64::from(self.here) < self.all / 2
    }
}

/// The codes of a segment, each with its file, where `most` bytes may be cached.
///
/// A part of a collection of wide vectors gets those alone that would fit if all rows had them, and no SQ8 rows: it is soon merged. An import beyond the budget spent a quarter
/// of its processor time on larger ones.
pub fn codes(vector: &VectorField, rows: Rows, most: u64) -> Vec<(Component, CodeKind)> {
    let room = room_for_codes(vector.dim as u64, u64::from(rows.here), most);
    let mut codes = fitted(codes_of(vector), vector, rows.here, room);
    if rows.are_part() && vector.dim >= WIDE && nobody_asked(vector) {
        let all = u32::try_from(rows.all).unwrap_or(u32::MAX);
        leave_out_what_does_not_fit(
            &mut codes,
            vector.dim,
            all,
            room_for_codes(vector.dim as u64, rows.all, most),
        );
        codes.retain(|(_, kind)| *kind != CodeKind::Sq8);
    }
    codes
}

/// A segment is small beside one of at least so many times its rows.
const REST_SHARE: u64 = 16;
/// Of what may be cached, files of a small segment up to this part of it are cached before all else. Of wide vectors: 1,352 rows of 768 dimensions (4.2 MB) took as many reads a search
/// as the million beside them, whose 1-bit codes serve in part (records/2026-11-29-xeon-2core/ladder-4.txt). Of others: product codes that lack their last rows are
/// dearer than what a small segment spares.
const REST_ROOM_WIDE: u64 = 8;
const REST_ROOM: u64 = 64;

/// Whether a segment of so many rows is small beside one of `largest`.
pub fn is_small_segment(rows: u32, largest: u32) -> bool {
    u64::from(rows) * REST_SHARE <= u64::from(largest)
}

/// Bytes up to which a file of a small segment is cached before all else, where `most` may be cached.
pub fn small_segment_file_most(dims: usize, most: u64) -> u64 {
    match dims >= WIDE {
        true => most / REST_ROOM_WIDE,
        false => most / REST_ROOM,
    }
}

/// Whether codes are the engine's choice.
fn nobody_asked(vector: &VectorField) -> bool {
    vector.settings.quantization.is_none() && vector.kind != VectorKind::Multi
}

/// What there is of a vector that may go to RAM.
#[derive(Debug, Clone, Copy)]
pub struct Parts<T> {
    pub scanned: Option<T>,
    pub extended: Option<T>,
    pub low: Option<T>,
    pub product: Option<T>,
    pub residual: Option<T>,
    pub rows: Option<T>,
}

/// Of so many rows a search for the ten nearest, or the eighty, goes by codes; of fewer it compares all vectors.
const SEARCHED_BY_CODES: u32 = 1_024;

impl<T> Parts<T> {
    /// The same of a small segment of so many rows: not its vectors, where residual codes spare the same reads in less room. What they leave is the large segment's.
    pub fn of_small_segment(self, rows: u32) -> Parts<T> {
        match self.residual {
            Some(_) if rows >= SEARCHED_BY_CODES => Parts { rows: None, ..self },
            _ => self,
        }
    }
}

/// What of a vector is in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level<T> {
    pub scanned: Option<T>,
    pub extended: Option<T>,
    /// What extended codes leave over.
    pub residual: Option<T>,
    pub rows: Option<T>,
}

impl<T> Default for Level<T> {
    fn default() -> Level<T> {
        Level {
            scanned: None,
            extended: None,
            residual: None,
            rows: None,
        }
    }
}

/// What there could be in RAM, the best first. The last is nothing.
pub fn levels<T: Copy>(there: Parts<T>) -> Vec<Level<T>> {
    let Parts {
        scanned,
        extended,
        low,
        product,
        residual,
        rows,
    } = there;
    let level = |scanned, extended, rows| Level {
        scanned,
        extended,
        residual: None,
        rows,
    };
    let mut levels = Vec::new();
    if scanned.is_some() {
        if rows.is_some() && extended.is_some() {
            levels.push(level(scanned, extended, rows));
        }
        if residual.is_some() && extended.is_some() {
            let residual = Level {
                residual,
                ..level(scanned, extended, None)
            };
            levels.push(residual);
        }
        if rows.is_some() {
            levels.push(level(scanned, None, rows));
        }
        let extended = [extended, low].into_iter().flatten();
        levels.extend(extended.map(|extended| level(scanned, Some(extended), None)));
    }
    if scanned.is_none() && rows.is_some() {
        // Product codes that were asked for and are the only ones there are, or none.
        levels.push(level(product, None, rows));
    }
    levels.extend(product.map(|product| level(Some(product), None, None)));
    levels.extend(scanned.map(|_| level(scanned, None, None)));
    levels.push(Level::default());
    levels
}

/// Sub-quantizers that a product code may have.
const SUBQUANTIZERS_MAX: usize = 16_384;

/// Bytes of RAM for the least codes of a vector with which a search reads fewer rows than it would read nodes of a graph.
pub fn least_bytes(vector: &VectorField, rows: u32) -> u64 {
    let kinds = || kinds_of(vector).into_iter().map(|(_, kind)| kind);
    let mut products = kinds().filter(|kind| matches!(kind, CodeKind::Product { .. }));
    let least = products.next().or(kinds().next());
    let kind = |kind: CodeKind| {
        if fits_room(vector) {
            least_subquantizers(kind)
        } else {
            kind
        }
    };
    least.map_or(0, |least| least_cached(kind(least), vector.dim, rows))
}

/// Bytes that must be allowed to be cached for these codes to serve. Product codes do in part too ([`SUBQUANTIZERS_LEAST`]).
fn least_cached(kind: CodeKind, dims: usize, rows: u32) -> u64 {
    let beside = match kind {
        CodeKind::Product { .. } => 0,
        _ => beside_codes(dims as u64, u64::from(rows)),
    };
    kind.bytes_for(rows, dims, rows) + beside
}

/// Pages of the codes of one bit of a cluster of so many rows, which are read at once, on average: of its first group and its last, and of its first block and its last,
/// parts are others'.
pub fn one_bit_pages(dims: usize, rows: u32, rows_of_cluster: f64) -> f64 {
    let layout = CodeKind::OneBit.layout(dims, rows);
    let reached = |of: f64, each: f64| (of + each - 1.0) / each;
    let groups = reached(rows_of_cluster, CodeKind::OneBit.vectors_per_row().into());
    reached(groups, layout.rows_per_block().into()) * f64::from(layout.block_pages())
}

/// Product codes with the fewest sub-quantizers that are worth it; other codes as they are.
fn least_subquantizers(kind: CodeKind) -> CodeKind {
    match kind {
        CodeKind::Product { m, row_ids: false } => CodeKind::Product {
            m: (f64::from(m) * SUBQUANTIZERS_LEAST).ceil() as u16,
            row_ids: false,
        },
        kind => kind,
    }
}

/// Share of a product code's sub-quantizers down to which it does better than a graph, of the memory that codes may have at most: not all
/// of it is there. Of a million vectors of 100 dimensions, which have 50 sub-quantizers, recalls of .90 and .95 take 60 and 100 reads of SQ8 rows
/// with 34 of them in RAM (24 MB), 350 and 650 with 17 (16 MB); a graph takes 52 and 87, of two pages each, which a disk does half as many of.
const SUBQUANTIZERS_LEAST: f64 = 0.65;

/// Sub-quantizers of a product code at least, by dimensions: with fewer it tells so little that nothing is gained.
const DIMS_PER_SUBQUANTIZER_MAX: usize = 8;

/// What a segment holds in RAM beside codes, centroids and its ids' differences: its files.
const BESIDE_BYTES: u64 = 128 << 10;

/// Bytes that a segment's codes may take, of `most` that may be cached.
fn room_for_codes(dims: u64, rows: u64, most: u64) -> u64 {
    most.saturating_sub(beside_codes(dims, rows))
}

fn beside_codes(dims: u64, rows: u64) -> u64 {
    // Of metrics whose vectors are rotated: others have no codes.
    let centroids = ivf::clusters_wanted(rows) * ivf::centroid_bytes(Metric::Cosine, dims as usize);
    centroids + rows / 4 + BESIDE_BYTES
}

/// Whether the product codes of a vector are as large as there is room for, since nobody asked for others.
fn fits_room(vector: &VectorField) -> bool {
    !kinds_wished(vector)
        .iter()
        .any(|kind| matches!(kind, CodeKind::Product { .. }))
}

/// The codes, product codes with as many sub-quantizers as there is room for.
fn fitted(
    codes: Vec<(Component, CodeKind)>,
    vector: &VectorField,
    rows: u32,
    room: u64,
) -> Vec<(Component, CodeKind)> {
    let subquantizer = CodeKind::Product { m: 1, row_ids: false }
        .bytes_for(rows, vector.dim, rows)
        .max(1);
    let least = vector.dim.div_ceil(DIMS_PER_SUBQUANTIZER_MAX) as u64;
    let with_ids = match vector.settings.quantization {
        None if vector.metric.distances_are_products() => {
            subquantizers_with_ids_in(vector.dim as u64, rows.into(), room)
        }
        _ => None,
    };
    let fit = |(component, kind): (Component, CodeKind)| match (kind, with_ids) {
        (CodeKind::Product { .. }, Some(m)) => Some((component, CodeKind::Product { m, row_ids: true })),
        // Signs with these take as much room, and more rows are read beside them.
        (CodeKind::Extended { .. }, Some(_)) if matches!(component, Component::ExtendedLow { .. }) => None,
        (CodeKind::Product { m, row_ids: false }, None) if fits_room(vector) => {
            let m = (room / subquantizer).max(least).min(u64::from(m)) as u16;
            Some((component, CodeKind::Product { m, row_ids: false }))
        }
        (kind, _) => Some((component, kind)),
    };
    let mut codes: Vec<_> = codes.into_iter().filter_map(fit).collect();
    if nobody_asked(vector) {
        leave_out_what_does_not_fit(&mut codes, vector.dim, rows, room);
    }
    let kinds: Vec<CodeKind> = codes.iter().map(|(_, kind)| *kind).collect();
    let slot = vector.slot;
    if reads_sq8(&kinds, vector, rows, room) {
        codes.push((Component::Sq8 { slot }, CodeKind::Sq8));
    }
    codes
}

/// Parts in a hundred of extended codes from which on they serve: the others' rows are decided by 1-bit codes, as all are where there are none. In place of the longest
/// ones smaller ones may fit whole, which leave fewer rows then.
const EXTENDED_PART_LEAST: u64 = 10;
const FINEST_PART_LEAST: u64 = 80;

/// Whether extended codes serve in part: where 1-bit codes are enough to be searched by.
pub fn extended_serve_in_part(dims: usize) -> bool {
    dims >= WIDE
}

/// Bytes of extended codes at least that must be in RAM for them to serve, of so many in all: whole pieces, in which memory is taken.
pub fn extended_least(dims: usize, bytes: u64, has_smaller: bool) -> u64 {
    let least = match has_smaller {
        _ if !extended_serve_in_part(dims) => bytes,
        true => bytes / 100 * FINEST_PART_LEAST,
        false => bytes / 100 * EXTENDED_PART_LEAST,
    };
    least
        .next_multiple_of(ReclaimableBuf::PIECE_BYTES as u64)
        .min(bytes)
}

/// Whether extended codes serve where so many bytes may be cached of them and of 1-bit codes, at least in part.
fn extended_serve(kind: CodeKind, dims: usize, rows: u32, room: u64) -> bool {
    let has_smaller = CodeKind::extended_low(dims).is_some_and(|low| low != kind);
    let bytes = |kind: CodeKind| kind.bytes_for(rows, dims, rows);
    bytes(CodeKind::OneBit) + extended_least(dims, bytes(kind), has_smaller) <= room
}

/// Takes out the codes that there is no room for, where smaller ones do: an index is written anew when there is more.
fn leave_out_what_does_not_fit(codes: &mut Vec<(Component, CodeKind)>, dims: usize, rows: u32, room: u64) {
    let bytes = |kind: CodeKind| kind.bytes_for(rows, dims, rows);
    let serves = |kind: CodeKind| extended_serve(kind, dims, rows, room);
    codes.retain(|(_, kind)| !matches!(kind, CodeKind::Extended { .. }) || serves(*kind));
    let longest = codes
        .iter()
        .find(|(component, _)| matches!(component, Component::Extended { .. }));
    let has_whole_longest = longest.is_some_and(|(_, kind)| bytes(CodeKind::OneBit) + bytes(*kind) <= room);
    let has = |is: fn(&Component) -> bool| codes.iter().any(|(component, _)| is(component));
    let has_longest = longest.is_some();
    let has_low = has(|component| matches!(component, Component::ExtendedLow { .. }));
    let has_product = has(|component| matches!(component, Component::Product { .. }));
    codes.retain(|(_, kind)| match kind {
        // What the longest leave over.
        CodeKind::Residual { .. } => has_whole_longest,
        CodeKind::OneBit => has_longest || has_low || !has_product,
        _ => true,
    });
}

/// Vectors of so many times the bytes of SQ8 rows are worth a file of these, where they are read by the dozen: four of vectors of
/// floats lie in a page's place, two of half floats.
const SQ8_SAVING_MIN: f64 = 1.5;

/// Whether vectors of so many bytes are.
fn sq8_is_worth_it(row_bytes: u64, dims: u64) -> bool {
    row_bytes as f64 >= SQ8_SAVING_MIN * CodeKind::Sq8.row_bytes(dims as usize, 0) as f64
}

/// Whether searches with the best of these codes that fit in `room` would read SQ8 rows.
fn reads_sq8(codes: &[CodeKind], vector: &VectorField, rows: u32, room: u64) -> bool {
    // What would fit into all of the room may miss it when it is opened; with neither, searches would read vectors.
    let room = room - room / ROOM_LEFT;
    let bytes = |kind: CodeKind| kind.bytes_for(rows, vector.dim, rows);
    let has_ids = codes
        .iter()
        .any(|kind| matches!(kind, CodeKind::Product { row_ids: true, .. }));
    let product = codes.iter().find(|kind| matches!(kind, CodeKind::Product { .. }));
    let signs = codes.iter().find(|kind| **kind == CodeKind::OneBit);
    let Some(scanned) = product.or(signs).filter(|_| !has_ids) else {
        return false;
    };
    let rows_bytes = u64::from(rows) * (vector.row_bytes() as u64 + 4);
    let rows_fit = vector.settings.may_cache_rows() && bytes(*scanned) + rows_bytes <= room;
    let better_fit = codes.iter().any(|kind| match kind {
        CodeKind::Extended { bits } => {
            *bits > CodeKind::ROUGH_BITS && extended_serve(*kind, vector.dim, rows, room)
        }
        _ => false,
    });
    // The residual is of the first extended codes, the longest.
    let extended = codes
        .iter()
        .find(|kind| matches!(kind, CodeKind::Extended { .. }));
    let residual = codes
        .iter()
        .find(|kind| matches!(kind, CodeKind::Residual { .. }));
    let residual_fits = extended.zip(residual).is_some_and(|(extended, residual)| {
        bytes(CodeKind::OneBit) + bytes(*extended) + bytes(*residual) <= room
    });
    let is_worth_it = sq8_is_worth_it(vector.row_bytes() as u64, vector.dim as u64);
    !rows_fit && !better_fit && !residual_fits && is_worth_it
}

/// Sub-quantizers a dimension from which on product codes with rows' numbers do more than those without: they read a fourth as many rows.
const WITH_IDS_LEAST: f64 = 0.6;

/// What caches can't have of the room, one part in so many: their memory comes in pieces, and others hold some of it.
const ROOM_LEFT: u64 = 16;

/// Sub-quantizers of product codes with numbers, where there is room for such that are worth it and none for extended codes.
fn subquantizers_with_ids_in(dims: u64, rows: u64, room: u64) -> Option<u16> {
    let (count, width) = (u32::try_from(rows).unwrap_or(u32::MAX), dims as usize);
    let bytes = |kind: CodeKind| kind.bytes_for(count, width, count);
    let extended = bytes(CodeKind::OneBit) + bytes(CodeKind::extended(width));
    let subquantizer = bytes(CodeKind::Product { m: 1, row_ids: false });
    let numbers = bytes(CodeKind::Product { m: 1, row_ids: true }) - subquantizer;
    let left = room - room / ROOM_LEFT;
    let subquantizers = (left.saturating_sub(numbers) / subquantizer.max(1)).min(dims);
    let is_worth_it = subquantizers as f64 >= (WITH_IDS_LEAST * dims as f64).ceil();
    (is_worth_it && extended > room && width < WIDE).then_some(subquantizers as u16)
}

/// Sub-quantizers of product codes with numbers, the fewest and the most, where a vector may have such.
pub fn subquantizers_with_ids(vector: &VectorField) -> Option<[u64; 2]> {
    let may = vector.metric.distances_are_products() && vector.dim < WIDE;
    let least = (WITH_IDS_LEAST * vector.dim as f64).ceil() as u64;
    may.then_some([least, vector.dim as u64])
}

/// Whether a segment gets codes, not a graph that nobody asked for, where `most` bytes may be cached: the smallest that do better fit, or they serve in
/// part. (A graph of 768 dimensions takes eight times the disk.)
pub fn codes_fit(vector: &VectorField, rows: u32, most: u64) -> bool {
    let signs_in_part = || {
        let mut kinds = codes_of(vector).into_iter().map(|(_, kind)| kind);
        vector.dim >= WIDE && kinds.any(|kind| kind == CodeKind::OneBit)
    };
    least_bytes(vector, rows) <= most || signs_in_part()
}

/// Bytes that must be allowed to be cached for product codes with numbers of so many sub-quantizers.
pub fn room_with_ids(dims: u64, rows: u64, subquantizers: u64) -> u64 {
    let count = u32::try_from(rows).unwrap_or(u32::MAX);
    let m = u16::try_from(subquantizers).unwrap_or(u16::MAX);
    let bytes = CodeKind::Product { m, row_ids: true }.bytes_for(count, dims as usize, count);
    let with_what_is_left = (bytes * ROOM_LEFT).div_ceil(ROOM_LEFT - 1);
    with_what_is_left + beside_codes(dims, rows)
}

/// Bytes that must be allowed to be cached for so many bytes of codes.
pub fn room_with(dims: u64, rows: u64, codes: u64) -> u64 {
    codes + beside_codes(dims, rows)
}

/// The files of codes that a build writes beside the rows; none if they must not go to RAM.
fn codes_of(vector: &VectorField) -> Vec<(Component, CodeKind)> {
    match vector.metric.has_codes() && vector.settings.may_cache_codes() {
        true => kinds_of(vector),
        false => Vec::new(),
    }
}

/// Codes that a vector may have, where there is room. Which of them go to RAM is chosen when the segment is opened, and again when
/// there is more room or less. Those that the settings ask for come first, then smaller ones that take their place where
/// there is no room for them.
fn kinds_of(vector: &VectorField) -> Vec<(Component, CodeKind)> {
    let (slot, dim) = (vector.slot, vector.dim);
    let of = |kind: CodeKind| match kind {
        CodeKind::OneBit => (Component::Codes { slot }, kind),
        CodeKind::Extended { .. } => (Component::Extended { slot }, kind),
        CodeKind::Product { .. } => (Component::Product { slot }, kind),
        CodeKind::Residual { .. } => (Component::Residual { slot }, kind),
        CodeKind::Sq8 => (Component::Sq8 { slot }, kind),
    };
    let mut codes: Vec<_> = kinds_wished(vector).into_iter().map(of).collect();
    let extended = codes
        .iter()
        .find(|(component, _)| matches!(component, Component::Extended { .. }));
    // One bit, or product codes: that is what was asked for, and there is little below.
    let Some((_, extended)) = extended.copied() else {
        return codes;
    };
    let bytes = |kind: CodeKind| kind.row_bytes(dim, 0);
    let low = CodeKind::extended_low(dim).filter(|low| bytes(*low) < bytes(extended));
    codes.extend(low.map(|kind| (Component::ExtendedLow { slot }, kind)));
    if dim < WIDE {
        codes.push(of(CodeKind::product(dim)));
    }
    if let CodeKind::Extended { bits } = extended {
        let residual = CodeKind::residual(dim, bits);
        // Of vectors of bytes the vectors themselves take hardly more.
        codes.extend((vector.row_bytes() > 2 * bytes(residual)).then(|| of(residual)));
    }
    codes
}

/// The codes that the settings ask for; the engine's choice where they don't.
fn kinds_wished(vector: &VectorField) -> Vec<CodeKind> {
    let wanted = codes_wanted(vector.settings.quantization.as_ref(), vector.dim);
    match wanted.first() {
        None => vec![CodeKind::OneBit, CodeKind::extended(vector.dim)],
        Some(CodeSpec::Bits { halves }) if *halves <= 2 => vec![CodeKind::OneBit],
        // There are no halves of bit planes.
        Some(CodeSpec::Bits { halves }) => vec![
            CodeKind::OneBit,
            CodeKind::Extended {
                bits: halves.div_ceil(2).min(8),
            },
        ],
        // Two sub-quantizers of 4 bits to a byte, and no more sub-quantizers than dimensions.
        Some(CodeSpec::Product { bytes }) => vec![CodeKind::Product {
            m: (2 * bytes).clamp(1, vector.dim.clamp(1, SUBQUANTIZERS_MAX)) as u16,
            row_ids: false,
        }],
    }
}

/// Whether an index that was built with codes `built` would get others now, because the settings have changed.
pub fn needs_other_codes(vector: &VectorField, built: &[CodeKind]) -> bool {
    // What is left over makes searching no worse where it is missing; and product codes may stand in for others.
    let asked = vector.settings.quantization.is_some();
    let products_count = asked && !fits_room(vector);
    let counts = |kind: &CodeKind| match kind {
        CodeKind::Residual { .. } | CodeKind::Sq8 => false,
        CodeKind::Product { .. } => products_count,
        CodeKind::OneBit | CodeKind::Extended { .. } => true,
    };
    let codes = codes_of(vector).into_iter().map(|(_, kind)| kind);
    let codes: Vec<CodeKind> = codes.filter(counts).collect();
    let built: Vec<CodeKind> = built.iter().copied().filter(counts).collect();
    let has_no_other = || built.iter().all(|kind| codes.contains(kind));
    match asked {
        // What must not go to RAM may lie on disk as well as not.
        _ if codes.is_empty() => false,
        true => built.len() != codes.len() || !has_no_other(),
        // Who asks for nothing gets what there is room for.
        false => !has_no_other(),
    }
}

/// What codes must be better by to be worth writing an index anew.
const BETTER_BY: f64 = 0.3;

/// Whether an index with codes `built` was written in another budget, and would serve much better with those that it would
/// get where `most` bytes may be cached: smaller ones that fit, or larger ones that spare reads. What it gets then is what it
/// would get again, so that it is written anew once.
pub fn was_built_for_another_budget(vector: &VectorField, rows: Rows, built: &[CodeKind], most: u64) -> bool {
    let room = room_for_codes(vector.dim as u64, u64::from(rows.here), most);
    let wanted: Vec<CodeKind> = codes(vector, rows, most)
        .into_iter()
        .map(|(_, kind)| kind)
        .collect();
    let is_longer = |kind: &CodeKind| matches!(kind, CodeKind::Extended { .. }) && !built.contains(kind);
    let longest = wanted
        .iter()
        .find(|kind| matches!(kind, CodeKind::Extended { .. }));
    if vector.settings.quantization.is_none() && longest.is_some_and(is_longer) {
        return true;
    }
    // What is there may take all that may be cached.
    worth(&wanted, vector.dim, rows.here, room) >= worth(built, vector.dim, rows.here, most) + BETTER_BY
}

/// What SQ8 rows add to the worth of product codes: a fourth to a third of the reads is spared.
const SQ8_WORTH: f64 = 0.4;

/// The better the more reads the best of these codes spare, of those that fit in `room`; 0 where none does.
fn worth(codes: &[CodeKind], dims: usize, rows: u32, room: u64) -> f64 {
    let bytes = |kind: CodeKind| kind.bytes_for(rows, dims, rows);
    let fits = |bytes: u64, worth: f64| if bytes <= room { worth } else { 0.0 };
    let subquantizers = |m: u16| f64::from(m) / dims as f64;
    let sq8 = match codes.contains(&CodeKind::Sq8) {
        true => SQ8_WORTH,
        false => 0.0,
    };
    let one = |kind: &CodeKind| match *kind {
        // In part too: the codes of other clusters are read.
        CodeKind::OneBit if dims >= WIDE => 1.0 + sq8,
        // Three bits a dimension, signs included, do as much as a sub-quantizer with numbers.
        CodeKind::Extended { .. } => fits(bytes(CodeKind::OneBit) + bytes(*kind), 3.0),
        CodeKind::Product { m, row_ids: true } => fits(bytes(*kind), 2.0 + subquantizers(m)),
        // They serve in part too, and codes of the other clusters are read: the more of these the worse.
        CodeKind::Product { m, row_ids: false } => {
            let share = (room as f64 / bytes(*kind).max(1) as f64).min(1.0);
            (1.0 + subquantizers(m) + sq8) * share * share
        }
        CodeKind::OneBit | CodeKind::Residual { .. } | CodeKind::Sq8 => 0.0,
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
        false => kinds_wished(vector).into_iter().map(bytes).sum(),
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
