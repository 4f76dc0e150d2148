//! Sparse vectors of texts by BM25 (Robertson and Zaragoza 2009, section 3.2).
//!
//! A document's vector holds the part of the formula that needs nothing but the document, a query's vector ones; the inverse
//! document frequency is the collection's business ([`Modifier::Idf`](crate::Modifier)).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::murmur::murmur3;
use super::options::TextOptions;
use super::revision::MODEL_REVISION;
use super::tokenizer::Tokenizer;
use crate::error::{Error, Result};
use crate::limits::SPARSE_ENTRIES_MAX;
use crate::types::vector::SparseVector;

/// Options of the model, in the API's words.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Bm25Options {
    /// How soon more of the same word counts less; 1.2 unless set.
    #[serde(default)]
    pub k: Option<f64>,
    /// How much long documents are held against; 0.75 unless set.
    #[serde(default)]
    pub b: Option<f64>,
    /// Tokens of a usual document; 256 unless set.
    #[serde(default)]
    pub avg_len: Option<f64>,
    #[serde(flatten)]
    pub text: TextOptions,
}

/// The model, ready.
pub struct Bm25 {
    k: f64,
    b: f64,
    avg_len: f64,
    tokenizer: Tokenizer,
}

impl Bm25 {
    pub fn new(options: &Bm25Options) -> Result<Bm25> {
        let (k, b) = (options.k.unwrap_or(1.2), options.b.unwrap_or(0.75));
        let avg_len = options.avg_len.unwrap_or(256.0);
        let refuse = |what: &str| Err(Error::bad_input(format!("Wrong input: bm25: {what}")));
        if !(k >= 0.0 && k.is_finite()) {
            return refuse(&format!("k is {k}, must be 0 or larger"));
        }
        if !(0.0..=1.0).contains(&b) {
            return refuse(&format!("b is {b}, must be from 0 to 1"));
        }
        if !(avg_len > 0.0 && avg_len.is_finite()) {
            return refuse(&format!("avg_len is {avg_len}, must be larger than 0"));
        }
        Ok(Bm25 {
            k,
            b,
            avg_len,
            tokenizer: Tokenizer::of_revision(&options.text, MODEL_REVISION)?,
        })
    }

    /// The vector of a text that is stored.
    pub fn document(&self, text: &str) -> Result<SparseVector> {
        let mut tokens = 0u64;
        let counts = counted(|each| {
            self.tokenizer.document(text, &mut |token| {
                tokens += 1;
                each(token);
            });
        })?;
        let long = 1.0 - self.b + self.b * tokens as f64 / self.avg_len;
        let weight = |count: u32| {
            let count = f64::from(count);
            (count * (self.k + 1.0) / self.k.mul_add(long, count)) as f32
        };
        let (indices, values) = counts
            .into_iter()
            .map(|(dim, count)| (dim, weight(count)))
            .unzip();
        Ok(SparseVector { indices, values })
    }

    /// The vector of a text that is searched with.
    pub fn query(&self, text: &str) -> Result<SparseVector> {
        let counts = counted(|each| self.tokenizer.query(text, &mut |token| each(token)))?;
        let indices: Vec<u32> = counts.into_keys().collect();
        let values = vec![1.0; indices.len()];
        Ok(SparseVector { indices, values })
    }
}

/// How often each token's dimension comes.
fn counted(run: impl FnOnce(&mut dyn FnMut(&str))) -> Result<BTreeMap<u32, u32>> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    let mut too_many = false;
    run(&mut |token| {
        let room = counts.len() < SPARSE_ENTRIES_MAX;
        match counts.entry(dimension(token)) {
            std::collections::btree_map::Entry::Occupied(mut count) => *count.get_mut() += 1,
            std::collections::btree_map::Entry::Vacant(new) if room => {
                new.insert(1);
            }
            std::collections::btree_map::Entry::Vacant(_) => too_many = true,
        }
    });
    match too_many {
        true => Err(Error::bad_input(format!(
            "Wrong input: bm25: a text of more than {SPARSE_ENTRIES_MAX} different tokens"
        ))),
        false => Ok(counts),
    }
}

/// A token's dimension: its hash as a signed number, without the sign.
fn dimension(token: &str) -> u32 {
    (murmur3(token.as_bytes()) as i32).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(options: &str) -> Result<Bm25> {
        Bm25::new(&serde_json::from_str(options).unwrap())
    }

    #[test]
    fn documents_and_queries() {
        let model = model("{}").unwrap();
        let document = model.document("Hello World").unwrap();
        assert_eq!(document.indices, [74_040_069, 613_153_351]);
        // (k + 1) / (k (1 - b + b 2 / 256) + 1)
        let weight = 2.2 / (1.2 * (0.25 + 0.75 * 2.0 / 256.0) + 1.0);
        assert!(
            document
                .values
                .iter()
                .all(|v| (f64::from(*v) - weight).abs() < 1e-6)
        );
        let query = model.query("worlds of hello hello").unwrap();
        assert_eq!((query.indices, query.values), (document.indices, vec![1.0, 1.0]));
        assert_eq!(model.document("the of").unwrap(), SparseVector::default());
    }

    #[test]
    fn more_of_a_word_weighs_more_and_a_long_text_less() {
        let model = model(r#"{"k": 1, "b": 1, "avg_len": 4}"#).unwrap();
        let of = |text: &str, at: usize| model.document(text).unwrap().values[at];
        assert_eq!(of("apple", 0), 2.0 / 1.25);
        assert_eq!(of("apple apple", 0), 4.0 / 2.5);
        assert!(of("apple pear plum", 0) < of("apple", 0));
    }

    #[test]
    fn options_have_bounds() {
        for options in [
            r#"{"k": -1}"#,
            r#"{"b": 1.5}"#,
            r#"{"avg_len": 0}"#,
            r#"{"stopwords": "x"}"#,
        ] {
            assert!(model(options).is_err(), "{options}");
        }
    }
}
