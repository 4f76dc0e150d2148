//! Text into tokens, and tokens into sparse vectors.
//!
//! In reading order: [`TextOptions`] says how a text is cut and what becomes of its words, [`Tokenizer`] does it, [`Bm25`]
//! weighs the tokens. [`TextField`] is the tokenizer of a payload index.

mod bm25;
mod field;
mod fold;
mod language;
mod memo;
mod murmur;
mod options;
mod scripts;
mod tokenizer;

pub use bm25::{Bm25, Bm25Options};
pub use field::TextField;
pub use options::{Stemming, Stopwords, StopwordsSet, TextOptions, TokenizerKind};
pub use scripts::Cut;
pub use tokenizer::{Remembering, Tokenizer};
