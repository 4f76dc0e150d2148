//! Languages: their stop words and their stemmers.

use rust_stemmers::Algorithm;

/// The stop words of a language; `None`: no such language. Those that the lists don't have are known and have none.
pub fn stopwords(language: &str) -> Option<&'static [&'static str]> {
    let code = match language {
        "arabic" => "ar",
        "azerbaijani" => "az",
        "danish" => "da",
        "dutch" => "nl",
        "english" => "en",
        "finnish" => "fi",
        "french" => "fr",
        "german" => "de",
        "greek" => "el",
        "hungarian" => "hu",
        "indonesian" => "id",
        "italian" => "it",
        "kazakh" => "kk",
        "nepali" => "ne",
        "norwegian" => "no",
        "portuguese" => "pt",
        "romanian" => "ro",
        "russian" => "ru",
        "slovene" => "sl",
        "spanish" => "es",
        "swedish" => "sv",
        "tajik" => "tg",
        "turkish" => "tr",
        "basque" | "bengali" | "catalan" | "chinese" | "hebrew" | "hinglish" | "japanese" => return Some(&[]),
        _ => return None,
    };
    Some(stop_words::get(code))
}

/// What finds the stems of a language (Porter's Snowball); `None`: there is none.
pub fn stemmer(language: &str) -> Option<Algorithm> {
    Some(match language {
        "arabic" => Algorithm::Arabic,
        "danish" => Algorithm::Danish,
        "dutch" => Algorithm::Dutch,
        "english" => Algorithm::English,
        "finnish" => Algorithm::Finnish,
        "french" => Algorithm::French,
        "german" => Algorithm::German,
        "greek" => Algorithm::Greek,
        "hungarian" => Algorithm::Hungarian,
        "italian" => Algorithm::Italian,
        "norwegian" => Algorithm::Norwegian,
        "portuguese" => Algorithm::Portuguese,
        "romanian" => Algorithm::Romanian,
        "russian" => Algorithm::Russian,
        "spanish" => Algorithm::Spanish,
        "swedish" => Algorithm::Swedish,
        "tamil" => Algorithm::Tamil,
        "turkish" => Algorithm::Turkish,
        _ => return None,
    })
}
