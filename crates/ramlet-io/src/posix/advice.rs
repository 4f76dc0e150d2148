//! System calls that the standard library doesn't wrap.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Tells the kernel not to read ahead: our reads are random or already large.
pub fn random(file: &File) {
    advise(file, 0..0, libc::POSIX_FADV_RANDOM);
}

/// Drops clean pages of the file from the page cache, where they would count against the memory limit; only whole
/// pages inside the range. An end of 0 is the end of the file.
pub fn drop_cache(file: &File, range: Range<u64>) {
    advise(file, range, libc::POSIX_FADV_DONTNEED);
}

fn advise(file: &File, range: Range<u64>, advice: i32) {
    let (offset, len) = (
        range.start as libc::off_t,
        range.end.saturating_sub(range.start) as libc::off_t,
    );
    // Advice may be refused (pipes, odd file systems); nothing depends on it.
    // SAFETY: takes a descriptor that is open as long as `file`, and numbers.
    let _ = unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, advice) };
}

/// Allocates the file's space, so that writes within it can't run out of disk. Fine where it isn't supported:
/// the caller writes every byte once.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    loop {
        // SAFETY: takes a descriptor that is open as long as `file`, and numbers.
        let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as libc::off_t) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(()),
            _ => return Err(error),
        }
    }
}

/// Bytes of a file system.
pub struct Space {
    pub used: u64,
    /// What an ordinary user can still write.
    pub free: u64,
}

/// The file's file system.
pub fn space(file: &File) -> io::Result<Space> {
    let mut stats = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open as long as `file`, and `stats` is room for the answer.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), stats.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it filled the structure.
    let stats = unsafe { stats.assume_init() };
    Ok(Space {
        used: (stats.f_blocks - stats.f_bfree) * stats.f_frsize,
        free: stats.f_bavail * stats.f_frsize,
    })
}
