//! The texts of a payload.

use super::{TextField, Token};
use crate::payload::{Json, JsonRef, Path};

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
