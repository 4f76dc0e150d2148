//! The words whose posting lists a ranking reads: the query's words, and those that its filter requires.

use super::terms::Terms;
use crate::filter::{CompiledFilter, FieldWords};

/// A query's terms, then the words that are only required.
pub struct Words<'a> {
    terms: &'a Terms,
    more: Vec<&'a str>,
    /// Places of the words that a row must have.
    pub required: Vec<usize>,
    /// Places of words that must follow one another, each with its distance from the first.
    pub phrases: Vec<Vec<(usize, u32)>>,
    /// Whether words may stand between those of a phrase: lists don't tell.
    pub have_slop: bool,
    /// What the filter asks beside them; the whole filter where nothing is required.
    pub rest: Option<&'a CompiledFilter>,
}

impl<'a> Words<'a> {
    /// Words up to which lists are gone through side by side; of more, the filter's are left to the filter.
    pub const MOST: usize = 16;

    pub fn new(
        terms: &'a Terms,
        asked: Option<&'a FieldWords>,
        filter: Option<&'a CompiledFilter>,
    ) -> Words<'a> {
        let mut words = Words {
            terms,
            more: Vec::new(),
            required: Vec::new(),
            phrases: Vec::new(),
            have_slop: false,
            rest: filter,
        };
        let Some(asked) = asked else { return words };
        let others = asked.required.iter().filter(|word| terms.place(word).is_none());
        if terms.len() + others.clone().count() > Words::MOST {
            return words;
        }
        words.more = others.map(String::as_str).collect();
        let more = &words.more;
        // Each of them is a term, or among the others.
        let place = |word: &String| {
            let other = || Some(terms.len() + more.iter().position(|other| other == word)?);
            terms.place(word).or_else(other)
        };
        words.required = asked.required.iter().filter_map(place).collect();
        words.phrases = asked
            .phrases
            .iter()
            .map(|phrase| {
                let tokens = phrase.tokens.iter();
                tokens
                    .filter_map(|(token, distance)| Some((place(token)?, *distance)))
                    .collect()
            })
            .collect();
        words.have_slop = asked.phrases.iter().any(|phrase| phrase.slop > 0);
        words.rest = asked.rest.as_ref();
        words
    }

    /// All of them, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let terms = self.terms.tokens().iter().map(String::as_str);
        terms.chain(self.more.iter().copied())
    }

    pub fn len(&self) -> usize {
        self.terms.len() + self.more.len()
    }
}
