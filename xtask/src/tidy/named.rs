//! What the documents name must be there: files, the checks of invariants, commands.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::TextFile;
use super::workspace::Member;

/// Folders that a path in a document may begin with.
const TOPS: [&str; 9] = [
    "crates/",
    "demo/",
    "docs/",
    "fuzz/",
    "proto/",
    "records/",
    "testdata/",
    "tests/",
    "xtask/",
];
/// Files of other projects that documents speak of, and what lies in a user's bucket.
const FOREIGN: [&str; 4] = [
    "data_export.py",
    "ramlet-snapshots",
    "tests/consensus_tests/auth_tests",
    "tests/openapi",
];
const COMMANDS: &str = "xtask/src/main.rs";
const RIGS: &str = "tests/rigs/";

/// What there is to be named.
struct Tree<'a> {
    files: &'a [TextFile],
    /// Files and folders.
    paths: BTreeSet<&'a str>,
    /// The names of all functions in Rust and Python.
    functions: BTreeSet<&'a str>,
    crates: BTreeSet<&'a str>,
}

/// Holds what the documents name against the tree.
pub fn check(files: &[TextFile], members: &[Member], findings: &mut Vec<Finding>) {
    let tree = Tree::new(files, members);
    for file in files.iter().filter(|file| is_document(&file.path)) {
        for (at, line) in file.text.lines().enumerate() {
            let mut report = |message: String| {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: at + 1,
                    message,
                });
            };
            let spans: Vec<&str> = code_spans(line).collect();
            let paths = spans.iter().flat_map(|span| paths_in(span));
            for path in paths.filter(|path| !tree.has_path(path)) {
                report(format!("there is no {path}"));
            }
            if file.path == "ARCHITECTURE.md" {
                for named in checks(line).filter(|named| !tree.has_check(named)) {
                    report(format!("no test, file or crate is named {named}"));
                }
            }
            // A command also stands alone, in a block of code.
            for command in spans.into_iter().chain([line.trim()]) {
                if let Some(fault) = tree.fault_of(command) {
                    report(fault);
                }
            }
        }
    }
}

fn is_document(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let of_root = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"];
    of_root.contains(&path) || (path.ends_with(".md") && ["docs", "docs/adr", "docs/guide"].contains(&folder))
}

fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The paths that a span of code is, braces expanded; none where it is something else. A name in capitals stands for any.
fn paths_in(span: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./{},".contains(c);
    if !span.chars().all(is_part) {
        return Vec::new();
    }
    let is_path = |path: &String| {
        let is_file = path.ends_with(".rs") || path.ends_with(".py");
        let is_folder = path.ends_with('/') && !path.starts_with('/');
        is_file || is_folder || TOPS.iter().any(|top| path.starts_with(top))
    };
    let mut paths = expanded(span);
    for path in &mut paths {
        if let Some(at) = path.split('/').position(is_placeholder) {
            *path = path.split_inclusive('/').take(at).collect();
        }
    }
    paths.retain(is_path);
    paths
}

fn is_placeholder(part: &str) -> bool {
    part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase())
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expanded(span: &str) -> Vec<String> {
    let Some((before, (inside, after))) = span
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![span.to_owned()];
    };
    let parts = inside.split(',').map(|part| format!("{before}{part}{after}"));
    parts.flat_map(|path| expanded(&path)).collect()
}

/// What each `*Checked: ...*` of a line names: its spans of code, or its words.
fn checks(line: &str) -> impl Iterator<Item = &str> {
    let texts = line.split("*Checked: ").skip(1);
    texts.flat_map(|rest| {
        let text = rest.split_once('*').map_or(rest, |(text, _)| text);
        let mut named: Vec<&str> = code_spans(text).collect();
        if named.is_empty() {
            named.push(text.trim_end_matches('.'));
        }
        named
    })
}

impl<'a> Tree<'a> {
    fn new(files: &'a [TextFile], members: &'a [Member]) -> Tree<'a> {
        let mut paths = BTreeSet::new();
        let mut functions = BTreeSet::new();
        for file in files {
            paths.insert(file.path.as_str());
            let folders = file.path.match_indices('/');
            paths.extend(folders.map(|(at, _)| &file.path[..at]));
            if file.path.ends_with(".rs") || file.path.ends_with(".py") {
                functions.extend(functions_of(&file.text));
            }
        }
        Tree {
            files,
            paths,
            functions,
            crates: members.iter().map(Member::name).collect(),
        }
    }

    /// A path from the root, or the end of one.
    fn has_path(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let ends = format!("/{path}");
        FOREIGN.contains(&path)
            || self.paths.contains(path)
            || self.paths.iter().any(|known| known.ends_with(&ends))
    }

    fn has_check(&self, named: &str) -> bool {
        named == "tidy"
            || self.crates.contains(named)
            || self.functions.contains(named)
            || self.has_path(named)
    }

    /// What a command names that isn't there.
    fn fault_of(&self, command: &str) -> Option<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["cargo", "xtask", name, ref rest @ ..] => self.fault_of_xtask(name, rest.first().copied()),
            ["cargo", "test" | "bench", ref rest @ ..] => self.fault_of_tests(rest),
            _ => None,
        }
    }

    fn fault_of_xtask(&self, name: &str, of: Option<&str>) -> Option<String> {
        let arm = format!("Some(\"{name}\")");
        let main = self.files.iter().find(|file| file.path == COMMANDS);
        if main.is_none_or(|main| !main.text.contains(&arm)) {
            return Some(format!("cargo xtask has no command {name}"));
        }
        let rig = of.filter(|of| name == "rig" && !is_placeholder(of))?;
        let script = format!("{RIGS}{}.py", rig.replace('-', "_"));
        let fault = format!("there is no rig {rig}");
        (!self.paths.contains(script.as_str())).then_some(fault)
    }

    fn fault_of_tests(&self, words: &[&str]) -> Option<String> {
        let behind = |flag: &str| words.iter().skip_while(|word| **word != flag).nth(1).copied();
        let name = behind("-p")?;
        if !self.crates.contains(name) {
            return Some(format!("there is no crate {name}"));
        }
        if let Some(bench) = behind("--bench")
            && !self.has_path(&format!("crates/{name}/benches/{bench}.rs"))
            && !self.has_path(&format!("crates/{name}/benches/{bench}"))
        {
            return Some(format!("{name} has no bench {bench}"));
        }
        let mut options = false;
        let filter = words.iter().find(|word| {
            let is_value = std::mem::replace(&mut options, word.starts_with('-'));
            !is_value && !word.starts_with('-')
        })?;
        let mut parts = filter.split("::").filter(|part| !part.is_empty());
        let missing = parts.find(|part| !self.has_test(name, part))?;
        Some(format!("{name} has no test {missing}"))
    }

    /// Whether a module or a test of a crate has this name, or a test has it in its name.
    fn has_test(&self, crate_name: &str, part: &str) -> bool {
        let folder = format!("/{crate_name}/");
        let own = self
            .files
            .iter()
            .filter(|file| format!("/{}", file.path).contains(&folder) && file.path.ends_with(".rs"));
        own.into_iter().any(|file| {
            let mut places = file.path.trim_end_matches(".rs").split('/');
            places.any(|place| place == part) || functions_of(&file.text).any(|name| name.contains(part))
        })
    }
}

/// The names behind `fn` and `def`.
fn functions_of(text: &str) -> impl Iterator<Item = &str> {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_').peekable();
    std::iter::from_fn(move || {
        loop {
            match words.next()? {
                "fn" | "def" => return words.peek().copied(),
                _ => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_line(line: &str, expected: &[&str]) {
        let file = |path: &str, text: &str| TextFile {
            path: path.into(),
            text: text.into(),
        };
        let files = [
            file("ARCHITECTURE.md", line),
            file("crates/a/src/b/mod.rs", "fn f() {}"),
            file("crates/a/src/c.rs", ""),
            file("crates/a/tests/it/crash.rs", "#[test]\nfn syncs_are_kept() {}"),
            file("crates/a/benches/reads.rs", ""),
            file("tests/rigs/power_loss.py", "def main(): pass"),
            file("xtask/src/main.rs", "Some(\"tidy\") => 1, Some(\"rig\") => 2"),
        ];
        let member = Member {
            dir: "crates/a".into(),
            tier: "engine".into(),
        };
        let mut findings = Vec::new();
        check(&files, &[member], &mut findings);
        let messages: Vec<&str> = findings.iter().map(|f| f.message.as_str()).collect();
        assert_eq!(messages, expected, "{line}");
    }

    #[test]
    fn paths_of_documents_are_there() {
        check_line(
            "`crates/a/src/c.rs`, `c.rs`, `b/mod.rs`, `src/b/`, `tests/rigs`",
            &[],
        );
        check_line("`crates/a/src/{c,b/mod}.rs`", &[]);
        check_line("`crates/a/src/d.rs`", &["there is no crates/a/src/d.rs"]);
        check_line("`d.rs`", &["there is no d.rs"]);
        check_line("`xc.rs`", &["there is no xc.rs"]);
        check_line("`crates/a/src/{c,d}.rs`", &["there is no crates/a/src/d.rs"]);
        check_line("`src/d/`", &["there is no src/d/"]);
        check_line("`tests/rigs/other`", &["there is no tests/rigs/other"]);
        check_line(
            "d.rs `a.b` `x/y` `/collections/` `rows.len()` `crates/a/NAME/x.rs`",
            &[],
        );
    }

    #[test]
    fn checks_of_invariants_are_there() {
        check_line("1. So it is. *Checked: tidy.*", &[]);
        check_line("1. *Checked: `syncs_are_kept`, `tests/it/crash.rs` of `a`.*", &[]);
        check_line("1. *Checked: `a`.*", &[]);
        check_line(
            "1. *Checked: `syncs_are_lost`.*",
            &["no test, file or crate is named syncs_are_lost"],
        );
        check_line(
            "1. *Checked: reviewers.*",
            &["no test, file or crate is named reviewers"],
        );
    }

    #[test]
    fn commands_name_what_is_there() {
        check_line(
            "| `cargo xtask rig power-loss --cycles 100` | `cargo xtask tidy` |",
            &[],
        );
        check_line("`cargo xtask rig NAME`", &[]);
        check_line("    cargo xtask rig kill", &["there is no rig kill"]);
        check_line("`cargo xtask neat`", &["cargo xtask has no command neat"]);
        check_line("`cargo test -p a --test it crash::`", &[]);
        check_line("`cargo test -p a syncs`", &[]);
        check_line("`cargo test -p a --test it fsck::`", &["a has no test fsck"]);
        check_line("`cargo test -p a --test it crash::lost`", &["a has no test lost"]);
        check_line("`cargo test -p b`", &["there is no crate b"]);
        check_line("`cargo bench -p a --bench reads`", &[]);
        check_line("`cargo bench -p a --bench writes`", &["a has no bench writes"]);
    }
}
