//! The texts of a payload index: its options as the API has them, and the tokenizer that follows from them.

use std::fmt;

use ramlet_memory::Reservation;
use serde::Deserialize;
use serde_json::Value;

use super::options::{Stemming, TextOptions};
use super::stem;
use super::tokenizer::{Remembering, Token, Tokenizer};
use crate::error::{Error, Result};
use crate::limits::TEXT_PARAMS_BYTES_MAX;

/// No language: an index has the stop words and the stemmer that it is given, and no others.
const NO_LANGUAGE: &str = "none";

/// How a text index cuts its texts, and those it is asked for.
pub struct TextField {
    options: TextOptions,
    /// The revision of the stemming algorithms that its tables were made with.
    stems: u32,
    tokenizer: Tokenizer,
    is_scored: bool,
    has_positions: bool,
}

/// Whether and how texts are ranked.
#[derive(Deserialize)]
struct Ranking {
    #[serde(default)]
    scoring: Option<Scoring>,
    #[serde(default)]
    phrase_matching: Option<bool>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "scoring: true, false, or an object with `type`: `bm25`"
)]
enum Scoring {
    Enabled(bool),
    Params {
        #[serde(rename = "type")]
        _kind: ScoringKind,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScoringKind {
    Bm25,
}

impl TextField {
    /// Of an index's parameters, as the API got them.
    pub fn new(params: Option<&Value>) -> Result<TextField> {
        let (mut is_scored, mut has_positions) = (false, false);
        let mut options = match params {
            Some(params) => {
                let bytes = params.to_string().len();
                if bytes > TEXT_PARAMS_BYTES_MAX {
                    return Err(bad(format!(
                        "{bytes} bytes of parameters; at most {TEXT_PARAMS_BYTES_MAX} are possible"
                    )));
                }
                let ranking = Ranking::deserialize(params).map_err(bad)?;
                is_scored = matches!(
                    ranking.scoring,
                    Some(Scoring::Enabled(true) | Scoring::Params { .. })
                );
                has_positions = is_scored && ranking.phrase_matching == Some(true);
                TextOptions::deserialize(params).map_err(bad)?
            }
            None => TextOptions::default(),
        };
        options.language = Some(NO_LANGUAGE.to_owned());
        Ok(TextField {
            tokenizer: Tokenizer::new(&options)?,
            options,
            stems: stem::REVISION,
            is_scored,
            has_positions,
        })
    }

    /// The same, for tables that were made with this revision of the stemming algorithms.
    pub fn with_stems(self, revision: u32) -> TextField {
        TextField {
            stems: revision,
            ..self
        }
    }

    /// Whether points can be ranked by the texts (`scoring`).
    pub fn is_scored(&self) -> bool {
        self.is_scored
    }

    /// Whether the lists know where words stand (`phrase_matching` beside `scoring`).
    pub fn has_positions(&self) -> bool {
        self.has_positions
    }

    /// Whether tables of this field have stems of another revision than queries would look for.
    pub fn has_old_stems(&self) -> bool {
        self.has_stems() && self.stems != stem::REVISION
    }

    fn has_stems(&self) -> bool {
        matches!(self.options.stemmer, Some(Stemming::Snowball { .. }))
    }

    /// See [`Tokenizer::remember`].
    pub fn remember(&self, room: impl FnOnce(u64) -> Option<Reservation>) -> Remembering<'_> {
        self.tokenizer.remember(room)
    }

    /// Shows `each` the tokens of a stored text.
    pub fn document(&self, text: &str, each: &mut dyn FnMut(&str)) {
        self.tokenizer.document(text, each);
    }

    /// The same, each with what is known of it.
    pub fn tokens(&self, text: &str, each: &mut dyn FnMut(Token<'_>)) {
        self.tokenizer.tokens(text, each);
    }

    /// Shows `each` the tokens of a text that is searched with.
    pub fn query(&self, text: &str, each: &mut dyn FnMut(&str)) {
        self.tokenizer.query(text, each);
    }
}

impl PartialEq for TextField {
    fn eq(&self, other: &TextField) -> bool {
        let stems = |field: &TextField| field.has_stems().then_some(field.stems);
        let kept = |field: &TextField| (field.is_scored, field.has_positions, stems(field));
        self.options == other.options && kept(self) == kept(other)
    }
}

impl fmt::Debug for TextField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TextField").field(&self.options).finish()
    }
}

fn bad(what: impl fmt::Display) -> Error {
    Error::bad_input(format!("Wrong input: text index: {what}"))
}
