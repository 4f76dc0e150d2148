//! One look at the memory of a server: by the kernel, by its allocator, by its group.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// What the kernel says of the process, in bytes. Source: proc(5), `status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    pub rss: u64,
    /// Of its own: heap, stacks, anonymous mappings.
    pub anon: u64,
    /// Pages of files that it has mapped: code and data.
    pub file: u64,
    /// Page tables.
    pub tables: u64,
    pub rss_peak: u64,
}

/// What its allocator says, in bytes, by the names that `/metrics` has them under (jemalloc's).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Heap {
    /// Asked for and not given back.
    pub allocated: u64,
    /// Pages that hold some of it.
    pub active: u64,
    /// Pages that the allocator holds in RAM.
    pub resident: u64,
    /// Addresses kept without memory.
    pub retained: u64,
    pub metadata: u64,
}

/// What the kernel charges the server's group, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    pub usage: u64,
    pub anon: u64,
    /// Page cache, mapped or not.
    pub page_cache: u64,
    /// Page tables, sockets, inodes and so on.
    pub kernel: u64,
}

/// All of it at one moment. What can't be had is None: the allocator of a server that doesn't tell, the group of one that runs elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Since the first.
    pub at_s: f64,
    pub phase: &'static str,
    /// Sent so far; after the deletes what is left.
    pub points: u64,
    pub segments: Option<u64>,
    pub process: Process,
    pub heap: Option<Heap>,
    pub group: Option<Group>,
}

impl Process {
    /// None when there is no such process, or one that has ended.
    pub fn of(pid: u32) -> Option<Process> {
        Process::parse(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Process> {
        let bytes = |name: &str| {
            let value = |line: &str| {
                let kilobytes = line.strip_prefix(name)?.trim().strip_suffix("kB")?;
                kilobytes.trim().parse::<u64>().ok()
            };
            status.lines().find_map(value).map(|kilobytes| kilobytes * 1024)
        };
        Some(Process {
            rss: bytes("VmRSS:")?,
            anon: bytes("RssAnon:").unwrap_or(0),
            file: bytes("RssFile:").unwrap_or(0),
            tables: bytes("VmPTE:").unwrap_or(0),
            rss_peak: bytes("VmHWM:").unwrap_or(0),
        })
    }
}

impl Heap {
    /// From the text of `/metrics`; None when it has none of it.
    pub fn parse(metrics: &str) -> Option<Heap> {
        let bytes = |name: &str| {
            let value = |line: &str| {
                line.strip_prefix(name)?
                    .strip_prefix(' ')?
                    .trim()
                    .parse::<f64>()
                    .ok()
            };
            metrics.lines().find_map(value).map(|bytes| bytes as u64)
        };
        Some(Heap {
            allocated: bytes("memory_allocated_bytes")?,
            active: bytes("memory_active_bytes").unwrap_or(0),
            resident: bytes("memory_resident_bytes").unwrap_or(0),
            retained: bytes("memory_retained_bytes").unwrap_or(0),
            metadata: bytes("memory_metadata_bytes").unwrap_or(0),
        })
    }

    /// Share of the pages in RAM that holds nothing anybody asked for: fragmentation, and what waits to be used again.
    pub fn unused_share(&self) -> f64 {
        match self.resident {
            0 => 0.0,
            resident => resident.saturating_sub(self.allocated) as f64 / resident as f64,
        }
    }
}

impl Group {
    /// From a group's directory, version 1 or 2.
    pub fn of(directory: &Path) -> Option<Group> {
        let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
        let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
        let stat = read("memory.stat")?;
        let field = |name: &str| {
            let value = |line: &str| {
                line.strip_prefix(name)?
                    .strip_prefix(' ')?
                    .trim()
                    .parse::<u64>()
                    .ok()
            };
            stat.lines().find_map(value)
        };
        if let Some(usage) = number("memory.usage_in_bytes") {
            return Some(Group {
                usage,
                anon: field("rss")?,
                page_cache: field("cache")?,
                kernel: number("memory.kmem.usage_in_bytes").unwrap_or(0),
            });
        }
        // `kernel` came with Linux 5.18; before, its parts are all there is.
        let parts = ["kernel_stack", "pagetables", "percpu", "slab"];
        let kernel = field("kernel").unwrap_or_else(|| parts.iter().filter_map(|part| field(part)).sum());
        Some(Group {
            usage: number("memory.current")?,
            anon: field("anon")?,
            page_cache: field("file")?,
            kernel: kernel + field("sock").unwrap_or(0),
        })
    }
}

/// The directory among a group's that has memory in it.
pub(crate) fn memory_directory(directories: &[PathBuf]) -> Option<PathBuf> {
    let has_memory = |path: &&PathBuf| path.join("memory.stat").is_file();
    directories.iter().find(has_memory).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_by_its_status() {
        let status =
            "Name:\tx\nVmHWM:\t   20 kB\nVmRSS:\t   16 kB\nRssAnon:\t 8 kB\nRssFile:\t 4 kB\nVmPTE:\t 2 kB\n";
        let process = Process::parse(status).expect("a process");
        assert_eq!(
            (
                process.rss,
                process.anon,
                process.file,
                process.tables,
                process.rss_peak
            ),
            (16_384, 8_192, 4_096, 2_048, 20_480)
        );
        // The dead have a status without memory.
        assert_eq!(Process::parse("Name:\tx\nState:\tZ (zombie)\n"), None);
        assert!(Process::of(std::process::id()).expect("this one").rss > 0);
    }

    #[test]
    fn a_heap_by_its_metrics() {
        let text = "# HELP memory_allocated_bytes x\nmemory_allocated_bytes 75\nmemory_active_bytes 80\nmemory_resident_bytes 1.0e2\n";
        let heap = Heap::parse(text).expect("a heap");
        assert_eq!((heap.allocated, heap.active, heap.resident), (75, 80, 100));
        assert_eq!(heap.unused_share(), 0.25);
        assert_eq!(Heap::parse("other 1\n"), None);
        assert_eq!(Heap::default().unused_share(), 0.0);
    }

    #[test]
    fn groups_of_both_versions() {
        let root = std::env::temp_dir().join(format!("ramlet-ingest-group-{}", std::process::id()));
        let make = |name: &str, files: &[(&str, &str)]| {
            let path = root.join(name);
            fs::create_dir_all(&path).expect("a directory");
            for (name, text) in files {
                fs::write(path.join(name), text).expect("a file");
            }
            path
        };
        let v1 = make(
            "v1",
            &[
                ("memory.stat", "cache 5\nrss 3\nrss_huge 0\ntotal_cache 9\n"),
                ("memory.usage_in_bytes", "10\n"),
                ("memory.kmem.usage_in_bytes", "2\n"),
            ],
        );
        let v2 = make(
            "v2",
            &[
                (
                    "memory.stat",
                    "anon 3\nfile 5\nkernel_stack 1\npagetables 1\nsock 1\nslab 2\n",
                ),
                ("memory.current", "10\n"),
            ],
        );
        let expected = Group {
            usage: 10,
            anon: 3,
            page_cache: 5,
            kernel: 2,
        };
        assert_eq!(Group::of(&v1), Some(expected));
        assert_eq!(
            Group::of(&v2),
            Some(Group {
                kernel: 5,
                ..expected
            })
        );
        assert_eq!(Group::of(&root), None);
        assert_eq!(memory_directory(&[root.clone(), v1.clone()]), Some(v1));
        fs::remove_dir_all(&root).expect("removed");
    }
}
