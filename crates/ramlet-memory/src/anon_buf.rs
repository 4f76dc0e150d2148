//! Page-aligned memory straight from the kernel.

use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use crate::ledger::Consumer;
use crate::page_up;
use crate::reservation::{OverBudget, Reservation};

/// Zeroed, page-aligned memory of its own mapping, given back to the kernel on drop.
///
/// Costs its length rounded up to pages of 4 KiB (once touched) and one mapping; huge pages are refused, because they
/// would round a small buffer up to 2 MiB. Good for I/O buffers (O_DIRECT needs the alignment) and for arenas; too
/// dear for anything under a page.
pub struct AnonBuf {
    /// Dangling when `mapped` is 0.
    start: NonNull<u8>,
    len: usize,
    /// Bytes of the mapping: `len` or more, whole pages.
    mapped: usize,
    reservation: Option<Reservation>,
}

// SAFETY: the mapping belongs to this value alone and has no thread affinity.
unsafe impl Send for AnonBuf {}
// SAFETY: `&AnonBuf` only reads.
unsafe impl Sync for AnonBuf {}

impl AnonBuf {
    /// A buffer outside any budget, for bytes that another row of the budget table already counts.
    /// Panics when the kernel refuses the mapping.
    pub fn new(bytes: usize) -> AnonBuf {
        AnonBuf::map(bytes).unwrap_or_else(|| panic!("the kernel refused a mapping of {bytes} bytes"))
    }

    /// A buffer that holds a reservation for its pages as long as it lives. A mapping that the kernel refuses
    /// (address space limit) is reported like one that the budget refuses.
    pub fn reserved(consumer: &Consumer, bytes: usize) -> Result<AnonBuf, OverBudget> {
        let reservation = consumer.reserve(page_up(bytes) as u64)?;
        let mut buf = AnonBuf::map(bytes).ok_or_else(|| consumer.refuse(bytes as u64))?;
        buf.reservation = Some(reservation);
        Ok(buf)
    }

    /// Bytes of memory that this buffer may come to hold: its length in whole pages.
    pub fn capacity(&self) -> usize {
        self.mapped
    }

    /// Makes the buffer at least `len` bytes long, keeping its bytes; new ones are zero. It may move.
    /// A buffer made by `reserved` grows its reservation first, any other never refuses.
    pub fn ensure(&mut self, len: usize) -> Result<(), OverBudget> {
        if len <= self.len {
            return Ok(());
        }
        let mapped = page_up(len);
        if mapped > self.mapped {
            let more = (mapped - self.mapped) as u64;
            if let Some(reservation) = &mut self.reservation {
                reservation.grow(more)?;
            }
            if !self.remap(mapped) {
                let Some(reservation) = &mut self.reservation else {
                    panic!("the kernel refused a mapping of {len} bytes");
                };
                reservation.shrink_to(reservation.bytes() - more);
                return Err(reservation.consumer().refuse(more));
            }
        }
        self.len = len;
        Ok(())
    }

    /// Cuts the buffer to `len` bytes and gives the pages behind back; nothing happens when it is no longer than that.
    pub fn shrink_to(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        let mapped = page_up(len);
        if mapped < self.mapped {
            assert!(self.remap(mapped), "the kernel refused to shrink a mapping");
            if let Some(reservation) = &mut self.reservation {
                reservation.shrink_to(mapped as u64);
            }
        }
        // What is left of the old bytes on the last page becomes zero: a later `ensure` promises that.
        self.len = self.len.min(self.mapped);
        self[len..].fill(0);
        self.len = len;
    }

    /// The first byte, for callers in this crate that share the bytes by rules of their own.
    pub(crate) fn as_raw(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// A buffer outside any budget; None when the kernel refuses the mapping.
    pub(crate) fn map(len: usize) -> Option<AnonBuf> {
        let mut buf = AnonBuf {
            start: NonNull::dangling(),
            len,
            mapped: 0,
            reservation: None,
        };
        buf.remap(page_up(len)).then_some(buf)
    }

    /// Changes the size of the mapping (0 is no mapping); the caller keeps `len` within it. False when refused.
    fn remap(&mut self, mapped: usize) -> bool {
        match (self.mapped, mapped) {
            (before, after) if before == after => return true,
            (0, _) => match map_pages(mapped) {
                Some(start) => self.start = start,
                None => return false,
            },
            (_, 0) => {
                self.unmap();
                self.start = NonNull::dangling();
            }
            _ => {
                // SAFETY: `start` and `self.mapped` describe a mapping of our own that nothing borrows (`&mut self`).
                let moved = unsafe {
                    libc::mremap(
                        self.start.as_ptr().cast(),
                        self.mapped,
                        mapped,
                        libc::MREMAP_MAYMOVE,
                    )
                };
                if moved == libc::MAP_FAILED {
                    return false;
                }
                self.start = NonNull::new(moved.cast()).expect("a mapping is never at address 0");
            }
        }
        self.mapped = mapped;
        true
    }

    fn unmap(&mut self) {
        // SAFETY: the mapping is our own, and nothing refers to it after this call.
        unsafe { unmap_pages(self.start, self.mapped) };
    }
}

/// `bytes` (not 0) of fresh zeroed pages, without huge pages; None when the kernel refuses.
pub(crate) fn map_pages(bytes: usize) -> Option<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no existing memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    // A kernel without huge pages refuses this advice, and needs none.
    // SAFETY: the range is the mapping made above; the advice changes no contents.
    #[cfg(not(miri))]
    unsafe {
        libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE)
    };
    NonNull::new(start.cast())
}

/// Gives a mapping back.
///
/// # Safety
/// It is one of [`map_pages`], whole, and nothing refers to it any more.
pub(crate) unsafe fn unmap_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    let result = unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    debug_assert_eq!(result, 0, "munmap of a mapping of our own");
}

/// Asks for huge pages in part of a mapping, whose pages are not touched yet.
///
/// # Safety
/// The range lies within a mapping of [`map_pages`].
pub(crate) unsafe fn advise_huge(start: NonNull<u8>, bytes: usize) {
    // A kernel without huge pages refuses this advice, and does as well.
    // SAFETY: the caller's promise; the advice changes no contents.
    #[cfg(not(miri))]
    unsafe {
        libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE)
    };
    #[cfg(miri)]
    let _ = (start, bytes);
}

/// Gives the pages of part of a mapping back; they are zero when touched again.
///
/// # Safety
/// The range is whole pages of a mapping of [`map_pages`], and nothing refers to its bytes.
pub(crate) unsafe fn discard(start: NonNull<u8>, bytes: usize) {
    #[cfg(not(miri))]
    {
        // SAFETY: the caller's promise.
        let result = unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED) };
        debug_assert_eq!(result, 0, "giving back pages of our own");
    }
    #[cfg(miri)]
    // SAFETY: the caller's promise.
    unsafe {
        start.as_ptr().write_bytes(0, bytes)
    };
}

impl Drop for AnonBuf {
    fn drop(&mut self) {
        if self.mapped > 0 {
            self.unmap();
        }
    }
}

impl Deref for AnonBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` are mapped and initialised (zero at first); an empty one may dangle.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AnonBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for AnonBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AnonBuf({} bytes)", self.len)
    }
}
