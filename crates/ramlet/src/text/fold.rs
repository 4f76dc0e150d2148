//! ASCII folding of letters with marks, and of other forms of letters, digits and punctuation.
//!
//! `fold.txt` has Lucene's mapping (`ASCIIFoldingFilter`), which the API's is: a line is what characters become, and which these are.

use std::borrow::Cow;
use std::sync::OnceLock;

const MAPPING: &str = include_str!("fold.txt");

/// A word without marks on its Latin letters; combining marks fall away.
pub fn fold(word: Cow<'_, str>) -> Cow<'_, str> {
    if word.is_ascii() {
        return word;
    }
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        let plain = if c.is_ascii() { None } else { plain(c) };
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
            assert_eq!(fold(word.into()), plain);
        }
    }

    #[test]
    fn each_block_is_known() {
        for (word, plain) in [
            ("thư mơ ŉ", "thu mo n"),
            ("Iași știință Ǎǐ", "Iasi stiinta Ai"),
            ("əɐʙ", "aaB"),
            ("ᴀᴂᵫᶏ", "Aaeuea"),
            ("ẚẛẜẝẞỺỿ", "afssSSLLy"),
            ("‘a’ “b”–c…", "'a' \"b\"-c…"),
            ("x² H₂O ₔ", "x2 H2O a"),
            ("①⑴⒈Ⓐⓩ⓪", "1(1)1.Az0"),
            ("❶❨", "1("),
            ("Ⱡⱥⱬ", "Laz"),
            ("⸨", "(("),
            ("ꜰꜲꝠꟿ", "FAAVYM"),
            ("ﬁne ﬃﬆ", "fine ffist"),
            ("Ｈｅｌｌｏ１！～", "Hello1!~"),
        ] {
            assert_eq!(fold(word.into()), plain);
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
