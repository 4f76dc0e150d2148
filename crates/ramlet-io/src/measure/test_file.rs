//! A file to measure with, that nobody has to clean up.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ramlet_memory::AnonBuf;

use crate::error::At;
use crate::storage::Result;

/// Written at once, and what a size is rounded up to.
const CHUNK: usize = 1 << 20;

/// A file of noise without a name: the kernel frees it when this process ends, however it ends.
///
/// Read and written past the page cache where the file system allows it.
pub struct TestFile {
    pub(super) file: File,
    bytes: u64,
    is_direct: bool,
    name: String,
}

impl TestFile {
    /// Writes `bytes` (rounded up to 1 MiB) of noise to a new file in `directory`, and syncs it. `told` hears how many are
    /// written. Noise, because a disk may compress, or not store at all, what is plain.
    pub fn create(directory: &Path, bytes: u64, seed: u64, told: &mut dyn FnMut(u64)) -> Result<TestFile> {
        let name = format!("a file without a name in {}", directory.display());
        let (file, is_direct) = unnamed(directory, libc::O_DIRECT)
            .map(|file| (file, true))
            // Some file systems know no direct access.
            .or_else(|_| unnamed(directory, 0).map(|file| (file, false)))
            .at("create", &name)?;
        let mut chunk = AnonBuf::new(CHUNK);
        let mut noise = Noise::new(seed);
        let bytes = bytes.next_multiple_of(CHUNK as u64).max(CHUNK as u64);
        let mut done = 0;
        while done < bytes {
            noise.fill(&mut chunk);
            file.write_all_at(&chunk, done).at("write", &name)?;
            done += CHUNK as u64;
            told(done);
        }
        file.sync_all().at("sync", &name)?;
        Ok(TestFile {
            file,
            bytes,
            is_direct,
            name,
        })
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether transfers pass the page cache by. Otherwise it is measured too.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How another process opens this file while it is open here.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }
}

/// A file without a name; where the file system knows none, one that loses its name at once.
fn unnamed(directory: &Path, flags: i32) -> io::Result<File> {
    let open = |flags| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags);
        options
    };
    match open(flags | libc::O_TMPFILE).open(directory) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {}
        opened => return opened,
    }
    let path = directory.join(format!(".ramlet-machine-{}.tmp", std::process::id()));
    let file = open(flags).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// xorshift64*.
pub(super) struct Noise(u64);

impl Noise {
    pub(super) fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = self.next().to_le_bytes();
        }
    }
}
