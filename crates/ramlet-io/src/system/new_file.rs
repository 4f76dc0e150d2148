//! Files that appear under their name only when they are complete.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that gets its name when it is whole: whatever ends its writer before, kill -9 included, leaves nothing behind.
///
/// Where the file system knows no files without names (`O_TMPFILE`: NFS, some FUSE) it has another name until then, which a kill leaves.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    /// What it is called so far.
    name: Option<PathBuf>,
}

impl NewFile {
    /// An empty file that is to be `path`.
    pub fn create(path: &Path) -> io::Result<NewFile> {
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_TMPFILE)
            .open(directory_of(path));
        match opened {
            // An old kernel takes the flag for that of a directory, which can't be written to.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
                NewFile::named(path)
            }
            opened => Ok(NewFile {
                file: opened?,
                path: path.to_path_buf(),
                name: None,
            }),
        }
    }

    fn named(path: &Path) -> io::Result<NewFile> {
        let name = temporary_name(path);
        let file = File::create(&name)?;
        Ok(NewFile {
            file,
            path: path.to_path_buf(),
            name: Some(name),
        })
    }

    /// Gives it its name; a file that had it before is replaced. Nothing is synced.
    pub fn finish(mut self) -> io::Result<()> {
        let name = match self.name.take() {
            Some(name) => name,
            None => match link(&self.file, &self.path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    // A link never replaces; a rename does, at once.
                    let name = temporary_name(&self.path);
                    link(&self.file, &name)?;
                    name
                }
                linked => return linked,
            },
        };
        fs::rename(&name, &self.path).inspect_err(|_| drop(fs::remove_file(&name)))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::remove_file(name);
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(path.as_os_str().as_bytes())?;
    let at = libc::AT_FDCWD;
    // SAFETY: takes two C strings that live through the call, and numbers.
    let done = unsafe { libc::linkat(at, from.as_ptr(), at, to.as_ptr(), libc::AT_SYMLINK_FOLLOW) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("a directory");
        entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    }

    #[test]
    fn nothing_is_there_before_it_is_whole() {
        let directory = std::env::temp_dir().join(format!("ramlet-new-file-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("set");
        let makers: [fn(&Path) -> io::Result<NewFile>; 2] = [NewFile::create, NewFile::named];
        for (at, make) in makers.into_iter().enumerate() {
            for text in ["first", "second"] {
                let before = fs::read(&path).ok();
                let mut file = make(&path).expect("creates");
                file.write_all(text.as_bytes()).expect("writes");
                assert_eq!(fs::read(&path).ok(), before);
                let unnamed = usize::from(before.is_some());
                assert_eq!(names(&directory).len(), unnamed + at, "{text}");
                file.finish().expect("gets its name");
                assert_eq!(fs::read(&path).expect("is there"), text.as_bytes());
                assert_eq!(names(&directory), ["set"]);
            }
            drop(make(&path).expect("creates"));
            assert_eq!(names(&directory), ["set"], "given up");
            fs::remove_file(&path).expect("ours");
        }
        fs::remove_dir_all(&directory).expect("ours");
        let gone = NewFile::create(&path).expect_err("no directory");
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
