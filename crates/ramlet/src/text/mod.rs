//! Text into tokens, and tokens into sparse vectors.
//!
//! In reading order: [`TextOptions`] says how a text is cut and what becomes of its words, [`Tokenizer`] does it, [`Bm25`]
//! weighs the tokens. [`TextField`] is the tokenizer of a payload index.

mod bm25;
mod field;
mod fold;
mod graphemes;
mod guard;
mod in_payload;
mod korean;
mod language;
mod letters;
mod memo;
mod murmur;
mod normal_form;
mod options;
mod revision;
mod scripts;
mod stem;
mod token_hash;
mod tokenizer;
mod unicode;

pub use bm25::{Bm25, Bm25Options};
pub use field::TextField;
pub use graphemes::{edge_before, edge_behind};
pub use in_payload::{TextLength, tokens_of};
pub use options::{Stemming, Stopwords, StopwordsSet, TextOptions, TokenizerKind};
pub use revision::ANALYSIS_REVISION;
pub use scripts::{is_dense, words as for_words};
pub use token_hash::{COUNT_BITS, TokenHash, entry_of, hash_of};
pub use tokenizer::{Remembering, Token, Tokenizer};
