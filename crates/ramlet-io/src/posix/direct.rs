//! A file read with O_DIRECT: from the disk into our buffers, past the page cache.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use ramlet_memory::AnonBuf;

use crate::error::{At, check_range};
use crate::posix::is_aligned;
use crate::posix::uring::UringReader;
use crate::storage::{BatchRead, BatchReader, IoError, PAGE, ReadFile, Result};

pub struct DirectFile {
    name: String,
    file: File,
    len: u64,
}

/// Aligned memory for reads that aren't; on the stack, so that a read allocates nothing.
#[repr(align(4096))]
struct Bounce([u8; BOUNCE]);
const BOUNCE: usize = 4 * PAGE;

impl DirectFile {
    pub fn open(path: &Path, name: &str) -> Result<DirectFile> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .at("open", name)?;
        let len = file.metadata().at("open", name)?.len();
        Ok(DirectFile {
            name: name.to_owned(),
            file,
            len,
        })
    }

    /// Reads at least `needed` bytes of the aligned `out`; the file may end inside it.
    fn read_aligned(&self, out: &mut [u8], offset: u64, needed: usize) -> Result<()> {
        let mut done = 0;
        while done < needed {
            match self.file.read_at(&mut out[done..], offset + done as u64) {
                Ok(read) if done + read >= needed => return Ok(()),
                // Goes on at the start of a page. Less than a page is the end of the file.
                Ok(read) if read >= PAGE => done = (done + read) / PAGE * PAGE,
                Ok(read) => {
                    let end = offset + (done + read) as u64;
                    return Err(IoError::short_read(&self.name, offset, needed, end));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).at("read", &self.name),
            }
        }
        Ok(())
    }

    fn read_bounced(&self, mut out: &mut [u8], mut offset: u64) -> Result<()> {
        let mut bounce = Bounce([0; BOUNCE]);
        while !out.is_empty() {
            let skip = (offset % PAGE as u64) as usize;
            let taken = out.len().min(BOUNCE - skip);
            let pages = (skip + taken).next_multiple_of(PAGE);
            self.read_aligned(&mut bounce.0[..pages], offset - skip as u64, skip + taken)?;
            let (now, later) = out.split_at_mut(taken);
            now.copy_from_slice(&bounce.0[skip..skip + taken]);
            out = later;
            offset += taken as u64;
        }
        Ok(())
    }
}

impl ReadFile for DirectFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        check_range(&self.name, offset, out.len(), self.len)?;
        match is_aligned(out, offset) {
            true => self.read_aligned(out, offset, out.len()),
            false => self.read_bounced(out, offset),
        }
    }

    fn raw_fd(&self) -> Option<i32> {
        Some(self.file.as_raw_fd())
    }
}

/// Writes and reads a page with O_DIRECT and io_uring in the directory `path`.
pub fn probe(path: &Path) -> io::Result<()> {
    // A name per process: two that start at once don't take each other's file away.
    let path = path.join(format!(".probe-{}", std::process::id()));
    let result = probe_file(&path);
    let _ = fs::remove_file(&path);
    result
}

fn probe_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_DIRECT);
    let file = options.open(path)?;
    let mut page = AnonBuf::new(PAGE);
    page.fill(0x5a);
    file.write_all_at(&page, 0)?;
    page.fill(0);
    let mut reader = UringReader::new(1);
    reader.ready()?;
    let file = DirectFile {
        name: "probe".to_owned(),
        file,
        len: PAGE as u64,
    };
    let mut reads = [BatchRead {
        file: &file,
        offset: 0,
        out: &mut page,
    }];
    reader.read_batch(&mut reads).map_err(io::Error::other)?;
    if page.iter().any(|byte| *byte != 0x5a) {
        return Err(io::Error::other("a page read back isn't the page written"));
    }
    if reader.is_broken() {
        return Err(io::Error::other("io_uring reads are refused"));
    }
    Ok(())
}
