//! Directories on the backends under test, and rows files in them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ramlet_format::footer::Footer;
use ramlet_format::rows::{RowsMeta, RowsWriter};
use ramlet_format::{PAGE, block};
use ramlet_index::{CachedRows, RowsFile};
use ramlet_io::{BlockFile, IoContext, PreadStorage, RamStorage, Storage};
use ramlet_memory::{AnonBuf, Ledger};

pub const SEED: u64 = 7;

/// A directory that goes away with its last user.
pub struct Disk {
    pub storage: Arc<dyn Storage>,
    path: Option<PathBuf>,
}

impl Disk {
    pub fn ram() -> Disk {
        Disk {
            storage: Arc::new(RamStorage::new(None)),
            path: None,
        }
    }

    pub fn files() -> Disk {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ramlet-index-{}-{number}", std::process::id()));
        Disk {
            storage: PreadStorage::open(&path).expect("a temporary directory"),
            path: Some(path),
        }
    }

    pub fn all() -> [Disk; 2] {
        [Disk::ram(), Disk::files()]
    }

    pub fn io(&self) -> IoContext {
        IoContext::for_storage(&*self.storage, 64).expect("a reader")
    }

    pub fn write_rows(&self, name: &str, row_bytes: usize, rows: &[u8]) -> RowsFile {
        let mut writer = RowsWriter::new(SEED, row_bytes as u32);
        let mut out = Vec::new();
        rows.chunks_exact(row_bytes)
            .for_each(|row| writer.push(row, &mut out));
        writer.finish(&mut out);
        let mut file = self.storage.create(name).expect("a new file");
        file.append(&out).expect("writing");
        file.sync().expect("syncing");
        self.open_rows(name)
    }

    pub fn open_rows(&self, name: &str) -> RowsFile {
        let file = self.open_blocks(name);
        let meta = self.meta(&file);
        RowsFile::new(Arc::new(file), meta).expect("few rows")
    }

    /// All rows of a file in RAM.
    pub fn load_rows(&self, name: &str) -> CachedRows {
        let consumer = Ledger::new(1 << 30).consumer("test", 1 << 30);
        let (file, mut buf) = (self.open_rows(name), AnonBuf::new(1 << 16));
        CachedRows::load(&file, &consumer, &mut self.io(), &mut buf).expect("sound rows and room")
    }

    /// The rows of a file, as many of them in RAM as `bytes` are room for.
    pub fn rows_partly_in_ram(&self, name: &str, bytes: u64) -> RowsFile {
        let consumer = Ledger::new(1 << 30).consumer("test", bytes);
        let (file, mut buf) = (self.open_rows(name), AnonBuf::new(1 << 16));
        let rows = CachedRows::load_some(&file, &consumer, &mut self.io(), &mut buf).expect("sound rows");
        file.with_rows_in_ram(rows)
    }

    fn open_blocks(&self, name: &str) -> BlockFile {
        let file = self.storage.open(name).expect("a file");
        BlockFile::new(file, SEED, block::verify, None)
    }

    fn meta(&self, file: &BlockFile) -> RowsMeta {
        let last = file.pages() - 1;
        let mut buf = AnonBuf::new(PAGE);
        let page = file.read(&mut self.io(), last, 1, &mut buf).expect("a footer");
        RowsMeta::open(&Footer::parse(page, SEED, last).expect("a footer")).expect("rows")
    }

    pub fn read_all(&self, name: &str) -> AnonBuf {
        let file = self.storage.open(name).expect("a file");
        let mut buf = AnonBuf::new(file.len() as usize);
        file.read_at(&mut buf, 0).expect("reading");
        buf
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}
