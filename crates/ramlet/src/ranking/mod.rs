//! Full-text ranking by BM25 (Robertson and Zaragoza 2009, section 3.2).
//!
//! In reading order: [`terms`] are the words of a query, [`bm25`] weighs them, [`memtable_texts`] is what a memtable keeps of a row's
//! texts, [`statistics`] counts over all of a view, and [`search`] ranks segments and memtables with these counts.
//!
//! All strings at a field's path are one text, as they are for text conditions. Segments and memtables compute the same score to
//! the bit, so a flush changes no order.

mod asked;
mod bm25;
mod cursor;
mod excerpt;
mod highlight;
mod lists;
mod memtable_postings;
mod memtable_texts;
mod payloads;
mod posting_lists;
mod pruned;
mod search;
mod statistics;
mod terms;
mod words;

pub use asked::Ranked;
pub use bm25::Bm25Params;
pub use bm25::folded_length;
pub use highlight::{Marked, fragments_of};
pub use memtable_postings::{MemtableHit, MemtablePostings, MemtablePostingsWriter};
pub use memtable_texts::{Kept, MemtableTexts, count_in, hash_in};
pub use search::{count, rank};
pub use statistics::Statistics;
pub use terms::Terms;
