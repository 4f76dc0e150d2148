//! A language's rules for equivalent letters and for suffixes.

use std::borrow::Cow;

use icu_normalizer::DecomposingNormalizerBorrowed;

use super::fold::fold;
use super::language::name_of;

/// The rules of a language that has some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Letters {
    #[default]
    Plain,
    Arabic,
    German,
    Turkish,
}

/// Written onto an Arabic word: the article, with and without prepositions.
const ARABIC_ARTICLES: [&str; 6] = ["وال", "بال", "كال", "فال", "لل", "ال"];
const ARABIC_STEM_CHARS: usize = 2;

impl Letters {
    pub fn of(language: &str) -> Letters {
        match name_of(language) {
            "arabic" => Letters::Arabic,
            "german" => Letters::German,
            // Azerbaijani has the same two letters.
            "turkish" | "azerbaijani" => Letters::Turkish,
            _ => Letters::Plain,
        }
    }

    /// A word as its stem is made of it. Of Arabic, the stemmer cuts off `ان` and `ي` and leaves `آن` and `ى`, and cuts off more behind an article.
    pub fn before_stem(self, word: &str) -> Cow<'_, str> {
        match self {
            Letters::Arabic => {
                // Ta marbuta is an ending, which it knows.
                let one = |c: char| if c == 'ة' { c } else { one_arabic(c) };
                let word: String = word.chars().map(one).collect();
                Cow::Owned(without_article(&word).to_owned())
            }
            _ => Cow::Borrowed(word),
        }
    }

    /// A stem, or a word that has none, as all words are that are the same to the language.
    pub fn unify(self, word: Cow<'_, str>) -> Cow<'_, str> {
        match self {
            Letters::Arabic => arabic(word),
            Letters::German => german(word),
            Letters::Plain | Letters::Turkish => word,
        }
    }
}

fn one_arabic(c: char) -> char {
    match c {
        'آ' | 'أ' | 'إ' | 'ٱ' => 'ا',
        'ى' => 'ي',
        'ة' => 'ه',
        c => c,
    }
}

/// Without the article; the forms of alif, of final ya and of ta marbuta are one each.
fn arabic(word: Cow<'_, str>) -> Cow<'_, str> {
    let word: String = word.chars().map(one_arabic).collect();
    Cow::Owned(without_article(&word).to_owned())
}

/// Its letters are those of [`one_arabic`].
fn without_article(word: &str) -> &str {
    let rest = ARABIC_ARTICLES
        .iter()
        .find_map(|article| word.strip_prefix(article));
    rest.filter(|rest| rest.chars().count() >= ARABIC_STEM_CHARS)
        .unwrap_or(word)
}

/// `ae`, `oe`, `ue` and the letters that they are written for become one vowel, but not where an `e` stands for itself (`neue`, `Quelle`).
fn german(word: Cow<'_, str>) -> Cow<'_, str> {
    let is_written_out = |two: &[u8]| matches!(two, [b'a' | b'o' | b'u', b'e']);
    if word.is_ascii() && !word.as_bytes().windows(2).any(is_written_out) {
        return word;
    }
    let mut out = String::with_capacity(word.len());
    let mut before = ' ';
    for c in word.chars() {
        let stands_alone = match before {
            'a' | 'o' => false,
            'u' => matches!(
                out.chars().rev().nth(1),
                Some('a' | 'e' | 'i' | 'o' | 'u' | 'y' | 'q')
            ),
            _ => true,
        };
        match c {
            'e' if !stands_alone => {}
            'ä' => out.push('a'),
            'ö' => out.push('o'),
            'ü' => out.push('u'),
            c => out.push(c),
        }
        before = c;
    }
    Cow::Owned(out)
}

/// Letters of Latin, Greek and Cyrillic without their marks. `й` is a letter of its own.
pub fn without_marks(word: Cow<'_, str>) -> Cow<'_, str> {
    if word.is_ascii() {
        return word;
    }
    let is_greek = |c: char| matches!(c, '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}');
    let nfd = const { DecomposingNormalizerBorrowed::new_nfd() };
    let word = match word.contains(is_greek) {
        true => Cow::Owned(nfd.normalize(&word).into_owned()),
        false => word,
    };
    let plain = fold(word);
    match plain.contains('ё') {
        true => Cow::Owned(plain.replace('ё', "е")),
        false => plain,
    }
}

/// Arabic and Devanagari as it is written with other keys or with fewer marks: hamza and madda, the Persian kaf and ya, alif maqsura; the nukta, candrabindu,
/// and `n` before a consonant (Larkey et al., *Hindi CLIR in Thirty Days*, TALIP 2003).
pub fn one_spelling(word: Cow<'_, str>) -> Cow<'_, str> {
    const NUKTA: char = '\u{93c}';
    const VIRAMA: char = '\u{94d}';
    const ANUSVARA: char = '\u{902}';
    let is_meant = |c: char| matches!(c, '\u{620}'..='\u{6ff}' | '\u{900}'..='\u{97f}');
    if !word.contains(is_meant) {
        return word;
    }
    let mut out = String::with_capacity(word.len());
    let mut rest = word.chars().peekable();
    while let Some(c) = rest.next() {
        let one = match c {
            'آ' | 'أ' | 'إ' | 'ٱ' => 'ا',
            'ؤ' => 'و',
            'ئ' | 'ى' | '\u{6cc}' => 'ي',
            '\u{6a9}' => 'ك',
            NUKTA => continue,
            '\u{901}' => ANUSVARA,
            'न' if rest.peek() == Some(&VIRAMA) => {
                rest.next();
                // At the end of a word it is a letter.
                match rest.peek() {
                    Some(_) => ANUSVARA,
                    None => {
                        out.push('न');
                        VIRAMA
                    }
                }
            }
            c => c,
        };
        out.push(one);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_to_a_language() {
        for (letters, one, others) in [
            (Letters::German, "muller", &["mueller", "müller"][..]),
            (Letters::German, "grosse", &["groesse", "grösse"]),
            (Letters::German, "quelle", &["quelle"]),
            (Letters::German, "neue", &["neue"]),
            (Letters::German, "gothe", &["goethe", "göthe"]),
            (
                Letters::Arabic,
                "كتاب",
                &["الكتاب", "والكتاب", "بالكتاب", "للكتاب"],
            ),
            (Letters::Arabic, "مدرسه", &["مدرسة", "المدرسة"]),
            (Letters::Arabic, "الي", &["إلى"]),
            (Letters::Plain, "mueller", &["mueller"]),
        ] {
            for other in others {
                assert_eq!(letters.unify((*other).into()), one, "{other}");
            }
        }
    }

    #[test]
    fn spellings_of_arabic_and_devanagari() {
        for (one, others) in [
            ("احمد", &["أحمد", "احمد"][..]),
            ("مسوول", &["مسؤول"]),
            ("كتاب", &["کتاب"]),
            ("علي", &["علی", "على"]),
            ("हिंदी", &["हिन्दी", "हिंदी"]),
            ("चांद", &["चाँद", "चान्द"]),
            ("कलम", &["क\u{93c}लम"]),
            ("न्", &["न्"]),
            ("cafe", &["cafe"]),
        ] {
            for other in others {
                assert_eq!(one_spelling((*other).into()), one, "{other}");
            }
        }
    }

    #[test]
    fn marks_fall_away() {
        for (word, plain) in [
            ("ἄνθρωπος", "ανθρωποσ"),
            ("ёлка", "елка"),
            ("йод", "йод"),
            ("ısparta", "isparta"),
            ("café", "cafe"),
        ] {
            let word: String = word.chars().map(|c| if c == 'ς' { 'σ' } else { c }).collect();
            assert_eq!(without_marks(word.as_str().into()), plain);
        }
    }
}
