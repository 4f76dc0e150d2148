//! Counts of this process, for metrics.

use std::fs;

/// What `/proc/self` says, `None` where it doesn't.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessCounts {
    pub threads: Option<u64>,
    pub open_files: Option<u64>,
    pub open_files_max: Option<u64>,
    pub faults_minor: Option<u64>,
    pub faults_major: Option<u64>,
    /// Bytes from and to disks since the start.
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
}

/// Reads five small files.
pub fn process_counts() -> ProcessCounts {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let (status, stat, limits, io) = (read("status"), read("stat"), read("limits"), read("io"));
    ProcessCounts {
        threads: number(super::field(&status, "Threads")),
        open_files: fs::read_dir("/proc/self/fd")
            .ok()
            .map(|files| files.count() as u64),
        open_files_max: open_files_max(&limits),
        faults_minor: number(of_stat(&stat, 10)),
        faults_major: number(of_stat(&stat, 12)),
        read_bytes: number(super::field(&io, "read_bytes")),
        written_bytes: number(super::field(&io, "write_bytes")),
    }
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}

/// A field of `/proc/self/stat`, counted from 1; the second, a name in parentheses, may have spaces.
fn of_stat(stat: &str, field: usize) -> Option<&str> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(field.checked_sub(3)?)
}

/// The soft limit.
fn open_files_max(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    number(line.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_understood() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 111 8 222 10";
        assert_eq!((of_stat(stat, 10), of_stat(stat, 12)), (Some("111"), Some("222")));
        assert_eq!(of_stat("", 10), None);
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\n";
        assert_eq!(open_files_max(limits), Some(1024));
        assert_eq!(
            open_files_max("Max open files   unlimited  unlimited files"),
            None
        );
    }

    #[test]
    fn this_process_has_counts() {
        let counts = process_counts();
        assert!(counts.threads >= Some(1) && counts.open_files >= Some(1) && counts.faults_minor > Some(0));
    }
}
