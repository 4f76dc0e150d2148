//! Cached records of one file, compressed by symbols where that pays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ramlet_io::{RecordCache, Symbols};

/// A file's part of the cache of records.
pub struct KeptRecords {
    cache: Arc<RecordCache>,
    file: u64,
    /// Set before records come, if ever.
    pub symbols: Option<Symbols>,
    /// The first page whose records weren't read ahead.
    ahead_from: AtomicU64,
}

impl KeptRecords {
    /// Bytes of a file from which on a table of symbols is small beside it.
    pub const CODED_FILE_BYTES_MIN: u64 = 24 * Symbols::BYTES;

    /// `file` is unique per opened file, never used again.
    pub fn new(cache: &Arc<RecordCache>, file: u64) -> KeptRecords {
        KeptRecords {
            cache: cache.clone(),
            file,
            symbols: None,
            ahead_from: AtomicU64::new(0),
        }
    }

    /// Copies a record to the start of `out`, which has [`RecordCache::RECORD_BYTES_MAX`]; its length.
    pub fn get(&self, row: u32, out: &mut [u8]) -> Option<usize> {
        self.cache.get(self.file, row, self.symbols.as_ref(), out)
    }

    /// Keeps a verified record, if there is memory.
    pub fn put(&self, row: u32, record: &[u8]) {
        self.cache.put(self.file, row, self.symbols.as_ref(), record);
    }

    /// The same of one that nobody asked for yet; false: there is no memory that nobody has use for.
    pub fn put_ahead(&self, row: u32, record: &[u8]) -> bool {
        self.cache
            .put_ahead(self.file, row, self.symbols.as_ref(), record)
    }

    /// The first page whose records weren't read ahead.
    pub fn ahead_from(&self) -> u64 {
        self.ahead_from.load(Ordering::Relaxed)
    }

    /// Those before `page` were.
    pub fn set_ahead(&self, page: u64) {
        self.ahead_from.store(page, Ordering::Relaxed);
    }

    /// Whether the last record that came found room: if not, pages are better kept whole.
    pub fn has_room(&self) -> bool {
        self.cache.has_room()
    }
}
