//! Patterns of file names, `part-*.parquet`, where no shell has replaced them: programs start an import without one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The files, each pattern replaced by the files that match it, in the order of their names. A file of that very name isn't a pattern.
pub fn matched_all(files: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for file in files {
        match file.file_name().and_then(|name| name.to_str()) {
            Some(pattern) if pattern.contains(['*', '?']) && !file.exists() => {
                all.extend(matched(file, pattern)?)
            }
            _ => all.push(file.clone()),
        }
    }
    Ok(all)
}

fn matched(file: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let name = entry?.file_name();
        // As in a shell, hidden files are asked for by their dot.
        let matches =
            |name: &str| name.starts_with('.') == pattern.starts_with('.') && is_match(pattern, name);
        if name.to_str().is_some_and(matches) {
            found.push(file.with_file_name(name));
        }
    }
    if found.is_empty() {
        bail!("no file matches {}", file.display());
    }
    found.sort_unstable();
    Ok(found)
}

/// `*` is any characters, `?` is one.
fn is_match(pattern: &str, name: &str) -> bool {
    let mut pattern_left = pattern.chars();
    let Some(next) = pattern_left.next() else {
        return name.is_empty();
    };
    let pattern_left = pattern_left.as_str();
    let mut name_left = name.chars();
    match (next, name_left.next()) {
        ('*', None) => is_match(pattern_left, name),
        ('*', Some(_)) => is_match(pattern_left, name) || is_match(pattern, name_left.as_str()),
        ('?', Some(_)) => is_match(pattern_left, name_left.as_str()),
        (expected, Some(got)) => expected == got && is_match(pattern_left, name_left.as_str()),
        (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_match() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(is_match(pattern, name), expected, "{pattern} {name}");
        };
        check("*.csv", "a.csv", true);
        check("*.csv", ".csv", true);
        check("*.csv", "a.csv.gz", false);
        check("train-*-of-*.parquet", "train-00-of-02.parquet", true);
        check("train-*-of-*.parquet", "test-00-of-02.parquet", false);
        check("?.csv", "é.csv", true);
        check("?.csv", "ab.csv", false);
        check("*", "", true);
    }

    #[test]
    fn patterns_become_files_in_order() {
        let dir = std::env::temp_dir().join(format!("ramlet-matched-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        for name in ["b.csv", "a.csv", ".c.csv", "d.tsv", "[*].csv"] {
            std::fs::write(dir.join(name), "x").expect("written");
        }
        let names = |pattern: &str| -> Vec<String> {
            let found = matched_all(&[dir.join(pattern)]).expect("matches");
            let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
            found.iter().map(name).collect()
        };
        assert_eq!(names("?.csv"), ["a.csv", "b.csv"]);
        assert_eq!(names("[*].csv"), ["[*].csv"]);
        assert_eq!(names("none.csv"), ["none.csv"]);
        let error = matched_all(&[dir.join("*.json")]).expect_err("nothing matches");
        assert!(error.to_string().contains("no file matches"), "{error}");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
