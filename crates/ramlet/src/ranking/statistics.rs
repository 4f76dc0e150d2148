//! Word statistics over all texts of a view.

use serde::{Deserialize, Serialize};

use super::bm25::{Bm25Params, Weights, folded_length, idf};

/// Counts over the texts that have a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    pub documents: u64,
    /// Folded lengths together.
    pub tokens: u64,
    /// By term: texts that have it.
    pub frequencies: Vec<u64>,
}

impl Statistics {
    pub fn new(terms: usize) -> Statistics {
        Statistics {
            documents: 0,
            tokens: 0,
            frequencies: vec![0; terms],
        }
    }

    /// One more text, in which the terms are so often.
    pub fn add(&mut self, tokens: u32, counts: &[u32]) {
        self.add_length(folded_length(tokens.into()));
        for (frequency, &count) in self.frequencies.iter_mut().zip(counts) {
            *frequency += u64::from(count > 0);
        }
    }

    /// One more text of this folded length.
    pub fn add_length(&mut self, length: u64) {
        self.documents += u64::from(length > 0);
        self.tokens += length;
    }

    /// `times`: how often each term counts.
    pub fn weights(&self, params: Bm25Params, times: &[u32]) -> Weights {
        let average = self.tokens as f64 / self.documents.max(1) as f64;
        let idfs = self
            .frequencies
            .iter()
            .zip(times)
            .map(|(&frequency, &times)| f64::from(times) * idf(self.documents, frequency));
        Weights::new(params, average, idfs)
    }
}
