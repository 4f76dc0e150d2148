//! Points in the order of how well a payload's texts fit some words: BM25 (Robertson and Zaragoza 2009, section 3.2).
//!
//! In reading order: [`terms`] are the words of a query, [`bm25`] weighs them, [`fresh`] is what a write buffer keeps of a row's
//! texts, [`statistics`] counts over all of a view, and [`search`] ranks segments and buffers with these counts.
//!
//! All strings at a field's path are one text, as they are for text conditions. Segments and buffers compute the same score to
//! the bit, so a flush changes no order.

mod bm25;
mod cursor;
mod excerpt;
mod fresh;
mod fresh_lists;
mod highlight;
mod lists;
mod payloads;
mod pruned;
mod search;
mod statistics;
mod terms;
mod words;

pub use bm25::Bm25Params;
pub use bm25::folded_length;
pub use fresh::{FreshTexts, Kept, count_in, hash_in};
pub use fresh_lists::{FreshHit, FreshLists, FreshListsWriter};
pub use highlight::{Marked, fragments_of};
pub use search::{Ranked, rank};
pub use terms::Terms;
