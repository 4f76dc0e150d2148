//! What this process used, by the kernel's account. Linux; elsewhere zero.

use std::fs;

/// Nanoseconds of CPU that the calling thread has used: its own and the kernel's on its behalf.
pub fn thread_cpu_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// What a process used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessUsed {
    /// Seconds of CPU, threads that ended included; steps of 10 ms.
    pub cpu_s: f64,
    /// Read from disks on its behalf, and written.
    pub read_bytes: u64,
    pub write_bytes: u64,
}

/// Of any process that may be looked at; zeros when it is gone.
pub fn used_by(pid: u32) -> ProcessUsed {
    used_in(&format!("/proc/{pid}"))
}

/// Seconds of CPU of this process, threads that ended included; steps of 10 ms.
pub fn process_cpu_s() -> f64 {
    used_in("/proc/self").cpu_s
}

/// Bytes that this process caused to be read from disks and written to them.
pub fn disk_bytes() -> (u64, u64) {
    let used = used_in("/proc/self");
    (used.read_bytes, used.write_bytes)
}

fn used_in(directory: &str) -> ProcessUsed {
    let stat = fs::read_to_string(format!("{directory}/stat")).unwrap_or_default();
    // The second field is the program's name in parentheses and may hold blanks; then come fields 3 and on.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields.get(at).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    let io = fs::read_to_string(format!("{directory}/io")).unwrap_or_default();
    let field = |name: &str| {
        io.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            .unwrap_or(0)
    };
    ProcessUsed {
        // utime and stime are fields 14 and 15; Linux shows them in hundredths of a second everywhere.
        cpu_s: (ticks(11) + ticks(12)) / 100.0,
        read_bytes: field("read_bytes:"),
        write_bytes: field("write_bytes:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs() {
        let (thread, process) = (thread_cpu_ns(), process_cpu_s());
        let mut sum = 0u64;
        for n in 0..30_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(n * n));
        }
        assert!(sum != 1 && process_cpu_s() >= process);
        // Not every kernel keeps this file.
        assert!(thread == 0 || thread_cpu_ns() > thread);
    }
}
