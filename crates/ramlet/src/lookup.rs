//! What a thread reads with: its reader and its buffers.

use ramlet_index::IndexScratch;
use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, Consumer, OverBudget};

/// Least and most that a vector index reads at once.
const INDEX_BUFFER_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 20;

/// A buffer for single blocks; larger ones are rare.
pub const LOOKUP_BYTES: usize = 4 * ramlet_io::PAGE;

/// One per thread; nothing in it is shared.
pub struct Lookup {
    pub io: IoContext,
    /// For single blocks of ids, payloads and tables.
    pub buf: AnonBuf,
    pub index: IndexScratch,
}

impl Lookup {
    /// Reserves its buffers out of about `bytes`. The one for single blocks grows, by reservation from `rare`, for a block
    /// larger than any before.
    pub fn new(io: IoContext, consumer: &Consumer, rare: &Consumer, bytes: u64) -> Result<Lookup, OverBudget> {
        let index = usize::try_from(bytes / 2).unwrap_or(usize::MAX);
        let index = index.clamp(*INDEX_BUFFER_BYTES.start(), *INDEX_BUFFER_BYTES.end());
        Ok(Lookup {
            io,
            buf: AnonBuf::reserved(rare, LOOKUP_BYTES)?,
            index: IndexScratch::new(AnonBuf::reserved(consumer, index)?),
        })
    }
}
