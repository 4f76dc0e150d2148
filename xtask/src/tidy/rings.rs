//! Rings of modules: modules of one crate that use each other in a circle.
//!
//! What a module uses is read from its `use` declarations and from its paths that begin with `crate`, `super`, `self` or
//! a name that was imported so. A name that a module
//! hands on (`pub use`) leads to where it is defined. Between a module and those around it no use is counted: a parent declares its
//! children, and children see what is in their parent.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::code::{before_tests, code_only};
use super::tree::TextFile;
use super::workspace::Member;

/// Rings that remain: a crate, then its modules. It may only shrink.
const LIST: &str = "xtask/src/tidy/rings.txt";

/// How often a name may be handed on.
const HANDS_MAX: u32 = 8;

type Path = Vec<String>;

/// A module: what it uses, and where the names in it come from.
#[derive(Default)]
struct Module {
    uses: Vec<Path>,
    names: BTreeMap<String, Path>,
}

/// Modules of a crate by path; the root's is empty.
struct Modules(BTreeMap<Path, Module>);

/// Holds the rings of every crate against the list.
pub fn check(files: &[TextFile], members: &[Member], findings: &mut Vec<Finding>) {
    let list = files.iter().find(|file| file.path == LIST);
    let listed: BTreeSet<&str> = list.map_or(BTreeSet::new(), |file| {
        let lines = file.text.lines();
        lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect()
    });
    let found: BTreeSet<String> = members
        .iter()
        .flat_map(|member| of_crate(files, member))
        .collect();
    let mut report = |message: String| {
        findings.push(Finding {
            path: LIST.into(),
            line: 0,
            message,
        });
    };
    for ring in found.iter().filter(|ring| !listed.contains(ring.as_str())) {
        report(format!("modules use each other in a ring: {ring}"));
    }
    for ring in listed.iter().filter(|ring| !found.contains(**ring)) {
        report(format!("this ring is gone, take it off the list: {ring}"));
    }
}

fn of_crate(files: &[TextFile], member: &Member) -> Vec<String> {
    let modules = Modules::read(files, &format!("{}/src/", member.dir));
    let rings = rings(&modules.edges());
    let shown = rings.iter().map(|ring| {
        let names: Vec<String> = ring.iter().map(|path| path.join("::")).collect();
        format!("{}: {}", member.name(), names.join(" "))
    });
    shown.collect()
}

impl Modules {
    fn read(files: &[TextFile], source: &str) -> Modules {
        let mut all = BTreeMap::new();
        for file in files {
            let Some(place) = file
                .path
                .strip_prefix(source)
                .and_then(|rest| rest.strip_suffix(".rs"))
            else {
                continue;
            };
            if place.ends_with("_tests") || place.contains("generated/") || place.starts_with("bin/") {
                continue;
            }
            let mut path: Path = place.split('/').map(str::to_owned).collect();
            if path
                .last()
                .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
            {
                path.pop();
            }
            let code = code_only(&file.text);
            let module = Module::read(before_tests(&code));
            all.insert(path, module);
        }
        Modules(all)
    }

    fn edges(&self) -> BTreeMap<Path, BTreeSet<Path>> {
        let edges = self.0.iter().map(|(from, module)| {
            let targets = module.uses.iter().map(|path| self.home(from, path, 0));
            let targets = targets.filter(|to| !is_around(from, to) && !is_around(to, from));
            (from.clone(), targets.collect())
        });
        edges.collect()
    }

    /// The module that a path leads to, as it is written in the module `from`.
    fn home(&self, from: &Path, path: &Path, depth: u32) -> Path {
        let mut at = match path[0].as_str() {
            "crate" => Vec::new(),
            // Also a child of the module, or a name of another crate, which leads nowhere.
            _ => from.clone(),
        };
        let mut rest = path.iter().peekable();
        while let Some(name) = rest.peek() {
            match name.as_str() {
                "crate" | "self" => {}
                "super" => drop(at.pop()),
                name => {
                    let mut child = at.clone();
                    child.push(name.to_owned());
                    if !self.0.contains_key(&child) {
                        break;
                    }
                    at = child;
                }
            }
            rest.next();
        }
        match rest.peek() {
            Some(name) if depth < HANDS_MAX && !at.starts_with(from) => {
                self.handed_on(&at, name, depth).unwrap_or(at)
            }
            _ => at,
        }
    }

    fn handed_on(&self, at: &Path, name: &str, depth: u32) -> Option<Path> {
        let path = self.0.get(at)?.names.get(name)?;
        Some(self.home(at, path, depth + 1))
    }
}

/// Whether `outer` is `inner` or one of those around it.
fn is_around(outer: &Path, inner: &Path) -> bool {
    inner.starts_with(outer)
}

impl Module {
    fn read(code: &str) -> Module {
        let mut module = Module::default();
        let words = words(code);
        let mut at = 0;
        while at < words.len() {
            match words[at] {
                "use" => {
                    let begin = at + 1;
                    at += words[begin..]
                        .iter()
                        .position(|word| *word == ";")
                        .map_or(words.len() - at, |n| n + 1);
                    let mut tree = Vec::new();
                    flatten(
                        &mut words[begin..at.min(words.len())].iter().copied().peekable(),
                        &[],
                        &mut tree,
                    );
                    for (used, name) in tree {
                        module.names.insert(name, used.clone());
                        module.uses.push(used);
                    }
                }
                word if words.get(at + 1) == Some(&"::")
                    && at.checked_sub(1).is_none_or(|at| words[at] != "::") =>
                {
                    // What a path begins with that was imported before: `use crate::a;`, then `a::b`.
                    let mut used = match module.names.get(word) {
                        Some(imported) => imported.clone(),
                        None => vec![word.to_owned()],
                    };
                    while words.get(at + 1) == Some(&"::")
                        && words.get(at + 2).is_some_and(|word| is_name(word))
                    {
                        used.push(words[at + 2].to_owned());
                        at += 2;
                    }
                    let begins = ["crate", "super", "self"].contains(&used[0].as_str());
                    module.uses.extend(begins.then_some(used));
                }
                _ => {}
            }
            at += 1;
        }
        module
    }
}

/// Names, `::`, and single signs.
fn words(code: &str) -> Vec<&str> {
    let bytes = code.as_bytes();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = match bytes[at] {
            byte if is_part(byte) => bytes[at..].iter().take_while(|byte| is_part(**byte)).count(),
            b':' if bytes.get(at + 1) == Some(&b':') => 2,
            byte if byte.is_ascii_whitespace() || !byte.is_ascii() => {
                at += 1;
                continue;
            }
            _ => 1,
        };
        words.push(&code[at..at + length]);
        at += length;
    }
    words
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Paths of a tree of `use`, each with the name that it gets.
fn flatten<'a>(
    words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    before: &[String],
    out: &mut Vec<(Path, String)>,
) {
    let mut path = before.to_vec();
    while let Some(word) = words.next() {
        match word {
            "{" => loop {
                match words.peek() {
                    Some(&"}") => {
                        words.next();
                        // What stands behind the brace ends the path.
                        return;
                    }
                    Some(&",") => drop(words.next()),
                    Some(_) => flatten(words, &path, out),
                    None => return,
                }
            },
            "as" => {
                let name = words.next().unwrap_or("_").to_owned();
                out.push((path, name));
                return;
            }
            "*" => {
                out.push((path, "*".into()));
                return;
            }
            "::" => {}
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        if matches!(words.peek(), None | Some(&"," | &"}" | &";")) {
            let name = path.last().cloned().unwrap_or_default();
            out.push((path, name));
            return;
        }
    }
}

/// Strongly connected modules, two or more: those that reach each other.
fn rings(edges: &BTreeMap<Path, BTreeSet<Path>>) -> Vec<Vec<Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        edges.keys().map(|from| (from, reach(edges, from))).collect();
    let mut rings: Vec<Vec<Path>> = Vec::new();
    for module in edges.keys() {
        if rings.iter().any(|ring| ring.contains(module)) {
            continue;
        }
        let mutual = reached[module]
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|back| back.contains(module)));
        let ring: BTreeSet<Path> = mutual
            .map(|other| (*other).clone())
            .chain([module.clone()])
            .collect();
        if ring.len() > 1 {
            rings.push(ring.into_iter().collect());
        }
    }
    rings
}

fn reach<'a>(edges: &'a BTreeMap<Path, BTreeSet<Path>>, from: &Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Path> = edges[from].iter().collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(edges.get(module).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<TextFile> = files
            .iter()
            .map(|(path, text)| TextFile {
                path: format!("crates/a/src/{path}"),
                text: (*text).into(),
            })
            .collect();
        let member = Member {
            dir: "crates/a".into(),
            tier: "engine".into(),
        };
        let expected: Vec<String> = expected.iter().map(|ring| format!("a: {ring}")).collect();
        assert_eq!(of_crate(&files, &member), expected);
    }

    #[test]
    fn uses_in_a_circle_are_found() {
        check(
            &[
                ("lib.rs", "mod b; mod c;"),
                ("b.rs", "use crate::c::X;"),
                ("c.rs", "fn f() { crate::b::g() }"),
            ],
            &["b c"],
        );
        check(
            &[
                ("b.rs", "use crate::{c::{X, Y}, std};"),
                ("c.rs", "use super::b::{self as other};"),
            ],
            &["b c"],
        );
        check(
            &[
                ("b.rs", "use crate::c::X;"),
                ("c.rs", "use crate::d;"),
                ("d/mod.rs", "use super::b;"),
            ],
            &["b c d"],
        );
    }

    #[test]
    fn names_lead_to_where_they_are_defined() {
        let handed_on = "mod x; pub use x::X;";
        check(
            &[
                ("b.rs", "use crate::c::X;"),
                ("c/mod.rs", handed_on),
                ("c/x.rs", "use crate::b;"),
            ],
            &["b c::x"],
        );
        check(
            &[
                ("b.rs", "use crate::c::X;"),
                ("c/mod.rs", handed_on),
                ("c/y.rs", "use crate::b;"),
            ],
            &[],
        );
    }

    #[test]
    fn paths_go_on_from_what_was_imported() {
        let through = |last| {
            [
                ("b.rs", "use crate::c; fn f() { c::x::g() }"),
                ("c/mod.rs", "pub mod x;"),
                ("c/x.rs", last),
            ]
        };
        check(&through("use crate::b;"), &["b c::x"]);
        check(&through(""), &[]);
        let handed_on = ("c/mod.rs", "mod x; pub use x::g;");
        let [_, _, x] = through("use crate::b;");
        check(
            &[("b.rs", "use crate::c; fn f() { c::g() }"), handed_on, x],
            &["b c::x"],
        );
    }

    #[test]
    fn parents_children_and_tests_are_left_out() {
        check(
            &[("c/mod.rs", "mod x; use x::X;"), ("c/x.rs", "use super::Y;")],
            &[],
        );
        check(
            &[
                ("b.rs", "use crate::c::X;"),
                ("c.rs", "// crate::b\n#[cfg(test)]\nmod tests { use crate::b; }"),
            ],
            &[],
        );
        check(
            &[
                ("b.rs", "use crate::c::X;"),
                ("c.rs", "use crate::d;"),
                ("d.rs", ""),
            ],
            &[],
        );
    }
}
