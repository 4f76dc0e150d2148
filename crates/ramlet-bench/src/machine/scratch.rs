//! A directory for other programs' files, that goes away with this process.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PREFIX: &str = ".ramlet-machine-";
/// Waits for the end of its input, which comes when our process ends, however it ends. What dies with us may still write for a moment.
const WATCH: &str = r#"cat > /dev/null; while [ -e "$0" ]; do rm -rf "$0" || sleep 0.1; done"#;

/// A new directory, removed on drop, and by a shell that waits for it when this process is killed.
pub struct Scratch {
    path: PathBuf,
    watcher: Child,
}

impl Scratch {
    pub fn new(directory: &Path) -> Result<Scratch, String> {
        remove_leftovers(directory);
        let pid = std::process::id();
        let path = (0..)
            .map(|number| directory.join(format!("{PREFIX}{pid}-{number}")))
            .find_map(|path| match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => None,
                other => Some(other.map(|()| path)),
            });
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        let path = path.ok_or("no name is free")?.map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let watcher = Command::new("sh")
            .args(["-c", WATCH])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C goes to the whole group of a terminal.
            .process_group(0)
            .spawn();
        match watcher {
            Ok(watcher) => Ok(Scratch { path, watcher }),
            Err(error) => {
                let _ = fs::remove_dir(&path);
                Err(format!("sh: {error}"))
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

/// Directories of processes that are gone, whose watchers were killed too.
fn remove_leftovers(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if let Some((pid, _)) = pid
            && pid.parse::<u32>().is_ok()
            && !Path::new("/proc").join(pid).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
