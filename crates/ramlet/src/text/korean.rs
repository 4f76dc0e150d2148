//! Korean particles, which are written onto the word before them.
//!
//! A rule of thumb instead of a dictionary of morphemes, which would be of tens of megabytes: what ends as a particle loses it, again and again, down to two
//! syllables. So a noun that ends as a particle itself loses that too (`고양이`, a cat, becomes `고양`), with its particles as without: it is found.

/// Longer ones first.
const PARTICLES: [&str; 48] = [
    "에서부터",
    "으로부터",
    "에게서는",
    "이라고는",
    "에서는",
    "에서도",
    "에게서",
    "으로서",
    "으로써",
    "으로는",
    "으로도",
    "에게는",
    "에게도",
    "까지도",
    "까지는",
    "부터는",
    "이라는",
    "이라고",
    "이지만",
    "한테서",
    "에서",
    "에게",
    "으로",
    "까지",
    "부터",
    "처럼",
    "보다",
    "한테",
    "께서",
    "에는",
    "에도",
    "와의",
    "과의",
    "로서",
    "로써",
    "마다",
    "조차",
    "밖에",
    "이나",
    "이라",
    "라는",
    "라고",
    "하고",
    "들의",
    "들은",
    "들이",
    "들을",
    "들",
];
const SHORT: [&str; 13] = [
    "을", "를", "은", "는", "이", "가", "에", "의", "도", "와", "과", "로", "만",
];
/// Syllables that are left of a word at least.
const STEM_SYLLABLES: usize = 2;

/// A word without its particles.
pub fn stem(word: &str) -> &str {
    let mut stem = word;
    while let Some(shorter) = without_particle(stem) {
        stem = shorter;
    }
    stem
}

fn without_particle(word: &str) -> Option<&str> {
    let mut all = PARTICLES.iter().chain(&SHORT);
    all.find_map(|particle| {
        let rest = word.strip_suffix(particle)?;
        (rest.chars().count() >= STEM_SYLLABLES).then_some(rest)
    })
}

/// Of a word of two syllables that may be one and a particle, the first.
pub fn short_stem(word: &str) -> Option<&str> {
    let rest = SHORT.iter().find_map(|particle| word.strip_suffix(particle))?;
    (rest.chars().count() == 1).then_some(rest)
}

/// Whether there is nothing but a particle, as behind a word of another script.
pub fn is_particle(word: &str) -> bool {
    PARTICLES.contains(&word) || SHORT.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_the_same_with_each_particle() {
        for word in ["한국어", "고양이", "학교", "바나나", "제주도", "컴퓨터"] {
            for particle in SHORT.iter().chain(&PARTICLES) {
                assert_eq!(
                    stem(&format!("{word}{particle}")),
                    stem(word),
                    "{word} {particle}"
                );
            }
        }
        assert_eq!(stem("한국어를"), "한국어");
        assert_eq!((stem("책을"), short_stem("책을")), ("책을", Some("책")));
        assert!(is_particle("를") && !is_particle("책"));
    }
}
