//! Append-only memory that many threads read while one writes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::PAGE;
use crate::anon_buf::AnonBuf;
use crate::ledger::Consumer;
use crate::reservation::{OverBudget, Reservation};

/// The reading side of append-only memory: bytes that are written once, never move and never change.
///
/// Memory is taken in chunks, each an own mapping reserved from a consumer, and freed as a whole when the last handle
/// (readers or the [`Appender`]) goes. Cost: the chunks, plus about 64 bytes for each chunk that may exist.
/// Cheap to clone.
#[derive(Clone)]
pub struct AppendRegion {
    shared: Arc<Shared>,
}

/// The only writer of an [`AppendRegion`].
pub struct Appender {
    region: AppendRegion,
    /// The chunk being filled; larger items have chunks of their own beside it.
    current: Option<u32>,
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
    /// Fixed in number, so that a chunk once there is never moved.
    chunks: Box<[OnceLock<Chunk>]>,
    reserved: AtomicU64,
    _slots: Reservation,
}

/// Bytes below `committed` are written and frozen; those above belong to the appender alone.
struct Chunk {
    buf: AnonBuf,
    committed: AtomicUsize,
}

impl AppendRegion {
    /// An empty region of at most `chunks` chunks of `chunk_bytes` each (rounded up to pages), and its writer.
    pub fn create(
        consumer: &Consumer,
        chunk_bytes: usize,
        chunks: usize,
    ) -> Result<(AppendRegion, Appender), OverBudget> {
        let chunk_bytes = crate::page_up(chunk_bytes.max(1));
        assert!(chunk_bytes <= u32::MAX as usize && chunks <= u32::MAX as usize);
        let slots = consumer.reserve((chunks * size_of::<OnceLock<Chunk>>()) as u64)?;
        let shared = Shared {
            consumer: consumer.clone(),
            chunk_bytes,
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            reserved: AtomicU64::new(slots.bytes()),
            _slots: slots,
        };
        let region = AppendRegion {
            shared: Arc::new(shared),
        };
        let appender = Appender {
            region: region.clone(),
            current: None,
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
        let chunk = self.shared.chunks[span.chunk as usize]
            .get()
            .expect("a span of this region");
        let committed = chunk.committed.load(Ordering::Acquire);
        assert!(
            offset + len <= committed,
            "{span:?} reaches beyond the {committed} bytes of its chunk"
        );
        // SAFETY: both offset and end lie within the mapping, which lives as long as `self`.
        let start = unsafe { chunk.buf.as_raw().add(offset) };
        // SAFETY: committed bytes are initialised, and the appender never writes below `committed` again;
        // the Acquire above saw its Release, so the bytes are visible.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Bytes reserved for this region: all its chunks and the table of them.
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
        let chunk = self.region.shared.chunks[slot as usize]
            .get()
            .expect("place() gave a chunk");
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
            let chunk = self.region.shared.chunks[slot as usize]
                .get()
                .expect("the current chunk");
            // Relaxed: this thread wrote it.
            let offset = chunk.committed.load(Ordering::Relaxed).next_multiple_of(align);
            if offset + len <= chunk.buf.len() {
                return Ok((slot, offset));
            }
        }
        let chunk_bytes = self.region.shared.chunk_bytes;
        let slot = self.add_chunk(len.max(chunk_bytes))?;
        if len <= chunk_bytes {
            self.current = Some(slot);
        }
        Ok((slot, 0))
    }

    fn add_chunk(&mut self, bytes: usize) -> Result<u32, OverBudget> {
        let shared = &self.region.shared;
        let slot = self.next;
        let Some(place) = shared.chunks.get(slot as usize) else {
            let mut full = shared.consumer.refuse(bytes as u64);
            full.available = 0;
            full.limit = (shared.chunks.len() * shared.chunk_bytes) as u64;
            return Err(full);
        };
        let buf = AnonBuf::reserved(&shared.consumer, bytes)?;
        shared
            .reserved
            .fetch_add(buf.capacity() as u64, Ordering::Relaxed);
        let fresh = place.set(Chunk {
            buf,
            committed: AtomicUsize::new(0),
        });
        assert!(fresh.is_ok(), "slot {slot} is taken");
        self.next += 1;
        Ok(slot)
    }
}
