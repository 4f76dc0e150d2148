//! An excerpt of a text around a fragment, cut at word boundaries.

use std::ops::Range;

use crate::text::{edge_before, edge_behind, for_words, is_dense};

/// Characters in which the end of a word is looked for; a word that is longer is cut.
const EDGE_CHARS: usize = 64;
/// Characters beyond a place that tell whether a word ends there.
const LOOK_CHARS: usize = 16;

/// A fragment with what is around it within `room`, `most` characters at most. Of a fragment that is longer, its beginning.
pub fn around(text: &str, fragment: Range<usize>, room: Range<usize>, most: usize) -> Range<usize> {
    let cut = forth(text, fragment.clone(), most);
    let Some(spare) = most.checked_sub(cut.chars).filter(|_| cut.at == fragment.end) else {
        let end = edge_before(text, cut.at);
        // A letter of more characters than are asked for.
        let end = if end > fragment.start { end } else { cut.at };
        return fragment.start..end;
    };
    // Half of it before, the rest behind; what there isn't behind, before.
    let before = back(text, room.start..fragment.start, spare / 2);
    let behind = forth(text, fragment.end..room.end, spare - before.chars);
    let more = back(text, room.start..before.at, spare - before.chars - behind.chars);
    let (mut start, mut end) = (more.at, behind.at);
    if is_in_word(text, start) {
        start = next_edge(text, start..fragment.start);
    }
    if is_in_word(text, end) {
        end = last_edge(text, fragment.end..end);
    }
    let start = edge_behind(text, start).min(fragment.start);
    let end = edge_before(text, end).max(fragment.end);
    let inner = &text[start..end];
    let end = start + inner.trim_end().len();
    // A space with a mark on it is a letter.
    edge_before(text, end - inner.trim().len()).max(start)..end
}

/// Where so many characters end.
struct Walked {
    at: usize,
    chars: usize,
}

fn forth(text: &str, room: Range<usize>, most: usize) -> Walked {
    let ends = text[room.clone()].chars().map(char::len_utf8).take(most);
    let (chars, bytes) = ends.fold((0, 0), |(chars, bytes), more| (chars + 1, bytes + more));
    Walked {
        at: room.start + bytes,
        chars,
    }
}

fn back(text: &str, room: Range<usize>, most: usize) -> Walked {
    let starts = text[room.clone()].chars().rev().map(char::len_utf8).take(most);
    let (chars, bytes) = starts.fold((0, 0), |(chars, bytes), more| (chars + 1, bytes + more));
    Walked {
        at: room.end - bytes,
        chars,
    }
}

fn sides(text: &str, at: usize) -> [Option<char>; 2] {
    [text[..at].chars().next_back(), text[at..].chars().next()]
}

fn is_in_word(text: &str, at: usize) -> bool {
    sides(text, at)
        .iter()
        .all(|c| c.is_some_and(char::is_alphanumeric))
}

/// Whether words there have no space between them.
fn is_in_dense(text: &str, at: usize) -> bool {
    sides(text, at).iter().all(|c| c.is_some_and(is_dense))
}

/// Shows `each` where words begin in a piece of text, those of scripts without spaces too.
fn word_starts(text: &str, piece: Range<usize>, each: &mut dyn FnMut(usize)) {
    for_words(&text[piece], &mut |word| {
        each(word.as_ptr().addr() - text.as_ptr().addr())
    });
}

/// The first place to begin at in a piece of text that begins within a run of letters.
fn next_edge(text: &str, piece: Range<usize>) -> usize {
    let near = forth(text, piece.clone(), EDGE_CHARS).at;
    if !is_in_dense(text, piece.start)
        && let Some(at) = text[piece.start..near].find(char::is_whitespace)
    {
        return piece.start + at;
    }
    // Words are known by what is before them.
    let from = back(text, 0..piece.start, LOOK_CHARS).at;
    let mut first = None;
    word_starts(text, from..near, &mut |at| {
        first = first.or((at >= piece.start && at > from).then_some(at));
    });
    match first {
        Some(at) => at,
        None if near < piece.end => piece.start,
        None => piece.end,
    }
}

/// The last place to end at in a piece of text that ends within a run of letters.
fn last_edge(text: &str, piece: Range<usize>) -> usize {
    let near = back(text, piece.clone(), EDGE_CHARS).at;
    if !is_in_dense(text, piece.end)
        && let Some(at) = text[near..piece.end].rfind(char::is_whitespace)
    {
        return near + at;
    }
    let to = forth(text, piece.end..text.len(), LOOK_CHARS).at;
    let mut last = near;
    word_starts(text, near..to, &mut |at| {
        if at <= piece.end {
            last = at;
        }
    });
    match last == near && near > piece.start {
        true => piece.end,
        false => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[`and `]` stand around the fragment, `{` and `}` around the room.
    fn check(marked: &str, most: usize, expected: &str) {
        let place = |mark: char| {
            let before = marked.find(mark)?;
            Some(marked[..before].replace(['[', ']', '{', '}'], "").len())
        };
        let text = marked.replace(['[', ']', '{', '}'], "");
        let fragment = place('[').expect("a fragment")..place(']').expect("its end");
        let room = place('{').unwrap_or(0)..place('}').unwrap_or(text.len());
        let found = &text[around(&text, fragment, room, most)];
        assert_eq!(found, expected, "{most} of {marked}");
        assert!(found.chars().count() <= most);
    }

    #[test]
    fn from_the_beginning_of_a_word_to_the_end_of_one() {
        check("one two [three] four five", 100, "one two three four five");
        check("one two [three] four five", 14, "two three four");
        check("one two [three] four five", 13, "two three");
        check("one {two [three] four} five", 100, "two three four");
        check("[one] two three four", 8, "one two");
        check("see http://a.example/foo-[bar]", 15, "example/foo-bar");
        check(
            "caf\u{e9} caf\u{e9} [caf\u{e9}] caf\u{e9} \u{e9}",
            14,
            "caf\u{e9} caf\u{e9} caf\u{e9}",
        );
    }

    #[test]
    fn scripts_without_spaces_have_words_too() {
        check("我们在北京[大学]学习中文", 100, "我们在北京大学学习中文");
        check("我们在北京[大学]学习中文", 9, "在北京大学学习中文");
        check("我们在北京[大学]学习中文", 6, "北京大学学习");
        // Not half of 北京.
        check("我们在北京[大学]", 3, "大学");
        check("今天天气很好 我们在北京[大学]学习中文", 10, "在北京大学学习中文");
    }

    #[test]
    fn letters_are_whole() {
        let word = "e\u{301}".repeat(200);
        check(&format!("[{word}] x"), 21, &"e\u{301}".repeat(10));
        for most in 3..40 {
            let text = "👍🏽👨‍👩‍👧e\u{301} ".repeat(9) + "mark" + &"👍🏽👨‍👩‍👧e\u{301} ".repeat(9);
            let at = text.find("mark").expect("a mark");
            let found = around(&text, at..at + 4, 0..text.len(), most);
            assert_eq!(
                (edge_before(&text, found.start), edge_before(&text, found.end)),
                (found.start, found.end),
                "{most}"
            );
        }
    }

    #[test]
    fn a_space_with_a_mark_on_it_stays_whole() {
        check("one \u{301} [three]", 8, " \u{301} three");
    }

    #[test]
    fn long_words_are_cut() {
        let blob = "ab12".repeat(50);
        check(&format!("[{blob}] x"), 20, &blob[..20]);
        check(
            &format!("\u{e9}[{}]", "\u{e9}".repeat(90)),
            20,
            &"\u{e9}".repeat(20),
        );
        check(&format!("{blob} [mark] {blob}"), 24, "mark");
        // A word without an end in sight, rather than nothing.
        check(
            &format!("{blob} [mark] {blob}"),
            160,
            &format!("{} mark {}", &blob[123..], &blob[..77]),
        );
    }
}
