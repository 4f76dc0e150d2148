//! The texts of a payload.

use super::{TextField, Token};
use crate::payload::{Json, JsonRef, Path};

/// Shows `each` the tokens of all texts at `path`, in their order.
pub fn tokens_of(field: &TextField, path: &Path, payload: &[u8], each: &mut dyn FnMut(Token<'_>)) {
    let Some(root) = JsonRef::new(payload) else { return };
    path.any_value(root, &mut |value| {
        if let Some(Json::Str(text)) = value.read() {
            field.tokens(&text, each);
        }
        false
    });
}
