//! The score: BM25 with Lucene's one-byte lengths, computed as tantivy computes it.
//!
//! Source: Robertson, Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009); the idf is Lucene's
//! ln(1 + (N - n + 0.5) / (n + 0.5)), which is never negative.

use tantivy::fieldnorm::FieldNormReader;

/// tantivy's own k1 and b: with others its scorers can't be used.
pub(crate) const K1: f32 = 1.2;
pub(crate) const B: f32 = 0.75;

/// What all rows of a collection are scored with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bm25 {
    /// Documents that have text, over all segments and write buffers.
    pub documents: u64,
    /// Their tokens.
    pub tokens: u64,
    /// How soon more occurrences of a word stop counting; 1.2 unless set.
    pub k1: f32,
    /// How far long documents are marked down, 0 to 1; 0.75 unless set.
    pub b: f32,
}

impl Bm25 {
    pub fn new(documents: u64, tokens: u64) -> Bm25 {
        Bm25 {
            documents,
            tokens,
            k1: K1,
            b: B,
        }
    }

    /// How rare a term is that stands in `doc_freq` documents; more than there are count as all.
    pub fn idf(&self, doc_freq: u64) -> f32 {
        let doc_freq = doc_freq.min(self.documents);
        let odds = ((self.documents - doc_freq) as f32 + 0.5) / (doc_freq as f32 + 0.5);
        (1.0 + odds).ln()
    }

    /// Mean length of a document, in tokens.
    pub fn average(&self) -> f32 {
        self.tokens as f32 / self.documents as f32
    }

    /// The score of a term (or phrase) that stands `freq` times in a document whose length is `norm`. A query's score is
    /// the sum over its terms. To the last bit that of the index, except that sums may be taken in another order.
    pub fn score(&self, idf: f32, freq: u32, norm: u8) -> f32 {
        let freq = freq as f32;
        idf * (1.0 + self.k1) * (freq / (freq + self.length_part(norm)))
    }

    fn length_part(&self, norm: u8) -> f32 {
        self.k1 * (1.0 - self.b + self.b * length(norm) as f32 / self.average())
    }

    /// Whether tantivy's scorers score so.
    pub(crate) fn is_built_in(&self) -> bool {
        self.k1 == K1 && self.b == B
    }
}

/// The byte that stands for a length of `tokens`: exact up to 40, then the lower bound of a class (at most 1/8 less).
pub fn norm(tokens: u32) -> u8 {
    FieldNormReader::fieldnorm_to_id(tokens)
}

/// The length that a byte stands for, in tokens.
pub fn length(norm: u8) -> u32 {
    FieldNormReader::id_to_fieldnorm(norm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_lucenes() {
        assert!((0..=40).all(|tokens| length(norm(tokens)) == tokens));
        for tokens in [41, 100, 1000, 65_537, 2_000_000] {
            let kept = length(norm(tokens));
            assert!(
                kept <= tokens && kept as f32 >= tokens as f32 * 0.875,
                "{tokens}: {kept}"
            );
        }
    }

    #[test]
    fn more_documents_than_there_are_is_all_of_them() {
        let bm25 = Bm25::new(10, 100);
        assert_eq!(bm25.idf(10), bm25.idf(11));
        assert!(bm25.idf(10) > 0.0);
    }
}
