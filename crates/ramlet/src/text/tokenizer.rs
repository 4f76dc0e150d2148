//! Tokenizes a text, the same for documents and queries except for prefixes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Mutex;

use ramlet_memory::Reservation;

use super::fold::fold;
use super::letters::{Letters, one_spelling, without_marks};
use super::memo::Memo;
use super::normal_form::{Case, NormalForm};
use super::options::{Stemming, Stopwords, TextOptions, TokenizerKind};
use super::revision::{ANALYSIS_REVISION, ARABIC_STEMS, SPELLINGS};
use super::stem::Stemmer;
use super::unicode::{Cutter, Side, pieces};
use super::{language, scripts};
use crate::error::{Error, Result};
use crate::faults::locks::whole;
use crate::limits::STOPWORDS_MAX;

const LANGUAGE_DEFAULT: &str = "english";

/// [`TextOptions`], ready.
pub struct Tokenizer {
    kind: TokenizerKind,
    lowercase: bool,
    ascii_folding: bool,
    /// Of languages, lower case, ascending, and the user's own.
    listed: Vec<&'static str>,
    custom: BTreeSet<String>,
    stemmer: Option<Stemmer>,
    letters: Letters,
    /// Of the analysis: which rules `unicode` has.
    revision: u32,
    min_len: usize,
    max_len: usize,
    /// While much is cut: see [`Tokenizer::remember`].
    memo: Mutex<Option<Memo>>,
}

/// A token of a stored text.
#[derive(Debug, Clone, Copy)]
pub struct Token<'a> {
    pub text: &'a str,
    /// The part of the text that it comes from; a word may have several tokens.
    pub word: &'a str,
    /// Which word of the text it is, those counted that are left out. Never less than that of the token before.
    pub position: u32,
    /// Whether it is the token before, of the same word, with more behind it.
    pub goes_on: bool,
    /// Whether it is another form of a word, or a part of one, that another token stands for in the text's length.
    pub is_further: bool,
}

/// See [`Tokenizer::remember`].
pub struct Remembering<'a>(&'a Tokenizer);

impl Drop for Remembering<'_> {
    fn drop(&mut self) {
        *whole(&self.0.memo) = None;
        self.0.memo.clear_poison();
    }
}

impl Tokenizer {
    pub fn new(options: &TextOptions) -> Result<Tokenizer> {
        Tokenizer::of_revision(options, ANALYSIS_REVISION)
    }

    /// By the rules of a revision of the analysis.
    pub fn of_revision(options: &TextOptions, revision: u32) -> Result<Tokenizer> {
        let language = options.language.as_deref().unwrap_or(LANGUAGE_DEFAULT);
        let kind = options.tokenizer.unwrap_or(TokenizerKind::Word);
        let is_unicode = kind == TokenizerKind::Unicode;
        let lowercase = options.lowercase.unwrap_or(true);
        let (mut listed, mut custom) = (Vec::<&'static [&'static str]>::new(), BTreeSet::new());
        match &options.stopwords {
            None => listed.extend(language::stopwords(language)),
            Some(Stopwords::Language(language)) => listed.push(known(language)?),
            Some(Stopwords::Set(set)) => {
                for language in set.languages.iter().flatten() {
                    listed.push(known(language)?);
                }
                let words = set.custom.iter().flatten();
                custom.extend(words.map(|word| match lowercase {
                    true => word.to_lowercase(),
                    false => word.clone(),
                }));
            }
        }
        if listed.len() + custom.len() > STOPWORDS_MAX {
            let n = listed.len() + custom.len();
            return Err(bad(format!(
                "{n} stop words; at most {STOPWORDS_MAX} are possible"
            )));
        }
        // A language may be named more than once.
        listed.sort_unstable();
        listed.dedup();
        let mut listed = listed.concat();
        listed.sort_unstable();
        listed.dedup();
        let letters = if is_unicode {
            letters_of(options)
        } else {
            Letters::Plain
        };
        let algorithm = match &options.stemmer {
            None => language::stemmer(language),
            Some(Stemming::None) => None,
            Some(Stemming::Snowball { language }) => {
                let found = language::stemmer(language);
                Some(found.ok_or_else(|| bad(format!("no stemmer for language `{language}`")))?)
            }
        };
        let mut tokenizer = Tokenizer {
            kind,
            lowercase,
            ascii_folding: options.ascii_folding.unwrap_or(is_unicode),
            listed,
            custom,
            stemmer: algorithm.map(Stemmer::new),
            letters,
            revision,
            min_len: options.min_token_len.unwrap_or(0),
            max_len: options.max_token_len.unwrap_or(usize::MAX),
            memo: Mutex::default(),
        };
        if is_unicode {
            tokenizer.cut_stopwords();
        }
        Ok(tokenizer)
    }

    /// Stop words as they come out of a text: `don't` is `dont`.
    fn cut_stopwords(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        let custom = std::mem::take(&mut self.custom);
        let mut form = NormalForm::new(self.revision);
        for word in listed.into_iter().chain(custom.iter().map(String::as_str)) {
            let (mut cutter, mut tokens) = (self.cutter(Side::Query), Vec::new());
            form.set(word, self.case());
            cutter.cut(&form, &mut |cut| tokens.push(cut.text.to_owned()));
            if tokens.len() == 1 {
                self.custom.extend(tokens);
            }
        }
    }

    pub fn has_stopwords(&self) -> bool {
        !self.listed.is_empty() || !self.custom.is_empty()
    }

    fn cutter(&self, side: Side) -> Cutter {
        let has_endings = self.letters == Letters::Turkish;
        Cutter::new(side, has_endings, self.revision)
    }

    fn case(&self) -> Case {
        match (self.lowercase, self.letters) {
            (false, _) => Case::Kept,
            (true, Letters::Turkish) => Case::FoldedTurkic,
            (true, _) => Case::Folded,
        }
    }

    /// Shows `each` the tokens of a stored text.
    pub fn document(&self, text: &str, each: &mut dyn FnMut(&str)) {
        self.tokens(text, &mut |token| each(token.text));
    }

    /// The same, each with what is known of it.
    pub fn tokens(&self, text: &str, each: &mut dyn FnMut(Token<'_>)) {
        match self.kind {
            TokenizerKind::Prefix => (0..).zip(words(text)).for_each(|(position, word)| {
                if let Some(token) = self.token(word, true).filter(|token| self.is_long(token)) {
                    self.beginnings(word, (&token, position), each);
                }
            }),
            TokenizerKind::Unicode => self.unicode(text, Side::Document, each),
            _ => self.whole(text, each),
        }
    }

    /// Shows `each` the tokens of a text that is searched with: of prefixes the longest alone.
    pub fn query(&self, text: &str, each: &mut dyn FnMut(&str)) {
        self.query_tokens(text, &mut |token| each(token.text));
    }

    /// The same, each with what is known of it.
    pub fn query_tokens(&self, text: &str, each: &mut dyn FnMut(Token<'_>)) {
        match self.kind {
            TokenizerKind::Prefix => (0..).zip(words(text)).for_each(|(position, word)| {
                if let Some(token) = self.token(word, false).filter(|token| self.is_long(token)) {
                    let text = cut(&token, self.max_len);
                    each(Token {
                        text,
                        word,
                        position,
                        goes_on: false,
                        is_further: false,
                    });
                }
            }),
            TokenizerKind::Unicode => self.unicode(text, Side::Query, each),
            _ => self.whole(text, each),
        }
    }

    fn unicode(&self, text: &str, side: Side, each: &mut dyn FnMut(Token<'_>)) {
        let mut memo = self.memo.try_lock().ok();
        let mut memo = memo.as_deref_mut().and_then(Option::as_mut);
        let (mut form, mut cutter) = (NormalForm::new(self.revision), self.cutter(side));
        pieces(text, &mut |piece| {
            form.set(piece, self.case());
            cutter.cut(&form, &mut |cut| {
                let mut tell = |token: &str| {
                    each(Token {
                        text: token,
                        word: &piece[form.given(cut.from.clone())],
                        position: cut.place,
                        goes_on: false,
                        is_further: cut.is_further,
                    });
                };
                match &mut memo {
                    Some(memo) => memo.show(cut.text, || self.unicode_token(cut.text), &mut tell),
                    None => self.unicode_token(cut.text).as_deref().into_iter().for_each(tell),
                }
            });
        });
    }

    /// What becomes of a word in its normal form.
    fn unicode_token<'t>(&self, word: &'t str) -> Option<Cow<'t, str>> {
        if self.custom.contains(word) {
            return None;
        }
        let word = match self.revision < ARABIC_STEMS {
            true => Cow::Borrowed(word),
            false => self.letters.before_stem(word),
        };
        let stem = self.stemmer.as_ref().and_then(|stemmer| stemmer.stem(&word));
        let token = self.letters.unify(stem.map_or(word, Cow::Owned));
        // After the stemmer, which knows the letters of its language.
        let token = match self.ascii_folding {
            true if self.revision < SPELLINGS => without_marks(token),
            true => one_spelling(without_marks(token)),
            false => token,
        };
        let fits = !token.is_empty() && self.is_long(&token) && token.chars().count() <= self.max_len;
        fits.then_some(token)
    }

    fn whole(&self, text: &str, each: &mut dyn FnMut(Token<'_>)) {
        // Another thread has it: without, then.
        let mut memo = self.memo.try_lock().ok();
        let mut memo = memo.as_deref_mut().and_then(Option::as_mut);
        let mut position = 0u32;
        let mut offer = |word: &str| {
            let mut tell = |text: &str| {
                each(Token {
                    text,
                    word,
                    position,
                    goes_on: false,
                    is_further: false,
                });
            };
            match &mut memo {
                Some(memo) => memo.show(word, || self.whole_token(word), &mut tell),
                None => self.whole_token(word).as_deref().into_iter().for_each(tell),
            }
            position = position.saturating_add(1);
        };
        match self.kind {
            TokenizerKind::Whitespace => text.split_whitespace().for_each(offer),
            TokenizerKind::Multilingual => scripts::words(text, &mut offer),
            TokenizerKind::Code => words(text).for_each(|word| parts_of_name(word, &mut offer)),
            TokenizerKind::Word | TokenizerKind::Prefix | TokenizerKind::Unicode => {
                words(text).for_each(offer)
            }
        }
    }

    fn whole_token<'t>(&self, word: &'t str) -> Option<Cow<'t, str>> {
        self.token(word, true)
            .filter(|token| self.is_long(token) && token.chars().count() <= self.max_len)
    }

    /// Whether it has the rules of Arabic.
    pub fn is_arabic(&self) -> bool {
        self.letters == Letters::Arabic
    }

    /// From now on what became of a word is remembered, until the guard is dropped; not where `room` has none of so many bytes.
    pub fn remember(&self, room: impl FnOnce(u64) -> Option<Reservation>) -> Remembering<'_> {
        if let Some(held) = room(Memo::BYTES) {
            *whole(&self.memo) = Some(Memo::new(held));
        }
        Remembering(self)
    }

    /// What becomes of a word; `None`: it is a stop word.
    fn token<'t>(&self, word: &'t str, stopwords: bool) -> Option<Cow<'t, str>> {
        let mut token = Cow::Borrowed(word);
        if self.ascii_folding {
            token = fold(token);
        }
        if self.lowercase {
            token = lower(token);
        }
        if token.is_empty() || stopwords && self.is_stopword(&token) {
            return None;
        }
        let stem = self.stemmer.as_ref().and_then(|stemmer| stemmer.stem(&token));
        Some(stem.map_or(token, Cow::Owned))
    }

    fn is_stopword(&self, token: &str) -> bool {
        self.listed.binary_search(&token).is_ok() || self.custom.contains(token)
    }

    fn is_long(&self, token: &str) -> bool {
        self.min_len <= token.len() && self.min_len <= token.chars().count()
    }

    fn beginnings(&self, word: &str, (token, position): (&str, u32), each: &mut dyn FnMut(Token<'_>)) {
        let ends = token.char_indices().map(|(at, c)| at + c.len_utf8());
        let (least, most) = (self.min_len.max(1), self.max_len);
        for (end, n) in ends.zip(1..) {
            if n > most {
                return;
            }
            if n >= least {
                let (text, goes_on) = (&token[..end], n > least);
                each(Token {
                    text,
                    word,
                    position,
                    goes_on,
                    is_further: false,
                });
            }
        }
    }
}

/// Those of the language, or of that of the stemmer or the stop words: clients of the API name these alone.
fn letters_of(options: &TextOptions) -> Letters {
    let stemmer = match &options.stemmer {
        Some(Stemming::Snowball { language }) => Some(language),
        _ => None,
    };
    let stopwords = match &options.stopwords {
        Some(Stopwords::Language(language)) => Some(language),
        Some(Stopwords::Set(set)) => set.languages.iter().flatten().next(),
        None => None,
    };
    let languages = [options.language.as_ref(), stemmer, stopwords];
    let mut known = languages
        .into_iter()
        .flatten()
        .map(|language| Letters::of(language));
    known
        .find(|letters| *letters != Letters::Plain)
        .unwrap_or_default()
}

fn bad(what: String) -> Error {
    Error::bad_input(format!("Wrong input: {what}"))
}

fn known(language: &str) -> Result<&'static [&'static str]> {
    language::stopwords(language).ok_or_else(|| bad(format!("no stop words for language `{language}`")))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

fn lower(word: Cow<'_, str>) -> Cow<'_, str> {
    match word.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
        true => word,
        false => Cow::Owned(word.to_lowercase()),
    }
}

fn cut(token: &str, chars: usize) -> &str {
    let end = token.char_indices().nth(chars);
    end.map_or(token, |(at, _)| &token[..at])
}

/// Parts of a name in a program: it is cut where digits begin and end, before a capital after a small letter, and before the last of several capitals if a
/// small letter follows it.
fn parts_of_name<'t>(word: &'t str, each: &mut dyn FnMut(&'t str)) {
    let mut rest = word.char_indices().peekable();
    let (mut start, mut before) = (0, None);
    while let Some((at, c)) = rest.next() {
        let small_follows = rest.peek().is_some_and(|(_, next)| next.is_lowercase());
        let cut = before.is_some_and(|last: char| match (last.is_numeric(), c.is_numeric()) {
            (false, false) => {
                c.is_uppercase() && (last.is_lowercase() || last.is_uppercase() && small_follows)
            }
            (last, now) => last != now,
        });
        if cut {
            each(&word[start..at]);
            start = at;
        }
        before = Some(c);
    }
    each(&word[start..]);
}

#[cfg(test)]
mod tests {
    use ramlet_memory::Ledger;

    use super::*;

    fn check(options: &str, text: &str, documents: &[&str], queries: &[&str]) {
        let options: TextOptions = serde_json::from_str(options).unwrap();
        let tokenizer = Tokenizer::new(&options).unwrap();
        let (mut stored, mut asked) = (Vec::new(), Vec::new());
        tokenizer.document(text, &mut |token| stored.push(token.to_owned()));
        tokenizer.query(text, &mut |token| asked.push(token.to_owned()));
        assert_eq!((stored, asked), (owned(documents), owned(queries)), "{text}");
    }

    fn owned(tokens: &[&str]) -> Vec<String> {
        tokens.iter().map(|t| (*t).to_owned()).collect()
    }

    #[test]
    fn each_tokenizer() {
        let same = |options: &str, text: &str, tokens: &[&str]| check(options, text, tokens, tokens);
        same("{}", "The Running dogs, don't!", &["run", "dog"]);
        same(
            r#"{"tokenizer":"whitespace","stemmer":{"type":"none"}}"#,
            "a-b the C",
            &["a-b", "c"],
        );
        same(r#"{"language":"none"}"#, "The dogs", &["the", "dogs"]);
        same(r#"{"language":"german"}"#, "Die Häuser", &["haus"]);
        same(r#"{"stopwords":{"custom":["Dogs"]}}"#, "the dogs", &["the"]);
        same(
            r#"{"lowercase":false,"stemmer":{"type":"none"}}"#,
            "The dogs",
            &["The", "dogs"],
        );
        same(r#"{"ascii_folding":true,"language":"none"}"#, "Ação", &["acao"]);
        same(
            r#"{"min_token_len":4,"max_token_len":5,"language":"none"}"#,
            "abc abcd abcde abcdef",
            &["abcd", "abcde"],
        );
        same(
            r#"{"tokenizer":"multilingual"}"#,
            "今天 hello",
            &["今天", "hello"],
        );
        same(
            r#"{"tokenizer":"code","language":"none"}"#,
            "let fooBar_baz2 = HTTPServer::new(Größe, µX, ID);",
            &[
                "let", "foo", "bar", "baz", "2", "http", "server", "new", "größe", "µ", "x", "id",
            ],
        );
        check(
            r#"{"tokenizer":"prefix","min_token_len":2,"max_token_len":4,"language":"none"}"#,
            "hello мир a",
            &["he", "hel", "hell", "ми", "мир"],
            &["hell", "мир"],
        );
    }

    #[test]
    fn what_is_remembered_is_what_would_be_found() {
        let options = r#"{"max_token_len":9,"ascii_folding":true,"stopwords":{"languages":["english"]}}"#;
        let tokenizer = Tokenizer::new(&serde_json::from_str(options).unwrap()).unwrap();
        let long = "x".repeat(80);
        let words = [
            "The",
            "Running",
            "dogs",
            "Ação",
            "dogs",
            "toolongforit",
            "",
            &long,
        ];
        // Many more than are remembered at once.
        let made = (0..40_000).map(|n| format!("{}{}", words[n % 8], n * 7919 % 20_011));
        let text = words
            .map(str::to_owned)
            .into_iter()
            .chain(made)
            .collect::<Vec<_>>()
            .join(" ");
        let tokens = || {
            let mut tokens = Vec::new();
            tokenizer.tokens(&text, &mut |token| {
                tokens.push((token.word.to_owned(), token.text.to_owned()))
            });
            tokens
        };
        let alone = tokens();
        assert!(
            alone
                .iter()
                .any(|(word, token)| word == "Running" && token == "run")
        );
        let ledger = Ledger::new(2 << 20);
        let consumer = ledger.consumer("tokens", 2 << 20);
        let remembering = tokenizer.remember(|bytes| consumer.reserve(bytes).ok());
        assert!(consumer.used() > 0);
        assert_eq!(tokens(), alone);
        assert_eq!(tokens(), alone, "from memory");
        drop(remembering);
        assert_eq!(consumer.used(), 0);
        let none = ledger.consumer("none", 1000);
        let _nothing = tokenizer.remember(|bytes| none.reserve(bytes).ok());
        assert_eq!(tokens(), alone, "without memory");
    }

    #[test]
    fn unknown_languages_are_refused_where_they_are_asked_for() {
        for options in [
            r#"{"stopwords":"klingon"}"#,
            r#"{"stopwords":{"languages":["klingon"]}}"#,
            r#"{"stemmer":{"type":"snowball","language":"klingon"}}"#,
        ] {
            let options: TextOptions = serde_json::from_str(options).unwrap();
            assert!(Tokenizer::new(&options).is_err());
        }
        assert!(serde_json::from_str::<TextOptions>(r#"{"tokenizer":"runes"}"#).is_err());
    }
}
