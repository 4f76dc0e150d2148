//! The file of vectors.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ramlet_io::{Access, PAGE, PreadStorage, ReadFile, ScratchFile};
use ramlet_testdata::Random;

use super::options::IoOptions;

/// Rows of f32, one after another, of no meaning: what is measured is reading and scoring them.
///
/// A row of 768 dimensions is 3 KB: every second one lies across two pages.
pub struct Rows {
    file: ScratchFile,
    rows: u64,
    row_bytes: usize,
}

/// About how much is written at once.
const CHUNK: usize = 4 << 20;
/// Disk to be left free.
const SPARE_BYTES: u64 = 1 << 30;

impl Rows {
    /// Writes them. Refuses a disk that has no room, and a file system whose files stay in memory.
    pub fn create(options: &IoOptions) -> Result<Rows, String> {
        let bytes = options.file_bytes();
        let at = options.directory.display();
        let storage = PreadStorage::open(&options.directory).map_err(|e| e.to_string())?;
        let free = storage.free_bytes().map_err(|e| e.to_string())?;
        if bytes.saturating_add(SPARE_BYTES.min(bytes)) > free {
            let (bytes, free) = (bytes as f64 / 1e9, free as f64 / 1e9);
            return Err(format!(
                "{bytes:.1} GB don't fit {at}: {free:.1} GB are free there"
            ));
        }
        let mut file = ScratchFile::create(&options.directory).map_err(|e| e.to_string())?;
        fill(&mut file, bytes, options.seed).map_err(|e| e.to_string())?;
        file.drop_cached();
        let cached = file.cached_bytes().map_err(|e| e.to_string())?;
        if cached * 2 > file.len() {
            return Err(format!(
                "files in {at} don't leave memory: choose a directory on a disk"
            ));
        }
        Ok(Rows {
            file,
            rows: options.rows,
            row_bytes: options.row_bytes(),
        })
    }

    pub fn count(&self) -> u64 {
        self.rows
    }

    /// Of the file: whole pages.
    pub fn bytes(&self) -> u64 {
        self.file.len()
    }

    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Where a row is in the file.
    pub fn place(&self, row: u64) -> Range<u64> {
        let start = row * self.row_bytes as u64;
        start..start + self.row_bytes as u64
    }

    /// Pages that a row may touch, at most.
    pub fn pages_max(&self) -> usize {
        (self.row_bytes - 1).div_ceil(PAGE) + 1
    }

    /// The file, cold; and which part of it still is in the page cache.
    pub fn open_cold(&self, access: Access) -> Result<(Arc<dyn ReadFile>, f64), String> {
        self.file.drop_cached();
        let cached = self.file.cached_bytes().map_err(|e| e.to_string())?;
        let file = self.file.open(access).map_err(|e| e.to_string())?;
        Ok((file, cached as f64 / self.bytes() as f64))
    }
}

/// Uniform values within -1..1; then zeros to the end of the page.
fn fill(file: &mut ScratchFile, bytes: u64, seed: u64) -> ramlet_io::Result<()> {
    let mut random = Random::new(seed, 0);
    let mut chunk = vec![0u8; CHUNK];
    let mut left = bytes;
    while left > 0 {
        for pair in chunk.as_chunks_mut::<8>().0 {
            let bits = random.next_u64();
            let (low, high) = (value(bits as u32), value((bits >> 32) as u32));
            pair[..4].copy_from_slice(&low.to_le_bytes());
            pair[4..].copy_from_slice(&high.to_le_bytes());
        }
        let now = left.min(CHUNK as u64);
        file.append(&chunk[..now as usize])?;
        left -= now;
    }
    let rest = file.len() % PAGE as u64;
    if rest > 0 {
        file.append(&vec![0; PAGE - rest as usize])?;
    }
    file.sync()
}

/// Within -1..1.
fn value(bits: u32) -> f32 {
    (bits >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// A query of `dims` values within -1..1.
pub(crate) fn query(random: &mut Random, dims: usize) -> Vec<f32> {
    (0..dims).map(|_| value(random.next_u64() as u32)).collect()
}

/// Which pages of the file a cell has read: those a page cache that keeps everything has.
pub(crate) struct Seen(Vec<AtomicU64>);

impl Seen {
    pub(crate) fn new(bytes: u64) -> Seen {
        let words = bytes.div_ceil(PAGE as u64 * 64) as usize;
        Seen((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Notes the pages of these bytes; whether one of them is new.
    pub(crate) fn note(&self, bytes: Range<u64>) -> bool {
        let pages = bytes.start / PAGE as u64..bytes.end.div_ceil(PAGE as u64);
        pages.fold(false, |new, page| {
            let bit = 1 << (page % 64);
            let before = self.0[(page / 64) as usize].fetch_or(bit, Ordering::Relaxed);
            new | (before & bit == 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_small() {
        assert_eq!((value(0), value(1 << 31)), (-1.0, 0.0));
        assert!(value(u32::MAX) < 1.0);
    }

    #[test]
    fn pages_are_new_once() {
        let seen = Seen::new(100 * PAGE as u64);
        let page = |n: u64| n * PAGE as u64;
        assert!(seen.note(page(3)..page(3) + 1));
        assert!(!seen.note(page(3) + 7..page(4)));
        assert!(seen.note(page(4) - 1..page(4) + 1), "page 4 is new");
        assert!(!seen.note(page(3)..page(5)));
        assert!(seen.note(page(99)..page(100)));
    }
}
