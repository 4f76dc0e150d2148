//! Words of scripts that write without spaces, by the dictionaries of ICU (Unicode Standard Annex 29, "Word Boundaries", 3: Chinese, Japanese, Thai, Lao,
//! Khmer and Burmese need one). They are a part of the program: their pages are read like its code, and nothing of them is on the heap.

use icu_segmenter::WordSegmenter;
use icu_segmenter::options::WordBreakInvariantOptions;

use super::guard::guarded;

/// What is cut at once: ICU lists the ends of all words of a run, 8 bytes each.
const RUN_BYTES: usize = 4096;

/// Shows `each` the words of a text of any scripts: runs of letters and digits, and of runs without spaces the words of a dictionary.
pub fn words<'t>(text: &'t str, each: &mut dyn FnMut(&'t str)) {
    let script = |c: char| match c {
        c if is_dense(c) => Script::Dense,
        c if c.is_alphanumeric() => Script::Spaced,
        _ => Script::None,
    };
    let mut rest = text.char_indices().map(|(at, c)| (at, script(c))).peekable();
    while let Some((start, script)) = rest.next() {
        while rest.next_if(|(_, next)| *next == script).is_some() {}
        let run = &text[start..rest.peek().map_or(text.len(), |(end, _)| *end)];
        match script {
            Script::None => (),
            Script::Spaced => each(run),
            Script::Dense => by_dictionary(run, each),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Script {
    /// White space, punctuation.
    None,
    Spaced,
    Dense,
}

fn characters<'t>(run: &'t str, each: &mut dyn FnMut(&'t str)) {
    let ends = run.char_indices().map(|(at, c)| (at, at + c.len_utf8()));
    ends.for_each(|(start, end)| each(&run[start..end]));
}

pub fn by_dictionary<'t>(mut run: &'t str, each: &mut dyn FnMut(&'t str)) {
    // Nothing but references to what is compiled in.
    let segmenter = WordSegmenter::new_dictionary(WordBreakInvariantOptions::default());
    while !run.is_empty() {
        let mut end = run.len().min(RUN_BYTES);
        while !run.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, rest) = run.split_at(end);
        let mut start = 0;
        let ends = guarded(|| {
            #[cfg(test)]
            super::guard::planted_run(piece);
            segmenter.segment_str(piece)
        });
        if let Some(mut ends) = ends {
            // Its first end is the beginning.
            while let Some(Some(end)) = guarded(|| ends.next()) {
                let word = &piece[start..end];
                if word.contains(char::is_alphanumeric) {
                    each(word);
                }
                start = end;
            }
        }
        // Nothing, unless the dictionary failed.
        characters(&piece[start..], &mut |character| {
            if character.contains(char::is_alphanumeric) {
                each(character);
            }
        });
        run = rest;
    }
}

fn is_han_or_kana(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

/// Letters and marks of the scripts that ICU has a dictionary of; their digits stand among other scripts' digits.
pub fn is_dense(c: char) -> bool {
    // Most texts end here.
    if c < '\u{e00}' {
        return false;
    }
    is_han_or_kana(c)
        || matches!(c,
            '\u{0e01}'..='\u{0e3a}' | '\u{0e40}'..='\u{0e4e}' // Thai
            | '\u{0e81}'..='\u{0ece}' | '\u{0edc}'..='\u{0edf}' // Lao
            | '\u{1000}'..='\u{103f}' | '\u{1050}'..='\u{108f}' | '\u{109a}'..='\u{109f}' | '\u{aa60}'..='\u{aa7f}' // Burmese
            | '\u{1780}'..='\u{17d3}' | '\u{17dc}'..='\u{17dd}' // Khmer
            | '\u{3005}'..='\u{3007}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}' | '\u{31350}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        let mut all = Vec::new();
        words(text, &mut |word| all.push(word));
        all
    }

    #[test]
    fn words_of_each_script() {
        for (text, expected) in [
            ("これはテストです", "これ|は|テスト|です"),
            ("我们在北京大学学习。", "我们|在|北京|大学|学习"),
            ("ภาษาไทยเขียนไม่มีช่องว่าง", "ภาษา|ไทย|เขียน|ไม่มี|ช่อง|ว่าง"),
            ("Qdrantのコード v2、don't", "Qdrant|の|コード|v2|don|t"),
            ("ရွှေ ၁၂", "ရွှေ|၁၂"),
            ("한국어 문장", "한국어|문장"),
            ("・。、 -", ""),
        ] {
            let expected: Vec<&str> = expected.split('|').filter(|word| !word.is_empty()).collect();
            assert_eq!(cut(text), expected);
        }
    }

    #[test]
    fn long_runs_lose_nothing() {
        let text = "我们在北京大学学习".repeat(2000);
        let all = cut(&text);
        assert_eq!(all.concat(), text);
        assert!(all.len() < 5 * 2000 + 100, "{}", all.len());
    }
}
