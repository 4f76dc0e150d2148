//! The API's tokenizer options.

use serde::Deserialize;

/// What separates tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenizerKind {
    /// Words of all scripts, in one form of each letter: see [`unicode`](super::unicode). Ours; the others are the API's.
    Unicode,
    /// Runs of letters and digits; of a word of a document each of its beginnings.
    Prefix,
    /// Runs without white space.
    Whitespace,
    /// Runs of letters and digits.
    Word,
    /// Runs of letters and digits; of scripts that write without spaces the words of a dictionary.
    Multilingual,
    /// Runs of letters, runs of digits; `fooBar` and `HTTPServer` are two words each, as `foo_bar` is.
    Code,
}

/// What becomes of the words.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct TextOptions {
    /// Of a text index `unicode` unless set, of a model `word`.
    #[serde(default)]
    pub tokenizer: Option<TokenizerKind>,
    /// Of the stop words and the stemmer, where these aren't given: English unless set. One that is unknown has neither.
    #[serde(default)]
    pub language: Option<String>,
    /// True unless set.
    #[serde(default)]
    pub lowercase: Option<bool>,
    /// Letters with marks become those without, and other forms of letters, digits and signs those of ASCII. Unless set: true with `unicode`, false with others.
    #[serde(default)]
    pub ascii_folding: Option<bool>,
    #[serde(default)]
    pub stopwords: Option<Stopwords>,
    #[serde(default)]
    pub stemmer: Option<Stemming>,
    /// In characters, of what is left after stemming.
    #[serde(default)]
    pub min_token_len: Option<usize>,
    #[serde(default)]
    pub max_token_len: Option<usize>,
}

/// Words that are left out.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "stopwords: a language, or an object with `languages` and `custom`"
)]
pub enum Stopwords {
    Language(String),
    Set(StopwordsSet),
}

/// Those of some languages and others besides.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct StopwordsSet {
    #[serde(default)]
    pub languages: Option<Vec<String>>,
    #[serde(default)]
    pub custom: Option<Vec<String>>,
}

/// What reduces words to their stems.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Stemming {
    Snowball { language: String },
    None,
}
