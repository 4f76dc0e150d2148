//! The texts of a payload index: the API's options, and the tokenizer that they select.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ramlet_memory::Reservation;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::language;
use super::letters::Letters;
use super::options::{Stemming, Stopwords, StopwordsSet, TextOptions, TokenizerKind};
use super::revision::{ANALYSIS_REVISION, ARABIC_STEMS, SPELLINGS, UNICODE, WORDS_COUNT_ONCE};
use super::tokenizer::{Remembering, Token, Tokenizer};
use crate::error::{Error, Result};
use crate::limits::TEXT_PARAMS_BYTES_MAX;

/// No language: such an index has the stop words and the stemmer that it is given, and no others.
const NO_LANGUAGE: &str = "none";
/// Positions between the words of two values: no phrase goes from one into the other.
pub const VALUE_GAP: u32 = 100;

/// How a text index cuts its texts, and those it is asked for.
pub struct TextField {
    options: TextOptions,
    /// Of what its tables were made with.
    revision: u32,
    /// Whether the parameters named no tokenizer.
    is_default: bool,
    tokenizer: Tokenizer,
    /// The same with stop words, made when it is asked for.
    whole: OnceLock<Option<Tokenizer>>,
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
        TextField::of_revision(params, ANALYSIS_REVISION)
    }

    /// Of an index whose tables were made with this revision of the analysis.
    pub fn of_revision(params: Option<&Value>, revision: u32) -> Result<TextField> {
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
        let is_default = options.tokenizer.is_none();
        let kind = options.tokenizer.unwrap_or(match revision {
            0 | 1 => TokenizerKind::Word,
            _ => TokenizerKind::Unicode,
        });
        options.tokenizer = Some(kind);
        // The API's tokenizers know no language. One that older servers passed over is none.
        let language = options.language.take().filter(|_| kind == TokenizerKind::Unicode);
        let language = language.filter(|language| language::is_known(language));
        options.language = Some(language.unwrap_or_else(|| NO_LANGUAGE.to_owned()));
        Ok(TextField {
            tokenizer: Tokenizer::of_revision(&options, revision)?,
            whole: OnceLock::new(),
            options,
            revision,
            is_default,
            is_scored,
            has_positions,
        })
    }

    /// Refuses what would be passed over: a language that isn't known, or one of a tokenizer that has none.
    pub fn check_new(params: &Value) -> Result<()> {
        let field = TextField::new(Some(params))?;
        let Some(language) = params.get("language").filter(|language| !language.is_null()) else {
            return Ok(());
        };
        let name = language.as_str().unwrap_or_default();
        if name != NO_LANGUAGE && !language::is_known(name) {
            let names = language::names().join(", ");
            return Err(bad(format!("no language {language}; known are {names}, none")));
        }
        if field.options.tokenizer != Some(TokenizerKind::Unicode) {
            return Err(bad(
                "`language` needs the default tokenizer: omit `tokenizer`, or give `stemmer` and `stopwords`",
            ));
        }
        Ok(())
    }

    /// Says what is ours in the API's words, as far as they go: clients that read the settings know no others.
    pub fn spell_out(params: &mut Map<String, Value>) {
        if params.get("tokenizer") == Some(&json!("unicode")) {
            params.remove("tokenizer");
        }
        let language = params.get("language").and_then(Value::as_str).map(str::to_owned);
        let Some(language) = language else { return };
        let name = language::name_of(&language);
        let is_given =
            |params: &Map<String, Value>, key: &str| params.get(key).is_some_and(|value| !value.is_null());
        let mut is_said = name == NO_LANGUAGE;
        if !is_given(params, "stopwords") && language::stopwords(name).is_some_and(|words| !words.is_empty())
        {
            params.insert("stopwords".to_owned(), json!(name));
            is_said = true;
        }
        if !is_given(params, "stemmer") && language::stemmer(name).is_some() {
            params.insert(
                "stemmer".to_owned(),
                json!({"type": "snowball", "language": name}),
            );
            is_said = true;
        }
        // One that nobody knows stays, and is refused.
        if is_said || language::is_known(name) && Letters::of(name) == Letters::Plain {
            params.remove("language");
        }
    }

    /// What cuts texts of fields that have no text index: the default.
    pub fn without_index() -> Arc<TextField> {
        static FIELD: OnceLock<Arc<TextField>> = OnceLock::new();
        let made = || TextField::new(None).expect("the default options");
        FIELD.get_or_init(|| Arc::new(made())).clone()
    }

    /// Whether points can be ranked by the texts (`scoring`).
    pub fn is_scored(&self) -> bool {
        self.is_scored
    }

    /// Whether the lists know where words stand (`phrase_matching` beside `scoring`).
    pub fn has_positions(&self) -> bool {
        self.has_positions
    }

    /// Whether tables of this field have tokens that the present analysis would not make.
    pub fn is_outdated(&self) -> bool {
        self.tables() < self.depends() || self.is_default && self.revision < UNICODE
    }

    /// The revision that its tables depend on, at most.
    fn tables(&self) -> u32 {
        self.revision.min(self.depends())
    }

    /// The last revision that changed such tables.
    fn depends(&self) -> u32 {
        match () {
            () if self.is_unicode() && self.tokenizer.is_arabic() && self.has_stems() => ARABIC_STEMS,
            () if self.is_unicode() => SPELLINGS,
            () if self.has_positions => UNICODE,
            () => u32::from(self.has_stems()),
        }
    }

    fn is_unicode(&self) -> bool {
        self.options.tokenizer == Some(TokenizerKind::Unicode)
    }

    fn has_stems(&self) -> bool {
        matches!(self.options.stemmer, Some(Stemming::Snowball { .. }))
    }

    /// Whether words that are left out, and ends of values, count for positions.
    fn has_gaps(&self) -> bool {
        self.revision >= UNICODE
    }

    /// The tokenizer that leaves no stop word out, if the other one does.
    fn whole(&self) -> Option<&Tokenizer> {
        let made = || {
            let options = TextOptions {
                stopwords: Some(Stopwords::Set(StopwordsSet::default())),
                ..self.options.clone()
            };
            self.tokenizer
                .has_stopwords()
                .then(|| Tokenizer::of_revision(&options, self.revision).ok())?
        };
        self.whole.get_or_init(made).as_ref()
    }

    fn tokenizer(&self, whole: bool) -> &Tokenizer {
        let of_all = || self.whole().unwrap_or(&self.tokenizer);
        if whole { of_all() } else { &self.tokenizer }
    }

    /// See [`Tokenizer::remember`].
    pub fn remember(&self, room: impl FnOnce(u64) -> Option<Reservation>) -> Remembering<'_> {
        self.tokenizer.remember(room)
    }

    /// Shows `each` the tokens of a text.
    pub fn document(&self, text: &str, each: &mut dyn FnMut(&str)) {
        self.tokenizer.document(text, each);
    }

    /// The same, each with what is known of it. `from`: where the text begins among the field's values; it is set behind it. `whole`: with stop words.
    pub fn tokens(&self, text: &str, (from, whole): (&mut u32, bool), each: &mut dyn FnMut(Token<'_>)) {
        let (begin, mut next) = (*from, *from);
        self.tokenizer(whole).tokens(text, &mut |token| {
            let position = match self.has_gaps() {
                true => begin.saturating_add(token.position),
                false => next,
            };
            next = position.saturating_add(1);
            let is_further = token.is_further && self.revision >= WORDS_COUNT_ONCE;
            each(Token {
                position,
                is_further,
                ..token
            });
        });
        *from = match next > begin && self.has_gaps() {
            true => next.saturating_add(VALUE_GAP),
            false => next,
        };
    }

    /// Shows `each` the tokens of a text that is searched with.
    pub fn query(&self, text: &str, each: &mut dyn FnMut(&str)) {
        self.tokenizer.query(text, each);
    }

    /// The same, each with its position; true: all of its words are stop words, and are here for once.
    pub fn query_tokens(&self, text: &str, each: &mut dyn FnMut(&str, u32)) -> bool {
        let mut count = 0;
        let mut tell = |token: Token<'_>| {
            let position = if self.has_gaps() { token.position } else { count };
            count = count.saturating_add(1);
            each(token.text, position);
        };
        self.tokenizer.query_tokens(text, &mut tell);
        if count > 0 {
            return false;
        }
        let Some(whole) = self.whole() else { return false };
        let mut count = 0;
        whole.query_tokens(text, &mut |token| {
            count += 1;
            each(token.text, token.position);
        });
        count > 0
    }
}

impl PartialEq for TextField {
    fn eq(&self, other: &TextField) -> bool {
        let kept = |field: &TextField| (field.is_scored, field.has_positions, field.tables());
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
