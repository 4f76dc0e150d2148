//! Text conditions: the tokenizer of the field's text index decides, wherever the text is read from. A field without an index uses the default
//! tokenizer.

use std::cmp::Ordering;
use std::collections::VecDeque;
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
    Phrase(PhraseTokens),
}

/// Tokens that a field's texts must have. With an index all values of the field count as one text, without each counts alone.
#[derive(Debug, Clone)]
pub(super) struct TokenCheck {
    pub field: Arc<TextField>,
    pub wanted: Wanted,
    /// Each once, in [`order`].
    pub tokens: Vec<String>,
    /// Nothing but stop words is asked for: no index has them.
    pub are_stopwords: bool,
    /// Of the index.
    slot: Option<u16>,
    /// Of each token, as memtables keep them.
    hashes: Vec<u64>,
}

/// The tokens in their order, each with its distance from the first: a word that is left out has its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PhraseTokens {
    pub tokens: Vec<(String, u32)>,
    pub slop: u32,
}

impl TokenCheck {
    /// Of a field with this index and its slot, if it has one. `None`: the condition isn't about tokens.
    pub(super) fn new(
        asked: &Match,
        index: Option<(u16, &Arc<TextField>)>,
    ) -> Result<Option<TokenCheck>, String> {
        let text = match asked {
            Match::Text(text) | Match::TextAny(text) => text,
            Match::Phrase(phrase) => &phrase.text,
            _ => return Ok(None),
        };
        let field = index.map_or_else(TextField::without_index, |(_, field)| field.clone());
        let (mut placed, mut count) = (Vec::new(), 0usize);
        let are_stopwords = field.query_tokens(text, &mut |token, position| {
            count += 1;
            if count <= TEXT_TOKENS_MAX {
                placed.push((token.to_owned(), position));
            }
        });
        if count > TEXT_TOKENS_MAX {
            return Err(format!(
                "filter: a text of {count} tokens; at most {TEXT_TOKENS_MAX} are possible"
            ));
        }
        let mut tokens: Vec<String> = placed.iter().map(|(token, _)| token.clone()).collect();
        let wanted = match asked {
            Match::TextAny(_) => Wanted::Any,
            Match::Phrase(phrase) => Wanted::Phrase(PhraseTokens::new(placed, phrase.slop)),
            _ => Wanted::All,
        };
        tokens.sort_unstable_by(|a, b| order(a, b));
        tokens.dedup();
        Ok(Some(TokenCheck {
            field,
            wanted,
            are_stopwords,
            slot: index.map(|(slot, _)| slot),
            hashes: tokens.iter().map(|token| hash_of(token)).collect(),
            tokens,
        }))
    }

    /// Whether the tokens are those of a text index.
    pub(super) fn has_index(&self) -> bool {
        self.slot.is_some()
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
        let Some(slot) = self.slot.filter(|_| !self.are_stopwords) else {
            return false;
        };
        let mut lacking = self.hashes.iter().map(|hash| point.lacks_word(slot, *hash));
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
        let (mut seen, mut from) = (Seen::new(self), 0);
        path.any_value(root, &mut |value| {
            if !self.has_index() {
                (seen, from) = (Seen::new(self), 0);
            }
            if let Some(Json::Str(text)) = value.read() {
                let with = (&mut from, self.are_stopwords);
                self.field.tokens(&text, with, &mut |token| {
                    seen.enough = seen.enough || seen.is_enough(self, token.text, token.position);
                });
            }
            seen.enough
        });
        seen.enough
    }

    fn place(&self, token: &str) -> Option<usize> {
        self.tokens.binary_search_by(|t| order(t, token)).ok()
    }
}

/// What a text has shown so far.
struct Seen {
    enough: bool,
    /// By token.
    has: Vec<bool>,
    missing: usize,
    /// The phrase's tokens that came lately: which, and where.
    lately: VecDeque<(usize, u32)>,
}

impl Seen {
    fn new(check: &TokenCheck) -> Seen {
        Seen {
            enough: false,
            has: vec![false; check.tokens.len()],
            missing: check.tokens.len(),
            lately: VecDeque::new(),
        }
    }

    /// Whether the text has all that is wanted with its next token.
    fn is_enough(&mut self, check: &TokenCheck, token: &str, position: u32) -> bool {
        let Some(place) = check.place(token) else {
            return false;
        };
        match &check.wanted {
            Wanted::Any => true,
            Wanted::All => {
                self.missing -= usize::from(!std::mem::replace(&mut self.has[place], true));
                self.missing == 0
            }
            Wanted::Phrase(phrase) => {
                let first = position.saturating_sub(phrase.span());
                while self.lately.front().is_some_and(|(_, at)| *at < first) {
                    self.lately.pop_front();
                }
                self.lately.push_back((place, position));
                phrase.ends(check, &self.lately)
            }
        }
    }
}

impl PhraseTokens {
    fn new(mut tokens: Vec<(String, u32)>, slop: u32) -> PhraseTokens {
        let first = tokens.first().map_or(0, |(_, position)| *position);
        tokens.iter_mut().for_each(|(_, position)| *position -= first);
        PhraseTokens { tokens, slop }
    }

    /// From the first word to the last, at most.
    fn span(&self) -> u32 {
        self.tokens.last().map_or(0, |(_, distance)| *distance) + self.slop
    }

    /// Whether the phrase ends with the last of the tokens that came lately. From there back the nearest of each is taken: no other choice begins later.
    fn ends(&self, check: &TokenCheck, lately: &VecDeque<(usize, u32)>) -> bool {
        let mut rest = lately.iter().rev();
        let Some((last, end)) = rest.next() else {
            return false;
        };
        let mut wanted = self.tokens.iter().rev();
        let Some((token, distance)) = wanted.next() else {
            return false;
        };
        if check.place(token) != Some(*last) {
            return false;
        }
        let (mut at, mut distance) = (*end, *distance);
        for (token, before) in wanted {
            let Some(latest) = at.checked_sub(distance - before) else {
                return false;
            };
            let place = check.place(token);
            let found = rest.find(|(known, position)| Some(*known) == place && *position <= latest);
            let Some((_, position)) = found else { return false };
            (at, distance) = (*position, *before);
        }
        end - at <= self.span()
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
            let check = TokenCheck::new(of, Some((7, &field)))
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
