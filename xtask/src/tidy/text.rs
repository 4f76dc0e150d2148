//! Rules for every text file.

use std::path::Path;

use super::Finding;
use super::tree::TextFile;

/// Paths of one machine, and names of package mirrors. Written in two halves so that this file doesn't hold them.
const MACHINE: [(&str, &str); 8] = [
    ("/ro", "ot/"),
    ("/tmp/", "wt"),
    ("/wo", "rk/"),
    ("/ho", "me/"),
    ("/Us", "ers/"),
    ("arti", "factory"),
    ("--index", "-url"),
    ("--extra-index", "-url"),
];
/// Notes to come back later: an issue is the place for them.
const NOTES: [(&str, &str); 3] = [("TO", "DO"), ("FIX", "ME"), ("XX", "X:")];

/// Files here are as they must be, text or not.
const DATA: [&str; 2] = ["testdata/", "fuzz/corpus/"];

/// Checks any text file.
pub fn check(file: &TextFile, findings: &mut Vec<Finding>) {
    let mut report = |line: usize, message: String| {
        findings.push(Finding {
            path: file.path.clone(),
            line,
            message,
        });
    };
    for (at, line) in file.text.lines().enumerate() {
        for (a, b) in MACHINE {
            let needle = format!("{a}{b}");
            if mentions(line, &needle) {
                report(at + 1, format!("'{needle}' belongs to one machine"));
            }
        }
        for (a, b) in NOTES {
            let needle = format!("{a}{b}");
            if line
                .split(|c: char| !c.is_alphanumeric() && c != ':')
                .any(|word| word.trim_end_matches(':') == needle.trim_end_matches(':'))
            {
                report(at + 1, format!("'{needle}': finish it, or open an issue"));
            }
        }
    }
    let is_data = DATA.iter().any(|directory| file.path.starts_with(directory));
    if !file.text.is_empty() && !file.text.ends_with('\n') && !is_data {
        report(file.text.lines().count(), "the last line has no end".to_string());
    }
}

/// A path counts only where it begins: `docs/work/x` is no machine's path.
fn mentions(line: &str, needle: &str) -> bool {
    line.match_indices(needle).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !needle.starts_with('/') || !before.is_some_and(|c| c.is_alphanumeric() || "._-}*".contains(c))
    })
}

/// Relative links of a Markdown file lead to something that is there.
pub fn check_links(file: &TextFile, root: &Path, findings: &mut Vec<Finding>) {
    let dir = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    for (at, line) in file.text.lines().enumerate() {
        for target in links(line) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            if !root.join(dir).join(path).exists() {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: at + 1,
                    message: format!("the link to {path} leads nowhere"),
                });
            }
        }
    }
}

/// Targets of `[text](target)` in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split_whitespace().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_line(line: &str, expected: usize) {
        let file = TextFile {
            path: "a.txt".into(),
            text: format!("{line}\n"),
        };
        let mut findings = Vec::new();
        check(&file, &mut findings);
        assert_eq!(findings.len(), expected, "{line}: {findings:?}");
    }

    #[test]
    fn machine_paths() {
        check_line(&["cd /ro", "ot/x"].concat(), 1);
        check_line(&["see '/wo", "rk/main'"].concat(), 1);
        check_line(&["docs/wo", "rk/main"].concat(), 0);
        check_line("/rooted/x and /homes", 0);
        check_line(&["https://host/arti", "factory/index"].concat(), 1);
    }

    #[test]
    fn notes_to_self() {
        check_line(&["// TO", "DO: later"].concat(), 1);
        check_line("// FIXMENT and todos", 0);
    }

    #[test]
    fn link_targets() {
        let targets: Vec<_> = links("a [b](c.md) [d](e/f.md#g \"title\") [h]").collect();
        assert_eq!(targets, ["c.md", "e/f.md#g"]);
    }

    #[test]
    fn links_that_lead_nowhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = TextFile {
            path: "README.md".into(),
            text: "[a](Cargo.toml) [b](https://x) [c](no-such-file.md)\n".into(),
        };
        let mut findings = Vec::new();
        check_links(&file, root, &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
    }
}
