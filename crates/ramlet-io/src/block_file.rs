//! Reading verified blocks of an immutable file.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ramlet_memory::{AnonBuf, Consumer, OverBudget, ReclaimableBuf, ReclaimableView, Reservation};

use crate::block_cache::BlockCache;
use crate::context::IoContext;
use crate::error::check_range;
use crate::storage::{BatchRead, IoError, IoErrorKind, PAGE, ReadFile, Result};

/// Tells whether a block read at `page` holds the bytes that were written there; `seed` is the file's own.
pub type Verify = fn(seed: u64, page: u64, block: &[u8]) -> bool;

/// An immutable file of blocks, each a run of whole pages that carries its own checksum.
///
/// Every block is verified when it comes from the backend, and not again when it comes from the cache or from pinned
/// memory, where it was put verified. A block that fails is never returned: the error is `Corrupt`, with the file and
/// the offset. Shared by all threads; each brings its own [`IoContext`] and buffer. Reading allocates nothing, except
/// that a buffer too small grows.
pub struct BlockFile {
    file: Arc<dyn ReadFile>,
    seed: u64,
    verify: Verify,
    cache: Option<Arc<BlockCache>>,
    /// This opening of the file, in the cache.
    key: u64,
    pinned: Option<AnonBuf>,
    /// The first bytes of the file, verified, in memory that may be taken back.
    cached: Option<Arc<ReclaimableBuf>>,
    /// The backend holds the file in RAM anyway, and all of it was verified by `pin`.
    verified: bool,
    /// What the file costs while it is open.
    _cost: Option<Reservation>,
}

/// Blocks handled at once: as many as a stack array of reads may hold.
const WAVE: usize = 64;

/// A sequential read is cut into parts of this size, so that the disk works on several at once.
const PART: usize = 256 << 10;

static NEXT_KEY: AtomicU64 = AtomicU64::new(0);

/// The file's bytes in memory, where they are.
struct Memory<'a> {
    bytes: &'a [u8],
    verified: bool,
    /// Pinned by us: nothing that counts as a read.
    pinned: bool,
}

/// Bytes to be read into a part of a buffer.
#[derive(Clone, Copy, Default)]
struct Run {
    page: u64,
    start: usize,
    len: usize,
}

impl BlockFile {
    pub fn new(
        file: Arc<dyn ReadFile>,
        seed: u64,
        verify: Verify,
        cache: Option<Arc<BlockCache>>,
    ) -> BlockFile {
        let key = NEXT_KEY.fetch_add(1, Ordering::Relaxed);
        BlockFile {
            file,
            seed,
            verify,
            cache,
            key,
            pinned: None,
            cached: None,
            verified: false,
            _cost: None,
        }
    }

    /// The same file, which gives back what it costs to keep it open when it is closed.
    pub fn paid_by(mut self, cost: Reservation) -> BlockFile {
        self._cost = Some(cost);
        self
    }

    pub fn file(&self) -> &Arc<dyn ReadFile> {
        &self.file
    }

    pub fn len(&self) -> u64 {
        self.file.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// This opening of the file, in caches; no other ever has it.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether the backend holds the file in RAM anyway, or it is pinned.
    pub fn is_in_memory(&self) -> bool {
        self.memory().is_some()
    }

    /// Whole pages of the file.
    pub fn pages(&self) -> u64 {
        self.len() / PAGE as u64
    }

    /// Bytes of RAM that `pin` took.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned.as_ref().map_or(0, |buf| buf.capacity() as u64)
    }

    /// Bytes of RAM that it has, reclaimable ones included.
    pub fn ram_bytes(&self) -> u64 {
        self.pinned_bytes() + self.cached().memory_bytes()
    }

    /// One block of `pages` pages. The slice lies in pinned or mapped memory, or at the start of `buf`.
    pub fn read<'a>(
        &'a self,
        io: &mut IoContext,
        page: u64,
        pages: u32,
        buf: &'a mut AnonBuf,
    ) -> Result<&'a [u8]> {
        let len = pages as usize * PAGE;
        if let Some(memory) = self.memory() {
            return self.block_in_memory(&memory, io, page, len);
        }
        self.ensure(buf, len)?;
        let out = &mut buf[..len];
        if self.copy_cached(page, out) {
            return Ok(out);
        }
        if let Some(cache) = &self.cache
            && cache.get(self.key, page, out)
        {
            io.note_cache_hit();
            return Ok(out);
        }
        let offset = offset_of(page);
        io.read_batch(&mut [BatchRead {
            file: self.file.as_ref(),
            offset,
            out: &mut *out,
        }])?;
        self.check(page, out)?;
        self.keep(page, out);
        Ok(out)
    }

    /// Many blocks, each `(page, pages)`, laid one after another into `buf`. What isn't cached is read at once (64
    /// blocks at a time); blocks that follow each other in the list and in the file are one read.
    pub fn read_many(&self, io: &mut IoContext, blocks: &[(u64, u32)], buf: &mut AnonBuf) -> Result<()> {
        self.read_many_at(io, blocks, (buf, 0), self.cache.as_deref())
    }

    /// The same from a byte of the buffer on, at a multiple of a page: what is before it stays. Unless `keep`, past the cache.
    pub fn read_many_behind(
        &self,
        io: &mut IoContext,
        blocks: &[(u64, u32)],
        (buf, start): (&mut AnonBuf, usize),
        keep: bool,
    ) -> Result<()> {
        let cache = self.cache.as_deref().filter(|_| keep);
        self.read_many_at(io, blocks, (buf, start), cache)
    }

    fn read_many_at(
        &self,
        io: &mut IoContext,
        blocks: &[(u64, u32)],
        (buf, start): (&mut AnonBuf, usize),
        cache: Option<&BlockCache>,
    ) -> Result<()> {
        let total: usize = blocks.iter().map(|(_, pages)| *pages as usize * PAGE).sum();
        self.ensure(buf, start + total)?;
        let mut out = &mut buf[start..start + total];
        for wave in blocks.chunks(WAVE) {
            let len = wave.iter().map(|(_, pages)| *pages as usize * PAGE).sum();
            let (now, later) = out.split_at_mut(len);
            match self.memory() {
                Some(memory) => self.copy_wave(&memory, io, wave, now)?,
                None => self.read_wave(io, wave, now, cache)?,
            }
            out = later;
        }
        Ok(())
    }

    /// `pages` pages in one sequence, for scans: blocks of `block_pages` pages each (the last may be shorter), read in
    /// large parts at once, verified, past the cache. The slice lies in pinned or mapped memory, or in `buf`.
    pub fn read_run<'a>(
        &'a self,
        io: &mut IoContext,
        page: u64,
        pages: u32,
        block_pages: u32,
        buf: &'a mut AnonBuf,
    ) -> Result<&'a [u8]> {
        let len = pages as usize * PAGE;
        let out: &[u8] = match self.memory() {
            Some(memory) => {
                let bytes = self.slice(&memory, page, len)?;
                if !memory.pinned {
                    io.note_read(len);
                }
                if memory.verified {
                    return Ok(bytes);
                }
                bytes
            }
            None => {
                self.ensure(buf, len)?;
                if self.copy_cached(page, &mut buf[..len]) {
                    return Ok(&buf[..len]);
                }
                self.read_parts(io, page, &mut buf[..len])?;
                &buf[..len]
            }
        };
        for (block, at) in out.chunks(block_pages.max(1) as usize * PAGE).zip(0..) {
            self.check(page + at * u64::from(block_pages.max(1)), block)?;
        }
        Ok(out)
    }

    /// Takes the whole file into reserved memory, verified; from then on every read comes from there. The inner
    /// result says when the budget doesn't have the bytes: the file stays as it was. `block_pages_of` tells how many
    /// pages the block at a page has. A file that its backend holds in RAM anyway is only verified.
    pub fn pin(
        &mut self,
        consumer: &Consumer,
        io: &mut IoContext,
        block_pages_of: &mut dyn FnMut(u64) -> u32,
    ) -> Result<std::result::Result<(), OverBudget>> {
        if self.pinned.is_some() || self.verified {
            return Ok(Ok(()));
        }
        if let (Some(bytes), None) = (self.file.as_bytes(), self.file.raw_fd()) {
            self.check_all(bytes, block_pages_of)?;
            self.verified = true;
            return Ok(Ok(()));
        }
        let len = self.pages() as usize * PAGE;
        let mut buf = match AnonBuf::reserved(consumer, len) {
            Ok(buf) => buf,
            Err(refused) => return Ok(Err(refused)),
        };
        self.read_parts(io, 0, &mut buf)?;
        self.check_all(&buf, block_pages_of)?;
        self.pinned = Some(buf);
        if let Some(cache) = &self.cache {
            cache.forget(self.key);
        }
        Ok(Ok(()))
    }

    /// Addresses for the whole file on the account of `consumer`, no memory yet. Returns the memory itself, for whoever reclaims it.
    /// A file whose backend holds it in RAM needs none.
    pub fn make_cacheable(
        &mut self,
        consumer: &Consumer,
    ) -> std::result::Result<Option<Weak<ReclaimableBuf>>, OverBudget> {
        if self.memory().is_some() || self.is_empty() {
            return Ok(None);
        }
        self.cached = Some(Arc::new(ReclaimableBuf::new(
            consumer,
            self.pages() as usize * PAGE,
        )?));
        Ok(self.reclaimable())
    }

    /// The memory that caches it, for whoever reclaims it.
    pub fn reclaimable(&self) -> Option<Weak<ReclaimableBuf>> {
        self.cached.as_ref().map(Arc::downgrade)
    }

    /// The bytes that are cached now, from the file's first on: they stay there while the view lives.
    pub fn cached(&self) -> ReclaimableView {
        self.cached
            .as_ref()
            .map(|cached| cached.view())
            .unwrap_or_default()
    }

    /// Gives the memory of what is cached back.
    pub fn drop_cached(&self) {
        if let Some(cached) = &self.cached {
            cached.cut(u64::MAX);
        }
    }

    /// Bytes that come at once.
    pub fn cached_piece_bytes(&self) -> u64 {
        self.cached
            .as_ref()
            .map_or(0, |cached| cached.piece_bytes() as u64)
    }

    /// Bytes that would be cached, if there were room for all.
    pub fn cacheable_bytes(&self) -> u64 {
        self.cached.as_ref().map_or(0, |cached| cached.len() as u64)
    }

    /// Reads the next piece into reclaimable memory, verified; the bytes that came, 0 when all are there or the consumer has no room.
    /// `block_at` tells the first page of the block that has a page, and how many pages it has.
    pub fn fill_cached(&self, io: &mut IoContext, block_at: &dyn Fn(u64) -> (u64, u32)) -> Result<u64> {
        let Some(cached) = &self.cached else { return Ok(0) };
        let mut fill = |at: usize, out: &mut [u8]| -> std::result::Result<(), FillError> {
            Ok(self.fill_piece(io, (at / PAGE) as u64, out, block_at)?)
        };
        match cached.extend(cached.piece_bytes(), &mut fill) {
            Ok(bytes) => Ok(bytes as u64),
            Err(FillError::Refused) => Ok(0),
            Err(FillError::Io(error)) => Err(error),
        }
    }

    /// Whole pages from `first` on. A block that begins before them or ends behind is verified as a whole.
    fn fill_piece(
        &self,
        io: &mut IoContext,
        first: u64,
        out: &mut [u8],
        block_at: &dyn Fn(u64) -> (u64, u32),
    ) -> Result<()> {
        self.read_parts(io, first, out)?;
        let end = first + (out.len() / PAGE) as u64;
        let mut page = first;
        while page < end {
            let (start, pages) = block_at(page);
            let behind = start + u64::from(pages.max(1));
            let here = ((page - first) as usize * PAGE)..((behind.min(end) - first) as usize * PAGE);
            if start == page && behind <= end {
                self.check(page, &out[here])?;
            } else {
                let mut whole = AnonBuf::new((behind - start) as usize * PAGE);
                self.read_parts(io, start, &mut whole)?;
                self.check(start, &whole)?;
                let from = (page - start) as usize * PAGE;
                let bytes = here.len();
                out[here].copy_from_slice(&whole[from..from + bytes]);
            }
            page = behind;
        }
        Ok(())
    }

    /// Copies pages that are cached; false if they aren't.
    fn copy_cached(&self, page: u64, out: &mut [u8]) -> bool {
        let Some(cached) = &self.cached else { return false };
        let view = cached.view();
        let found = block_of(&view, page, out.len());
        if let Some(bytes) = found {
            out.copy_from_slice(bytes);
        }
        found.is_some()
    }

    fn memory(&self) -> Option<Memory<'_>> {
        if let Some(buf) = &self.pinned {
            return Some(Memory {
                bytes: buf,
                verified: true,
                pinned: true,
            });
        }
        let bytes = self.file.as_bytes()?;
        Some(Memory {
            bytes,
            verified: self.verified,
            pinned: false,
        })
    }

    fn slice<'a>(&self, memory: &Memory<'a>, page: u64, len: usize) -> Result<&'a [u8]> {
        let offset = offset_of(page);
        check_range(self.file.name(), offset, len, memory.bytes.len() as u64)?;
        Ok(&memory.bytes[offset as usize..][..len])
    }

    fn block_in_memory<'a>(
        &self,
        memory: &Memory<'a>,
        io: &mut IoContext,
        page: u64,
        len: usize,
    ) -> Result<&'a [u8]> {
        let block = self.slice(memory, page, len)?;
        if !memory.pinned {
            io.note_read(len);
        }
        if !memory.verified {
            self.check(page, block)?;
        }
        Ok(block)
    }

    fn copy_wave(
        &self,
        memory: &Memory<'_>,
        io: &mut IoContext,
        wave: &[(u64, u32)],
        mut out: &mut [u8],
    ) -> Result<()> {
        for (page, pages) in wave {
            let (now, later) = out.split_at_mut(*pages as usize * PAGE);
            now.copy_from_slice(self.block_in_memory(memory, io, *page, now.len())?);
            out = later;
        }
        Ok(())
    }

    /// At most `WAVE` blocks: from the cache what is there, the rest by one batch.
    fn read_wave(
        &self,
        io: &mut IoContext,
        wave: &[(u64, u32)],
        out: &mut [u8],
        cache: Option<&BlockCache>,
    ) -> Result<()> {
        let mut runs = [Run::default(); WAVE];
        let mut run_count = 0;
        let mut missing = 0u64;
        let mut start = 0;
        for (number, (page, pages)) in wave.iter().enumerate() {
            let len = *pages as usize * PAGE;
            let block = &mut out[start..start + len];
            if self.copy_cached(*page, block) {
                start += len;
                continue;
            }
            if let Some(cache) = cache
                && cache.get(self.key, *page, block)
            {
                io.note_cache_hit();
            } else {
                missing |= 1 << number;
                let run = Run {
                    page: *page,
                    start,
                    len,
                };
                match runs[..run_count].last_mut() {
                    Some(last) if last.takes(&run) => last.len += len,
                    _ => {
                        runs[run_count] = run;
                        run_count += 1;
                    }
                }
            }
            start += len;
        }
        self.read_runs(io, &runs[..run_count], out)?;
        let mut start = 0;
        for (number, (page, pages)) in wave.iter().enumerate() {
            let block = &out[start..start + *pages as usize * PAGE];
            if missing >> number & 1 == 1 {
                self.check(*page, block)?;
                if let Some(cache) = cache {
                    cache.put(self.key, *page, block);
                }
            }
            start += block.len();
        }
        Ok(())
    }

    /// One long sequence, in parts at once.
    fn read_parts(&self, io: &mut IoContext, mut page: u64, out: &mut [u8]) -> Result<()> {
        for wave in out.chunks_mut(WAVE * PART) {
            let mut runs = [Run::default(); WAVE];
            let count = wave.len().div_ceil(PART);
            for (number, run) in runs[..count].iter_mut().enumerate() {
                let start = number * PART;
                let len = PART.min(wave.len() - start);
                *run = Run {
                    page: page + (start / PAGE) as u64,
                    start,
                    len,
                };
            }
            self.read_runs(io, &runs[..count], wave)?;
            page += (wave.len() / PAGE) as u64;
        }
        Ok(())
    }

    /// One batch of at most `WAVE` reads; `runs` in the order of their places in `out`.
    fn read_runs(&self, io: &mut IoContext, runs: &[Run], out: &mut [u8]) -> Result<()> {
        let file = self.file.as_ref();
        let mut reads: [BatchRead<'_>; WAVE] = array::from_fn(|_| BatchRead {
            file,
            offset: 0,
            out: &mut [],
        });
        let mut rest = out;
        let mut passed = 0;
        for (read, run) in reads.iter_mut().zip(runs) {
            let (_, from_run) = rest.split_at_mut(run.start - passed);
            let (into, behind) = from_run.split_at_mut(run.len);
            *read = BatchRead {
                file,
                offset: offset_of(run.page),
                out: into,
            };
            passed = run.start + run.len;
            rest = behind;
        }
        match runs.is_empty() {
            true => Ok(()),
            false => io.read_batch(&mut reads[..runs.len()]),
        }
    }

    fn check_all(&self, bytes: &[u8], block_pages_of: &mut dyn FnMut(u64) -> u32) -> Result<()> {
        let (mut page, mut rest) = (0, bytes);
        while !rest.is_empty() {
            let pages = block_pages_of(page).max(1);
            let Some((block, behind)) = rest.split_at_checked(pages as usize * PAGE) else {
                return Err(self.corrupt(page, "the last block reaches past the end of the file"));
            };
            self.check(page, block)?;
            page += u64::from(pages);
            rest = behind;
        }
        Ok(())
    }

    fn check(&self, page: u64, block: &[u8]) -> Result<()> {
        match (self.verify)(self.seed, page, block) {
            true => Ok(()),
            false => Err(self.corrupt(page, "the checksum doesn't match the bytes")),
        }
    }

    fn corrupt(&self, page: u64, what: &str) -> IoError {
        let name = self.file.name();
        let detail = format!("block at byte offset {} is corrupt: {what}", offset_of(page));
        IoError::new("read", name, IoErrorKind::Corrupt, detail)
    }

    fn keep(&self, page: u64, block: &[u8]) {
        if let Some(cache) = &self.cache {
            cache.put(self.key, page, block);
        }
    }

    fn ensure(&self, buf: &mut AnonBuf, len: usize) -> Result<()> {
        buf.ensure(len)
            .map_err(|refused| IoError::over_budget("read", self.file.name(), &refused))
    }
}

/// Why a piece of reclaimable memory wasn't filled.
enum FillError {
    Refused,
    Io(IoError),
}

impl From<OverBudget> for FillError {
    fn from(_: OverBudget) -> FillError {
        FillError::Refused
    }
}

impl From<IoError> for FillError {
    fn from(error: IoError) -> FillError {
        FillError::Io(error)
    }
}

/// So many bytes from a page on, of a file that [lies in memory](BlockFile::cached) from its first byte on; `None`: not as far.
pub fn block_of(view: &ReclaimableView, page: u64, len: usize) -> Option<&[u8]> {
    let start = usize::try_from(offset_of(page)).ok()?;
    view.get(start..start.checked_add(len)?)
}

/// The byte at which a page starts; one that no file can have reads short.
fn offset_of(page: u64) -> u64 {
    page.saturating_mul(PAGE as u64)
}

impl Run {
    /// Whether `next` goes on where this ends, in the file and in the buffer, and stays a sensible size.
    fn takes(&self, next: &Run) -> bool {
        let end = self.page.checked_add((self.len / PAGE) as u64);
        end == Some(next.page) && self.start + self.len == next.start && self.len + next.len <= PART
    }
}

impl Drop for BlockFile {
    fn drop(&mut self) {
        if let Some(cache) = &self.cache {
            cache.forget(self.key);
        }
    }
}
