//! The part of a payload that a request selects.

use std::collections::BTreeMap;

use super::edit::write_string;
use super::json::{Json, JsonRef};
use super::path::{Path, PathError, Step};
use super::validate::compact;
use crate::types::PayloadSelector;

/// A payload selector with its paths merged into a prefix tree, made once per request.
#[derive(Debug, Clone)]
pub enum Selector {
    None,
    All,
    Include(Tree),
    Exclude(Tree),
}

/// What is selected under a node. Elements of arrays are only reached by `[]`; an index selects nothing.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// Everything below is selected; the branches don't matter.
    whole: bool,
    keys: BTreeMap<String, Tree>,
    each: Option<Box<Tree>>,
}

impl Selector {
    pub fn new(selector: &PayloadSelector) -> Result<Selector, PathError> {
        Ok(match selector {
            PayloadSelector::None => Selector::None,
            PayloadSelector::All => Selector::All,
            PayloadSelector::Include(keys) => Selector::Include(Tree::new(keys)?),
            PayloadSelector::Exclude(keys) => Selector::Exclude(Tree::new(keys)?),
        })
    }

    /// Appends the selected part of `payload` (an object or empty) to `out` as compact JSON and returns `true`;
    /// `false`, and nothing, when no payload was asked for.
    pub fn apply(&self, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let payload = JsonRef::new(payload).or_else(|| JsonRef::new(b"{}"));
        let Some(payload) = payload else { return false };
        match self {
            Selector::None => return false,
            Selector::All => compact(payload.raw(), out),
            Selector::Include(tree) => include(payload, tree, out),
            Selector::Exclude(tree) => exclude(payload, tree, out),
        }
        true
    }
}

/// [`Selector::apply`] for a single payload: `None` when no payload was asked for.
pub fn select(payload: &[u8], selector: &PayloadSelector) -> Result<Option<Vec<u8>>, PathError> {
    let mut out = Vec::new();
    Ok(Selector::new(selector)?.apply(payload, &mut out).then_some(out))
}

impl Tree {
    fn new(keys: &[String]) -> Result<Tree, PathError> {
        let mut root = Tree::default();
        for key in keys {
            root.add(Path::parse(key)?.steps());
        }
        Ok(root)
    }

    fn add(&mut self, steps: &[Step]) {
        if self.whole {
            return;
        }
        match steps.split_first() {
            None => self.whole = true,
            Some((Step::Key(key), rest)) => self.keys.entry(key.clone()).or_default().add(rest),
            Some((Step::Each, rest)) => self.each.get_or_insert_default().add(rest),
            Some((Step::Index(_), _)) => {}
        }
    }
}

fn include(value: JsonRef<'_>, tree: &Tree, out: &mut Vec<u8>) {
    if tree.whole {
        return compact(value.raw(), out);
    }
    match value.read() {
        Some(Json::Object(members)) => {
            let chosen = members.filter_map(|(k, v)| tree.keys.get(k.as_ref()).map(|sub| (k, v, sub)));
            write_list(b"{}", chosen, out, |(key, value, sub), out| {
                write_string(&key, out);
                out.push(b':');
                include(value, sub, out);
            });
        }
        Some(Json::Array(elements)) => match &tree.each {
            None => out.extend_from_slice(b"[]"),
            Some(sub) => write_list(b"[]", elements, out, |value, out| include(value, sub, out)),
        },
        _ => compact(value.raw(), out),
    }
}

fn exclude(value: JsonRef<'_>, tree: &Tree, out: &mut Vec<u8>) {
    match value.read() {
        Some(Json::Object(members)) => {
            let kept = members.filter_map(|(k, v)| {
                let sub = tree.keys.get(k.as_ref());
                (!sub.is_some_and(|sub| sub.whole)).then_some((k, v, sub))
            });
            write_list(b"{}", kept, out, |(key, value, sub), out| {
                write_string(&key, out);
                out.push(b':');
                match sub {
                    Some(sub) => exclude(value, sub, out),
                    None => compact(value.raw(), out),
                }
            });
        }
        Some(Json::Array(elements)) => match &tree.each {
            None => compact(value.raw(), out),
            Some(sub) if sub.whole => out.extend_from_slice(b"[]"),
            Some(sub) => write_list(b"[]", elements, out, |value, out| exclude(value, sub, out)),
        },
        _ => compact(value.raw(), out),
    }
}

fn write_list<T>(
    brackets: &[u8; 2],
    items: impl Iterator<Item = T>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(brackets[0]);
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(brackets[1]);
}
