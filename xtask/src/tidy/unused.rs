//! Public items that nothing uses: their name stands nowhere else than in their own file's tests.
//!
//! The compiler says nothing of them, since somebody outside might. Names are counted as words over all Rust files, so that an item
//! whose name is common is never found, and no other item is found wrongly.

use std::collections::BTreeMap;

use super::Finding;
use super::code::{before_tests, code_only};
use super::tree::TextFile;

/// What may stand between `pub` and the name of an item.
const KEYWORDS: [&str; 11] = [
    "async", "const", "enum", "extern", "fn", "mut", "static", "struct", "trait", "type", "unsafe",
];

/// Unused public items of all Rust files.
pub fn check(files: &[TextFile], findings: &mut Vec<Finding>) {
    findings.extend(unused(files).iter().map(|item| Finding {
        path: item.path.into(),
        line: item.line,
        message: format!("nothing uses {}", item.name),
    }));
}

/// A public item and where it stands.
struct Unused<'a> {
    path: &'a str,
    line: usize,
    name: &'a str,
}

fn unused(files: &[TextFile]) -> Vec<Unused<'_>> {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    let code: Vec<(&TextFile, String)> = sources.map(|file| (file, code_only(&file.text))).collect();
    let mut counts = BTreeMap::new();
    for word in code.iter().flat_map(|(_, code)| words(code)) {
        *counts.entry(word).or_insert(0_usize) += 1;
    }
    let mut found = Vec::new();
    for (file, code) in code.iter().filter(|(file, _)| is_source(&file.path)) {
        let own = before_tests(code);
        for (line, name) in public_items(own) {
            let in_tests = words(&code[own.len()..]).filter(|word| *word == name).count();
            if counts[name] == in_tests + 1 {
                // The name as it stands in the file, which outlives the code.
                let text = file.text.lines().nth(line - 1).unwrap_or_default();
                let name = public_name(text).unwrap_or_default();
                found.push(Unused {
                    path: &file.path,
                    line,
                    name,
                });
            }
        }
    }
    found
}

fn is_source(path: &str) -> bool {
    path.contains("/src/") && !path.contains("/generated/") && !path.ends_with("_tests.rs")
}

/// Lines (from 1) and names of what is `pub` for everybody.
fn public_items(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = code.lines().enumerate();
    lines.filter_map(|(at, line)| Some((at + 1, public_name(line)?)))
}

fn public_name(line: &str) -> Option<&str> {
    let mut words = words(line.trim_start().strip_prefix("pub ")?).peekable();
    words.next_if(|word| KEYWORDS.contains(word))?;
    words.find(|word| !KEYWORDS.contains(word))
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_files(files: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<TextFile> = files
            .iter()
            .map(|(path, text)| TextFile {
                path: format!("crates/a/{path}"),
                text: (*text).into(),
            })
            .collect();
        let mut findings = Vec::new();
        check(&files, &mut findings);
        let shown: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_nothing_uses_is_found() {
        let nothing = "crates/a/src/b.rs:1: nothing uses quiet";
        for item in [
            "pub fn quiet() {}",
            "pub const fn quiet() {}",
            "pub async unsafe fn quiet() {}",
            "pub struct quiet;",
        ] {
            check_files(&[("src/b.rs", item)], &[nothing]);
        }
        check_files(
            &[(
                "src/b.rs",
                "pub const quiet: u8 = 1;\n#[cfg(test)]\nmod tests { use super::quiet; }",
            )],
            &[nothing],
        );
        check_files(
            &[
                ("src/b.rs", "pub fn quiet() {}"),
                ("src/c.rs", "// quiet\nfn f() -> &str { \"quiet\" }"),
            ],
            &[nothing],
        );
    }

    #[test]
    fn what_is_used_is_not() {
        let item = "pub fn quiet() {}";
        for user in ["src/c.rs", "tests/it/c.rs", "benches/c.rs"] {
            check_files(&[("src/b.rs", item), (user, "fn f() { b::quiet() }")], &[]);
        }
        check_files(&[("src/b.rs", "pub fn quiet() {}\nfn f() { quiet() }")], &[]);
        check_files(
            &[("src/b.rs", "fn quiet() {}\npub(crate) fn silent() {}\npub struct")],
            &[],
        );
        check_files(
            &[
                ("src/generated/b.rs", item),
                ("tests/it/b.rs", "pub fn still() {}"),
            ],
            &[],
        );
    }
}
