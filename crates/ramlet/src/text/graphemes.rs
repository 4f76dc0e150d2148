//! Grapheme clusters (Unicode Standard Annex 29, "Grapheme Cluster Boundaries"): a letter with its marks, or an emoji of several characters.

use icu_segmenter::GraphemeClusterSegmenter;

use super::guard::guarded;

/// Characters before and behind a place that decide whether it is within a letter.
const NEAR_CHARS: usize = 32;

/// The place itself, or that of the edge behind it if it is within a letter.
pub fn edge_behind(text: &str, at: usize) -> usize {
    edges(text, at)[1]
}

/// The place itself, or that of the edge before it.
pub fn edge_before(text: &str, at: usize) -> usize {
    edges(text, at)[0]
}

fn edges(text: &str, at: usize) -> [usize; 2] {
    let is_plain = |c: Option<char>| c.is_none_or(|c| c.is_ascii() && c != '\n');
    if is_plain(text[at..].chars().next()) {
        return [at; 2];
    }
    let before = text[..at].char_indices().rev().take(NEAR_CHARS).last();
    let start = before.map_or(at, |(start, _)| start);
    let behind = text[at..].char_indices().nth(NEAR_CHARS);
    let end = behind.map_or(text.len(), |(more, _)| at + more);
    let found = guarded(|| {
        let mut edges = [start, end];
        for edge in GraphemeClusterSegmenter::new().segment_str(&text[start..end]) {
            let edge = start + edge;
            if edge <= at {
                edges[0] = edge;
            }
            if edge >= at {
                edges[1] = edge;
                break;
            }
        }
        edges
    });
    found.unwrap_or([at; 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_whole() {
        for (text, at, expected) in [
            ("cafe\u{301}s", 4, [3, 6]),
            ("cafe\u{301}s", 3, [3, 3]),
            ("cafe\u{301}s", 6, [6, 6]),
            ("a👍🏽b", 5, [1, 9]),
            ("👨‍👩‍👧", 4, [0, 18]),
            ("🇩🇪🇫🇷", 4, [0, 8]),
            ("🇩🇪🇫🇷", 8, [8, 8]),
            ("e\u{301}", 3, [3, 3]),
            ("", 0, [0, 0]),
        ] {
            assert_eq!(edges(text, at), expected, "{text} at {at}");
        }
    }
}
