//! Words of a text, as text conditions see them on a field without a text index.

use std::borrow::Cow;

/// Runs of letters and digits, in lower case.
pub(super) fn words(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| {
            if word.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
                Cow::Borrowed(word)
            } else {
                Cow::Owned(word.to_lowercase())
            }
        })
}

/// Whether every one of `wanted` is among the words; `false` when nothing is wanted.
pub(super) fn has_all(text: &str, wanted: &[String]) -> bool {
    let mut missing: Vec<&str> = wanted.iter().map(String::as_str).collect();
    if missing.is_empty() {
        return false;
    }
    for word in words(text) {
        missing.retain(|m| *m != word);
        if missing.is_empty() {
            return true;
        }
    }
    false
}

pub(super) fn has_any(text: &str, wanted: &[String]) -> bool {
    words(text).any(|word| wanted.iter().any(|w| *w == word))
}

/// Whether the words of `phrase` follow one another somewhere in the text; `false` for an empty phrase.
pub(super) fn has_phrase(text: &str, phrase: &[String]) -> bool {
    let all: Vec<Cow<'_, str>> = words(text).collect();
    !phrase.is_empty() && all.windows(phrase.len()).any(|w| w == phrase)
}
