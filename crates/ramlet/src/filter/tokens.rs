//! Text conditions on a field with a text index: its tokens decide, wherever the text is read from.

use std::cmp::Ordering;
use std::sync::Arc;

use super::access::PointAccess;
use super::ast::Match;
use crate::limits::TEXT_TOKENS_MAX;
use crate::payload::{Json, JsonRef, Path};
use crate::text::{TextField, hash_of};

/// What is asked of the tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    Any,
    /// All of them, one after another.
    Phrase(Phrase),
}

/// Tokens that a field's texts must have. All values of the field count as one text.
#[derive(Debug, Clone)]
pub(super) struct TokenCheck {
    pub field: Arc<TextField>,
    pub wanted: Wanted,
    /// Each once, in [`order`].
    pub tokens: Vec<String>,
    /// Of the index.
    slot: u16,
    /// Of each token, as memtables keep them.
    hashes: Vec<u64>,
}

/// The tokens in their order, with the table of Knuth, Morris and Pratt (1977): how long the longest beginning is that ends at
/// each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phrase {
    tokens: Vec<String>,
    borders: Vec<usize>,
}

impl TokenCheck {
    /// `None`: the condition isn't about tokens.
    pub(super) fn new(
        asked: &Match,
        (slot, field): (u16, &Arc<TextField>),
    ) -> Result<Option<TokenCheck>, String> {
        let (Match::Text(text) | Match::TextAny(text) | Match::Phrase(text)) = asked else {
            return Ok(None);
        };
        let (mut tokens, mut count) = (Vec::new(), 0usize);
        field.query(text, &mut |token| {
            count += 1;
            if count <= TEXT_TOKENS_MAX {
                tokens.push(token.to_owned());
            }
        });
        if count > TEXT_TOKENS_MAX {
            return Err(format!(
                "filter: a text of {count} tokens; at most {TEXT_TOKENS_MAX} are possible"
            ));
        }
        let wanted = match asked {
            Match::TextAny(_) => Wanted::Any,
            Match::Phrase(_) => Wanted::Phrase(Phrase::new(tokens.clone())),
            _ => Wanted::All,
        };
        tokens.sort_unstable_by(|a, b| order(a, b));
        tokens.dedup();
        Ok(Some(TokenCheck {
            field: field.clone(),
            wanted,
            slot,
            hashes: tokens.iter().map(|token| hash_of(token)).collect(),
            tokens,
        }))
    }

    /// Whether a row that has all of the tokens is one that matches.
    pub(super) fn is_decided_by_tokens(&self) -> bool {
        match &self.wanted {
            Wanted::All | Wanted::Any => true,
            Wanted::Phrase(phrase) => phrase.tokens.len() == 1,
        }
    }

    /// Whether a point is known not to match: to tell a text's tokens again takes some microseconds.
    pub(super) fn are_lacking(&self, point: &dyn PointAccess) -> bool {
        let mut lacking = self.hashes.iter().map(|hash| point.lacks_word(self.slot, *hash));
        match &self.wanted {
            Wanted::Any => lacking.all(|is_lacking| is_lacking),
            Wanted::All | Wanted::Phrase(_) => lacking.any(|is_lacking| is_lacking),
        }
    }

    /// Whether the values at `path` have the tokens; never when there are none.
    pub(super) fn holds(&self, path: &Path, root: JsonRef<'_>) -> bool {
        if self.tokens.is_empty() {
            return false;
        }
        match &self.wanted {
            Wanted::Any => self.any_text(path, root, &mut |token| self.place(token).is_some()),
            Wanted::All => {
                let (mut has, mut missing) = (vec![false; self.tokens.len()], self.tokens.len());
                self.any_text(path, root, &mut |token| {
                    if let Some(place) = self.place(token)
                        && !std::mem::replace(&mut has[place], true)
                    {
                        missing -= 1;
                    }
                    missing == 0
                })
            }
            Wanted::Phrase(phrase) => {
                let mut seen = 0;
                self.any_text(path, root, &mut |token| phrase.is_over(&mut seen, token))
            }
        }
    }

    fn place(&self, token: &str) -> Option<usize> {
        self.tokens.binary_search_by(|t| order(t, token)).ok()
    }

    /// Shows `enough` the tokens of all values until it has seen enough.
    fn any_text(&self, path: &Path, root: JsonRef<'_>, enough: &mut dyn FnMut(&str) -> bool) -> bool {
        let mut is_enough = false;
        path.any_value(root, &mut |value| {
            if let Some(Json::Str(text)) = value.read() {
                self.field
                    .document(&text, &mut |token| is_enough = is_enough || enough(token));
            }
            is_enough
        })
    }
}

impl Phrase {
    /// In their order.
    pub(super) fn tokens(&self) -> &[String] {
        &self.tokens
    }

    fn new(tokens: Vec<String>) -> Phrase {
        let mut borders = vec![0; tokens.len()];
        let mut border = 0;
        for at in 1..tokens.len() {
            while border > 0 && tokens[at] != tokens[border] {
                border = borders[border - 1];
            }
            border += usize::from(tokens[at] == tokens[border]);
            borders[at] = border;
        }
        Phrase { tokens, borders }
    }

    /// The next token of a text: whether the phrase ends with it. `seen`: how many of the phrase's tokens the text ends with,
    /// never all.
    fn is_over(&self, seen: &mut usize, token: &str) -> bool {
        while *seen > 0 && self.tokens[*seen] != token {
            *seen = self.borders[*seen - 1];
        }
        *seen += usize::from(self.tokens[*seen] == token);
        let over = *seen == self.tokens.len();
        if over {
            *seen = self.borders[*seen - 1];
        }
        over
    }
}

/// Shorter ones first: among the beginnings of a long word, all but one are told apart by their length.
fn order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::filter::{Condition, FieldCheck, Filter};
    use crate::types::PointId;

    /// Of one text; says which words it lacks, if `knows`.
    struct Point {
        payload: Vec<u8>,
        words: Vec<u64>,
        knows: bool,
        reads: std::cell::Cell<u32>,
    }

    impl PointAccess for Point {
        fn id(&self) -> PointId {
            PointId::Num(1)
        }
        fn payload(&self) -> &[u8] {
            self.reads.set(self.reads.get() + 1);
            &self.payload
        }
        fn has_vector(&self, _: &str) -> bool {
            false
        }
        fn lacks_word(&self, slot: u16, hash: u64) -> bool {
            assert_eq!(slot, 7);
            self.knows && !self.words.contains(&hash)
        }
    }

    #[test]
    fn a_payload_is_read_only_where_no_word_is_known_to_lack() {
        let field = Arc::new(TextField::new(Some(&json!({"type": "text"}))).expect("parameters"));
        let point = |knows| Point {
            payload: json!({"t": "one two three"}).to_string().into(),
            words: ["one", "two", "three"].map(hash_of).to_vec(),
            knows,
            reads: Default::default(),
        };
        for (asked, holds, reads) in [
            (json!({"text": "one three"}), true, 1),
            (json!({"text": "one four"}), false, 0),
            (json!({"text_any": "four one"}), true, 1),
            (json!({"text_any": "four five"}), false, 0),
            (json!({"phrase": "two three"}), true, 1),
            (json!({"phrase": "three two"}), false, 1),
            (json!({"phrase": "two four"}), false, 0),
            (json!({"text": "..."}), false, 1),
        ] {
            let filter: Filter =
                serde_json::from_value(json!({"must": [{"key": "t", "match": asked}]})).expect("a filter");
            let Some(Condition::Field(condition)) = filter.must.first() else {
                panic!("{asked}")
            };
            let FieldCheck::Match(of) = &condition.check else {
                panic!("{asked}")
            };
            let check = TokenCheck::new(of, (7, &field))
                .expect("few words")
                .expect("words");
            let path = Path::parse("t").expect("a path");
            for knows in [false, true] {
                let point = point(knows);
                let found = !check.are_lacking(&point)
                    && check.holds(
                        &path,
                        crate::payload::JsonRef::new(point.payload()).expect("an object"),
                    );
                assert_eq!(found, holds, "{asked}");
                let expected = if knows { reads } else { 1 };
                assert_eq!(point.reads.get(), expected, "{asked}");
            }
        }
    }
}
