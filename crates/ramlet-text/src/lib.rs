//! Texts of one field of one segment: building their index in little RAM, ranking by BM25, and finding rows that match.
//!
//! The index is tantivy's, read through our seam and written by our own sort: its lists, positions, dictionary, scorers
//! and block-max pruning; none of its writers, commits and locks. A row's number is the document's. Tokens come ready made: this crate
//! knows no tokenizer, no payload and no collection.
//!
//! In reading order: [`TextBuilder`] makes a container, [`TextInfo`] says what is in it, [`TextIndex`] searches it; [`Ranges`] and [`ByteSink`] are the
//! seams to files, [`SliceCache`] keeps what is hot, [`Bm25`] scores rows that no index has yet.

mod bm25;
mod build;
mod cache;
mod container;
mod directory;
mod error;
mod guard;
mod index;
mod inverter;
mod matching;
mod merge;
mod output;
mod query;
mod ranges;
mod ready;
mod run;
mod scan;
mod schema;
mod search;
mod temporary;

pub use bm25::{Bm25, length, norm};
pub use build::{SCRATCH_BYTES_MIN, TOKEN_BYTES_MAX, TextBuilder, TokenSink};
pub use cache::{SliceCache, SliceStats};
pub use container::{Hold, TextInfo};
pub use error::{Result, TextError};
pub use index::TextIndex;
pub use query::{Mode, QUERY_TERMS_MAX, QueryTerm, TextQuery};
pub use ranges::{ByteSink, RangeRead, Ranges};
