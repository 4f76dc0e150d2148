//! Rules for Rust files.

use super::Finding;
use super::code::{before_tests, code_only, lines_with_word};
use super::tree::TextFile;
use super::workspace::Member;

const LINES_MAX: usize = 1_000;
/// Crates that may hold `unsafe`.
const UNSAFE_CRATES: [&str; 3] = ["ramlet-kernels", "ramlet-memory", "ramlet-io"];
/// The one `unsafe` a test may need: an allocator that counts.
const COUNTING_ALLOCATORS: [&str; 2] = ["/counting.rs", "/counting_allocator.rs"];
/// Crates that may touch the file system: the seam itself, the tools that read a user's files, and what writes test sets, records and inputs of fuzz targets.
const FILE_CRATES: [&str; 6] = [
    "ramlet-io",
    "ramlet-testdata",
    "ramlet-bench",
    "ramlet-cli",
    "ramlet-fuzz-targets",
    "xtask",
];
const FILE_WORDS: [&str; 4] = ["std::fs", "tokio::fs", "File::open", "OpenOptions"];
/// Tiers that get the time as an argument.
const CLOCKLESS_TIERS: [&str; 4] = ["machine", "bytes", "search", "engine"];
const CLOCK_WORDS: [&str; 3] = ["SystemTime::now", "Instant::now", "Utc::now"];
/// What makes one panic many: whoever takes the lock next panics too.
const POISONED: [&str; 3] = [".lock()", ".read()", ".write()"];
const PANICS: [&str; 2] = [".expect(", ".unwrap()"];
/// Tiers whose threads serve many.
const SERVING_CRATES: [&str; 4] = ["ramlet-memory", "ramlet-io", "ramlet", "ramlet-server"];
const UNFINISHED: [&str; 4] = ["todo!", "unimplemented!", "#[ignore", "dbg!"];

/// Checks one Rust file.
pub fn check(file: &TextFile, members: &[Member], findings: &mut Vec<Finding>) {
    let mut report = |line: usize, message: String| {
        findings.push(Finding {
            path: file.path.clone(),
            line,
            message,
        });
    };
    let lines = file.text.lines().count();
    // What a program wrote is as long as its source wants it.
    if lines > LINES_MAX && !file.path.contains("/generated/") {
        report(0, format!("{lines} lines; {LINES_MAX} is the most for a file"));
    }
    if !is_test(&file.path) && !has_header(&file.text) {
        report(1, "it does not begin with //! and what the file is".to_string());
    }
    let code = code_only(&file.text);
    for word in UNFINISHED {
        for line in lines_with(&code, word) {
            report(line, format!("{word} in the tree"));
        }
    }
    let Some(member) = members
        .iter()
        .find(|m| file.path.starts_with(&format!("{}/", m.dir)))
    else {
        return;
    };
    let name = member.name();
    if !UNSAFE_CRATES.contains(&name) && !is_counting_allocator(&file.path) {
        for line in lines_with_word(&code, "unsafe") {
            report(
                line,
                format!("unsafe in {name}; only {} may hold it", UNSAFE_CRATES.join(", ")),
            );
        }
    }
    if is_test(&file.path) {
        return;
    }
    let code = before_tests(&code);
    if !FILE_CRATES.contains(&name) {
        for line in FILE_WORDS.iter().flat_map(|word| lines_with_word(code, word)) {
            report(
                line,
                format!("{name} touches the file system; that is for ramlet-io"),
            );
        }
    }
    if SERVING_CRATES.contains(&name) {
        for line in locks_that_panic(code) {
            let what =
                "a lock that panics where another thread has; say what becomes of it (locks.rs of ramlet)";
            report(line, what.to_string());
        }
    }
    if CLOCKLESS_TIERS.contains(&member.tier.as_str()) {
        for line in CLOCK_WORDS.iter().flat_map(|word| lines_with_word(code, word)) {
            report(
                line,
                format!("{name} reads a clock; below the server the time is an argument"),
            );
        }
    }
}

/// Lines with a lock whose poison is unwrapped, there or on the next line.
fn locks_that_panic(code: &str) -> impl Iterator<Item = usize> + '_ {
    let is_unwrapped = |(at, lock): (usize, &str)| {
        let behind = code[at + lock.len()..].trim_start();
        PANICS.iter().any(|panic| behind.starts_with(panic))
    };
    let locks = POISONED.iter().flat_map(|lock| code.match_indices(lock));
    let lines = locks.filter(move |found| is_unwrapped(*found));
    lines.map(|(at, _)| code[..at].lines().count())
}

fn is_counting_allocator(path: &str) -> bool {
    is_test(path) && COUNTING_ALLOCATORS.iter().any(|name| path.ends_with(name))
}

fn lines_with<'a>(code: &'a str, text: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines()
        .enumerate()
        .filter(move |(_, line)| line.contains(text))
        .map(|(at, _)| at + 1)
}

/// Integration tests, benches, fuzz targets, and unit tests in a file of their own.
fn is_test(path: &str) -> bool {
    ["/tests/", "/benches/", "/fuzz_targets/", "_tests.rs"]
        .iter()
        .any(|part| path.contains(part))
}

/// The first line that isn't blank is a `//!` comment.
fn has_header(text: &str) -> bool {
    text.lines()
        .find(|line| !line.trim().is_empty())
        .is_some_and(|line| line.starts_with("//!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let member = |dir: &str, tier: &str| Member {
            dir: dir.into(),
            tier: tier.into(),
        };
        let members = [
            member("crates/ramlet-io", "machine"),
            member("crates/ramlet", "engine"),
            member("crates/ramlet-server", "outside"),
            member("crates/ramlet-cli", "outside"),
        ];
        let file = TextFile {
            path: path.into(),
            text: text.into(),
        };
        let mut findings = Vec::new();
        check(&file, &members, &mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    fn check_one(path: &str, body: &str, expected: Option<&str>) {
        let found = findings(path, &format!("//! A file.\n{body}\n"));
        match expected {
            None => assert!(found.is_empty(), "{path} {body}: {found:?}"),
            Some(part) => {
                assert_eq!(found.len(), 1, "{path} {body}: {found:?}");
                assert!(
                    found[0].starts_with(&format!("{path}:2:")) && found[0].contains(part),
                    "{found:?}"
                );
            }
        }
    }

    #[test]
    fn unsafe_only_where_it_may_be() {
        check_one("crates/ramlet-io/src/a.rs", "unsafe { x }", None);
        check_one(
            "crates/ramlet/src/a.rs",
            "unsafe { x }",
            Some("unsafe in ramlet;"),
        );
        check_one(
            "crates/ramlet/tests/it/a.rs",
            "unsafe { x }",
            Some("unsafe in ramlet;"),
        );
        check_one(
            "crates/ramlet/tests/counting_allocator.rs",
            "unsafe impl X for Y {}",
            None,
        );
        check_one("crates/ramlet/src/a.rs", "// unsafe", None);
    }

    #[test]
    fn files_only_through_the_seam() {
        check_one("crates/ramlet/src/a.rs", "use std::fs;", Some("file system"));
        check_one(
            "crates/ramlet-server/src/a.rs",
            "let f = File::open(p)?;",
            Some("file system"),
        );
        check_one("crates/ramlet-io/src/a.rs", "use std::fs::File;", None);
        check_one("crates/ramlet-cli/src/a.rs", "use std::fs::File;", None);
        check_one("crates/ramlet/tests/it/a.rs", "use std::fs::File;", None);
        check_one(
            "crates/ramlet/src/a.rs",
            "#[cfg(test)]\nmod tests { use std::fs; }",
            None,
        );
    }

    #[test]
    fn clocks_only_outside() {
        check_one("crates/ramlet/src/a.rs", "let t = Instant::now();", Some("clock"));
        check_one(
            "crates/ramlet-server/src/a.rs",
            "let t = std::time::Instant::now();",
            None,
        );
    }

    #[test]
    fn a_panic_stays_one() {
        let path = "crates/ramlet/src/a.rs";
        check_one(path, "let a = b.lock().expect(\"never\");", Some("a lock"));
        check_one(path, "let a = b.read().unwrap();", Some("a lock"));
        check_one(path, "let a = b.write()\n    .expect(\"never\");", Some("a lock"));
        check_one(path, "let a = b.lock()?;", None);
        check_one(
            path,
            "let a = b.lock().unwrap_or_else(PoisonError::into_inner);",
            None,
        );
        check_one(
            "crates/ramlet/tests/it/a.rs",
            "let a = b.lock().expect(\"never\");",
            None,
        );
        check_one(
            "crates/ramlet-bench/src/a.rs",
            "let a = b.lock().expect(\"never\");",
            None,
        );
    }

    #[test]
    fn nothing_unfinished() {
        for body in [
            "todo!()",
            "unimplemented!(\"x\")",
            "#[ignore]",
            "#[ignore = \"slow\"]",
        ] {
            check_one("crates/ramlet/src/a.rs", body, Some("in the tree"));
        }
        check_one("crates/ramlet/src/a.rs", "let s = \"todo!\";", None);
    }

    #[test]
    fn shape_of_a_file() {
        assert_eq!(findings("crates/ramlet/src/a.rs", "fn f() {}\n").len(), 1);
        let long = format!("//! Long.\n{}", "\n".repeat(LINES_MAX));
        assert_eq!(findings("crates/ramlet/src/a.rs", &long).len(), 1);
    }
}
