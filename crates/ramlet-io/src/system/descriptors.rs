//! File descriptors of this process: how many there are, and how many there may be.

use std::fs;
use std::io;

/// File descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    pub open: u64,
    /// The soft limit: what opening fails at.
    pub most: u64,
}

/// `None` where the kernel doesn't say.
pub fn open_files() -> Option<OpenFiles> {
    let open = count()?;
    open_files_most().map(|most| OpenFiles { open, most })
}

/// The soft limit.
pub(crate) fn open_files_most() -> Option<u64> {
    limits().ok().map(|limits| limits.rlim_cur)
}

/// Raises the soft limit to the hard one; what it was and what it is now. A process may do this for itself, and for all that
/// it starts: a library had better leave it to the program.
pub fn raise_open_files() -> io::Result<(u64, u64)> {
    let mut limits = limits()?;
    let before = limits.rlim_cur;
    if before < limits.rlim_max {
        limits.rlim_cur = limits.rlim_max;
        // SAFETY: the kernel reads one rlimit from the one given.
        let failed = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok((before, limits.rlim_cur))
}

fn limits() -> io::Result<libc::rlimit> {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit into the one given.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) };
    match failed {
        0 => Ok(limits),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Newer kernels tell by the length of the directory, which takes no descriptor; in older ones it is 0.
fn count() -> Option<u64> {
    const OPEN: &str = "/proc/self/fd";
    match fs::metadata(OPEN).ok()?.len() {
        0 => fs::read_dir(OPEN).ok().map(|files| files.count() as u64),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_opened_are_counted() {
        let before = open_files().expect("Linux tells");
        assert!(before.open > 0 && before.open < before.most, "{before:?}");
        // More than other tests of this process close meanwhile.
        let held: Vec<_> = (0..100).map(|_| fs::File::open("/dev/null")).collect();
        let after = open_files().expect("Linux tells");
        assert!(after.open >= before.open + 50, "{before:?} {after:?}");
        drop(held);
    }

    #[test]
    fn the_limit_only_rises() {
        let (before, now) = raise_open_files().expect("allowed to everybody");
        assert!(now >= before);
        assert_eq!(raise_open_files().expect("again"), (now, now));
        assert_eq!(open_files_most(), Some(now));
    }
}
