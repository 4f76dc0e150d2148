//! Languages: their stop words and their stemmers.

use super::stem::Algorithm;

/// Languages that have stop words: what the API calls them, and the codes (ISO 639-1) that it takes for that.
const WITH_STOP_WORDS: [(&str, &str); 23] = [
    ("arabic", "ar"),
    ("azerbaijani", "az"),
    ("danish", "da"),
    ("dutch", "nl"),
    ("english", "en"),
    ("finnish", "fi"),
    ("french", "fr"),
    ("german", "de"),
    ("greek", "el"),
    ("hungarian", "hu"),
    ("indonesian", "id"),
    ("italian", "it"),
    ("kazakh", "kk"),
    ("nepali", "ne"),
    ("norwegian", "no"),
    ("portuguese", "pt"),
    ("romanian", "ro"),
    ("russian", "ru"),
    ("slovene", "sl"),
    ("spanish", "es"),
    ("swedish", "sv"),
    ("tajik", "tg"),
    ("turkish", "tr"),
];

/// Others that it knows, with its codes for them.
const OTHERS: [(&str, &str); 9] = [
    ("armenian", "hy"),
    ("basque", "eu"),
    ("bengali", "bn"),
    ("catalan", "ca"),
    ("chinese", "zh"),
    ("hebrew", "he"),
    ("hinglish", "hi-en"),
    ("japanese", "jp"),
    ("tamil", "ta"),
];

/// The stop words of a language, by its name or code; `None`: no such language. Those that the lists don't have are known and have none.
pub fn stopwords(language: &str) -> Option<&'static [&'static str]> {
    let is_it = |(name, code): &&(&str, &str)| *name == language || *code == language;
    if let Some((_, code)) = WITH_STOP_WORDS.iter().find(is_it) {
        return Some(stop_words::get(code));
    }
    let other = OTHERS.iter().find(is_it)?;
    (!matches!(other.0, "armenian" | "tamil")).then_some(&[])
}

/// Whether a language has stop words, a stemmer or rules of its own here.
pub fn is_known(language: &str) -> bool {
    stopwords(language).is_some() || stemmer(language).is_some()
}

/// The names of all languages that are known.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = WITH_STOP_WORDS
        .iter()
        .chain(&OTHERS)
        .map(|(name, _)| *name)
        .collect();
    names.sort_unstable();
    names
}

/// The name of a language that may be given by its code.
pub fn name_of(language: &str) -> &str {
    let mut all = WITH_STOP_WORDS.iter().chain(&OTHERS);
    all.find(|(_, code)| *code == language)
        .map_or(language, |(name, _)| *name)
}

/// What finds the stems of a language (Porter's Snowball); `None`: there is none.
pub fn stemmer(language: &str) -> Option<Algorithm> {
    Some(match name_of(language) {
        "arabic" => Algorithm::Arabic,
        "armenian" => Algorithm::Armenian,
        "danish" => Algorithm::Danish,
        // The one that this name means to clients; the later one gives half of all words another stem.
        "dutch" => Algorithm::DutchPorter,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stand_for_names() {
        for (name, code) in WITH_STOP_WORDS.iter().chain(&OTHERS) {
            assert_eq!(stopwords(name), stopwords(code), "{name}");
            let [a, b] = [name, code].map(|language| format!("{:?}", stemmer(language)));
            assert_eq!(a, b, "{name}");
        }
        assert!(stopwords("en").is_some_and(|words| words.contains(&"the")));
        assert_eq!(stopwords("jp"), Some(&[][..]));
        assert!(stemmer("ta").is_some() && stopwords("tamil").is_none());
        assert!(stemmer("en").is_some() && stemmer("zh").is_none());
        assert!(stopwords("xx").is_none() && stopwords("").is_none());
    }
}
