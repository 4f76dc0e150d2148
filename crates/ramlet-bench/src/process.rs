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

/// Seconds of CPU of the whole process, threads that ended included; steps of 10 ms.
pub fn process_cpu_s() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses and may hold blanks; then come fields 3 and on.
    let fields: Vec<&str> = text
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields.get(at).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    // utime and stime are fields 14 and 15; Linux shows them in hundredths of a second everywhere.
    (ticks(11) + ticks(12)) / 100.0
}

/// Bytes that this process caused to be read from disks and written to them.
pub fn disk_bytes() -> (u64, u64) {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            .unwrap_or(0)
    };
    (field("read_bytes:"), field("write_bytes:"))
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
