//! Finds the process that holds a lock or a port, by `/proc`, as far as this user may look.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A state of a socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Words of a command that are shown: those behind may be keys.
const WORDS: usize = 2;

/// A process, for a sentence: `process 4711 (ramlet serve)`.
fn described(pid: &str) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .take(WORDS)
        .map(String::from_utf8_lossy)
        .collect();
    Some(match words.is_empty() {
        true => format!("process {pid}"),
        false => format!("process {pid} ({})", words.join(" ")),
    })
}

/// The process that has the file locked, if the kernel tells.
pub fn holder_of_lock(path: &Path) -> Option<String> {
    let inode = fs::metadata(path).ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| pid_of_lock(line, &inode))?;
    described(pid)
}

/// `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`: kind, mode, access, process, device and inode.
fn pid_of_lock<'a>(line: &'a str, inode: &str) -> Option<&'a str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[_, "FLOCK", _, _, pid, place, ..] = words.as_slice() else {
        return None;
    };
    (place.rsplit(':').next() == Some(inode)).then_some(pid)
}

/// The process that listens on the port, if it is one that this user may look into.
pub fn holder_of_port(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let inode = tables
        .iter()
        .flat_map(|table| table.lines())
        .find_map(|line| inode_of_socket(line, port))?;
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let pid = pids
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .find(|pid| has_file(pid, &socket))?;
    described(&pid)
}

/// `0: 0100007F:18BD 00000000:0000 0A .. uid timeout inode ..`.
fn inode_of_socket(line: &str, port: u16) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[_, local, _, LISTENING, _, _, _, _, _, inode, ..] = words.as_slice() else {
        return None;
    };
    let hex = local.rsplit(':').next()?;
    (u16::from_str_radix(hex, 16) == Ok(port)).then_some(inode)
}

fn has_file(pid: &str, target: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let is_it = |link: std::path::PathBuf| link.to_str() == Some(target);
    files
        .flatten()
        .any(|file| fs::read_link(file.path()).is_ok_and(is_it))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn this_process_is_found_by_its_lock_and_its_port() {
        let own = format!("process {} (", std::process::id());
        let path = std::env::temp_dir().join(format!("ramlet-io-holder-{}", std::process::id()));
        let file = fs::File::create(&path).expect("a file");
        assert_eq!(holder_of_lock(&path), None, "nobody has it");
        file.lock().expect("nobody has it");
        let holder = holder_of_lock(&path).expect("found");
        assert!(holder.starts_with(&own), "{holder}");
        fs::remove_file(&path).expect("there");

        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let holder = holder_of_port(port).expect("found");
        assert!(holder.starts_with(&own), "{holder}");
        drop(listener);
        assert_eq!(holder_of_port(port), None);
    }
}
