//! What the kernel says about this process and this machine. Linux only: elsewhere everything is None or unknown.

mod cgroup;
mod descriptors;
mod holders;
mod new_file;
mod process;
mod slice;
mod sockets;
mod usage;

use std::fs;
use std::time::Duration;

pub use cgroup::{cgroup_memory_limit, cgroup_memory_usage};
pub(crate) use descriptors::open_files_most;
pub use descriptors::{OpenFiles, open_files, raise_open_files};
pub(crate) use holders::holder_of_lock;
pub use holders::holder_of_port;
pub use new_file::NewFile;
pub use process::{ProcessCounts, process_counts};
pub use slice::ask_for_short_slice;
pub use sockets::{segment_bytes, set_segment_bytes_max};
pub use usage::{Usage, Whose};

/// Whether anything has this path, a link that leads nowhere left out.
pub fn path_exists(path: &str) -> bool {
    fs::exists(path).unwrap_or(false)
}

/// Memory of this process, in bytes; 0 where the kernel doesn't say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessMemory {
    /// Resident now: `anon` + `file` + shared memory.
    pub rss: u64,
    /// Peak of resident memory.
    pub rss_peak: u64,
    /// Resident memory of its own: heap, stacks, anonymous mappings.
    pub anon: u64,
    /// Resident pages of files: code and memory-mapped data.
    pub file: u64,
}

/// The machine, for records beside a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    pub ram_bytes: u64,
    pub kernel: String,
}

/// Reads `/proc/self/status`: two or three system calls, no walk over the mappings.
pub fn process_memory() -> ProcessMemory {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name| kilobytes(&status, name).unwrap_or(0);
    ProcessMemory {
        rss: bytes("VmRSS"),
        rss_peak: bytes("VmHWM"),
        anon: bytes("RssAnon"),
        file: bytes("RssFile"),
    }
}

/// Processor time, user and system, that the calling thread has used since its start.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec into the one given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}

pub fn machine() -> Machine {
    let unknown = || "unknown".to_owned();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease");
    Machine {
        cpu: field(&cpu, "model name").map_or_else(unknown, str::to_owned),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        ram_bytes: kilobytes(&memory, "MemTotal").unwrap_or(0),
        kernel: kernel.map_or_else(|_| unknown(), |text| text.trim().to_owned()),
    }
}

/// The value of the first line `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The value of a line `name: n kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let number = field(text, name)?
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let text = "Name:\tx\nVmRSS:\t   1556 kB\nVmHWM:\t12 kB\nbad kB\n";
        assert_eq!(kilobytes(text, "VmRSS"), Some(1556 * 1024));
        assert_eq!(kilobytes(text, "Vm"), None);
        assert_eq!(kilobytes(text, "Name"), None);
        assert_eq!(field("model name\t: A B\n", "model name"), Some("A B"));
    }

    #[test]
    fn this_process_has_memory_and_this_machine_a_kernel() {
        let memory = process_memory();
        assert!(
            memory.rss > 0 && memory.rss_peak >= memory.rss && memory.anon > 0,
            "{memory:?}"
        );
        let machine = machine();
        assert!(machine.cores > 0 && machine.ram_bytes > memory.rss && machine.kernel != "unknown");
    }
}
