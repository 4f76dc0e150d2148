//! The texts of a payload.

use super::{TextField, Token};
use crate::payload::{Json, JsonRef, Path};

/// The length of a text that is ranked: each word counts once, however many forms of it are found.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextLength {
    words: u32,
    /// Of a word that is left out there may be parts that aren't.
    has_any: bool,
}

impl TextLength {
    pub fn add(&mut self, token: &Token<'_>) {
        self.words = self.words.saturating_add(u32::from(!token.is_further));
        self.has_any = true;
    }

    pub fn words(self) -> u32 {
        self.words.max(u32::from(self.has_any))
    }
}

/// Shows `each` the tokens of all texts at `path`, in their order; `whole`: with stop words.
pub fn tokens_of(
    (field, whole): (&TextField, bool),
    path: &Path,
    payload: &[u8],
    each: &mut dyn FnMut(Token<'_>),
) {
    let Some(root) = JsonRef::new(payload) else { return };
    let mut from = 0;
    path.any_value(root, &mut |value| {
        if let Some(Json::Str(text)) = value.read() {
            field.tokens(&text, (&mut from, whole), each);
        }
        false
    });
}
