//! Every backend over a fresh directory.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ramlet_io::{
    IoErrorKind, MmapStorage, OverlayStorage, PreadStorage, RamStorage, SimStorage, Storage, UringStorage,
};

/// A directory on the disk that the build is on, removed on drop.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("io-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("a directory to test in");
        TempDir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Says past the harness's capture that this machine can't run the test that calls it; `cargo xtask test` counts such lines.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {}: {why}",
        thread.name().unwrap_or("a test")
    );
}

/// The io_uring backend, or None, said aloud, where the kernel or the file system refuses it.
pub fn uring(path: &Path) -> Option<Arc<dyn Storage>> {
    match UringStorage::open(path) {
        Ok(storage) => Some(storage),
        Err(error) => {
            assert_eq!(error.kind, IoErrorKind::Unsupported, "{error}");
            skipped(&format!("no io_uring: {error}"));
            None
        }
    }
}

type Open = fn(&Path) -> Option<Arc<dyn Storage>>;

/// Runs `test` on every backend, each with a directory of its own.
pub fn each(test: impl Fn(Arc<dyn Storage>)) {
    let open: [Open; 6] = [
        |_| Some(Arc::new(RamStorage::new(None))),
        |_| Some(Arc::new(SimStorage::new())),
        |path| {
            let below = PreadStorage::open(path).expect("a directory");
            Some(Arc::new(OverlayStorage::new(below)))
        },
        |path| Some(PreadStorage::open(path).expect("a directory")),
        |path| Some(MmapStorage::open(path).expect("a directory")),
        uring,
    ];
    for open in open {
        let directory = TempDir::new();
        if let Some(storage) = open(directory.path()) {
            println!("backend {}", storage.backend());
            test(storage);
        }
    }
}

/// Writes a file in pieces of the given size and syncs it and its name.
pub fn write_file(storage: &dyn Storage, name: &str, bytes: &[u8], piece: usize) {
    let mut file = storage.create(name).expect("a new file");
    for piece in bytes.chunks(piece) {
        file.append(piece).expect("an append");
    }
    file.sync().expect("a sync");
    storage.sync_dir().expect("a directory sync");
}
