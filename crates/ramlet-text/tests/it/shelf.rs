//! Directories, built containers, and readers that count.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ramlet_io::{PreadStorage, RamStorage, Storage};
use ramlet_memory::Ledger;
use ramlet_text::{Hold, RangeRead, Ranges, Result, SliceCache, TextBuilder, TextIndex, TextInfo};

use crate::corpus::Corpus;

/// A directory that goes away with its last user.
pub struct Shelf {
    pub storage: Arc<dyn Storage>,
    path: Option<PathBuf>,
}

impl Shelf {
    pub fn ram() -> Shelf {
        Shelf {
            storage: Arc::new(RamStorage::new(None)),
            path: None,
        }
    }

    pub fn files() -> Shelf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ramlet-text-{}-{number}", std::process::id()));
        Shelf {
            storage: PreadStorage::open(&path).expect("a temporary directory"),
            path: Some(path),
        }
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// The container of a corpus, and what its build said of it.
pub fn build(shelf: &Shelf, corpus: &Corpus, scratch: u64) -> (Vec<u8>, TextInfo) {
    let mut builder = TextBuilder::new(shelf.storage.clone(), scratch).expect("enough scratch");
    for (row, tokens) in (0u32..).zip(&corpus.0).filter(|(_, tokens)| !tokens.is_empty()) {
        let mut show = |each: &mut dyn FnMut(&str, u32)| {
            for (token, position) in tokens {
                each(token, *position);
            }
        };
        builder.add(row, &mut show).expect("ascending rows");
    }
    let mut container = Vec::new();
    let info = builder
        .finish(corpus.0.len() as u32, &mut container)
        .expect("a container");
    (container, info)
}

pub fn cache(bytes: u64) -> Arc<SliceCache> {
    SliceCache::new(Ledger::new(bytes).consumer("text", bytes))
}

pub fn open(container: &[u8], hold: Hold) -> TextIndex {
    let mut ranges = container;
    TextIndex::open(container.len() as u64, hold, cache(64 << 20), &mut ranges).expect("a whole container")
}

/// Counts batches and bytes.
pub struct Counted<'a> {
    pub container: &'a [u8],
    pub batches: usize,
    pub bytes: usize,
}

impl<'a> Counted<'a> {
    pub fn new(container: &'a [u8]) -> Counted<'a> {
        Counted {
            container,
            batches: 0,
            bytes: 0,
        }
    }
}

impl Ranges for Counted<'_> {
    fn read(&mut self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        self.batches += 1;
        self.bytes += reads.iter().map(|read| read.out.len()).sum::<usize>();
        self.container.read(reads)
    }
}
