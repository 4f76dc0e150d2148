//! Latin letters with marks, as those without.

use std::borrow::Cow;

/// What the letters from U+00C0 on become, in order; `-`: itself.
const LATIN: &str = "\
    A A A A A A AE C E E E E I I I I D N O O O O O - O U U U U Y TH ss a a a a a a ae c e e e e i i i i \
    d n o o o o o - o u u u u y th y A a A a A a C c C c C c C c D d D d E e E e E e E e E e G g G g G g \
    G g H h H h I i I i I i I i I i IJ ij J j K k q L l L l L l L l L l N n N n N n 'n N n O o O o O o \
    OE oe R r R r R r S s S s S s S s T t T t T t U u U u U u U u U u U u W w Y y Y Z z Z z Z z s";

/// The same from U+1E00 on.
const LATIN_MORE: &str = "\
    A a B b B b B b C c D d D d D d D d D d E e E e E e E e E e F f G g H h H h H h H h H h I i I i K k \
    K k K k L l L l L l L l M m M m M m N n N n N n N n O o O o O o O o P p P p R r R r R r R r S s S s \
    S s S s S s T t T t T t T t U u U u U u U u U u V v V v W w W w W w W w W w X x X x Y y Z z Z z Z z \
    h t w y - s - - SS - A a A a A a A a A a A a A a A a A a A a A a A a E e E e E e E e E e E e E e E e \
    I i I i O o O o O o O o O o O o O o O o O o O o O o O o U u U u U u U u U u U u U u Y y Y y Y y Y y \
    - - - - - -";

/// A word without marks on its Latin letters; combining marks fall away.
pub fn fold(word: Cow<'_, str>) -> Cow<'_, str> {
    if word.is_ascii() {
        return word;
    }
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        match (c, plain(c)) {
            ('\u{300}'..='\u{36f}', _) => {}
            (_, Some(plain)) => out.push_str(plain),
            (c, None) => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn plain(c: char) -> Option<&'static str> {
    let (table, first) = match c {
        '\u{c0}'..='\u{17f}' => (LATIN, 0xc0),
        '\u{1e00}'..='\u{1eff}' => (LATIN_MORE, 0x1e00),
        _ => return None,
    };
    let found = table.split(' ').nth((c as usize).checked_sub(first)?);
    found.filter(|plain| *plain != "-")
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
}
