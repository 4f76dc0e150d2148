//! A file read through a memory mapping.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{self, NonNull};

use ramlet_memory::page_bytes;

use crate::error::{At, check_range};
use crate::storage::{ReadFile, Result};

pub struct MmapFile {
    name: String,
    file: File,
    map: Mapping,
}

impl MmapFile {
    pub fn open(path: &Path, name: &str) -> Result<MmapFile> {
        MmapFile::map(path, name, true)
    }

    /// Without the advice: the kernel reads ahead of each fault.
    pub fn open_with_read_ahead(path: &Path, name: &str) -> Result<MmapFile> {
        MmapFile::map(path, name, false)
    }

    fn map(path: &Path, name: &str, random: bool) -> Result<MmapFile> {
        let file = File::open(path).at("open", name)?;
        let len = file.metadata().at("open", name)?.len();
        let map = Mapping::new(&file, len as usize, random).at("map", name)?;
        Ok(MmapFile {
            name: name.to_owned(),
            file,
            map,
        })
    }
}

impl ReadFile for MmapFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.map.len as u64
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        check_range(&self.name, offset, out.len(), self.len())?;
        out.copy_from_slice(&self.map.bytes()[offset as usize..][..out.len()]);
        Ok(())
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        Some(self.map.bytes())
    }

    fn raw_fd(&self) -> Option<i32> {
        Some(self.file.as_raw_fd())
    }
}

/// A shared read-only mapping of a whole file; dangling when the file is empty.
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is read-only and has no thread affinity.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub fn new(file: &File, len: usize, random: bool) -> io::Result<Mapping> {
        if len == 0 {
            return Ok(Mapping {
                start: NonNull::dangling(),
                len,
            });
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if random {
            // SAFETY: the range is the mapping made above; the advice changes no contents.
            unsafe { libc::madvise(start, len, libc::MADV_RANDOM) };
        }
        let start = NonNull::new(start.cast()).expect("a mapping is never at address 0");
        Ok(Mapping { start, len })
    }

    /// Bytes of the mapped file that are in the page cache.
    pub fn cached_bytes(&self) -> io::Result<u64> {
        let page = page_bytes();
        let mut pages = vec![0u8; self.len.div_ceil(page)];
        if self.len > 0 {
            // SAFETY: the range is the mapping; the kernel writes a byte for each of its pages, which `pages` has.
            let result = unsafe { libc::mincore(self.start.as_ptr().cast(), self.len, pages.as_mut_ptr()) };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let cached = pages.iter().filter(|page| *page & 1 == 1).count();
        Ok((cached * page).min(self.len) as u64)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` are mapped as long as `self`. Files behind the storage seam are written
        // once and never changed or cut afterwards, so the bytes hold still.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping is our own, and nothing refers to it after this call.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}
