//! The workspace's order: bytes at the bottom, people at the top. A crate depends only on crates above it in `members`.

use super::Finding;
use super::tree::TextFile;

/// A member of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Directory, and with it the name: `crates/ramlet-io`.
    pub dir: String,
    /// The tier comment above it in the manifest: `machine`, `bytes`, `search`, `engine`, `outside`, `tools`.
    pub tier: String,
}

impl Member {
    pub fn name(&self) -> &str {
        self.dir.rsplit('/').next().unwrap_or(&self.dir)
    }
}

/// Reads the members and checks every crate's dependencies on others of them.
pub fn check(files: &[TextFile], findings: &mut Vec<Finding>) -> Vec<Member> {
    let manifest = |path: &str| files.iter().find(|file| file.path == path);
    let Some(root) = manifest("Cargo.toml") else {
        findings.push(finding("Cargo.toml", 0, "there is no workspace manifest"));
        return Vec::new();
    };
    let members = members(&root.text);
    for (place, member) in members.iter().enumerate() {
        let path = format!("{}/Cargo.toml", member.dir);
        if member.tier.is_empty() {
            let message = format!("{} stands under no tier comment", member.dir);
            findings.push(finding("Cargo.toml", 0, &message));
        }
        match manifest(&path) {
            Some(file) => check_edges(file, place, &members, findings),
            None => findings.push(finding(&path, 0, "the manifest of a member is missing")),
        }
    }
    check_lock(files, findings);
    members
}

/// The list `members`, each with the last comment before it.
fn members(manifest: &str) -> Vec<Member> {
    let (mut members, mut tier, mut inside) = (Vec::new(), String::new(), false);
    for line in manifest.lines().map(str::trim) {
        if line.starts_with("members") {
            inside = true;
        } else if inside && line.starts_with(']') {
            break;
        } else if inside && let Some(comment) = line.strip_prefix('#') {
            tier = comment.trim().to_string();
        } else if inside && line.starts_with('"') {
            let dir = line.trim_matches([',', '"', ' ']).to_string();
            let tier = tier.clone();
            members.push(Member { dir, tier });
        }
    }
    members
}

fn check_edges(file: &TextFile, place: usize, members: &[Member], findings: &mut Vec<Finding>) {
    for (line, dependency) in dependencies(&file.text) {
        let Some(of) = members.iter().position(|m| m.name() == dependency) else {
            continue;
        };
        if of >= place {
            let message = format!(
                "{} depends on {dependency}, which stands below it in the workspace's members",
                members[place].name()
            );
            findings.push(finding(&file.path, line, &message));
        }
    }
}

/// (line, name) of all dependencies: build and test ones too, for every target.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (at, line) in manifest.lines().map(str::trim).enumerate() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section.ends_with("dependencies");
            // [dependencies.name]
            if let Some((_, name)) = section.split_once("dependencies.") {
                found.push((at + 1, name.trim_matches('"').to_string()));
            }
        } else if inside
            && !line.starts_with('#')
            && let Some((name, _)) = line.split_once(['.', '=', ' '])
        {
            found.push((at + 1, name.trim_matches('"').to_string()));
        }
    }
    found
}

/// Packages come from crates.io by its own name, not from a mirror that only one machine knows.
fn check_lock(files: &[TextFile], findings: &mut Vec<Finding>) {
    const SOURCE: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    for file in files.iter().filter(|f| f.path.ends_with("Cargo.lock")) {
        for (at, line) in file.text.lines().enumerate() {
            if line.starts_with("source = ") && line != SOURCE {
                findings.push(finding(
                    &file.path,
                    at + 1,
                    "the package comes from elsewhere than crates.io",
                ));
            }
        }
    }
}

fn finding(path: &str, line: usize, message: &str) -> Finding {
    Finding {
        path: path.to_string(),
        line,
        message: message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace]\nmembers = [\n    # machine\n    \"crates/a\",\n    # outside\n    \"crates/b\",\n    \"crates/c\",\n]\n";

    fn check_tree(a: &str, b: &str, c: &str) -> Vec<String> {
        let file = |path: &str, text: &str| TextFile {
            path: path.into(),
            text: text.into(),
        };
        let files = [
            file("Cargo.toml", ROOT),
            file("crates/a/Cargo.toml", a),
            file("crates/b/Cargo.toml", b),
            file("crates/c/Cargo.toml", c),
        ];
        let mut findings = Vec::new();
        let members = check(&files, &mut findings);
        assert_eq!(
            members.iter().map(|m| m.tier.as_str()).collect::<Vec<_>>(),
            ["machine", "outside", "outside"]
        );
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn edges_upwards_are_fine() {
        let b = "[dependencies]\na.workspace = true\nserde = \"1\"\n";
        let c = "[dependencies.b]\npath = \"../b\"\n[dev-dependencies]\na = { path = \"../a\" }\n";
        assert!(check_tree("[dependencies]\nlibc = \"0.2\"\n", b, c).is_empty());
    }

    #[test]
    fn edges_downwards_are_found() {
        for edge in [
            "[dependencies]\nc.workspace = true\n",
            "[dependencies.c]\nworkspace = true\n",
            "[dev-dependencies]\nc = { path = \"../c\" }\n",
            "[target.'cfg(unix)'.dependencies]\nc = \"1\"\n",
        ] {
            let found = check_tree("", edge, "");
            assert_eq!(found.len(), 1, "{edge}: {found:?}");
            assert!(found[0].contains("b depends on c"), "{found:?}");
        }
    }

    #[test]
    fn foreign_registries_are_found() {
        let lock = "[[package]]\nname = \"x\"\nsource = \"registry+https://mirror.example/index\"\n";
        let file = TextFile {
            path: "Cargo.lock".into(),
            text: lock.into(),
        };
        let mut findings = Vec::new();
        check_lock(&[file], &mut findings);
        assert_eq!((findings.len(), findings[0].line), (1, 3));
    }
}
