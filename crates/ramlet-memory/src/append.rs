//! Append-only memory that many threads read while one writes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::anon_buf::AnonBuf;
use crate::ledger::Consumer;
use crate::reservation::{OverBudget, Reservation};
use crate::{PAGE, page_bytes};

/// The reading side of append-only memory: bytes that are written once, never move and never change.
///
/// Memory is taken in chunks, each an own mapping, and freed as a whole when the last handle (readers or the
/// [`Appender`]) goes. What is reserved from the consumer follows what is written, [`STEP_BYTES`] ahead at most: an
/// empty region costs about 300 bytes, one with a few rows some pages. Plus about 64 bytes for each chunk that is
/// there or may come in its group of [`GROUP`]. Cheap to clone.
#[derive(Clone)]
pub struct AppendRegion {
    shared: Arc<Shared>,
}

/// Pages of a chunk are reserved in steps of this, or of a page where that is larger, just before they are first touched.
const STEP_BYTES: usize = 4 * PAGE;

/// Places for chunks are made in groups of this many.
const GROUP: usize = 16;

/// The only writer of an [`AppendRegion`].
pub struct Appender {
    region: AppendRegion,
    /// The chunk being filled; larger items have chunks of their own beside it.
    current: Option<u32>,
    /// Of the chunk being filled, so much is paid for: most items need no look at its reservation.
    paid: usize,
    /// The next slot without a chunk.
    next: u32,
}

/// Where an item lies in its region. Made by [`Appender::push`]; the default is the empty item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub chunk: u32,
    pub offset: u32,
    pub len: u32,
}

struct Shared {
    consumer: Consumer,
    chunk_bytes: usize,
    chunks_max: usize,
    /// Groups of places, made when the first of theirs is taken: a chunk once there is never moved.
    groups: Box<[OnceLock<Box<Group>>]>,
    reserved: AtomicU64,
    _groups: Reservation,
}

struct Group {
    chunks: [OnceLock<Chunk>; GROUP],
    _held: Reservation,
}

/// Bytes below `committed` are written and frozen; those above belong to the appender alone.
struct Chunk {
    buf: AnonBuf,
    committed: AtomicUsize,
    /// For the pages below the first that was never touched; only the appender grows it.
    held: Mutex<Reservation>,
}

impl Shared {
    fn chunk(&self, slot: u32) -> Option<&Chunk> {
        let group = self.groups.get(slot as usize / GROUP)?.get()?;
        group.chunks[slot as usize % GROUP].get()
    }

    /// Only the appender calls this.
    fn group(&self, at: usize) -> Result<&Group, OverBudget> {
        let place = &self.groups[at];
        if place.get().is_none() {
            let held = self.consumer.reserve(size_of::<Group>() as u64)?;
            self.reserved.fetch_add(held.bytes(), Ordering::Relaxed);
            let group = Group {
                chunks: [const { OnceLock::new() }; GROUP],
                _held: held,
            };
            let fresh = place.set(Box::new(group));
            assert!(fresh.is_ok(), "only the appender makes groups");
        }
        Ok(place.get().expect("made above"))
    }

    /// Makes sure that the first `end` bytes of a chunk are paid for; how many are.
    fn pay(&self, chunk: &Chunk, end: usize) -> Result<usize, OverBudget> {
        let mut held = chunk.held.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = end
            .next_multiple_of(STEP_BYTES.max(page_bytes()))
            .min(chunk.buf.capacity()) as u64;
        let more = wanted.saturating_sub(held.bytes());
        if more > 0 {
            held.grow(more)?;
            self.reserved.fetch_add(more, Ordering::Relaxed);
        }
        Ok(held.bytes() as usize)
    }
}

impl AppendRegion {
    /// Bytes that an empty region of at most `chunks` chunks reserves.
    pub const fn empty_bytes(chunks: usize) -> u64 {
        (chunks.div_ceil(GROUP) * size_of::<OnceLock<Box<Group>>>()) as u64
    }

    /// An empty region of at most `chunks` chunks of `chunk_bytes` each (rounded up to pages), and its writer.
    pub fn create(
        consumer: &Consumer,
        chunk_bytes: usize,
        chunks: usize,
    ) -> Result<(AppendRegion, Appender), OverBudget> {
        let chunk_bytes = crate::page_up(chunk_bytes.max(1));
        assert!(chunk_bytes <= u32::MAX as usize && chunks <= u32::MAX as usize);
        let groups = chunks.div_ceil(GROUP);
        // A group is a box behind its place: the table is small as long as nothing is written.
        let held = consumer.reserve(AppendRegion::empty_bytes(chunks))?;
        let shared = Shared {
            consumer: consumer.clone(),
            chunk_bytes,
            chunks_max: chunks,
            groups: (0..groups).map(|_| OnceLock::new()).collect(),
            reserved: AtomicU64::new(held.bytes()),
            _groups: held,
        };
        let region = AppendRegion {
            shared: Arc::new(shared),
        };
        let appender = Appender {
            region: region.clone(),
            current: None,
            paid: 0,
            next: 0,
        };
        Ok((region, appender))
    }

    /// The bytes of an item. Panics on a span that reaches beyond what was written: one of another region.
    pub fn get(&self, span: Span) -> &[u8] {
        let (offset, len) = (span.offset as usize, span.len as usize);
        if len == 0 {
            return &[];
        }
        let committed = self.committed(span.chunk);
        let item = committed.get(offset..offset + len);
        item.unwrap_or_else(|| {
            let len = committed.len();
            panic!("{span:?} reaches beyond the {len} bytes of its chunk")
        })
    }

    /// What is written of a chunk by now, for who looks at many items of it. Panics on a chunk that nothing is in.
    pub fn committed(&self, chunk: u32) -> &[u8] {
        let chunk = self.shared.chunk(chunk).expect("a span of this region");
        let committed = chunk.committed.load(Ordering::Acquire);
        // SAFETY: committed bytes lie within the mapping, which lives as long as `self`. They are initialised, and the appender never writes below
        // `committed` again; the Acquire above saw its Release, so they are visible.
        unsafe { std::slice::from_raw_parts(chunk.buf.as_raw(), committed) }
    }

    /// Bytes of a chunk: those asked for, in whole pages of this machine.
    pub fn chunk_bytes(&self) -> usize {
        self.shared.chunk_bytes
    }

    /// Bytes reserved for this region: what is written of its chunks, and the table of them.
    pub fn bytes_reserved(&self) -> u64 {
        self.shared.reserved.load(Ordering::Relaxed)
    }
}

impl Appender {
    pub fn region(&self) -> &AppendRegion {
        &self.region
    }

    /// Appends `bytes`, the first at a multiple of `align` (a power of two up to 4096). When it is refused,
    /// for want of budget or because all chunks are used, nothing changed and later (smaller) items may still fit.
    pub fn push(&mut self, bytes: &[u8], align: usize) -> Result<Span, OverBudget> {
        self.push_parts(&[bytes], align)
    }

    /// Appends the parts one after another as one item.
    pub fn push_parts(&mut self, parts: &[&[u8]], align: usize) -> Result<Span, OverBudget> {
        assert!(align.is_power_of_two() && align <= PAGE, "alignment {align}");
        let len: usize = parts.iter().map(|part| part.len()).sum();
        assert!(len <= u32::MAX as usize, "an item of {len} bytes");
        if len == 0 {
            return Ok(Span::default());
        }
        let (slot, offset) = self.place(len, align)?;
        let chunk = self.region.shared.chunk(slot).expect("place() gave a chunk");
        let mut at = offset;
        for part in parts {
            // SAFETY: `place` made sure that offset..offset + len lies within the mapping.
            let target = unsafe { chunk.buf.as_raw().add(at) };
            // SAFETY: the target lies above `committed`, where readers never look and only this unique appender
            // writes; `part` is borrowed memory and no reader can hold a slice of the target, so they don't overlap.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), target, part.len()) };
            at += part.len();
        }
        chunk.committed.store(at, Ordering::Release);
        Ok(Span {
            chunk: slot,
            offset: offset as u32,
            len: len as u32,
        })
    }

    /// Room for `len` bytes: the chunk and the offset in it.
    fn place(&mut self, len: usize, align: usize) -> Result<(u32, usize), OverBudget> {
        if let Some(slot) = self.current {
            let chunk = self.region.shared.chunk(slot).expect("the current chunk");
            // Relaxed: this thread wrote it.
            let offset = chunk.committed.load(Ordering::Relaxed).next_multiple_of(align);
            if offset + len <= chunk.buf.len() {
                if offset + len > self.paid {
                    self.paid = self.region.shared.pay(chunk, offset + len)?;
                }
                return Ok((slot, offset));
            }
        }
        let chunk_bytes = self.region.shared.chunk_bytes;
        // An item larger than a chunk gets one of its own size, and the current one stays open.
        let (slot, paid) = self.add_chunk(len.max(chunk_bytes), len)?;
        if len <= chunk_bytes {
            (self.current, self.paid) = (Some(slot), paid);
        }
        Ok((slot, 0))
    }

    /// A chunk of `bytes`, of which at least the first `used` are paid for; and how many are.
    fn add_chunk(&mut self, bytes: usize, used: usize) -> Result<(u32, usize), OverBudget> {
        let shared = self.region.shared.clone();
        let slot = self.next;
        if slot as usize >= shared.chunks_max {
            let mut full = shared.consumer.refuse(bytes as u64);
            full.available = 0;
            full.limit = (shared.chunks_max * shared.chunk_bytes) as u64;
            return Err(full);
        }
        let group = shared.group(slot as usize / GROUP)?;
        let chunk = Chunk {
            buf: AnonBuf::map(bytes).ok_or_else(|| shared.consumer.refuse(bytes as u64))?,
            committed: AtomicUsize::new(0),
            held: Mutex::new(shared.consumer.reserve(0)?),
        };
        let paid = shared.pay(&chunk, used)?;
        let fresh = group.chunks[slot as usize % GROUP].set(chunk);
        assert!(fresh.is_ok(), "slot {slot} is taken");
        self.next += 1;
        Ok((slot, paid))
    }
}
