//! The text files of the tree.

use std::fs;
use std::io;
use std::path::Path;

/// A text file.
pub struct TextFile {
    /// Path from the root of the tree, with `/`.
    pub path: String,
    pub text: String,
}

/// Directories that hold nothing of ours.
const SKIPPED: [&str; 6] = [
    "target",
    ".git",
    "ramlet-data",
    "__pycache__",
    ".pytest_cache",
    "node_modules",
];
/// What virtual environments of Python begin with here.
const ENVIRONMENT: &str = ".venv";
/// Larger files are data.
const BYTES_MAX: u64 = 2 << 20;

/// Reads all text files under `root`, in path order. Binary files (not UTF-8) are left out.
pub fn read(root: &Path) -> io::Result<Vec<TextFile>> {
    let mut files = Vec::new();
    walk(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(dir: &Path, prefix: &str, files: &mut Vec<TextFile>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        let is_skipped = SKIPPED.contains(&name.as_str()) || name.starts_with(ENVIRONMENT);
        if kind.is_dir() && !is_skipped {
            walk(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file()
            && name != ".git"
            && entry.metadata()?.len() <= BYTES_MAX
            && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
        {
            files.push(TextFile { path, text });
        }
    }
    Ok(())
}
