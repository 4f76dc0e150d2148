//! Paths into a payload: `city`, `address.city`, `tags[0]`, `items[].price`, `"a key".b`.

use std::fmt;
use std::str::FromStr;

use super::json::JsonRef;

/// Most steps of a path; payloads are no deeper than [`super::DEPTH_MAX`].
pub const STEPS_MAX: usize = 64;

/// A parsed path, at least one step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Path {
    steps: Vec<Step>,
}

/// One step down.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// A member of an object.
    Key(String),
    /// `[n]`: one element of an array.
    Index(u64),
    /// `[]`: each element of an array.
    Each,
}

/// Why a text isn't a path, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    pub path: String,
    pub what: &'static str,
    pub at: usize,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "payload key '{}': {} at byte {}",
            self.path, self.what, self.at
        )
    }
}

impl std::error::Error for PathError {}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Path, PathError> {
        Path::parse(text)
    }
}

impl Path {
    /// Parses the API's path syntax. Keys in quotes may hold anything but a quote; others are letters, digits, `_`, `-`.
    pub fn parse(text: &str) -> Result<Path, PathError> {
        let mut parser = Parser { text, at: 0 };
        let mut steps = Vec::new();
        loop {
            steps.push(Step::Key(parser.key()?));
            while let Some(step) = parser.bracket()? {
                steps.push(step);
                if steps.len() > STEPS_MAX {
                    return Err(parser.error("has too many steps"));
                }
            }
            if steps.len() > STEPS_MAX {
                return Err(parser.error("has too many steps"));
            }
            match parser.rest().chars().next() {
                None => return Ok(Path { steps }),
                Some('.') => parser.at += 1,
                Some(_) => return Err(parser.error("expected '.' or '['")),
            }
        }
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Without a last `[]`, unless nothing would be left: `nested` takes both spellings for the same array.
    pub(crate) fn without_last_each(mut self) -> Path {
        if self.steps.len() > 1 && self.steps.last() == Some(&Step::Each) {
            self.steps.pop();
        }
        self
    }

    /// Calls `found` for each value the path leads to, arrays as they are, until it returns `true`; tells whether it did.
    pub fn any_node<'a>(&self, root: JsonRef<'a>, found: &mut dyn FnMut(JsonRef<'a>) -> bool) -> bool {
        walk(&self.steps, root, found)
    }

    /// Like [`Path::any_node`], but an array at the end of the path stands for its elements (one level).
    pub fn any_value<'a>(&self, root: JsonRef<'a>, found: &mut dyn FnMut(JsonRef<'a>) -> bool) -> bool {
        walk(&self.steps, root, &mut |node| match node.array() {
            Some(mut elements) => elements.any(&mut *found),
            None => found(node),
        })
    }
}

/// Recursion follows the payload's nesting and the path's steps, whichever ends first.
fn walk<'a>(steps: &[Step], node: JsonRef<'a>, found: &mut dyn FnMut(JsonRef<'a>) -> bool) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return found(node);
    };
    match step {
        Step::Key(key) => node.get(key).is_some_and(|child| walk(rest, child, found)),
        Step::Index(index) => {
            let element = usize::try_from(*index).ok().and_then(|i| node.array()?.nth(i));
            element.is_some_and(|child| walk(rest, child, found))
        }
        Step::Each => match node.array() {
            Some(mut elements) => elements.any(|child| walk(rest, child, found)),
            None => false,
        },
    }
}

/// The shortest spelling: keys are quoted only where they must be.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.steps.iter().enumerate() {
            match step {
                Step::Key(key) => {
                    let dot = if i > 0 { "." } else { "" };
                    let quote = if !key.is_empty() && key.chars().all(is_plain) {
                        ""
                    } else {
                        "\""
                    };
                    write!(f, "{dot}{quote}{key}{quote}")?;
                }
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Each => f.write_str("[]")?,
            }
        }
        Ok(())
    }
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, what: &'static str) -> PathError {
        PathError {
            path: self.text.to_string(),
            what,
            at: self.at,
        }
    }

    fn key(&mut self) -> Result<String, PathError> {
        let rest = self.rest();
        if let Some(quoted) = rest.strip_prefix('"') {
            let len = quoted
                .find('"')
                .ok_or_else(|| self.error("quote is not closed"))?;
            self.at += len + 2;
            return Ok(quoted[..len].to_string());
        }
        let len = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
        if len == 0 {
            return Err(self.error("expected a key"));
        }
        self.at += len;
        Ok(rest[..len].to_string())
    }

    fn bracket(&mut self) -> Result<Option<Step>, PathError> {
        let Some(inner) = self.rest().strip_prefix('[') else {
            return Ok(None);
        };
        let len = inner.find(']').ok_or_else(|| self.error("'[' is not closed"))?;
        let index = &inner[..len];
        let step = if index.is_empty() {
            Step::Each
        } else if index.bytes().all(|b| b.is_ascii_digit()) {
            Step::Index(
                index
                    .parse()
                    .map_err(|_| self.error("array index is too large"))?,
            )
        } else {
            return Err(self.error("array index is not a number"));
        };
        self.at += len + 2;
        Ok(Some(step))
    }
}
