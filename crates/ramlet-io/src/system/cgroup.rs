//! The memory limit that the kernel sets this process, and what it counts against it.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits at least this high are the kernel's way to say "none" (version 1 rounds 2^63 down to a page).
const NO_LIMIT: u64 = 1 << 60;

/// The memory limit that holds for this process: the smallest of its cgroup and all above it, version 2 or 1; None
/// when there is none.
pub fn cgroup_memory_limit() -> Option<u64> {
    Group::of_this_process()
        .into_iter()
        .filter_map(|group| group.limit())
        .min()
}

/// Bytes that count against the limit of this process's own cgroup: heap, page cache, kernel memory.
pub fn cgroup_memory_usage() -> Option<u64> {
    Group::of_this_process()
        .into_iter()
        .find_map(|group| group.usage())
}

/// A memory cgroup as a directory, and the file names of its version.
struct Group {
    root: PathBuf,
    path: PathBuf,
    limit: &'static str,
    usage: &'static str,
}

impl Group {
    /// The groups that may account for this process's memory (a machine may run both versions).
    fn of_this_process() -> Vec<Group> {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Group::parse(&membership, Path::new("/sys/fs/cgroup"))
    }

    /// From lines `id:controllers:path`; version 2 has no controllers there.
    fn parse(membership: &str, mount: &Path) -> Vec<Group> {
        let mut groups = Vec::new();
        for line in membership.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let path = PathBuf::from(path.trim_start_matches('/'));
            if controllers.is_empty() {
                let (limit, usage) = ("memory.max", "memory.current");
                // Beside version 1 it is mounted one level down.
                for root in [mount.to_owned(), mount.join("unified")] {
                    groups.push(Group {
                        root,
                        path: path.clone(),
                        limit,
                        usage,
                    });
                }
            } else if controllers.split(',').any(|name| name == "memory") {
                let (limit, usage) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
                groups.push(Group {
                    root: mount.join("memory"),
                    path,
                    limit,
                    usage,
                });
            }
        }
        groups
    }

    /// The smallest limit on the way up to the root. In a container the path may be the host's, of which only the
    /// upper end exists here: levels that don't exist say nothing.
    fn limit(&self) -> Option<u64> {
        let levels = self
            .path
            .ancestors()
            .map(|level| self.root.join(level).join(self.limit));
        levels
            .filter_map(|file| number(&file))
            .filter(|limit| *limit < NO_LIMIT)
            .min()
    }

    fn usage(&self) -> Option<u64> {
        self.path
            .ancestors()
            .find_map(|level| number(&self.root.join(level).join(self.usage)))
    }
}

/// A file that holds one number; None for "max".
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up `/sys/fs/cgroup`, removed on drop.
    struct Mount(PathBuf);

    impl Mount {
        fn new(name: &str, files: &[(&str, &str)]) -> Mount {
            let root = std::env::temp_dir().join(format!("ramlet-cgroup-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("a file has a parent")).expect("a directory");
                fs::write(path, text).expect("a file");
            }
            Mount(root)
        }

        fn limit(&self, membership: &str) -> Option<u64> {
            Group::parse(membership, &self.0)
                .iter()
                .filter_map(Group::limit)
                .min()
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn version_2_takes_the_smallest_limit_on_the_way_up() {
        let files = [
            ("a/memory.max", "5000\n"),
            ("a/b/memory.max", "max\n"),
            ("a/b/c/memory.max", "7000\n"),
            ("a/b/c/memory.current", "123\n"),
        ];
        let mount = Mount::new("v2", &files);
        assert_eq!(mount.limit("0::/a/b/c\n"), Some(5000));
        assert_eq!(mount.limit("0::/\n"), None);
        assert_eq!(Group::parse("0::/a/b/c", &mount.0)[0].usage(), Some(123));
    }

    #[test]
    fn version_1_ignores_its_huge_number() {
        let files = [
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/a/memory.limit_in_bytes", "64000000\n"),
        ];
        let mount = Mount::new("v1", &files);
        assert_eq!(mount.limit("5:cpu,memory:/a\n0::/\n"), Some(64_000_000));
        assert_eq!(mount.limit("5:memory:/\n0::/\n"), None);
        assert_eq!(mount.limit("5:cpu:/a\n"), None);
    }

    #[test]
    fn a_path_of_the_host_falls_back_to_what_the_container_sees() {
        let mount = Mount::new("container", &[("memory/memory.limit_in_bytes", "1000\n")]);
        assert_eq!(mount.limit("4:memory:/docker/0123\n"), Some(1000));
    }
}
