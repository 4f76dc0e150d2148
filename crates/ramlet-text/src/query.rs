//! What is searched for.

use crate::bm25::Bm25;

/// Which rows match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Those that hold any of the terms.
    Any,
    /// Those that hold all.
    All,
    /// Those that hold all at their places, seen from the first.
    Phrase,
}

/// One term of a query.
#[derive(Debug, Clone, Copy)]
pub struct QueryTerm<'a> {
    /// A token, as the field's tokenizer makes it of a query.
    pub text: &'a str,
    /// Its place in the query; of phrases only.
    pub position: u32,
    /// Documents that hold it, over all segments and write buffers.
    pub doc_freq: u64,
}

/// A query and how it is scored. A term that stands twice counts twice, as in Lucene. A phrase counts as one term whose idf is the sum of its
/// terms', and whose frequency is how often the phrase stands in the row.
#[derive(Debug, Clone, Copy)]
pub struct TextQuery<'a> {
    pub mode: Mode,
    pub terms: &'a [QueryTerm<'a>],
    pub bm25: Bm25,
}

/// Terms of a query at most: each holds a cursor of 3 KiB and its lists.
pub const QUERY_TERMS_MAX: usize = 1024;
