//! Revisions of the analysis of texts.

/// The revision of what makes tokens. A text index of another one is made anew in an idle period, and is asked by the rules of its own until then.
///
/// | revision | what is new |
/// |---|---|
/// | 1 | stems by frostem |
/// | 2 | the default tokenizer is `unicode`; a word that is left out, and the end of a value, leave a gap between positions |
/// | 3 | further forms of a word don't make a ranked text longer |
/// | 4 | of `unicode`: more spellings of a word are one ([`unicode`](super::unicode), [`one_spelling`](super::letters::one_spelling)) |
/// | 5 | with `language: arabic`, letters of one sound are one before the stem is made |
pub const ANALYSIS_REVISION: u32 = 5;

/// From which revision on the default tokenizer is `unicode`, and positions have gaps.
pub const UNICODE: u32 = 2;
/// From which on each word counts once in a text's length.
pub const WORDS_COUNT_ONCE: u32 = 3;
/// From which on versions, Hebrew abbreviations, and letters of Arabic and Devanagari have one spelling more each.
pub const SPELLINGS: u32 = 4;
/// From which on Arabic words have one spelling before their stem is made.
pub const ARABIC_STEMS: u32 = 5;
/// The rules of the model `qdrant/bm25`: what it has made is stored as sparse vectors, which nobody makes anew.
pub const MODEL_REVISION: u32 = 3;
