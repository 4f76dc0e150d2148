//! What a thread reads with: its reader and its buffers.

use ramlet_index::IndexScratch;
use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, Consumer, OverBudget};

/// Bytes that a vector index reads at once.
const INDEX_BUFFER_BYTES: usize = 512 << 10;

/// One per thread; nothing in it is shared.
pub struct Lookup {
    pub io: IoContext,
    /// For single blocks of ids, payloads and tables.
    pub buf: AnonBuf,
    pub index: IndexScratch,
}

impl Lookup {
    /// Reserves its buffers; they grow, by reservation, only for a block larger than any before.
    pub fn new(io: IoContext, consumer: &Consumer) -> Result<Lookup, OverBudget> {
        Ok(Lookup {
            io,
            buf: AnonBuf::reserved(consumer, 4 * ramlet_io::PAGE)?,
            index: IndexScratch::new(AnonBuf::reserved(consumer, INDEX_BUFFER_BYTES)?),
        })
    }
}
