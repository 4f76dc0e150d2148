//! Open segment files of two shapes: fixed rows and byte records. Sorted keys: [`table`](super::table).

use std::iter::Peekable;
use std::sync::Arc;

use ramlet_format::component::Component;
use ramlet_format::footer::{Footer, index_payload};
use ramlet_format::manifest::FileEntry;
use ramlet_format::records::{BlockAt, RecordsBlock, RecordsIndex};
use ramlet_format::rows::RowsMeta;
use ramlet_format::{FormatError, block};
use ramlet_io::{
    BlockCache, BlockFile, IoContext, PAGE, RecordCache, SearchStage, Storage, Symbols, block_of,
};
use ramlet_memory::{AnonBuf, Consumer, ReclaimableView, Reservation};

use super::kept::KeptRecords;
use super::names::seed;
use crate::error::{Error, Result};
use crate::faults::mutants;
use crate::limits::{FILES_SHARE, SEGMENT_FILE_BYTES};
use crate::memory::eviction::{Caches, EvictionRank};

/// Small segments are merged early only where their files take more than this part.
const CROWDED_SHARE: u64 = 16;

/// Pages of one sequential read.
const RUN_PAGES: u32 = 64;

/// Where a segment's files come from, and what they may keep in RAM.
#[derive(Clone)]
pub struct FileContext {
    pub storage: Arc<dyn Storage>,
    pub cache: Arc<BlockCache>,
    /// Fences, filters and bitmaps: a few bytes a block, needed to read at all.
    pub metadata: Consumer,
    /// Whole files kept in RAM because they fit.
    pub pinned: Consumer,
    /// What is kept in RAM as long as nobody else needs the memory.
    pub caches: Arc<Caches>,
    /// Nodes of a graph that a search reads at once: [`graph_width`].
    pub graph_width: usize,
}

/// Reads that keep a disk busy, of all searches together.
const READS_AT_ONCE: usize = 64;
/// A beam search that reads more nodes at once reads many in vain; one that reads fewer waits for each.
const GRAPH_WIDTHS: std::ops::RangeInclusive<usize> = 2..=8;

/// Nodes of a graph that each of so many search threads reads at once, so that together they keep the disk busy.
pub fn graph_width(search_threads: usize) -> usize {
    (READS_AT_ONCE / search_threads.max(1)).clamp(*GRAPH_WIDTHS.start(), *GRAPH_WIDTHS.end())
}

impl FileContext {
    /// A reservation of metadata that things work without: it leaves half to what segments can't be read without. Caches
    /// give way for it.
    pub fn spare(&self, bytes: u64) -> Option<Reservation> {
        (bytes <= self.spare_bytes()).then(|| self.metadata.waiting().reserve(bytes).ok())?
    }

    /// Bytes of metadata that things work without: half is left to what segments can't be read without.
    pub fn spare_bytes(&self) -> u64 {
        self.metadata
            .available()
            .saturating_sub(self.metadata_bytes() / 2)
    }

    /// The same once all that others hold for a moment, as requests do, is given back.
    pub fn free_after_requests(&self) -> u64 {
        self.metadata
            .available_in_time()
            .saturating_sub(self.metadata_bytes() / 2)
    }

    /// Bytes of metadata that an index's centroids may take, as they are searched and while they are built: what is left when a quarter of all
    /// is kept for what else segments can't be read without. (Those of the segments that are merged go when it is done.)
    pub fn centroids_room(&self) -> u64 {
        let kept = self.metadata_bytes() / 4;
        self.metadata.available().saturating_sub(kept)
    }

    /// What metadata may take beside the data that is pinned: they share the memory.
    fn metadata_bytes(&self) -> u64 {
        self.metadata.cap().saturating_sub(self.pinned.used())
    }

    /// Bytes that may be pinned now, of memory that nobody else was promised: what is spare makes way.
    pub fn pinnable_now(&self) -> u64 {
        let now = self.pinned.available_now() + self.caches.below(EvictionRank::Payloads);
        now.min(self.pinned.available())
    }

    /// Whether small segments whose open files take so many bytes are too many beside the next one, whose take `next`: what a merge of
    /// them needs, while they are still there, must stay free.
    pub fn has_too_many_files(&self, bytes: u64, next: u64) -> bool {
        let room = self.metadata_bytes();
        bytes > room / CROWDED_SHARE && self.metadata.available() < room / FILES_SHARE + 2 * next
    }

    /// Refuses new data while the next segments, of so many files each, might find no room for their metadata: what was acknowledged
    /// could never leave the memtables then. There must be room for one, and for what it is merged into.
    pub fn check_room(&self, files: u64) -> Result<()> {
        let of_files = 2 * files * SEGMENT_FILE_BYTES;
        let least =
            (self.metadata_bytes() / FILES_SHARE).max(self.metadata_bytes() / CROWDED_SHARE + of_files);
        match self.metadata.available() >= least {
            // Caches may hold some of it: they give way when the segments need it.
            true => Ok(()),
            false => Ok(self.metadata.reserve(least).map(drop)?),
        }
    }
}

pub(super) fn bad(name: &str, e: FormatError) -> Error {
    Error::corrupt(format!("{name}: {e}"))
}

/// A file whose length and footer agree with the manifest.
pub(super) struct Opened {
    pub file: BlockFile,
    pub footer: Footer,
    seed: u64,
    pub name: String,
}

pub(super) fn open(
    file_context: &FileContext,
    segment: u64,
    entry: &FileEntry,
    io: &mut IoContext,
) -> Result<Opened> {
    let file = file_context.storage.open(&entry.name)?;
    if file.len() != entry.bytes || entry.bytes < PAGE as u64 {
        let found = file.len();
        let why = format!("{}: {found} bytes, the manifest says {}", entry.name, entry.bytes);
        return Err(Error::corrupt(why));
    }
    let seed = seed(segment, entry.component);
    let verify = match mutants::is("checksum-not-checked") {
        true => |_: u64, _: u64, _: &[u8]| true,
        false => block::verify,
    };
    let cost = file_context.metadata.reserve(SEGMENT_FILE_BYTES)?;
    let file = BlockFile::new(file, seed, verify, Some(file_context.cache.clone())).paid_by(cost);
    let last = entry.bytes / PAGE as u64 - 1;
    let mut buf = AnonBuf::new(PAGE);
    let page = file.read_run(io, last, 1, 1, &mut buf)?;
    let footer = Footer::parse(page, seed, last).map_err(|e| bad(&entry.name, e))?;
    Ok(Opened {
        file,
        footer,
        seed,
        name: entry.name.clone(),
    })
}

impl Opened {
    pub fn index(&self, io: &mut IoContext) -> Result<Vec<u8>> {
        let mut buf = AnonBuf::new(PAGE);
        let pages = self.footer.index_pages;
        let region = match u32::try_from(pages) {
            Ok(0) => &[][..],
            Ok(pages) => self
                .file
                .read_run(io, self.footer.index_page, pages, 1, &mut buf)?,
            Err(_) => return Err(Error::corrupt(format!("{}: index of {pages} pages", self.name))),
        };
        index_payload(region, &self.footer, self.seed).map_err(|e| bad(&self.name, e))
    }
}

/// From now on [`Cacheable::fill`] may be called for the file.
pub(super) fn make_cacheable(file: &mut BlockFile, file_context: &FileContext, rank: EvictionRank) {
    // Without addresses it is read from disk.
    if let Ok(Some(reclaimable)) = file.make_cacheable(&file_context.caches.consumer) {
        file_context.caches.register(rank, reclaimable);
    }
}

/// A file that is kept in RAM as far as nobody else needs the memory.
pub trait Cacheable {
    fn block_file(&self) -> &BlockFile;
    /// First page and pages of the block that has a page.
    fn block_at(&self, page: u64) -> (u64, u32);

    /// From now on what is in RAM goes as what ranks so does.
    fn rank(&self, caches: &Caches, rank: EvictionRank) {
        if let Some(reclaimable) = self.block_file().reclaimable() {
            caches.rank(&reclaimable, rank);
        }
    }

    /// Bytes that aren't in RAM and could be.
    fn missing(&self) -> u64 {
        let file = self.block_file();
        file.cacheable_bytes().saturating_sub(file.cached().len() as u64)
    }

    /// Reads the next piece; the bytes that came.
    fn fill(&self, io: &mut IoContext) -> Result<u64> {
        Ok(self.block_file().fill_cached(io, &|page| self.block_at(page))?)
    }

    /// Bytes that it takes of RAM when it is cached as a whole.
    fn whole_bytes(&self) -> u64 {
        self.block_file().cacheable_bytes()
    }

    /// Bytes of RAM.
    fn cached_bytes(&self) -> u64 {
        self.block_file().cached().memory_bytes()
    }
}

impl Cacheable for RecordsFile {
    fn block_file(&self) -> &BlockFile {
        &self.file
    }
    fn block_at(&self, page: u64) -> (u64, u32) {
        self.index
            .block_at_page(page)
            .map_or((page, 1), |at| (at.page, at.pages))
    }
}

/// Fixed-size rows.
pub struct RowsFile {
    pub file: BlockFile,
    pub meta: RowsMeta,
    name: String,
}

impl RowsFile {
    pub fn open(
        file_context: &FileContext,
        segment: u64,
        entry: &FileEntry,
        io: &mut IoContext,
    ) -> Result<RowsFile> {
        let Opened {
            file, footer, name, ..
        } = open(file_context, segment, entry, io)?;
        let meta = RowsMeta::open(&footer).map_err(|e| bad(&name, e))?;
        Ok(RowsFile { file, meta, name })
    }

    pub fn rows(&self) -> u64 {
        self.meta.rows
    }

    pub fn row_bytes(&self) -> usize {
        self.meta.layout.row_bytes() as usize
    }

    /// One row; one read unless cached.
    pub fn row<'a>(&'a self, row: u64, io: &mut IoContext, buf: &'a mut AnonBuf) -> Result<&'a [u8]> {
        if row >= self.meta.rows {
            return Err(Error::corrupt(format!(
                "{}: row {row} of {}",
                self.name, self.meta.rows
            )));
        }
        let (page, offset) = self.meta.layout.locate(row);
        let block = self.file.read(io, page, self.meta.layout.block_pages(), buf)?;
        Ok(&block[offset..offset + self.row_bytes()])
    }

    /// `count` rows from `first` on, each with its place among them, read in large pieces past the cache.
    pub fn for_range(
        &self,
        first: u64,
        count: usize,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let layout = &self.meta.layout;
        let (mut row, end) = (first, (first + count as u64).min(self.meta.rows));
        let block_pages = layout.block_pages();
        while row < end {
            let (page, mut offset) = layout.locate(row);
            let blocks = u64::from((RUN_PAGES / block_pages).max(1));
            let left = (self.meta.data_pages - page) / u64::from(block_pages);
            let needed = (end - row).div_ceil(u64::from(layout.rows_per_block())) + 1;
            let pages = blocks.min(left).min(needed) as u32 * block_pages;
            let run = self.file.read_run(io, page, pages, block_pages, buf)?;
            for block in run.chunks_exact(block_pages as usize * PAGE) {
                let in_block = u64::from(layout.rows_per_block()) - row % u64::from(layout.rows_per_block());
                for bytes in block[offset..]
                    .chunks_exact(self.row_bytes())
                    .take(in_block.min(end - row) as usize)
                {
                    each((row - first) as usize, bytes);
                    row += 1;
                }
                offset = 0;
            }
        }
        Ok(())
    }

    /// Every row in order, read in large pieces past the cache.
    pub fn for_each(&self, io: &mut IoContext, each: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let layout = &self.meta.layout;
        let blocks_per_run = (RUN_PAGES / layout.block_pages()).max(1);
        let mut buf = AnonBuf::new((blocks_per_run * layout.block_pages()) as usize * PAGE);
        let mut row = 0;
        let (mut page, end) = (0, self.meta.data_pages);
        while page < end {
            let pages = (end - page).min(u64::from(blocks_per_run * layout.block_pages())) as u32;
            let run = self
                .file
                .read_run(io, page, pages, layout.block_pages(), &mut buf)?;
            for block in run.chunks_exact(layout.block_pages() as usize * PAGE) {
                let here = (self.meta.rows - row).min(u64::from(layout.rows_per_block()));
                for bytes in block.chunks_exact(self.row_bytes()).take(here as usize) {
                    each(row, bytes)?;
                    row += 1;
                }
            }
            page += u64::from(pages);
        }
        Ok(())
    }
}

/// Rows of positions, which a filtered search goes through: cached as a whole.
#[derive(Clone)]
pub struct Positions {
    pub rows: ramlet_index::RowsFile,
    meta: RowsMeta,
}

impl Positions {
    /// Not cached, if they are to stay on disk.
    pub fn open(
        file_context: &FileContext,
        segment: u64,
        entry: &FileEntry,
        stays: bool,
        io: &mut IoContext,
    ) -> Result<Positions> {
        let RowsFile { mut file, meta, .. } = RowsFile::open(file_context, segment, entry, io)?;
        if !stays {
            make_cacheable(&mut file, file_context, EvictionRank::Payloads);
        }
        let rows = ramlet_index::RowsFile::new(Arc::new(file), meta.clone())?;
        let rows = rows.for_stage(SearchStage::Positions);
        Ok(Positions { rows, meta })
    }
}

impl Cacheable for Positions {
    fn block_file(&self) -> &BlockFile {
        self.rows.file()
    }
    fn block_at(&self, page: u64) -> (u64, u32) {
        let pages = self.meta.layout.block_pages();
        match page < self.meta.data_pages {
            true => (page - page % u64::from(pages), pages),
            false => (page, 1),
        }
    }
}

/// Fixed-size rows, for a vector index; in RAM, if `pin` and the budget has the bytes.
pub fn open_index_rows(
    file_context: &FileContext,
    segment: u64,
    entry: &FileEntry,
    io: &mut IoContext,
) -> Result<ramlet_index::RowsFile> {
    let RowsFile { file, meta, .. } = RowsFile::open(file_context, segment, entry, io)?;
    let rows = ramlet_index::RowsFile::new(Arc::new(file), meta)?;
    Ok(rows.for_stage(stage_of(entry.component)))
}

/// What a search reads a component of a vector for.
fn stage_of(component: Component) -> SearchStage {
    match component {
        Component::Codes { .. }
        | Component::Extended { .. }
        | Component::ExtendedLow { .. }
        | Component::Product { .. }
        | Component::Residual { .. } => SearchStage::Codes,
        _ => SearchStage::Rows,
    }
}

/// What is shown a record: it may read elsewhere meanwhile.
pub type EachRecord<'a> = dyn FnMut(&mut IoContext, u32, &[u8]) -> Result<()> + 'a;

/// Byte strings by row.
pub struct RecordsFile {
    file: BlockFile,
    index: RecordsIndex,
    name: String,
    heap: Reservation,
    /// Where records are kept that were read.
    kept: Option<KeptRecords>,
}

/// Where a record of a wave is: in the first bytes of the buffer, or in a block behind them.
#[derive(Clone, Copy)]
enum Found {
    Kept { start: usize, len: usize },
    Read(BlockAt),
}

/// Blocks of a file that its table of symbols is learnt from.
const SAMPLE_BLOCKS: u32 = 16;

/// Bytes of records that are kept, of one wave.
const KEPT_AT_ONCE: usize = RUN_PAGES as usize * PAGE;

impl RecordsFile {
    /// From now on [`Cacheable::fill`] may be called. As long as it isn't cached as a whole, what was read lately is kept record by
    /// record.
    pub fn make_cacheable(&mut self, file_context: &FileContext, rank: EvictionRank) {
        make_cacheable(&mut self.file, file_context, rank);
        if !self.file.is_in_memory() {
            self.kept = Some(KeptRecords::new(&file_context.caches.records, self.file.key()));
        }
    }

    pub fn open(
        file_context: &FileContext,
        segment: u64,
        entry: &FileEntry,
        io: &mut IoContext,
    ) -> Result<RecordsFile> {
        let opened = open(file_context, segment, entry, io)?;
        let heap = file_context.metadata.reserve(opened.footer.index_bytes)?;
        let payload = opened.index(io)?;
        let index = RecordsIndex::parse(&opened.footer, &payload).map_err(|e| bad(&entry.name, e))?;
        Ok(RecordsFile {
            file: opened.file,
            index,
            name: opened.name,
            heap,
            kept: None,
        })
    }

    pub fn heap_bytes(&self) -> u64 {
        self.heap.bytes()
    }

    pub fn disk_bytes(&self) -> u64 {
        self.file.len()
    }

    /// What of the file is in RAM, for as long as it is held.
    pub fn cached(&self) -> ReclaimableView {
        self.file.cached()
    }

    /// A record, if it is in RAM.
    pub fn borrow_cached<'a>(&self, row: u32, cached: &'a ReclaimableView) -> Result<Option<&'a [u8]>> {
        let Some(at) = self.index.locate(row) else {
            return Ok(None);
        };
        let Some(block) = block_of(cached, at.page, at.pages as usize * PAGE) else {
            return Ok(None);
        };
        let block = RecordsBlock::parse(block).map_err(|e| bad(&self.name, e))?;
        let record = block.get((row - at.first_row) as usize);
        record.map(Some).map_err(|e| bad(&self.name, e))
    }

    /// One record; one read unless cached.
    pub fn borrow<'a>(&'a self, row: u32, io: &mut IoContext, buf: &'a mut AnonBuf) -> Result<&'a [u8]> {
        let at = self.locate(row)?;
        let is_cached = || block_of(&self.cached(), at.page, at.pages as usize * PAGE).is_some();
        let Some(kept) = self.kept.as_ref().filter(|_| !is_cached()) else {
            let block = self.file.read(io, at.page, at.pages, buf)?;
            return self.record_of(block, row, &at);
        };
        buf.ensure(RecordCache::RECORD_BYTES_MAX)?;
        if let Some(len) = kept.get(row, &mut buf[..RecordCache::RECORD_BYTES_MAX]) {
            io.note_cache_hit();
            return Ok(&buf[..len]);
        }
        self.read_blocks(io, &[(at.page, at.pages)], (buf, 0), kept)?;
        let record = self.record_of(&buf[..at.pages as usize * PAGE], row, &at)?;
        kept.put(row, record);
        Ok(record)
    }

    /// The records of some rows, ascending. Blocks of those that aren't in RAM are read at once, as far as they are short.
    pub fn for_rows(
        &self,
        rows: &[u32],
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut EachRecord<'_>,
    ) -> Result<()> {
        let cached = self.cached();
        // What is in RAM begins with the first row.
        let (held, mut rest) = rows.split_at(self.resident_prefix(rows, &cached));
        for &row in held {
            let record = self.borrow_cached(row, &cached)?;
            each(io, row, record.ok_or_else(|| self.no_row(row))?)?;
        }
        drop(cached);
        let (mut found, mut blocks) = (Vec::with_capacity(rest.len()), Vec::new());
        while !rest.is_empty() {
            let kept = self.find_some(rest, buf, (&mut found, &mut blocks))?;
            let (now, later) = rest.split_at(found.len());
            self.show((now, &found), &blocks, kept, (io, &mut *buf), each)?;
            rest = later;
        }
        Ok(())
    }

    /// How many of some rows, ascending, are cached.
    fn resident_prefix(&self, rows: &[u32], cached: &ReclaimableView) -> usize {
        let is_resident = |row: u32| {
            let at = self.index.locate(row);
            at.is_some_and(|at| block_of(cached, at.page, at.pages as usize * PAGE).is_some())
        };
        match rows.last() {
            _ if cached.is_empty() => 0,
            Some(last) if is_resident(*last) => rows.len(),
            _ => rows.partition_point(|row| is_resident(*row)),
        }
    }

    /// Reads records that will be asked for one after another, ascending, at once; nothing where they would not be kept until then.
    pub fn read_ahead(&self, rows: &[u32], io: &mut IoContext, buf: &mut AnonBuf) -> Result<()> {
        let keeps = self.kept.as_ref().is_some_and(|kept| kept.has_room());
        match keeps && rows.len() > 1 {
            true => self.for_rows(rows, io, buf, &mut |_, _, _| Ok(())),
            false => Ok(()),
        }
    }

    /// Where the first of some rows are, ascending: those that are kept come to the start of `buf`, how many bytes is returned;
    /// of the others the `blocks`, each once.
    fn find_some(
        &self,
        rows: &[u32],
        buf: &mut AnonBuf,
        (found, blocks): (&mut Vec<Found>, &mut Vec<(u64, u32)>),
    ) -> Result<usize> {
        found.clear();
        blocks.clear();
        let (mut start, mut pages, mut first) = (0, 0, 0);
        for &row in rows {
            if let Some(kept) = &self.kept
                && start < KEPT_AT_ONCE
            {
                let end = start + RecordCache::RECORD_BYTES_MAX;
                if buf.len() < end {
                    // Not page by page.
                    buf.ensure(2 * end)?;
                }
                if let Some(len) = kept.get(row, &mut buf[start..end]) {
                    found.push(Found::Kept { start, len });
                    start += len;
                    continue;
                }
            }
            let at = self.locate(row)?;
            if blocks.last() != Some(&(at.page, at.pages)) {
                if !blocks.is_empty() && pages + at.pages > RUN_PAGES.max(first) {
                    break;
                }
                if blocks.is_empty() {
                    first = at.pages;
                }
                pages += at.pages;
                blocks.push((at.page, at.pages));
            }
            found.push(Found::Read(at));
        }
        Ok(start)
    }

    /// Reads the blocks of what was found behind what is `kept`, and shows all of it.
    fn show(
        &self,
        (rows, found): (&[u32], &[Found]),
        blocks: &[(u64, u32)],
        kept: usize,
        (io, buf): (&mut IoContext, &mut AnonBuf),
        each: &mut EachRecord<'_>,
    ) -> Result<()> {
        let mut start = kept.next_multiple_of(PAGE);
        match &self.kept {
            _ if blocks.is_empty() => {}
            Some(kept) => self.read_blocks(io, blocks, (buf, start), kept)?,
            None => self.file.read_many(io, blocks, buf)?,
        }
        let mut left = blocks.iter();
        let mut block = left.next();
        for (&row, found) in rows.iter().zip(found) {
            let at = match found {
                Found::Kept { start, len } => {
                    io.note_cache_hit();
                    each(io, row, &buf[*start..start + len])?;
                    continue;
                }
                Found::Read(at) => at,
            };
            while let Some((page, pages)) = block
                && *page != at.page
            {
                start += *pages as usize * PAGE;
                block = left.next();
            }
            let record = self.record_of(&buf[start..start + at.pages as usize * PAGE], row, at)?;
            if let Some(kept) = &self.kept {
                kept.put(row, record);
            }
            each(io, row, record)?;
        }
        Ok(())
    }

    /// Blocks of which records are kept: they themselves are only where records find no room, or are too long.
    fn read_blocks(
        &self,
        io: &mut IoContext,
        blocks: &[(u64, u32)],
        at: (&mut AnonBuf, usize),
        kept: &KeptRecords,
    ) -> Result<()> {
        let has_long = blocks.iter().any(|(_, pages)| *pages > 1);
        let keep = has_long || !kept.has_room();
        Ok(self.file.read_many_behind(io, blocks, at, keep)?)
    }

    /// Learns from some blocks how to shorten records that are kept one by one, if the file is long enough and there is memory for it. What can't be read
    /// is left to those who ask for it.
    pub(super) fn code(&mut self, file_context: &FileContext, io: &mut IoContext) {
        let is_long = self.file.len() >= KeptRecords::CODED_FILE_BYTES_MIN;
        if !is_long || self.kept.is_none() {
            return;
        }
        let held = file_context.spare(Symbols::LEARNING_BYTES);
        let symbols = held.and_then(|held| self.learn(held, io).ok()?);
        if let Some(kept) = &mut self.kept {
            kept.symbols = symbols;
        }
    }

    /// Symbols for records like those of some blocks, read at once.
    fn learn(&self, held: Reservation, io: &mut IoContext) -> Result<Option<Symbols>> {
        let rows = u64::from(self.index.rows());
        let at = (0..SAMPLE_BLOCKS).map(|i| (rows * u64::from(i) / u64::from(SAMPLE_BLOCKS)) as u32);
        let mut blocks: Vec<_> = at.filter_map(|row| self.index.locate(row)).collect();
        // Of a longer record a block is read that stands for nothing else.
        blocks.retain(|at| at.pages == 1);
        blocks.dedup_by_key(|at| at.page);
        if blocks.is_empty() {
            return Ok(None);
        }
        let reads: Vec<_> = blocks.iter().map(|at| (at.page, at.pages)).collect();
        let mut buf = AnonBuf::new(PAGE);
        self.file.read_many(io, &reads, &mut buf)?;
        let mut sample = Vec::new();
        for block in buf[..reads.len() * PAGE].chunks_exact(PAGE) {
            let block = RecordsBlock::parse(block).map_err(|e| bad(&self.name, e))?;
            for record in block.iter() {
                sample.push(record.map_err(|e| bad(&self.name, e))?);
            }
        }
        Ok(Symbols::learn(&sample, held))
    }

    /// Whether records are better kept one by one than in their pages, in memory that nobody else has use for: they are short.
    pub(super) fn is_kept_by_record(&self) -> bool {
        let blocks = self.index.blocks().len() as u64;
        self.kept.is_some() && self.index.data_pages() <= blocks + blocks / 8
    }

    /// Whether records could be read ahead that weren't.
    pub(super) fn could_read_ahead(&self) -> bool {
        let data = self.index.data_pages();
        self.kept.as_ref().is_some_and(|kept| kept.ahead_from() < data)
    }

    /// Reads the records of the next pages, before anybody asks for them, as long as there is memory that nobody has use for; bytes of the pages.
    pub(super) fn read_some_ahead(&self, io: &mut IoContext, buf: &mut AnonBuf) -> Result<u64> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.could_read_ahead()) else {
            return Ok(0);
        };
        // Of longer blocks records are too long to be kept.
        let mut first = kept.ahead_from();
        while let Some(at) = self.index.block_at_page(first)
            && at.pages > 1
        {
            first = at.page + u64::from(at.pages);
        }
        let mut blocks = Vec::with_capacity(RUN_PAGES as usize);
        while let Some(at) = self.index.block_at_page(first + blocks.len() as u64)
            && at.pages == 1
            && blocks.len() < RUN_PAGES as usize
        {
            blocks.push(at);
        }
        let mut kept_to = first + blocks.len() as u64;
        if !blocks.is_empty() {
            let run = self.file.read_run(io, first, blocks.len() as u32, 1, buf)?;
            let mut has_room = true;
            for (at, bytes) in blocks.iter().zip(run.chunks_exact(PAGE)) {
                self.each_of_block(at.first_row, bytes, &mut |row, record| {
                    has_room = has_room && kept.put_ahead(row, record);
                    Ok(())
                })?;
                if !has_room {
                    kept_to = at.page;
                    break;
                }
            }
        }
        kept.set_ahead(kept_to);
        Ok((kept_to - first) * PAGE as u64)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The block behind a page that ends one; `None` of the last.
    pub(super) fn block_behind(&self, page: u64) -> Option<BlockAt> {
        self.index.block_at_page(page + 1)
    }

    /// Blocks of `block_pages`, one behind the other, past the cache.
    pub(super) fn read_run<'a>(
        &'a self,
        io: &mut IoContext,
        (page, pages, block_pages): (u64, u32, u32),
        buf: &'a mut AnonBuf,
    ) -> Result<&'a [u8]> {
        Ok(self.file.read_run(io, page, pages, block_pages, buf)?)
    }

    pub(super) fn locate(&self, row: u32) -> Result<BlockAt> {
        self.index.locate(row).ok_or_else(|| self.no_row(row))
    }

    fn no_row(&self, row: u32) -> Error {
        Error::corrupt(format!("{}: no row {row}", self.name))
    }

    fn record_of<'a>(&self, block: &'a [u8], row: u32, at: &BlockAt) -> Result<&'a [u8]> {
        let block = RecordsBlock::parse(block).map_err(|e| bad(&self.name, e))?;
        let record = block.get((row - at.first_row) as usize);
        record.map_err(|e| bad(&self.name, e))
    }

    /// Every record in order, many blocks at once, through the cache.
    pub fn scan(&self, io: &mut IoContext, buf: &mut AnonBuf, each: &mut EachRecord<'_>) -> Result<()> {
        let mut blocks = self.index.blocks().peekable();
        let mut wave: Vec<BlockAt> = Vec::with_capacity(RUN_PAGES as usize);
        let mut reads = Vec::with_capacity(RUN_PAGES as usize);
        while blocks.peek().is_some() {
            take_wave(&mut blocks, &mut wave);
            reads.clear();
            reads.extend(wave.iter().map(|at| (at.page, at.pages)));
            self.file.read_many(io, &reads, buf)?;
            let mut start = 0;
            for at in &wave {
                let bytes = &buf[start..start + at.pages as usize * PAGE];
                self.each_of_block(at.first_row, bytes, &mut |row, record| each(io, row, record))?;
                start += bytes.len();
            }
        }
        Ok(())
    }

    /// Takes the whole file into RAM, if the account has the bytes.
    pub fn pin(&mut self, from: &Consumer, io: &mut IoContext) -> Result<()> {
        let mut blocks = self.index.blocks().peekable();
        let mut pages_of = |page| {
            while blocks.next_if(|at| at.page < page).is_some() {}
            blocks.next_if(|at| at.page == page).map_or(1, |at| at.pages)
        };
        // Refused: it stays on disk.
        let _ = self.file.pin(from, io, &mut pages_of)?;
        Ok(())
    }

    pub fn pinned_bytes(&self) -> u64 {
        self.file.pinned_bytes()
    }

    /// The record of `row` and those behind it in its block; one read unless cached.
    pub fn block_from(
        &self,
        row: u32,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<()> {
        let Some(at) = self.index.locate(row) else {
            return Ok(());
        };
        let block = RecordsBlock::parse(self.file.read(io, at.page, at.pages, buf)?)
            .map_err(|e| bad(&self.name, e))?;
        for (record, number) in block
            .iter()
            .zip(at.first_row..)
            .skip((row - at.first_row) as usize)
        {
            each(number, record.map_err(|e| bad(&self.name, e))?);
        }
        Ok(())
    }

    /// Every record in order.
    pub fn for_each(&self, io: &mut IoContext, each: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
        let mut buf = AnonBuf::new(RUN_PAGES as usize * PAGE);
        let mut blocks = self.index.blocks().peekable();
        let mut wave = Vec::with_capacity(RUN_PAGES as usize);
        while blocks.peek().is_some() {
            let pages = take_wave(&mut blocks, &mut wave);
            // Adjacent blocks of one page each are one sequential read; a long record stands alone.
            if wave.iter().all(|at| at.pages == 1) {
                let run = self.file.read_run(io, wave[0].page, pages, 1, &mut buf)?;
                for (at, bytes) in wave.iter().zip(run.chunks_exact(PAGE)) {
                    self.each_of_block(at.first_row, bytes, each)?;
                }
            } else {
                for at in &wave {
                    let bytes = self.file.read_run(io, at.page, at.pages, at.pages, &mut buf)?;
                    self.each_of_block(at.first_row, bytes, each)?;
                }
            }
        }
        Ok(())
    }

    fn each_of_block(
        &self,
        first_row: u32,
        bytes: &[u8],
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let block = RecordsBlock::parse(bytes).map_err(|e| bad(&self.name, e))?;
        for i in 0..block.len() {
            each(
                first_row + i as u32,
                block.get(i).map_err(|e| bad(&self.name, e))?,
            )?;
        }
        Ok(())
    }
}

/// Replaces `wave` by the next blocks that one read takes; how many pages they have.
fn take_wave(blocks: &mut Peekable<impl Iterator<Item = BlockAt>>, wave: &mut Vec<BlockAt>) -> u32 {
    wave.clear();
    let mut pages = 0;
    while let Some(at) = blocks.next_if(|at| wave.is_empty() || pages + at.pages <= RUN_PAGES) {
        pages += at.pages;
        wave.push(at);
    }
    pages
}
