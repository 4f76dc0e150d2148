//! Reclaimable memory: one range of addresses whose tail can be taken back while others read it.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::ledger::Consumer;
use crate::reservation::{OverBudget, Reservation};
use crate::{anon_buf, page_up};

/// Bytes at one place in the address space, of which the first so many are in memory.
///
/// Memory comes and goes in pieces ([`ReclaimableBuf::piece_bytes`]), each with a reservation of its own; only the last one
/// of all may be shorter, and costs its whole pages. Whole pieces of 2 MiB ask for huge pages (the kernel's table of 4 KiB pages
/// would not stay in the caches), others never get any: nothing is rounded up. A piece that was cut off goes back
/// to the kernel when the last view that holds it is gone. Beside its pieces it costs about 100 bytes a piece.
pub struct ReclaimableBuf {
    consumer: Consumer,
    range: Arc<Range>,
    /// What views made from now on hold.
    now: Mutex<ReclaimableView>,
    /// Every piece that some view may still hold.
    pieces: Mutex<Box<[Weak<Piece>]>>,
    /// Bytes of memory that may be taken and aren't shown yet.
    filling: AtomicU64,
}

/// The bytes of a [`ReclaimableBuf`] that were in memory when the view was made; they stay there as long as it lives.
///
/// Cheap to clone.
#[derive(Clone)]
pub struct ReclaimableView {
    held: Arc<Held>,
}

struct Held {
    /// Dangling when `len` is 0.
    start: NonNull<u8>,
    len: usize,
    pieces: Box<[Arc<Piece>]>,
}

/// A mapping of which no page is touched until a piece is taken.
struct Range {
    mapping: NonNull<u8>,
    mapped: usize,
    /// First byte that is used: at a multiple of a huge page, if there is a whole one.
    start: NonNull<u8>,
    len: usize,
    piece_bytes: usize,
    /// Pieces whose pages are, or may be, in memory.
    taken: Box<[AtomicBool]>,
}

struct Piece {
    range: Arc<Range>,
    index: usize,
    held: Reservation,
}

// SAFETY: the mapping belongs to this value alone and has no thread affinity.
unsafe impl Send for Range {}
// SAFETY: nothing is written through a shared reference.
unsafe impl Sync for Range {}
// SAFETY: it refers to bytes of a `Range` that its pieces keep alive.
unsafe impl Send for Held {}
// SAFETY: the bytes are frozen before a `Held` is made of them.
unsafe impl Sync for Held {}

impl ReclaimableBuf {
    /// Memory is taken and given back in pieces of this: a huge page.
    pub const PIECE_BYTES: usize = 2 << 20;
    /// Where all that may be reserved is less than the first of these, pieces have the second: a huge page would be a good part of it, and a search that
    /// wants a page more would cost all of that.
    const SMALL: (u64, usize) = (8 << 20, 256 << 10);

    /// Bytes of a piece, where a ledger has so many in all.
    pub const fn piece_bytes_within(limit: u64) -> usize {
        match limit < Self::SMALL.0 {
            true => Self::SMALL.1,
            false => Self::PIECE_BYTES,
        }
    }

    /// Addresses for `len` bytes, none of them in memory. The error is the kernel's, for want of addresses.
    pub fn new(consumer: &Consumer, len: usize) -> Result<ReclaimableBuf, OverBudget> {
        let piece_bytes = Self::piece_bytes_within(consumer.ledger().limit());
        let range = Range::map(len, piece_bytes).ok_or_else(|| consumer.refuse(len as u64))?;
        let pieces = len.div_ceil(piece_bytes);
        Ok(ReclaimableBuf {
            consumer: consumer.clone(),
            range: Arc::new(range),
            now: Mutex::new(ReclaimableView::default()),
            pieces: Mutex::new((0..pieces).map(|_| Weak::new()).collect()),
            filling: AtomicU64::new(0),
        })
    }

    /// Bytes when all of it is in memory.
    pub fn len(&self) -> usize {
        self.range.len
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a piece; the last may be shorter.
    pub fn piece_bytes(&self) -> usize {
        self.range.piece_bytes
    }

    /// What is in memory now. Allocates nothing.
    pub fn view(&self) -> ReclaimableView {
        self.now().clone()
    }

    /// Takes memory for at most `more` further bytes, rounded up to whole pieces, has them written by `fill`, which gets
    /// the place of the first, and shows them to views made from then on; returns how many. All or nothing, but for
    /// pieces that were cut off and are still held by a view: those are shown again as they are, without `fill`.
    /// 0 bytes when all are there, when some were cut off meanwhile, and for the moment in which memory that was cut off
    /// is on its way back to the kernel.
    pub fn extend<E: From<OverBudget>>(
        &self,
        more: usize,
        fill: &mut dyn FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut slots = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let came = self.extend_locked(&mut slots, more, fill);
        self.filling.store(0, Ordering::Relaxed);
        came
    }

    fn extend_locked<E: From<OverBudget>>(
        &self,
        slots: &mut [Weak<Piece>],
        more: usize,
        fill: &mut dyn FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let before = self.view();
        let first = before.held.pieces.len();
        let end = before.len().saturating_add(more).min(self.len());
        let end = end.div_ceil(self.piece_bytes());
        let mut pieces = before.held.pieces.to_vec();
        pieces.extend(slots[first..end.max(first)].iter().map_while(Weak::upgrade));
        let fresh = pieces.len();
        let bytes = (fresh..end).map(|index| self.range.piece(index).1 as u64);
        self.filling.store(bytes.sum(), Ordering::Relaxed);
        while pieces.len() < end && !self.range.taken[pieces.len()].load(Ordering::Acquire) {
            pieces.push(Piece::take(&self.range, &self.consumer, pieces.len())?);
        }
        if pieces.len() > fresh {
            let at = fresh * self.piece_bytes();
            let len = self.end_of(pieces.len()) - at;
            // SAFETY: within the mapping.
            let start = unsafe { self.range.start.add(at) };
            // SAFETY: zeroed pages of fresh pieces: no view holds them, and `slots` is locked, so nobody else fills them.
            fill(at, unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) })?;
        }
        for (slot, piece) in slots.iter_mut().zip(&pieces).skip(fresh) {
            *slot = Arc::downgrade(piece);
        }
        let len = self.end_of(pieces.len());
        let after = ReclaimableView::of(&self.range, len, pieces.into());
        let mut now = self.now();
        if !Arc::ptr_eq(&now.held, &before.held) {
            // Somebody needs the memory more: what was taken here goes back too.
            return Ok(0);
        }
        *now = after;
        Ok(len - before.len())
    }

    /// Bytes of memory that are being filled: they are on their way in, not back.
    pub fn filling_bytes(&self) -> u64 {
        self.filling.load(Ordering::Relaxed)
    }

    /// Cuts at least `bytes` off the end, as far as there are any; the bytes of memory that come free once the views
    /// that were made before are gone.
    pub fn cut(&self, bytes: u64) -> u64 {
        // Not `pieces`: whoever waits for this memory may hold that lock.
        let mut now = self.now();
        let held = &now.held.pieces;
        let (mut left, mut cut) = (held.len(), 0);
        while left > 0 && cut < bytes {
            left -= 1;
            cut += held[left].held.bytes();
        }
        if cut > 0 {
            let after = ReclaimableView::of(&self.range, self.end_of(left), held[..left].into());
            let before = std::mem::replace(&mut *now, after);
            drop(now);
            // Possibly the last view: giving back takes a while, and nobody should wait for it.
            drop(before);
        }
        cut
    }

    fn end_of(&self, pieces: usize) -> usize {
        (pieces * self.piece_bytes()).min(self.len())
    }

    fn now(&self) -> MutexGuard<'_, ReclaimableView> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReclaimableView {
    fn of(range: &Range, len: usize, pieces: Box<[Arc<Piece>]>) -> ReclaimableView {
        let start = if len == 0 {
            NonNull::dangling()
        } else {
            range.start
        };
        ReclaimableView {
            held: Arc::new(Held { start, len, pieces }),
        }
    }

    /// Memory that it keeps from going back: its bytes in whole pages.
    pub fn memory_bytes(&self) -> u64 {
        self.held.pieces.iter().map(|piece| piece.held.bytes()).sum()
    }
}

impl Default for ReclaimableView {
    fn default() -> ReclaimableView {
        ReclaimableView {
            held: Arc::new(Held {
                start: NonNull::dangling(),
                len: 0,
                pieces: Box::default(),
            }),
        }
    }
}

impl Deref for ReclaimableView {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` are in pieces that `held` keeps, and nobody writes to them; an empty one may dangle.
        unsafe { std::slice::from_raw_parts(self.held.start.as_ptr(), self.held.len) }
    }
}

impl Piece {
    fn take(range: &Arc<Range>, consumer: &Consumer, index: usize) -> Result<Arc<Piece>, OverBudget> {
        let held = consumer.reserve(range.piece(index).1 as u64)?;
        range.taken[index].store(true, Ordering::Release);
        Ok(Arc::new(Piece {
            range: range.clone(),
            index,
            held,
        }))
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let (at, bytes) = self.range.piece(self.index);
        // SAFETY: within the mapping.
        let start = unsafe { self.range.start.add(at) };
        // SAFETY: no view holds this piece any more, and it isn't taken anew before the flag below says so.
        unsafe { anon_buf::discard(start, bytes) };
        self.range.taken[self.index].store(false, Ordering::Release);
        // The reservation goes after the memory.
    }
}

impl Range {
    fn map(len: usize, piece_bytes: usize) -> Option<Range> {
        const HUGE: usize = ReclaimableBuf::PIECE_BYTES;
        let whole = match piece_bytes {
            HUGE => len - len % HUGE,
            // The kernel would take a huge page for the first piece in it.
            _ => 0,
        };
        // Untouched addresses cost nothing: enough of them to begin at a huge page.
        let mapped = page_up(len) + if whole > 0 { HUGE } else { 0 };
        let mapping = match mapped {
            0 => NonNull::dangling(),
            _ => anon_buf::map_pages(mapped)?,
        };
        let skip = if whole > 0 {
            mapping.as_ptr().align_offset(HUGE)
        } else {
            0
        };
        // SAFETY: `skip` is less than a huge page, of which there is one more than `len` needs.
        let start = unsafe { mapping.add(skip) };
        if whole > 0 {
            // SAFETY: within the mapping.
            unsafe { anon_buf::advise_huge(start, whole) };
        }
        let taken = (0..len.div_ceil(piece_bytes))
            .map(|_| AtomicBool::new(false))
            .collect();
        Some(Range {
            mapping,
            mapped,
            start,
            len,
            piece_bytes,
            taken,
        })
    }

    /// Offset of a piece and its bytes of memory.
    fn piece(&self, index: usize) -> (usize, usize) {
        let at = index * self.piece_bytes;
        (at, page_up((self.len - at).min(self.piece_bytes)))
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if self.mapped > 0 {
            // SAFETY: the mapping is our own, and nothing refers to it after this call.
            unsafe { anon_buf::unmap_pages(self.mapping, self.mapped) };
        }
    }
}

impl std::fmt::Debug for ReclaimableBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReclaimableBuf({} of {} bytes)", self.view().len(), self.len())
    }
}

impl std::fmt::Debug for ReclaimableView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReclaimableView({} bytes)", self.len())
    }
}
