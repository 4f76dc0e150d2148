//! Text analysis: every language, tokenizer and option, and BM25 over it.
//!
//! The input is four bytes of options and a text; bytes that aren't UTF-8 become replacement characters.

use ramlet::text::{Bm25, Bm25Options, Stemming, Stopwords, TextOptions, Tokenizer, TokenizerKind};

use crate::Seed;
use crate::input::Input;

const LANGUAGES: [&str; 33] = [
    "english",
    "arabic",
    "armenian",
    "azerbaijani",
    "basque",
    "bengali",
    "catalan",
    "chinese",
    "danish",
    "dutch",
    "finnish",
    "french",
    "german",
    "greek",
    "hebrew",
    "hinglish",
    "hungarian",
    "indonesian",
    "italian",
    "japanese",
    "kazakh",
    "nepali",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "slovene",
    "spanish",
    "swedish",
    "tajik",
    "tamil",
    "turkish",
    "none",
];
const KINDS: [TokenizerKind; 6] = [
    TokenizerKind::Word,
    TokenizerKind::Prefix,
    TokenizerKind::Whitespace,
    TokenizerKind::Multilingual,
    TokenizerKind::Code,
    TokenizerKind::Unicode,
];
/// Lengths in characters that tokens may be bounded by.
const LENGTHS: [Option<usize>; 4] = [None, Some(1), Some(3), Some(20)];

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let language = (*input.pick(&LANGUAGES)).to_owned();
    let kind = *input.pick(&KINDS);
    let (lengths, flags) = (input.byte(), input.byte());
    let text = String::from_utf8_lossy(input.0);
    let given = |bit: u8| flags >> bit & 1 == 1;
    let options = TextOptions {
        tokenizer: Some(kind),
        lowercase: Some(!given(0)),
        ascii_folding: Some(given(1)),
        // By name, where there are such; else by the language.
        stopwords: given(2).then(|| Stopwords::Language(language.clone())),
        stemmer: given(3).then(|| Stemming::Snowball {
            language: language.clone(),
        }),
        language: Some(language),
        min_token_len: LENGTHS[usize::from(lengths & 3)],
        max_token_len: LENGTHS[usize::from(lengths >> 2 & 3)],
    };
    let Ok(tokenizer) = Tokenizer::new(&options) else {
        return;
    };
    check_tokens(&tokenizer, &options, &text);
    let bm25 = Bm25Options {
        text: options,
        ..Bm25Options::default()
    };
    let model = Bm25::new(&bm25).expect("the tokenizer was made of these options");
    let (document, query) = (model.document(&text), model.query(&text));
    for vector in [document, query].into_iter().flatten() {
        assert_eq!(vector.indices.len(), vector.values.len());
        assert!(vector.indices.is_sorted_by(|a, b| a < b));
        assert!(
            vector
                .values
                .iter()
                .all(|value| value.is_finite() && *value > 0.0)
        );
    }
}

fn check_tokens(tokenizer: &Tokenizer, options: &TextOptions, text: &str) {
    let (least, most) = (options.min_token_len.unwrap_or(0), options.max_token_len);
    let within = text.as_bytes().as_ptr_range();
    let (mut stored, mut before, mut last) = (Vec::new(), String::new(), 0);
    tokenizer.tokens(text, &mut |token| {
        let chars = token.text.chars().count();
        assert!(
            !token.text.is_empty() && chars >= least && most.is_none_or(|most| chars <= most),
            "{token:?}"
        );
        let word = token.word.as_bytes().as_ptr_range();
        assert!(within.start <= word.start && word.end <= within.end, "{token:?}");
        assert!(
            !token.goes_on || token.text.starts_with(&before) && token.text != before,
            "{token:?}"
        );
        assert!(token.position >= last, "{token:?}");
        last = token.position;
        before.clear();
        before.push_str(token.text);
        // Beginnings of one long word are as many bytes as its length squared.
        if stored.len() < 1000 {
            stored.push(token.text.to_owned());
        }
    });
    let mut asked = Vec::new();
    tokenizer.query(text, &mut |token| {
        assert!(!token.is_empty());
        if asked.len() < 1000 {
            asked.push(token.to_owned());
        }
    });
    // A stored text is found by its own words.
    match options.tokenizer {
        Some(TokenizerKind::Prefix) => {}
        // Texts have more tokens than queries.
        Some(TokenizerKind::Unicode) if stored.len() < 1000 => {
            assert!(
                asked.iter().all(|token| stored.contains(token)),
                "{stored:?} {asked:?}"
            );
        }
        Some(TokenizerKind::Unicode) => {}
        _ => assert_eq!(stored, asked),
    }
}

pub fn seeds() -> Vec<Seed> {
    let of = |language: &str, kind: u8, options: [u8; 2], text: &str| {
        let place = LANGUAGES.iter().position(|name| *name == language);
        let place = place.expect("a language of the list") as u8;
        [&[place, kind, options[0], options[1]], text.as_bytes()].concat()
    };
    vec![
        (
            "english",
            of("english", 0, [0, 12], "The running dogs' ponies, 42nd"),
        ),
        (
            "german",
            of("german", 0, [0, 14], "Übergrößen der Häuser; Straße"),
        ),
        ("prefix", of("none", 1, [9, 0], "HTTPServer ünïcode İstanbul")),
        (
            "multilingual",
            of("none", 3, [0, 0], "今天天气 ภาษาไทย これはテストです ရွှေ hello"),
        ),
        ("code", of("none", 4, [0, 1], "fooBar HTTPServer2 snake_case")),
        ("arabic", of("arabic", 0, [0, 8], "والكتابات المدرسة")),
        ("tamil", of("tamil", 0, [0, 8], "மரங்களுக்கு பள்ளிகளில்")),
        ("greek", of("greek", 2, [0, 8], "παραδείγματα ΟΔΟΣ")),
        ("turkish", of("turkish", 0, [0, 11], "kitaplarımızdan İSTANBUL")),
        (
            "unicode",
            of(
                "none",
                5,
                [0, 2],
                "C++ .NET wi-fi l'homme U.S.A. 1,000.50 🍕👍🏽 ｶﾞ 한국어를 e\u{301}",
            ),
        ),
        (
            "unicode-turkish",
            of("turkish", 5, [0, 2], "Ankara'da İSTANBUL so\u{ad}ft"),
        ),
        ("unicode-arabic", of("arabic", 5, [0, 8], "وَالْكِتَابُ كـتـاب")),
        (
            "folded",
            of("english", 0, [0, 2], "ﬁne ① e\u{301}te ⸨ Ｈｅｌｌｏ ŉ"),
        ),
    ]
}
