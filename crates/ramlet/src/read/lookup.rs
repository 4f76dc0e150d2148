//! A thread's reader and buffers.

use ramlet_index::IndexScratch;
use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, Consumer, OverBudget, Reservation};

/// Least and most that a vector index reads at once.
const INDEX_BUFFER_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 20;

/// A buffer for single blocks; larger ones are rare.
pub const LOOKUP_BYTES: usize = 4 * ramlet_io::PAGE;

/// What a buffer may keep for the next request while half of the memory that all requests share is left.
const KEPT_BYTES: usize = 32 * ramlet_io::PAGE;

/// One per thread; nothing in it is shared.
pub struct Lookup {
    pub io: IoContext,
    /// For single blocks of ids, payloads and tables.
    pub buf: AnonBuf,
    pub index: IndexScratch,
    /// For parts of words' posting lists, from the first search on that reads some; see [`Lookup::take_lists`].
    lists: Option<AnonBuf>,
    /// Pays for what single requests need beyond this: bitmaps of filters.
    pub rare: Consumer,
    /// Rows of segments whose payloads were read to decide about a filter, by requests other than searches.
    pub payloads_checked: u64,
    /// Payloads handed out since the last [`Lookup::settle`], and what is held for them.
    handed: u64,
    held: Reservation,
}

/// Payloads of one request that are in memory unreserved: callers expect some KiB for each.
const HANDED_FREE: u64 = 64 << 10;
const HANDED_STEP: u64 = 64 << 10;

impl Lookup {
    /// Reserves its buffers out of about `bytes`. The one for single blocks grows, by reservation from `rare`, for a block
    /// larger than any before.
    pub fn new(
        io: IoContext,
        consumer: &Consumer,
        rare: &Consumer,
        bytes: u64,
    ) -> Result<Lookup, OverBudget> {
        let index = usize::try_from(bytes / 2).unwrap_or(usize::MAX);
        let index = index.clamp(*INDEX_BUFFER_BYTES.start(), *INDEX_BUFFER_BYTES.end());
        let index = IndexScratch::new(AnonBuf::reserved(consumer, index)?);
        Ok(Lookup {
            index,
            ..Lookup::without_index(io, rare)?
        })
    }

    /// One that has nothing yet to read vectors with.
    pub fn without_index(io: IoContext, rare: &Consumer) -> Result<Lookup, OverBudget> {
        Ok(Lookup {
            io,
            buf: AnonBuf::reserved(rare, LOOKUP_BYTES)?,
            index: IndexScratch::new(AnonBuf::new(0)),
            lists: None,
            rare: rare.clone(),
            payloads_checked: 0,
            handed: 0,
            held: rare.reserve(0)?,
        })
    }

    /// A payload of `bytes` is about to be handed out, which stays in memory until [`Lookup::settle`]. How large payloads
    /// are is known only here.
    pub fn reserve_returned(&mut self, bytes: usize) -> Result<(), OverBudget> {
        self.handed += bytes as u64;
        let more = self.handed.saturating_sub(HANDED_FREE + self.held.bytes());
        if more > 0 {
            self.held.grow(more.next_multiple_of(HANDED_STEP))?;
        }
        Ok(())
    }

    /// The buffer for parts of lists, to be given back with [`Lookup::keep_lists`]: a mapping made for each search would be
    /// taken from all threads of the process at each end.
    pub fn take_lists(&mut self) -> Result<AnonBuf, OverBudget> {
        match self.lists.take() {
            Some(buf) => Ok(buf),
            None => AnonBuf::reserved(&self.rare, 0),
        }
    }

    pub fn keep_lists(&mut self, buf: AnonBuf) {
        self.lists = Some(buf);
    }

    /// Gives back what large blocks needed of its buffers. What searches need that fetch some documents stays while there is
    /// memory for everybody: to give pages back stops the other threads, and to touch new ones costs as much as to read them.
    pub fn trim(&mut self) {
        let is_plenty = self.rare.available() >= self.rare.cap() / 2;
        let kept = if is_plenty { KEPT_BYTES } else { LOOKUP_BYTES };
        self.buf.shrink_to(kept);
        if let Some(lists) = &mut self.lists {
            lists.shrink_to(kept);
        }
    }

    /// All that was handed out is gone.
    pub fn settle(&mut self) {
        self.handed = 0;
        self.held.shrink_to(0);
    }
}
