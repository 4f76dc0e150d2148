//! Counting words in payloads, for rows without stored tokens.

use super::terms::Terms;
use crate::payload::Path;
use crate::text::{TextField, TextLength, tokens_of};

/// A text field of which words are counted.
pub struct Counted<'a> {
    pub slot: u16,
    pub field: &'a TextField,
    pub path: &'a Path,
    pub terms: &'a Terms,
}

impl Counted<'_> {
    /// The text's length, and by term how often it comes.
    pub fn count(&self, payload: &[u8], counts: &mut [u32]) -> u32 {
        counts.fill(0);
        let mut length = TextLength::default();
        tokens_of(
            (self.field, self.terms.are_stopwords()),
            self.path,
            payload,
            &mut |token| {
                length.add(&token);
                if let Some(place) = self.terms.place(token.text) {
                    counts[place] = counts[place].saturating_add(1);
                }
            },
        );
        length.words()
    }
}
