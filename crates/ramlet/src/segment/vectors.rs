//! A segment's open vectors. The free room decides here which of the files go to RAM.
//!
//! | in RAM | a search |
//! |---|---|
//! | rows, codes, extended codes | reads nothing |
//! | codes, extended codes, the rest of these | reads nothing |
//! | rows, codes | reads nothing, and compares more rows |
//! | codes, extended codes | reads 1 to 2 rows |
//! | codes, short extended codes | reads 10 to 20 rows |
//! | codes, some of the extended codes, from 256 dimensions on | reads more rows, the fewer of these there are |
//! | product codes with rows' numbers, in place of the two around them | reads 5 to 12 rows |
//! | product codes | reads 30 to 60 rows |
//! | codes, or some of them | reads tens of rows from 256 dimensions on (of fewer it would be hundreds), and the missing codes of the clusters it visits |
//! | nothing | reads whole clusters |
//!
//! Where codes and extended codes leave some room, but not enough for the rest of these, it goes to the first rows of it once nobody
//! else has use for it (`spare`): fewer rows are read.
//!
//! All this is cached ([`Caches`](crate::memory::eviction::Caches)): it goes when others need the memory, and comes back later.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ramlet_format::bitmap;
use ramlet_format::component::Component;
use ramlet_format::envelope::EnvelopeKind;
use ramlet_format::manifest::{FileEntry, SegmentEntry};
use ramlet_index::graph::{GraphInRam, RamForm};
use ramlet_index::ivf::CodesInRam;
use ramlet_index::{CachedRows, CodeKind, Flat, Graph, IndexError, IndexScratch, Ivf, RowsFile, VectorIndex};
use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, ReclaimableBuf, Reservation, give_back_heap, size, size_up};
use roaring::RoaringBitmap;

use super::calibration::calibration_of;
use super::files::{FileContext, Positions, RecordsFile, bad, open_index_rows};
use super::layout;
use super::layout::{
    Rows, codes_bytes, needs_other_codes, small_segment_file_most, was_built_for_another_budget,
};
use super::parts::{PartMap, PartsColumn};
use super::records::RecordsColumn;
use super::sparse::SparseColumn;
use super::{read_into, read_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::eviction::{Caches, EvictionRank, VectorRoom};
use crate::read::lookup::Lookup;
use crate::schema::{Schema, VectorField, VectorKind};
use crate::settings::Placement;

/// Recall that an approximate index aims at when nobody says otherwise (DESIGN section 1).
pub const RECALL: f32 = 0.95;

/// What files are read into RAM through.
const BUFFER_BYTES: usize = 256 << 10;

/// Vectors that are compared from first to last rather than found by an index: in runs they are read in the time of some ten of its reads.
const TOGETHER_BYTES_MAX: u64 = 2 << 20;

/// What memory is counted in.
const PAGE_BYTES: u64 = 4096;

/// One vector of all rows.
pub struct VectorColumn {
    pub slot: u16,
    pub index: Box<dyn VectorIndex>,
    /// Rows that have the vector; `None`: all.
    pub present: Option<RoaringBitmap>,
    _present_heap: Option<Reservation>,
    /// What is, or may come back to be, in RAM.
    cached_files: Vec<CachedFile>,
    /// What extended codes leave over, of as many rows as room is left for.
    spare: Option<CachedFile>,
    files: Files,
    /// Codes that were built, in RAM or not, and of how many rows.
    kinds: Vec<CodeKind>,
    coded_rows: u32,
    /// What of a graph is in RAM.
    graph: Option<GraphInRam>,
    positions: Option<Positions>,
    /// The same vectors by row, where rows lie by tenant and the index has another order.
    by_tenant: Option<Flat>,
}

/// A file that has gone to RAM.
#[derive(Clone)]
pub struct CachedFile {
    component: Component,
    file: RowsFile,
    rows: CachedRows,
}

/// What of a vector is in RAM.
type Level = layout::Level<Component>;

impl Level {
    /// The most needed first.
    fn parts(self) -> impl Iterator<Item = Component> {
        [self.scanned, self.extended, self.residual, self.rows]
            .into_iter()
            .flatten()
    }

    /// What it consists of, where it serves without the last of its rows: those of codes are then read, a few pages a cluster, and of
    /// vectors without codes each row that isn't there.
    fn partial(self) -> Option<Component> {
        let mut parts = self.parts();
        let first = parts.next().filter(|_| parts.next().is_none())?;
        let may_be = matches!(
            first,
            Component::Codes { .. } | Component::Product { .. } | Component::Vector { .. }
        );
        may_be.then_some(first)
    }

    fn has(self, component: Component) -> bool {
        self.parts().any(|part| part == component)
    }

    /// Whether what its codes leave over would spare reads.
    fn leaves_rest(self) -> bool {
        matches!(self.extended, Some(Component::Extended { .. }))
            && self.residual.is_none()
            && self.rows.is_none()
    }
}

/// The files of a vector that may go to RAM.
#[derive(Clone, Default)]
struct Files {
    slot: u16,
    /// Codes, and the vectors if the settings let them.
    parts: Vec<(Component, RowsFile)>,
    /// Without an index a search looks at all rows. Not if there are more than may be cached: they would push out all else, and be read still.
    are_compared: bool,
    /// Whether the segment is one of few rows beside a large one, and up to how many bytes a file is cached before all else then.
    is_small: Arc<AtomicBool>,
    small_most: u64,
    dims: usize,
}

/// Room in RAM for what ranks so, with what makes way for it.
type RoomFor<'r> = &'r dyn Fn(EvictionRank) -> u64;

/// What a component of an ordinary segment ranks as: it tells its kind too.
fn kind_rank(component: Component) -> EvictionRank {
    match component {
        Component::Vector { .. } => EvictionRank::Rows,
        Component::Residual { .. } => EvictionRank::Residual,
        Component::Extended { .. } => EvictionRank::Extended,
        Component::ExtendedLow { .. } => EvictionRank::ExtendedLow,
        _ => EvictionRank::Codes,
    }
}

impl Files {
    fn open(
        file_context: &FileContext,
        entry: &SegmentEntry,
        schema: &Schema,
        slot: u16,
        io: &mut IoContext,
    ) -> Result<Files> {
        let mut files = Files {
            slot,
            ..Files::default()
        };
        // A vector that the settings don't know any more stays on disk.
        let Some(field) = schema.vectors.iter().find(|field| field.slot == slot) else {
            return Ok(files);
        };
        files.dims = field.dim;
        files.small_most = small_segment_file_most(field.dim, file_context.caches.consumer.cap());
        let all = [
            Component::Codes { slot },
            Component::Extended { slot },
            Component::ExtendedLow { slot },
            Component::Product { slot },
            Component::Residual { slot },
            Component::Vector { slot },
        ];
        for component in all {
            let Some(file) = entry.file(component) else {
                continue;
            };
            match kind_rank(component) {
                EvictionRank::Rows if !schema.may_cache(slot) => {}
                EvictionRank::Codes
                | EvictionRank::Extended
                | EvictionRank::ExtendedLow
                | EvictionRank::Residual
                    if !field.settings.may_cache_codes() => {}
                _ => files
                    .parts
                    .push((component, open_index_rows(file_context, entry.id, file, io)?)),
            }
        }
        let index = [Component::Centroids { slot }, Component::GraphMeta { slot }];
        let has_none = index.iter().all(|index| entry.file(*index).is_none());
        let bytes = files.file_bytes(Component::Vector { slot });
        files.are_compared = has_none && bytes <= file_context.caches.consumer.cap();
        Ok(files)
    }

    fn file(&self, component: Component) -> Option<&RowsFile> {
        let same = self.parts.iter().find(|(known, _)| *known == component);
        same.map(|(_, file)| file)
    }

    /// Bytes of RAM for a file.
    fn file_bytes(&self, component: Component) -> u64 {
        let bytes = |file: &RowsFile| u64::from(file.rows()) * file.stride() as u64;
        // The last page is a whole one.
        self.file(component).map_or(0, bytes).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes of RAM for a level, but for what is there already.
    fn bytes(&self, level: Level, before: &[CachedFile]) -> u64 {
        let missing = level
            .parts()
            .filter(|component| !before.iter().any(|cached| cached.component == *component));
        missing.map(|component| self.file_bytes(component)).sum()
    }

    /// What makes way for a file, and for what it does.
    fn rank(&self, component: Component) -> EvictionRank {
        match self.is_small.load(Ordering::Relaxed) && self.file_bytes(component) <= self.small_most {
            true => EvictionRank::SmallSegments,
            false if self.are_compared => EvictionRank::Compared,
            false => kind_rank(component),
        }
    }

    /// What makes way for a level of an ordinary segment.
    fn level_rank(&self) -> EvictionRank {
        match self.are_compared {
            true => EvictionRank::Compared,
            false => EvictionRank::Rows,
        }
    }

    /// What makes way for a level: less than rows, or more for rows that are all compared and for what consists of a small segment's files.
    fn rank_of(&self, level: Level) -> EvictionRank {
        match level
            .parts()
            .all(|part| self.rank(part) == EvictionRank::SmallSegments)
        {
            true => EvictionRank::SmallSegments,
            false => self.level_rank(),
        }
    }

    /// What there could be in RAM, the best first. The last is nothing.
    fn levels(&self) -> Vec<Level> {
        let slot = self.slot;
        let there = |component| self.file(component).map(|_| component);
        let parts = layout::Parts {
            scanned: there(Component::Codes { slot }),
            extended: there(Component::Extended { slot }),
            low: there(Component::ExtendedLow { slot }),
            product: there(Component::Product { slot }),
            residual: there(Component::Residual { slot }),
            rows: there(Component::Vector { slot }),
        };
        layout::levels(match self.is_small.load(Ordering::Relaxed) {
            true => parts.of_small_segment(self.file(Component::Vector { slot }).map_or(0, RowsFile::rows)),
            false => parts,
        })
    }

    /// How many levels are better.
    fn place(&self, level: Level) -> usize {
        let levels = self.levels();
        levels
            .iter()
            .position(|known| *known == level)
            .unwrap_or(levels.len())
    }

    /// The best level that fits, beside what is cached already.
    fn choose(&self, room: RoomFor<'_>, before: &[CachedFile]) -> Level {
        self.choose_from(0, room, before)
    }

    /// The same, leaving out the `first` best ones.
    fn choose_from(&self, first: usize, room: RoomFor<'_>, before: &[CachedFile]) -> Level {
        let (ordinary, of_small) = (room(self.level_rank()), room(EvictionRank::SmallSegments));
        let fits = |level: &Level| {
            let freed = before.iter().filter(|cached| !level.has(cached.component));
            let freed: u64 = freed.map(CachedFile::bytes).sum();
            let room = match self.rank_of(*level) {
                EvictionRank::SmallSegments => of_small,
                _ => ordinary,
            };
            self.least_bytes(*level, before) <= room + freed
        };
        let level = self
            .levels()
            .into_iter()
            .skip(first)
            .find(fits)
            .unwrap_or_default();
        // The last but none, as much of it as there is room for: each row of product codes that isn't there is read, but vectors are a dozen times
        // as long, and without codes each of these is read.
        let levels = self.levels().into_iter().skip(first);
        let mut in_part = levels.filter(|level| self.may_be_partial(*level));
        match level == Level::default() {
            true => in_part.next_back().unwrap_or(level),
            false => level,
        }
    }

    /// Bytes of RAM with which a level is worth taking, but for what is there already.
    fn least_bytes(&self, level: Level, before: &[CachedFile]) -> u64 {
        let bytes = self.bytes(level, before);
        if self.may_be_partial(level) {
            return bytes / 4 * 3;
        }
        let Some(extended) = self.partial_extended(level) else {
            return bytes;
        };
        let is_there = before.iter().any(|cached| cached.component == extended);
        match is_there {
            true => bytes,
            false => bytes - self.file_bytes(extended) + self.extended_least(extended),
        }
    }

    /// Bytes of extended codes with which they serve.
    fn extended_least(&self, extended: Component) -> u64 {
        let has_smaller = matches!(extended, Component::Extended { slot } if self.file(Component::ExtendedLow { slot }).is_some());
        layout::extended_least(self.dims, self.file_bytes(extended), has_smaller)
    }

    /// Whether a level serves with what has come of it beside what was there `before`, which comes back by itself.
    fn serves(&self, level: Level, cached_files: &[CachedFile], before: &[CachedFile]) -> bool {
        let has_enough = |extended: Component| {
            let is_it = |cached: &&CachedFile| cached.component == extended;
            let enough = |cached: &CachedFile| cached.bytes() >= self.extended_least(extended);
            before.iter().any(|cached| is_it(&cached)) || cached_files.iter().find(is_it).is_some_and(enough)
        };
        let is_whole = cached_files.len() == level.parts().count();
        is_whole && self.partial_extended(level).is_none_or(has_enough)
    }

    /// The extended codes of a level that serves without the last of them.
    fn partial_extended(&self, level: Level) -> Option<Component> {
        let is_last = level.residual.is_none() && level.rows.is_none();
        level.extended.filter(|_| is_last)
    }

    /// Whether a component of a level serves in part.
    fn is_partial(&self, level: Level, component: Component) -> bool {
        let extended = self.partial_extended(level) == Some(component);
        self.may_be_partial(level) || extended && layout::extended_serve_in_part(self.dims)
    }

    /// Whether a level serves in part. Codes of one bit do where there are no product codes, which leave fewer rows to read.
    fn may_be_partial(&self, level: Level) -> bool {
        let slot = self.slot;
        match level.partial() {
            Some(Component::Codes { .. }) => self.file(Component::Product { slot }).is_none(),
            partial => partial.is_some(),
        }
    }

    /// Takes the best level that there is room for into RAM, beside what was cached `before` or in its place. Where memory
    /// has run short meanwhile, the next best one: a part of a level may be worse.
    fn take(
        &self,
        before: &[CachedFile],
        file_context: &FileContext,
        io: &mut IoContext,
    ) -> Result<Vec<CachedFile>> {
        let (mut held, mut first) = (before.to_vec(), 0);
        loop {
            let caches = &file_context.caches;
            let free = caches.consumer.available();
            let level = self.choose_from(first, &|rank| free + caches.below(rank), &held);
            let lacking = self.bytes(level, &held).saturating_sub(free);
            if lacking > 0 {
                caches.evict_below(self.rank_of(level), lacking);
            }
            // What the new level has no use for makes room for what it has.
            for cached in held.iter().filter(|cached| !level.has(cached.component)) {
                cached.rows.release(u64::MAX);
            }
            let cached_files = load(self, level, &held, file_context, io)?;
            if self.serves(level, &cached_files, before) {
                return Ok(cached_files);
            }
            (held, first) = (cached_files, self.place(level) + 1);
        }
    }

    /// What a level leaves over, with nothing in RAM yet.
    fn spare(&self, level: Level, file_context: &FileContext) -> Result<Option<CachedFile>> {
        let component = Component::Residual { slot: self.slot };
        let Some(file) = self.file(component).filter(|_| level.leaves_rest()) else {
            return Ok(None);
        };
        let rows = match CachedRows::empty(file, &file_context.caches.consumer) {
            Ok(rows) => rows,
            // Without addresses it is done without.
            Err(IndexError::OverBudget(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        file_context
            .caches
            .register(EvictionRank::Spare, rows.reclaimable());
        let file = file.clone();
        Ok(Some(CachedFile {
            component,
            file,
            rows,
        }))
    }
}

impl VectorColumn {
    /// Opens a vector's files; what goes to RAM is chosen by the room there is, and `known` kept of what is there already.
    pub fn open(
        file_context: &FileContext,
        entry: &SegmentEntry,
        schema: &Schema,
        slot: u16,
        known: Option<&VectorColumn>,
        io: &mut IoContext,
    ) -> Result<VectorColumn> {
        let files = match known {
            Some(known) => known.files.clone(),
            None => Files::open(file_context, entry, schema, slot, io)?,
        };
        let before = known.map_or(&[][..], |known| &known.cached_files);
        let cached_files = files.take(before, file_context, io)?;
        let level = level_of(&cached_files);
        let known_spare = known.and_then(|known| known.spare.clone());
        let spare = match known_spare.filter(|_| level.leaves_rest()) {
            None => files.spare(level, file_context)?,
            spare => spare,
        };
        let id = entry.id;
        let one = |component| {
            entry.file(component).ok_or_else(|| {
                Error::corrupt(format!("segment {id}: the manifest names no {component:?} file"))
            })
        };
        let rows_of = |component, io: &mut IoContext| open_index_rows(file_context, id, one(component)?, io);
        let metadata = |file: &FileEntry| -> Result<AnonBuf> {
            let mut bytes = AnonBuf::reserved(&file_context.metadata.waiting(), file.bytes as usize)?;
            read_into(file_context.storage.as_ref(), file, &mut bytes)?;
            Ok(bytes)
        };
        let field = schema.vectors.iter().find(|field| field.slot == slot);
        let recall = field.and_then(|field| field.settings.recall).unwrap_or(RECALL);
        // Of the index, not of the vectors: `hnsw_config` says where it is.
        let stays = field.is_some_and(|field| field.settings.graph == Some(Placement::Cold));
        let mut positions = known.and_then(|known| known.positions.clone());
        let mut positions_of = |io: &mut IoContext| -> Result<ramlet_index::RowsFile> {
            let file = one(Component::Position { slot })?;
            let opened = || Positions::open(file_context, id, file, stays, io);
            let known = positions.take().map_or_else(opened, Ok)?;
            Ok(positions.insert(known).rows.clone())
        };
        let is_multi = field.is_some_and(|field| field.kind == VectorKind::Multi);
        let (present, heap) = open_presence(file_context, entry, slot)?;
        let mut clusters = |io: &mut IoContext| -> Result<Option<Ivf>> {
            let Some(centroids) = entry.file(Component::Centroids { slot }) else {
                return Ok(None);
            };
            let rows = rows_of(Component::Vector { slot }, io)?;
            let positions = positions_of(io)?;
            let dims = field.map_or(0, |field| field.dim);
            // Of multivectors it is parts that are numbered.
            let numbered = if is_multi { rows.rows() } else { entry.rows };
            let (rows, mut codes) = in_ram(rows, cached_files.iter().chain(&spare), dims, numbered)?;
            let sq8 = Component::Sq8 { slot };
            if entry.file(sq8).is_some() {
                codes.sq8 = Some(rows_of(sq8, io)?);
            }
            let bytes = metadata(centroids)?;
            let ivf = Ivf::new(rows, positions, bytes, codes, recall)
                .and_then(|ivf| ivf.with_calibration(calibration_of(entry, slot)))?;
            Ok(Some(ivf))
        };
        let (mut kinds, mut coded_rows, mut graph_ram) = (Vec::new(), 0, None);
        let index: Box<dyn VectorIndex> = if let Some(records) = entry.file(Component::VectorRecords { slot })
        {
            let rows = present
                .as_ref()
                .map_or(entry.rows, |present| present.len() as u32);
            let mut file = RecordsFile::open(file_context, id, records, io)?;
            let starts = entry.file(Component::PartStarts { slot });
            let fits = is_multi && schema.may_cache(slot) && records.bytes <= file_context.pinnable_now();
            // Beside an index few of them are read.
            if fits && starts.is_none() {
                file.pin(&file_context.pinned, io)?;
            }
            let records = RecordsColumn::new(file, rows);
            match (starts, clusters(io)?) {
                (Some(starts), Some(parts)) => {
                    kinds.extend(parts.kinds());
                    coded_rows = parts.rows();
                    let map = open_parts(file_context, starts, present.clone(), parts.rows())?;
                    Box::new(PartsColumn::new(records, Box::new(parts), map))
                }
                _ => match SparseColumn::open(file_context, entry, slot, records, io)? {
                    Ok(column) => Box::new(column),
                    Err(rows) => Box::new(rows),
                },
            }
        } else if let Some(meta) = entry.file(Component::GraphMeta { slot }) {
            let nodes = rows_of(Component::Graph { slot }, io)?;
            let positions = positions_of(io)?;
            let graph = Graph::open(nodes, positions, metadata(meta)?, recall)?;
            let known = known.and_then(|known| known.graph.clone());
            let graph = graph_in_ram(
                graph.with_width(file_context.graph_width),
                field,
                known,
                file_context,
                io,
            )?;
            graph_ram = graph.in_ram().cloned();
            Box::new(graph)
        } else if let Some(ivf) = clusters(io)? {
            kinds.extend(ivf.kinds());
            coded_rows = ivf.rows();
            Box::new(ivf)
        } else {
            let rows = rows_of(Component::Vector { slot }, io)?;
            let held = cached_files
                .iter()
                .find(|cached| kind_rank(cached.component) == EvictionRank::Rows);
            Box::new(Flat::new(match held {
                Some(cached) => rows.with_rows_in_ram(cached.rows.clone()),
                None => rows,
            }))
        };
        let by_tenant = match entry.file(Component::VectorByTenant { slot }) {
            Some(file) => Some(Flat::new(open_index_rows(file_context, id, file, io)?)),
            None => None,
        };
        Ok(VectorColumn {
            slot,
            index,
            present,
            _present_heap: heap,
            cached_files,
            spare,
            files,
            kinds,
            coded_rows,
            graph: graph_ram,
            positions,
            by_tenant,
        })
    }

    /// What reads rows that lie side by side at once.
    pub fn in_row_order(&self) -> &dyn VectorIndex {
        self.by_tenant.as_ref().map_or(self.index.as_ref(), |flat| flat)
    }

    /// Whether some file has its vectors by row: rows without one hold anything there.
    pub fn is_by_row(&self) -> bool {
        self.by_tenant.is_some() || self.index.kind() == "flat"
    }

    /// Rows `only` of a tenant, where they lie so near to each other that all are compared in the time of a few reads: their vectors,
    /// and the range in which they are.
    pub fn rows_together(&self, only: &RoaringBitmap) -> Option<(&RowsFile, Range<u32>)> {
        let file = self.by_tenant.as_ref()?.file();
        let range = only.min()?..only.max()? + 1;
        let bytes = u64::from(range.len() as u32) * file.stride() as u64;
        let is_in_ram = self
            .cached_files
            .iter()
            .any(|cached| kind_rank(cached.component) == EvictionRank::Rows && cached.missing() == 0);
        (bytes <= TOGETHER_BYTES_MAX && !is_in_ram).then_some((file, range))
    }

    /// Where each row is in its index.
    pub fn positions(&self) -> Option<&Positions> {
        self.positions.as_ref()
    }

    /// Rows that have the vector, of so many of the segment.
    pub fn rows(&self, of_segment: u32) -> u64 {
        let present = self.present.as_ref();
        present.map_or(u64::from(of_segment), RoaringBitmap::len)
    }

    pub fn has(&self, row: u32) -> bool {
        self.present.as_ref().is_none_or(|present| present.contains(row))
    }

    /// Adds to `counts` in how many rows each of these dimensions of a sparse vector is.
    pub fn document_frequencies(&self, dims: &[u32], lookup: &mut Lookup, counts: &mut [u64]) -> Result<()> {
        let Lookup { io, index, .. } = lookup;
        let counted = self.index.document_frequencies(dims, index, io, counts);
        counted.map_err(Error::from)
    }

    /// What is, or may come back to be, in RAM.
    pub fn cached_files(&self) -> impl Iterator<Item = &CachedFile> {
        self.cached_files.iter().chain(&self.spare)
    }

    /// Whether it has clusters, with other codes than `field`'s settings ask for now.
    pub fn has_other_codes(&self, field: &VectorField) -> bool {
        matches!(self.index.kind(), "ivf" | "parts") && needs_other_codes(field, &self.kinds)
    }

    /// Whether its clusters got their codes in another budget than one of which `most` bytes may be cached, and would serve
    /// much better written anew, as one of a collection of so many rows.
    pub fn was_built_for_another_budget(&self, field: &VectorField, all: u64, most: u64) -> bool {
        let rows = Rows {
            here: self.coded_rows,
            all,
        };
        self.index.kind() == "ivf" && was_built_for_another_budget(field, rows, &self.kinds, most)
    }

    /// Whether a better level than this one would fit in `room`; what makes way for it then.
    pub fn could_improve(&self, room: RoomFor<'_>) -> Option<EvictionRank> {
        let best = self.files.choose(room, &self.cached_files);
        let is_better = self.files.place(best) < self.files.place(level_of(&self.cached_files));
        is_better.then(|| self.files.rank_of(best))
    }

    /// Whether a better level would fit in `room`, or all that is missing of this one.
    pub fn would_gain(&self, room: RoomFor<'_>) -> bool {
        let missing = || self.missing().into_iter().map(CachedFile::missing).sum::<u64>();
        self.could_improve(room).is_some() || (1..=room(self.files.level_rank())).contains(&missing())
    }

    /// Notes whether its segment is one of few rows beside a large one.
    pub fn note_small(&self, is_small: bool, caches: &Caches) {
        if self.files.is_small.swap(is_small, Ordering::Relaxed) != is_small {
            for cached in &self.cached_files {
                caches.rank(&cached.rows.reclaimable(), self.files.rank(cached.component));
            }
        }
    }

    /// Whether more of it is in RAM than of `other`.
    pub fn is_better_than(&self, other: &VectorColumn) -> bool {
        let place = |column: &VectorColumn| self.files.place(level_of(&column.cached_files));
        place(self) < place(other)
    }

    /// Whether each search reads whole clusters for want of codes.
    pub fn is_bare(&self) -> bool {
        let is_first_stage = |component: &Component| kind_rank(*component) == EvictionRank::Codes;
        let has_codes = |cached: &CachedFile| is_first_stage(&cached.component) && cached.bytes() > 0;
        let mut files = self.files.parts.iter();
        !self.cached_files.iter().any(has_codes) && files.any(|(component, _)| is_first_stage(component))
    }

    /// What is missing of it, the most needed first.
    fn missing(&self) -> Vec<&CachedFile> {
        let mut missing: Vec<&CachedFile> = self
            .cached_files
            .iter()
            .filter(|cached| cached.missing() > 0)
            .collect();
        missing.sort_by_key(|cached| std::cmp::Reverse(kind_rank(cached.component)));
        missing
    }

    /// Whether some of what was given up would find room again.
    pub fn could_restore(&self, room: &VectorRoom) -> bool {
        let most_needed = self.missing().into_iter().next();
        most_needed.is_some_and(|cached| room.for_rank(self.files.rank(cached.component)) >= cached.least())
    }

    /// Reads what was given up into RAM again, the most needed first, as far as there is room; the bytes that came back. What is missed
    /// less makes way, whatever segment it is of.
    pub fn restore(&self, room: &VectorRoom, io: &mut IoContext) -> Result<u64> {
        let mut restored = 0;
        let mut buf = AnonBuf::new(0);
        for cached in self.missing() {
            let rank = self.files.rank(cached.component);
            if room.for_rank(rank) < cached.least() {
                break;
            }
            let left = room.make(rank, cached.least());
            buf.ensure(BUFFER_BYTES)?;
            give_back_heap();
            let back = cached.rows.restore_some(&cached.file, left, io, &mut buf);
            restored += back?;
        }
        Ok(restored)
    }

    /// Whether `room` that nobody else has use for would spare reads.
    pub fn would_save_reads(&self, room: u64) -> bool {
        let lacks = |spare: &CachedFile| spare.missing() > 0 && room >= spare.least();
        self.spare.as_ref().is_some_and(lacks)
    }

    /// Reads some more of what the codes leave over, 2 MiB at most; the bytes that came.
    pub fn spare(&self, io: &mut IoContext) -> Result<u64> {
        let Some(spare) = &self.spare else { return Ok(0) };
        let mut buf = AnonBuf::new(0);
        buf.ensure(BUFFER_BYTES)?;
        give_back_heap();
        let most = ReclaimableBuf::PIECE_BYTES as u64;
        let came = spare.rows.restore_some(&spare.file, most, io, &mut buf);
        came.map_err(Error::from)
    }
}

/// What files in RAM amount to.
fn level_of(cached_files: &[CachedFile]) -> Level {
    let of = |wanted: &dyn Fn(EvictionRank) -> bool| {
        let mut cached_files = cached_files.iter().map(|cached| cached.component);
        cached_files.find(|component| wanted(kind_rank(*component)))
    };
    Level {
        scanned: of(&|rank| rank == EvictionRank::Codes),
        extended: of(&|rank| matches!(rank, EvictionRank::Extended | EvictionRank::ExtendedLow)),
        residual: of(&|rank| rank == EvictionRank::Residual),
        rows: of(&|rank| rank == EvictionRank::Rows),
    }
}

impl CachedFile {
    /// Bytes that are not in RAM now.
    fn missing(&self) -> u64 {
        self.rows.bytes_whole().saturating_sub(self.rows.bytes())
    }

    /// Bytes that are in RAM now.
    pub fn bytes(&self) -> u64 {
        self.rows.bytes()
    }

    /// Bytes of the file's rows, in RAM or not.
    pub fn bytes_whole(&self) -> u64 {
        self.rows.bytes_whole()
    }

    /// Memory with which it is worth while to begin.
    fn least(&self) -> u64 {
        self.missing().min(self.rows.piece_bytes())
    }

    pub fn kind(&self) -> &'static str {
        match self.component {
            Component::Extended { .. } => "extended codes",
            Component::ExtendedLow { .. } => "short extended codes",
            Component::Product { .. } => "product codes",
            Component::Residual { .. } => "residual codes",
            Component::Vector { .. } => "rows",
            _ => "codes",
        }
    }
}

/// Refuses further points when what the settings want in RAM always would take more than can ever be there.
pub fn check_pinned(file_context: &FileContext, schema: &Schema, points: u64) -> Result<()> {
    let per_row = |field: &VectorField| {
        let rows = match field.settings.rows {
            Some(Placement::Pinned) => field.row_bytes() as u64 + 4,
            _ => 0,
        };
        let codes = match field.settings.codes {
            Some(Placement::Pinned) => codes_bytes(field),
            _ => 0,
        };
        rows + codes
    };
    let wanted = schema
        .vectors
        .iter()
        .map(per_row)
        .sum::<u64>()
        .saturating_mul(points);
    let most = file_context.caches.consumer.cap();
    match wanted <= most {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "what the settings want in RAM takes {} for {points} points, at most {} are possible. Waiting doesn't help: let some of it be \
                 on disk (`on_disk`, `memory: cached`), delete points, or start with a larger --memory",
                size_up(wanted),
                size(most)
            ),
        )),
    }
}

/// Edges of a node in RAM, unless the settings say otherwise (the API's `m`, twice).
const GRAPH_EDGES: usize = 32;

/// Takes edges and codes of a graph into RAM where the settings let them and there is room that nobody else was promised, and
/// its vectors on the same terms: the three placements of a graph. What is there already stays.
fn graph_in_ram(
    graph: Graph,
    field: Option<&VectorField>,
    known: Option<GraphInRam>,
    file_context: &FileContext,
    io: &mut IoContext,
) -> Result<Graph> {
    let Some(field) = field.filter(|field| field.settings.graph != Some(Placement::Cold)) else {
        return Ok(graph);
    };
    let edges = field.settings.hnsw.m.map_or(GRAPH_EDGES, |m| 2 * m);
    let edges = edges.clamp(4, graph.degree().max(4));
    let vectors: &[bool] = match field.settings.may_cache_rows() {
        true => &[true, false],
        false => &[false],
    };
    let mut forms = vectors.iter().map(|vectors| RamForm {
        edges,
        vectors: *vectors,
    });
    if let Some(known) = known.filter(|known| forms.clone().any(|form| form == known.form())) {
        return Ok(graph.with_ram(known));
    }
    let room = file_context.pinnable_now();
    let Some(form) = forms.find(|form| graph.ram_bytes(*form) <= room) else {
        return Ok(graph);
    };
    let loaded = AnonBuf::reserved(&file_context.pinned, BUFFER_BYTES)
        .map_err(IndexError::from)
        .and_then(|buf| {
            let mut scratch = IndexScratch::new(buf);
            graph.in_ram_of(form, &file_context.pinned, &mut scratch, io)
        });
    match loaded {
        Ok(ram) => Ok(graph.with_ram(ram)),
        // Others were faster.
        Err(IndexError::OverBudget(_)) => Ok(graph),
        Err(error) => Err(error.into()),
    }
}

/// The files of a level in RAM. Where memory has run short meanwhile, what is needed less stays behind.
fn load(
    files: &Files,
    level: Level,
    known: &[CachedFile],
    file_context: &FileContext,
    io: &mut IoContext,
) -> Result<Vec<CachedFile>> {
    let mut cached_files = Vec::new();
    let mut buf = AnonBuf::new(0);
    for component in level.parts() {
        if let Some(cached) = known.iter().find(|cached| cached.component == component) {
            cached_files.push(cached.clone());
            continue;
        }
        let Some(file) = files.file(component) else { break };
        buf.ensure(BUFFER_BYTES)?;
        // What a build had before is free now, but not yet the kernel's.
        give_back_heap();
        let load = match files.is_partial(level, component) {
            true => CachedRows::load_some,
            false => CachedRows::load,
        };
        let rows = match load(file, &file_context.caches.consumer, io, &mut buf) {
            Ok(rows) => rows,
            Err(IndexError::OverBudget(_)) => break,
            Err(error) => return Err(error.into()),
        };
        file_context
            .caches
            .register(files.rank(component), rows.reclaimable());
        cached_files.push(CachedFile {
            component,
            file: file.clone(),
            rows,
        });
    }
    Ok(cached_files)
}

/// What the index is opened with.
fn in_ram<'p>(
    rows: RowsFile,
    cached_files: impl Iterator<Item = &'p CachedFile>,
    dims: usize,
    segment_rows: u32,
) -> Result<(RowsFile, CodesInRam)> {
    let (mut rows, mut codes) = (rows, CodesInRam::default());
    for cached in cached_files {
        match kind_rank(cached.component) {
            EvictionRank::Rows => rows = rows.with_rows_in_ram(cached.rows.clone()),
            EvictionRank::Codes => {
                codes.scanned = Some((kind_of(cached, dims, segment_rows)?, cached.rows.clone()));
                codes.scanned_file = Some(cached.file.clone());
            }
            EvictionRank::Residual => {
                codes.residual = Some((kind_of(cached, dims, segment_rows)?, cached.rows.clone()))
            }
            _ => codes.extended = Some((kind_of(cached, dims, segment_rows)?, cached.rows.clone())),
        }
    }
    Ok((rows, codes))
}

/// What the build chose may differ from what it would choose now: the length of the rows tells.
fn kind_of(cached: &CachedFile, dims: usize, segment_rows: u32) -> Result<CodeKind> {
    let stride = cached.rows.stride();
    let kinds: Vec<CodeKind> = match cached.component {
        Component::Codes { .. } => vec![CodeKind::OneBit],
        Component::Product { .. } => {
            let m = u16::try_from(
                stride / CodeKind::Product { m: 1, row_ids: false }.row_bytes(dims, segment_rows),
            );
            m.map(|m| CodeKind::Product { m, row_ids: false })
                .into_iter()
                .collect()
        }
        Component::Residual { .. } => (2..=7).map(|bits| CodeKind::Residual { bits }).collect(),
        _ => (2..=8).map(|bits| CodeKind::Extended { bits }).collect(),
    };
    let same = |kind: &CodeKind| kind.row_bytes(dims, segment_rows) == stride;
    kinds.into_iter().find(same).ok_or_else(|| {
        Error::corrupt(format!(
            "{:?}: rows of {stride} bytes for {dims} dimensions",
            cached.component
        ))
    })
}

/// From parts to rows. A copy of the rows that have the vector is as large as the bitmap of first parts at most.
fn open_parts(
    file_context: &FileContext,
    starts: &FileEntry,
    present: Option<RoaringBitmap>,
    parts: u32,
) -> Result<PartMap> {
    let copy = present.as_ref().map_or(0, RoaringBitmap::serialized_size) as u64;
    let heap = file_context.metadata.waiting().reserve(starts.bytes + copy)?;
    let bytes = read_whole(file_context.storage.as_ref(), starts)?;
    let first = bitmap::decode(EnvelopeKind::Presence, parts, &bytes).map_err(|e| bad(&starts.name, e))?;
    Ok(PartMap::new(first, present, parts, heap))
}

fn open_presence(
    file_context: &FileContext,
    entry: &SegmentEntry,
    slot: u16,
) -> Result<(Option<RoaringBitmap>, Option<Reservation>)> {
    let Some(file) = entry.file(Component::Presence { slot }) else {
        return Ok((None, None));
    };
    let heap = file_context.metadata.waiting().reserve(file.bytes)?;
    let bytes = read_whole(file_context.storage.as_ref(), file)?;
    let rows = bitmap::decode(EnvelopeKind::Presence, entry.rows, &bytes).map_err(|e| bad(&file.name, e))?;
    Ok((Some(rows), Some(heap)))
}
