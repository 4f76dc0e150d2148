//! Checks of the whole tree: the tiers of the workspace, where `unsafe`, files and clocks may be used, what no file may hold, what documents
//! name, and what nothing uses.

mod code;
mod named;
mod rings;
mod rules;
mod text;
mod tree;
mod unused;
mod workspace;

use std::fmt;
use std::io;
use std::path::Path;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the tree, with `/`.
    pub path: String,
    /// From 1; 0 when it is about the file as a whole.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// What was looked at, and what was found.
pub struct Report {
    pub files: usize,
    pub crates: usize,
    pub findings: Vec<Finding>,
}

/// Checks the tree at `root`.
pub fn run(root: &Path) -> io::Result<Report> {
    let files = tree::read(root)?;
    let mut findings = Vec::new();
    let crates = workspace::check(&files, &mut findings);
    for file in &files {
        text::check(file, &mut findings);
        if file.path.ends_with(".rs") {
            rules::check(file, &crates, &mut findings);
        }
        if file.path.ends_with(".md") {
            text::check_links(file, root, &mut findings);
        }
    }
    rings::check(&files, &crates, &mut findings);
    named::check(&files, &crates, &mut findings);
    unused::check(&files, &mut findings);
    findings.sort();
    Ok(Report {
        files: files.len(),
        crates: crates.len(),
        findings,
    })
}
