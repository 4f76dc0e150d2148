//! What a thread or the process has used of processors and disks.

use std::mem::MaybeUninit;
use std::time::Duration;

/// Whose usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The calling thread's.
    Thread,
    /// The whole process's, threads that ended included.
    Process,
}

/// Since the start of the thread or the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time of its own code.
    pub user: Duration,
    /// Processor time of the kernel on its behalf.
    pub system: Duration,
    /// Page faults that waited for a disk.
    pub faults_major: u64,
    /// Read from disks, or being read: what the kernel reads ahead of a fault or a read counts for who caused it.
    pub read_bytes: u64,
}

impl Usage {
    /// One system call (getrusage).
    pub fn of(whose: Whose) -> Usage {
        let who = match whose {
            Whose::Thread => libc::RUSAGE_THREAD,
            Whose::Process => libc::RUSAGE_SELF,
        };
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel writes one rusage into the one given; zeroed, it is one already.
        let usage = unsafe {
            libc::getrusage(who, usage.as_mut_ptr());
            usage.assume_init()
        };
        Usage {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            faults_major: usage.ru_majflt.max(0) as u64,
            // Linux tells the sum of bytes in units of 512.
            read_bytes: usage.ru_inblock.max(0) as u64 * 512,
        }
    }

    /// User and system time.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.max(0) as u64, time.tv_usec.max(0) as u32 * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen() {
        let (thread, process) = (Usage::of(Whose::Thread), Usage::of(Whose::Process));
        let mut sum = 0u64;
        while Usage::of(Whose::Thread).cpu() < thread.cpu() + Duration::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0 && Usage::of(Whose::Process).cpu() > process.cpu());
    }
}
