//! Letters with marks, and other forms of letters, digits and punctuation, as those of ASCII.
//!
//! `fold.txt` has Lucene's mapping (`ASCIIFoldingFilter`), which the API's is: a line is what characters become, and which these are.

use std::borrow::Cow;
use std::sync::OnceLock;

/// Which characters are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Folding {
    /// Letters from U+00C0 to U+017F and from U+1E00 to U+1EFF. So were indexes made before all were known.
    Latin,
    #[default]
    All,
}

const MAPPING: &str = include_str!("fold.txt");

/// A word without marks on its Latin letters; combining marks fall away.
pub fn fold(word: Cow<'_, str>, folding: Folding) -> Cow<'_, str> {
    if word.is_ascii() {
        return word;
    }
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        let plain = match folding {
            _ if c.is_ascii() => None,
            Folding::Latin => plain_latin(c),
            Folding::All => plain(c),
        };
        match (c, plain) {
            ('\u{300}'..='\u{36f}', _) => {}
            (_, Some(plain)) => out.push_str(plain),
            (c, None) => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn plain(c: char) -> Option<&'static str> {
    let known = known();
    let at = known.binary_search_by_key(&c, |(known, _)| *known).ok()?;
    Some(known[at].1)
}

/// As it was: some of the letters are others now.
fn plain_latin(c: char) -> Option<&'static str> {
    match c {
        'ŉ' => Some("'n"),
        'ẛ' => Some("s"),
        'ẚ' | 'ẜ' | 'ẝ' | '\u{1efa}'..='\u{1eff}' => None,
        '\u{c0}'..='\u{17f}' | '\u{1e00}'..='\u{1eff}' => plain(c),
        _ => None,
    }
}

/// The mapping by character: 1,242 of them, 30 KB.
fn known() -> &'static [(char, &'static str)] {
    static KNOWN: OnceLock<Vec<(char, &'static str)>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let lines = MAPPING.lines().filter_map(|line| line.split_once(' '));
        let mut known: Vec<_> = lines
            .flat_map(|(plain, of)| of.chars().map(move |c| (c, plain)))
            .collect();
        known.sort_unstable();
        known
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_fall_away() {
        for (word, plain) in [
            ("ação", "acao"),
            ("naïve", "naive"),
            ("Straße", "Strasse"),
            ("Łódź", "Lodz"),
            ("Việt", "Viet"),
            ("e\u{301}te", "ete"),
            ("мир", "мир"),
            ("plain", "plain"),
            ("×÷", "×÷"),
        ] {
            for folding in [Folding::Latin, Folding::All] {
                assert_eq!(fold(word.into(), folding), plain);
            }
        }
    }

    #[test]
    fn each_block_is_known() {
        for (word, plain, before) in [
            ("thư mơ ŉ", "thu mo n", "thư mơ 'n"),
            ("Iași știință Ǎǐ", "Iasi stiinta Ai", "Iași știința Ǎǐ"),
            ("əɐʙ", "aaB", "əɐʙ"),
            ("ᴀᴂᵫᶏ", "Aaeuea", "ᴀᴂᵫᶏ"),
            ("ẚẛẜẝẞỺỿ", "afssSSLLy", "ẚsẜẝSSỺỿ"),
            ("‘a’ “b”–c…", "'a' \"b\"-c…", "‘a’ “b”–c…"),
            ("x² H₂O ₔ", "x2 H2O a", "x² H₂O ₔ"),
            ("①⑴⒈Ⓐⓩ⓪", "1(1)1.Az0", "①⑴⒈Ⓐⓩ⓪"),
            ("❶❨", "1(", "❶❨"),
            ("Ⱡⱥⱬ", "Laz", "Ⱡⱥⱬ"),
            ("⸨", "((", "⸨"),
            ("ꜰꜲꝠꟿ", "FAAVYM", "ꜰꜲꝠꟿ"),
            ("ﬁne ﬃﬆ", "fine ffist", "ﬁne ﬃﬆ"),
            ("Ｈｅｌｌｏ１！～", "Hello1!~", "Ｈｅｌｌｏ１！～"),
        ] {
            assert_eq!(fold(word.into(), Folding::All), plain);
            assert_eq!(fold(word.into(), Folding::Latin), before);
        }
    }

    #[test]
    fn the_mapping_is_whole() {
        let known = known();
        assert_eq!(known.len(), 1_242);
        assert!(known.windows(2).all(|two| two[0].0 < two[1].0), "each once");
        assert!(known.iter().all(|(c, plain)| !c.is_ascii() && plain.is_ascii()));
    }
}
