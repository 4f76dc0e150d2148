//! The stem of a word, by the Snowball algorithms (<https://snowballstem.org>).

pub use frostem::Algorithm;

use super::guard::guarded;

/// A longer word is its own stem. Some algorithms take time by the square of the length: 0.2 s for a Greek word of 200 KB.
const WORD_BYTES_MAX: usize = 1024;

/// Finds stems; no word makes it panic.
pub struct Stemmer(frostem::Stemmer);

impl Stemmer {
    pub fn new(algorithm: Algorithm) -> Stemmer {
        Stemmer(frostem::Stemmer::new(algorithm))
    }

    /// `None`: the word is its own stem. So is one that the algorithm fails on or leaves nothing of, in texts as in queries: it is found.
    pub fn stem(&self, word: &str) -> Option<String> {
        if word.len() > WORD_BYTES_MAX {
            return None;
        }
        guarded(|| {
            #[cfg(test)]
            super::guard::planted(word);
            let stem = self.0.stem(word);
            (*stem != *word && !stem.is_empty()).then(|| stem.into_owned())
        })
        .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::language;

    /// A word a line: its language, the word, its stem, and in a fourth column the stem of the library before where that was another one.
    const WORDS: &str = include_str!("../../../../testdata/stems.tsv");

    /// An update of the library that changes a stem raises [`crate::text::ANALYSIS_REVISION`].
    #[test]
    fn stems_are_those_of_their_revision() {
        let mut checked = 0;
        for line in WORDS.lines().filter(|line| !line.starts_with('#')) {
            let mut columns = line.split('\t');
            let mut next = || columns.next().expect("language, word, stem");
            let (language, word, stem) = (next(), next(), next());
            let stemmer = Stemmer::new(language::stemmer(language).expect(language));
            let found = stemmer.stem(word);
            assert_eq!(found.as_deref().unwrap_or(word), stem, "{language} {word}");
            checked += 1;
        }
        assert!(checked > 4_900, "{checked} words");
    }

    #[test]
    fn no_word_is_too_much() {
        let pieces = [
            "ισα",
            "α",
            "ς",
            "\u{301}",
            "a",
            "ies",
            "ß",
            "\u{130}",
            "й",
            "க",
            "\u{0bcd}",
            "ա",
            "و",
            "'",
            "9",
            "\u{1f468}\u{200d}",
        ];
        let mut state = 1u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let words: Vec<String> = (0..3_000)
            .map(|_| (0..1 + next(9)).map(|_| pieces[next(pieces.len())]).collect())
            .chain(pieces.iter().map(|piece| piece.repeat(100_000)))
            .collect();
        for language in LANGUAGES {
            let stemmer = Stemmer::new(language::stemmer(language).expect(language));
            for word in &words {
                assert_ne!(stemmer.stem(word).as_deref(), Some(""), "{language} {word:.20}");
            }
        }
    }

    const LANGUAGES: [&str; 19] = [
        "arabic",
        "armenian",
        "danish",
        "dutch",
        "english",
        "finnish",
        "french",
        "german",
        "greek",
        "hungarian",
        "italian",
        "norwegian",
        "portuguese",
        "romanian",
        "russian",
        "spanish",
        "swedish",
        "tamil",
        "turkish",
    ];
}
