//! One form of what can be written in several ways: NFKC (Unicode Standard Annex 15) and full case folding (Unicode Standard, section 5.18), without
//! characters that can't be seen and without vowel points. What came from where is kept, so that a word can be marked in the text that was given.

use std::ops::Range;

use icu_casemap::{CaseMapper, CaseMapperBorrowed};
use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::CodePointSetData;
use icu_properties::props::{DefaultIgnorableCodePoint, ExtendedPictographic, GraphemeExtend};

use super::guard::guarded;
use super::revision::SPELLINGS;
use super::scripts::is_dense;

/// What becomes of letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Kept,
    Folded,
    /// `I` is the capital of `ı`, `İ` that of `i`.
    FoldedTurkic,
}

/// A piece of a text in its normal form. Made again and again in the same memory.
#[derive(Default)]
pub struct NormalForm {
    pub text: String,
    /// Where a letter with its marks begins: here, and in the piece. Empty: at the same places.
    places: Vec<(u32, u32)>,
    given_bytes: usize,
    scratch: String,
    /// Whether the rules are those from before [`SPELLINGS`].
    is_old: bool,
}

const ZERO_WIDTH_SPACE: char = '\u{200b}';
/// It joins the parts of an emoji.
pub const ZERO_WIDTH_JOINER: char = '\u{200d}';

impl NormalForm {
    /// By the rules of a revision of the analysis.
    pub fn new(revision: u32) -> NormalForm {
        NormalForm {
            is_old: revision < SPELLINGS,
            ..NormalForm::default()
        }
    }

    /// Takes a piece of a text.
    pub fn set(&mut self, given: &str, case: Case) {
        self.text.clear();
        self.places.clear();
        self.given_bytes = given.len();
        if given.is_ascii() && case != Case::FoldedTurkic {
            self.text.push_str(given);
            if case == Case::Folded {
                self.text.make_ascii_lowercase();
            }
            return;
        }
        let mut rest = given.char_indices().peekable();
        while let Some((start, base)) = rest.next() {
            let mut end = start + base.len_utf8();
            let mut is_alone = true;
            while let Some((at, c)) = rest.next_if(|(_, c)| follows(*c)) {
                end = at + c.len_utf8();
                is_alone = false;
            }
            self.places.push((self.text.len() as u32, start as u32));
            match base {
                _ if !is_alone => self.push_letter(&given[start..end], case),
                _ if base.is_ascii() => self.push_ascii(base, case),
                // Typed for an apostrophe; the normal form of the acute accent would be a space and a mark.
                '\u{b4}' if !self.is_old => self.text.push('\''),
                // Most letters of most scripts have one form: an eighth of the time.
                '\u{3041}'..='\u{3096}'
                | '\u{30a1}'..='\u{30fe}'
                | '\u{4e00}'..='\u{9fff}'
                | '\u{ac00}'..='\u{d7a3}' => {
                    self.text.push(base);
                }
                '\u{400}'..='\u{4ff}' if case != Case::Kept => {
                    self.text.push(const { CaseMapper::new() }.simple_fold(base));
                }
                _ => self.push_letter(&given[start..end], case),
            }
        }
    }

    /// Where a part of the text stands in what was given.
    pub fn given(&self, part: Range<usize>) -> Range<usize> {
        if self.places.is_empty() {
            return part;
        }
        let holds = self
            .places
            .partition_point(|place| place.0 as usize <= part.start);
        // Nothing of a character that fell away is before the first that didn't.
        let start = self.places[holds.saturating_sub(1)].1 as usize;
        let behind = self.places.partition_point(|place| (place.0 as usize) < part.end);
        let end = self
            .places
            .get(behind)
            .map_or(self.given_bytes, |place| place.1 as usize);
        start..end.max(start)
    }

    fn push_ascii(&mut self, c: char, case: Case) {
        match (case, c) {
            (Case::Kept, c) => self.text.push(c),
            (Case::FoldedTurkic, 'I') => self.text.push('ı'),
            (_, c) => self.text.push(c.to_ascii_lowercase()),
        }
    }

    /// A letter with its marks.
    fn push_letter(&mut self, letter: &str, case: Case) {
        let nfkc = const { ComposingNormalizerBorrowed::new_nfkc() };
        let mapper = const { CaseMapper::new() };
        let formed = guarded(|| {
            let formed = nfkc.normalize(letter);
            match fold(mapper, &formed, case) {
                Some(folded) => nfkc.normalize(&folded).into_owned(),
                None => formed.into_owned(),
            }
        });
        self.scratch.clear();
        self.scratch.push_str(formed.as_deref().unwrap_or(letter));
        let joins = self.scratch.chars().next().is_some_and(is_pictograph);
        let stays = |c: &char| !falls_away(*c) && (joins || *c != ZERO_WIDTH_JOINER);
        self.text
            .extend(self.scratch.chars().filter(stays).map(ascii_digit));
        // In Thai and Khmer it ends a word.
        if letter.contains(ZERO_WIDTH_SPACE) && self.text.chars().next_back().is_some_and(is_dense) {
            self.text.push(' ');
        }
    }
}

fn fold(mapper: CaseMapperBorrowed<'_>, text: &str, case: Case) -> Option<String> {
    match case {
        Case::Kept => None,
        Case::Folded => Some(mapper.fold_string(text).into_owned()),
        Case::FoldedTurkic => Some(mapper.fold_turkic_string(text).into_owned()),
    }
}

/// Whether a character may become one with that before it, or can't be seen.
pub fn follows(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    // Vowels and final consonants of Korean syllables written letter by letter.
    is_extending(c) || matches!(c, '\u{1160}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7fb}') || is_ignorable(c)
}

/// Whether a letter goes on with this character: marks, and joiners.
pub fn is_extending(c: char) -> bool {
    c >= '\u{300}' && const { CodePointSetData::new::<GraphemeExtend>() }.contains(c)
}

/// Emoji and signs like them.
pub fn is_pictograph(c: char) -> bool {
    c >= '\u{203c}' && const { CodePointSetData::new::<ExtendedPictographic>() }.contains(c)
}

fn is_ignorable(c: char) -> bool {
    c >= '\u{ad}' && const { CodePointSetData::new::<DefaultIgnorableCodePoint>() }.contains(c)
}

/// Digits of other scripts as those of ASCII.
fn ascii_digit(c: char) -> char {
    /// Where the ten digits of a script begin.
    const ZEROS: [u32; 18] = [
        0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0,
        0xf20, 0x1040, 0x17e0, 0x1810,
    ];
    let code = u32::from(c);
    let zero = ZEROS[..ZEROS.partition_point(|zero| *zero <= code)].last();
    let digit = zero.map(|zero| code - zero).filter(|digit| *digit < 10);
    digit.and_then(|digit| char::from_digit(digit, 10)).unwrap_or(c)
}

/// Characters without a look of their own; vowel points of Arabic and Hebrew; the stroke that makes Arabic words longer; the frame of a key.
fn falls_away(c: char) -> bool {
    match c {
        c if c < '\u{ad}' => false,
        '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}' => true,
        '\u{20e3}'
        | '\u{640}'
        | '\u{64b}'..='\u{65f}'
        | '\u{670}'
        | '\u{6d6}'..='\u{6dc}'
        | '\u{6df}'..='\u{6e8}' => true,
        '\u{6ea}'..='\u{6ed}' => true,
        ZERO_WIDTH_JOINER => false,
        c => is_ignorable(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(given: &str, case: Case) -> NormalForm {
        let mut form = NormalForm::default();
        form.set(given, case);
        form
    }

    #[test]
    fn one_form_of_what_is_the_same() {
        for (given, expected) in [
            ("Café", "café"),
            ("Cafe\u{301}", "café"),
            ("ﬁne", "fine"),
            ("Straße STRASSE ẞ", "strasse strasse ss"),
            ("Ｈｅｌｌｏ１", "hello1"),
            ("ΣΊΣΥΦΟΣ σίσυφος", "σίσυφοσ σίσυφοσ"),
            ("ｶﾞｷﾞ", "ガギ"),
            ("\u{1112}\u{1161}\u{11ab}국", "한국"),
            ("so\u{ad}ft zero\u{200b}width", "soft zerowidth"),
            ("ไทย\u{200b}ไทย", "ไทย ไทย"),
            ("مُحَمَّد كـتـاب", "محمد كتاب"),
            ("שָׁלוֹם", "שלום"),
            ("x² ㍿", "x2 株式会社"),
        ] {
            assert_eq!(form(given, Case::Folded).text, expected, "{given}");
        }
        assert_eq!(
            form("ISPARTA İstanbul", Case::FoldedTurkic).text,
            "ısparta istanbul"
        );
        assert_eq!(form("Ａb É", Case::Kept).text, "Ab É");
    }

    #[test]
    fn parts_stand_where_they_came_from() {
        let given = "ﬁne Cafe\u{301} so\u{ad}ft Straße ㍿ x";
        let form = form(given, Case::Folded);
        for (part, expected) in [
            ("fine", "ﬁne"),
            ("café", "Cafe\u{301}"),
            ("soft", "so\u{ad}ft"),
            ("strasse", "Straße"),
            ("会社", "㍿"),
            ("x", "x"),
        ] {
            let at = form.text.find(part).expect(part);
            assert_eq!(&given[form.given(at..at + part.len())], expected);
        }
    }
}
