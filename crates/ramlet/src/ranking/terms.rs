//! The words of a query.

use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::limits::TEXT_TOKENS_MAX;
use crate::text::{TextField, hash_of};

/// The distinct tokens of a query, in the order in which they come first.
#[derive(Debug, Default)]
pub struct Terms {
    tokens: Vec<String>,
    /// By term: how often it counts.
    times: Vec<u32>,
    /// Places in `tokens`, in [`order`].
    sorted: Vec<u32>,
    hashes: Vec<u64>,
    are_stopwords: bool,
}

impl Terms {
    /// `repeated`: each time that a word stands there counts; else once.
    pub fn new(field: &TextField, text: &str, repeated: bool) -> Result<Terms> {
        let (mut tokens, mut times, mut count) = (Vec::<String>::new(), Vec::new(), 0usize);
        let mut seen = std::collections::BTreeMap::<String, usize>::new();
        let are_stopwords = field.query_tokens(text, &mut |token, _| {
            count += 1;
            if count > TEXT_TOKENS_MAX {
                return;
            }
            match seen.get(token) {
                Some(&at) => times[at] += u32::from(repeated),
                None => {
                    seen.insert(token.to_owned(), tokens.len());
                    tokens.push(token.to_owned());
                    times.push(1);
                }
            }
        });
        if count > TEXT_TOKENS_MAX {
            return Err(Error::bad_input(format!(
                "Wrong input: a text query of {count} tokens; at most {TEXT_TOKENS_MAX} are possible"
            )));
        }
        let mut sorted: Vec<u32> = (0..tokens.len() as u32).collect();
        sorted.sort_unstable_by(|&a, &b| order(&tokens[a as usize], &tokens[b as usize]));
        Ok(Terms {
            hashes: tokens.iter().map(|token| hash_of(token)).collect(),
            sorted,
            times,
            tokens,
            are_stopwords,
        })
    }

    /// Whether all words of the query are stop words: nothing but payloads has them.
    pub fn are_stopwords(&self) -> bool {
        self.are_stopwords
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// By term: how often it counts.
    pub fn times(&self) -> &[u32] {
        &self.times
    }

    /// By term, as memtables keep them.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The place of a token among the terms.
    pub fn place(&self, token: &str) -> Option<usize> {
        let found = self
            .sorted
            .binary_search_by(|&at| order(&self.tokens[at as usize], token));
        found.ok().map(|at| self.sorted[at] as usize)
    }
}

/// Shorter ones first: among the beginnings of a long word, all but one are told apart by their length.
fn order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}
