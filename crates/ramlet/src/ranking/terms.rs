//! The words of a query.

use super::fresh::hash_of;
use crate::error::{Error, Result};
use crate::limits::TEXT_TOKENS_MAX;
use crate::text::TextField;

/// The distinct tokens of a query, in the order in which they come first: a repeated word counts once.
#[derive(Debug, Default)]
pub struct Terms {
    tokens: Vec<String>,
    /// Places in `tokens`, ascending by token.
    sorted: Vec<u32>,
    hashes: Vec<u64>,
}

impl Terms {
    pub fn new(field: &TextField, text: &str) -> Result<Terms> {
        let (mut tokens, mut count) = (Vec::<String>::new(), 0usize);
        let mut seen = std::collections::BTreeSet::new();
        field.query(text, &mut |token| {
            count += 1;
            if count <= TEXT_TOKENS_MAX && seen.insert(token.to_owned()) {
                tokens.push(token.to_owned());
            }
        });
        if count > TEXT_TOKENS_MAX {
            return Err(Error::bad_input(format!(
                "Wrong input: a text query of {count} tokens; at most {TEXT_TOKENS_MAX} are possible"
            )));
        }
        let mut sorted: Vec<u32> = (0..tokens.len() as u32).collect();
        sorted.sort_unstable_by(|&a, &b| tokens[a as usize].cmp(&tokens[b as usize]));
        Ok(Terms {
            hashes: tokens.iter().map(|token| hash_of(token)).collect(),
            sorted,
            tokens,
        })
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

    /// By term, as write buffers keep them.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The place of a token among the terms.
    pub fn place(&self, token: &str) -> Option<usize> {
        let found = self
            .sorted
            .binary_search_by(|&at| self.tokens[at as usize].as_str().cmp(token));
        found.ok().map(|at| self.sorted[at] as usize)
    }
}
