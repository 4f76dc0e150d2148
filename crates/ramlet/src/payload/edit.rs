//! Changes of a payload. Only containers on the changed path are parsed; the rest stays text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::json::JsonRef;
use super::path::{Path, Step};
use super::validate::{PayloadError, compact, validate};

/// Merges the object `patch` into `payload`: its keys replace the payload's (one level), a null removes the key.
/// With `key`, into the object the path leads to; what is missing on the way or isn't an object is made one, array
/// elements that aren't there are left alone. Both must have passed [`validate`]; empty bytes count as `{}`.
/// The result is compact JSON; too deep a result is an error.
pub fn set(payload: &[u8], patch: &[u8], key: Option<&Path>) -> Result<Vec<u8>, PayloadError> {
    let mut root = Node::object_of(payload)?;
    let patch = Node::object_of(patch)?;
    set_at(&mut root, key.map_or(&[], Path::steps), &patch);
    root.into_payload()
}

/// `payload` as the whole payload, nulls kept.
pub fn overwrite(payload: &[u8]) -> Result<Vec<u8>, PayloadError> {
    Node::object_of(payload)?.into_payload()
}

/// Removes what the paths lead to. `a[]` empties the array; a path that ends in `[n]` removes nothing, because
/// repeating it would remove the next element.
pub fn delete_keys(payload: &[u8], keys: &[Path]) -> Result<Vec<u8>, PayloadError> {
    let mut root = Node::object_of(payload)?;
    for key in keys {
        delete_at(&mut root, key.steps());
    }
    root.into_payload()
}

/// A value of which only what an edit touches is taken apart.
#[derive(Debug, Clone)]
enum Node<'a> {
    Raw(JsonRef<'a>),
    Object(BTreeMap<Cow<'a, str>, Node<'a>>),
    Array(Vec<Node<'a>>),
}

impl<'a> Node<'a> {
    fn object_of(payload: &'a [u8]) -> Result<Node<'a>, PayloadError> {
        match JsonRef::new(payload) {
            None => Ok(Node::Object(BTreeMap::new())),
            Some(raw) if raw.is_object() => Ok(Node::Raw(raw)),
            Some(_) => Err(PayloadError::new("must be a JSON object", 0)),
        }
    }

    fn object(&mut self) -> Option<&mut BTreeMap<Cow<'a, str>, Node<'a>>> {
        if let Node::Raw(raw) = self {
            *self = Node::Object(raw.object()?.map(|(k, v)| (k, Node::Raw(v))).collect());
        }
        match self {
            Node::Object(members) => Some(members),
            _ => None,
        }
    }

    fn array(&mut self) -> Option<&mut Vec<Node<'a>>> {
        if let Node::Raw(raw) = self {
            *self = Node::Array(raw.array()?.map(Node::Raw).collect());
        }
        match self {
            Node::Array(elements) => Some(elements),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Node::Raw(raw) if raw.is_null())
    }

    fn into_payload(self) -> Result<Vec<u8>, PayloadError> {
        let mut out = Vec::new();
        self.write(&mut out);
        validate(&out, usize::MAX)?;
        Ok(out)
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Node::Raw(raw) => compact(raw.raw(), out),
            Node::Object(members) => {
                out.push(b'{');
                for (i, (key, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    write_string(key, out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
            Node::Array(elements) => {
                out.push(b'[');
                for (i, value) in elements.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    value.write(out);
                }
                out.push(b']');
            }
        }
    }
}

/// Appends `text` as a JSON string, in no more bytes than any JSON has it in.
pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for &b in text.as_bytes() {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..=0x1f => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            _ => out.push(b),
        }
    }
    out.push(b'"');
}

fn merge<'a>(target: &mut Node<'a>, patch: &Node<'a>) {
    let mut patch = patch.clone();
    let Some(members) = patch.object() else { return };
    if target.object().is_none() {
        *target = Node::Object(BTreeMap::new());
    }
    let Some(target) = target.object() else { return };
    for (key, value) in std::mem::take(members) {
        if value.is_null() {
            target.remove(&key);
        } else {
            target.insert(key, value);
        }
    }
}

fn set_at<'a>(node: &mut Node<'a>, steps: &[Step], patch: &Node<'a>) {
    let Some((step, rest)) = steps.split_first() else {
        return merge(node, patch);
    };
    match step {
        Step::Key(key) => {
            if node.object().is_none() {
                *node = Node::Object(BTreeMap::new());
            }
            let Some(members) = node.object() else { return };
            let child = members
                .entry(Cow::Owned(key.clone()))
                .or_insert_with(|| Node::Object(BTreeMap::new()));
            set_at(child, rest, patch);
        }
        Step::Index(index) => match node.array() {
            Some(elements) => {
                if let Some(child) = usize::try_from(*index).ok().and_then(|i| elements.get_mut(i)) {
                    set_at(child, rest, patch);
                }
            }
            None => *node = Node::Array(Vec::new()),
        },
        Step::Each => match node.array() {
            Some(elements) => elements.iter_mut().for_each(|child| set_at(child, rest, patch)),
            None => *node = Node::Array(Vec::new()),
        },
    }
}

fn delete_at(node: &mut Node<'_>, steps: &[Step]) {
    let Some((step, rest)) = steps.split_first() else {
        return;
    };
    match (step, rest.is_empty()) {
        (Step::Key(key), true) => {
            if let Some(members) = node.object() {
                members.remove(key.as_str());
            }
        }
        (Step::Key(key), false) => {
            if let Some(child) = node.object().and_then(|m| m.get_mut(key.as_str())) {
                delete_at(child, rest);
            }
        }
        (Step::Index(_), true) => {}
        (Step::Index(index), false) => {
            let index = usize::try_from(*index).unwrap_or(usize::MAX);
            if let Some(child) = node.array().and_then(|a| a.get_mut(index)) {
                delete_at(child, rest);
            }
        }
        (Step::Each, true) => {
            if let Some(elements) = node.array() {
                elements.clear();
            }
        }
        (Step::Each, false) => {
            for child in node.array().into_iter().flatten() {
                delete_at(child, rest);
            }
        }
    }
}
