//! Text conditions on a field with a text index: its tokens decide, wherever the text is read from.

use std::cmp::Ordering;
use std::sync::Arc;

use super::ast::Match;
use crate::limits::TEXT_TOKENS_MAX;
use crate::payload::{Json, JsonRef, Path};
use crate::text::TextField;

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
    pub(super) fn new(asked: &Match, field: &Arc<TextField>) -> Result<Option<TokenCheck>, String> {
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
