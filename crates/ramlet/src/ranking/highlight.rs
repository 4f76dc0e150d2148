//! The fragments of a text with the most words of a query, each word between two marks.

use std::ops::Range;

use serde::Serialize;

use super::excerpt::around;
use super::terms::Terms;
use crate::error::{Error, Result};
use crate::payload::{Json, JsonRef, Path};
use crate::query::request::{Highlight, OffsetUnit};
use crate::text::{TextField, edge_before, edge_behind};

/// Words of a text that are looked at; beyond them nothing is marked.
const MARKS_MAX: usize = 1_024;
const FRAGMENTS_MAX: usize = 16;
const FRAGMENT_CHARS: std::ops::RangeInclusive<usize> = 20..=10_000;
const TAG_BYTES_MAX: usize = 64;

/// A field and the words that are marked in it.
pub struct Marked<'a> {
    pub name: &'a str,
    pub field: &'a TextField,
    pub path: Path,
    pub terms: Vec<Terms>,
}

/// A word of the query in a text.
#[derive(Debug, Clone, PartialEq)]
struct Mark {
    bytes: Range<usize>,
    /// The same place in characters.
    chars: Range<usize>,
    /// Which word of the query, by its list and its place there.
    word: (usize, usize),
}

/// A fragment of a text, with its first and its last mark.
struct Fragment {
    text: usize,
    marks: Range<usize>,
    distinct: usize,
}

/// A text of a field, and the words of the query in it.
struct MarkedText {
    text: String,
    /// Which of the field's strings it is.
    value: usize,
    marks: Vec<Mark>,
}

/// What is answered: a marked part of a text, with places where they are asked for.
#[derive(Serialize)]
#[serde(untagged)]
enum Excerpt {
    Plain(String),
    Placed {
        text: String,
        value: usize,
        start: usize,
        end: usize,
        marks: Vec<[usize; 2]>,
    },
}

impl MarkedText {
    fn excerpt(&self, bytes: Range<usize>, marks: Range<usize>, how: &Highlight) -> Excerpt {
        let marks = &self.marks[marks];
        let text = between(&self.text, bytes.clone(), marks, how);
        let Some(unit) = how.offsets else {
            return Excerpt::Plain(text);
        };
        let mut places = Places::new(&self.text, unit);
        let start = places.of(bytes.start);
        let ends = marks.iter().map(|mark| {
            let start = places.of(mark.bytes.start);
            [start, places.of(mark.bytes.end.min(bytes.end))]
        });
        let marks = ends.collect();
        Excerpt::Placed {
            text,
            value: self.value,
            start,
            end: places.of(bytes.end),
            marks,
        }
    }
}

/// Places of a text in another unit than bytes, asked for in ascending order.
struct Places<'a> {
    text: &'a str,
    unit: OffsetUnit,
    bytes: usize,
    units: usize,
}

impl<'a> Places<'a> {
    fn new(text: &'a str, unit: OffsetUnit) -> Places<'a> {
        Places {
            text,
            unit,
            bytes: 0,
            units: 0,
        }
    }

    fn of(&mut self, bytes: usize) -> usize {
        let more = &self.text[self.bytes..bytes];
        self.units += match self.unit {
            OffsetUnit::Utf8 => more.len(),
            OffsetUnit::Utf16 => more.encode_utf16().count(),
        };
        self.bytes = bytes;
        self.units
    }
}

impl Highlight {
    /// Refuses what would be a payload of its own.
    pub fn check(&self) -> Result<()> {
        let bad = |what: String| Err(Error::bad_input(format!("Wrong input: highlight: {what}")));
        if self.fragments > FRAGMENTS_MAX {
            return bad(format!(
                "{} fragments; at most {FRAGMENTS_MAX} are possible",
                self.fragments
            ));
        }
        if !FRAGMENT_CHARS.contains(&self.fragment_chars) {
            let (least, most) = (FRAGMENT_CHARS.start(), FRAGMENT_CHARS.end());
            return bad(format!(
                "fragment_chars {} is not from {least} to {most}",
                self.fragment_chars
            ));
        }
        if self.pre.len().max(self.post.len()) > TAG_BYTES_MAX {
            return bad(format!("a mark of more than {TAG_BYTES_MAX} bytes"));
        }
        Ok(())
    }
}

/// A payload's fragments as a JSON object, fields in order: those that have none of their words are left out.
pub fn fragments_of(payload: &[u8], fields: &[Marked<'_>], how: &Highlight) -> Vec<u8> {
    let mut out = vec![b'{'];
    for field in fields {
        let fragments = field.fragments(payload, how);
        if fragments.is_empty() {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        write_json(&field.name, &mut out);
        out.push(b':');
        write_json(&fragments, &mut out);
    }
    out.push(b'}');
    out
}

/// Strings and lists of them: nothing of that can fail in memory.
fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, value);
}

impl Marked<'_> {
    fn fragments(&self, payload: &[u8], how: &Highlight) -> Vec<Excerpt> {
        let Some(root) = JsonRef::new(payload) else {
            return Vec::new();
        };
        let mut texts: Vec<MarkedText> = Vec::new();
        let (mut left, mut strings) = (MARKS_MAX, 0);
        self.path.any_value(root, &mut |value| {
            if let Some(Json::Str(text)) = value.read() {
                let marks = self.marks(&text, left);
                left -= marks.len();
                if !marks.is_empty() {
                    texts.push(MarkedText {
                        text: text.into_owned(),
                        value: strings,
                        marks,
                    });
                }
                strings += 1;
            }
            left == 0
        });
        if how.fragments == 0 {
            let whole = |of: &MarkedText| of.excerpt(0..of.text.len(), 0..of.marks.len(), how);
            return texts.iter().map(whole).collect();
        }
        let mut best = best_of(&texts, how);
        best.sort_by_key(|fragment| (fragment.text, fragment.marks.start));
        let mut fragments = Vec::with_capacity(best.len());
        let mut from = (0, 0);
        for (at, fragment) in best.iter().enumerate() {
            let of = &texts[fragment.text];
            let (text, marks) = (&of.text, &of.marks);
            // Two of them share no words: each goes from the end of the one before to the first mark of the next.
            let next = best.get(at + 1).filter(|next| next.text == fragment.text);
            let end = next.map_or(text.len(), |next| marks[next.marks.start].bytes.start);
            let start = if from.0 == fragment.text { from.1 } else { 0 };
            let words = marks[fragment.marks.start].bytes.start..marks[fragment.marks.end - 1].bytes.end;
            let bytes = around(text, words, start..end, how.fragment_chars);
            from = (fragment.text, bytes.end);
            fragments.push(of.excerpt(bytes, fragment.marks.clone(), how));
        }
        fragments
    }

    /// At most so many, by place.
    fn marks(&self, text: &str, most: usize) -> Vec<Mark> {
        let mut marks: Vec<Mark> = Vec::new();
        let whole = self.terms.iter().any(Terms::are_stopwords);
        self.field.tokens(text, (&mut 0, whole), &mut |token| {
            // A part of the text: its place is where it lies in memory.
            let start = token.word.as_ptr().addr() - text.as_ptr().addr();
            let marked = marks.last().map_or(0, |last| last.bytes.end);
            if start < marked || marks.len() == most {
                return;
            }
            let mut lists = self.terms.iter().enumerate();
            if let Some(word) = lists.find_map(|(list, terms)| Some((list, terms.place(token.text)?))) {
                // The API's tokenizers cut within letters: at the sign between two consonants of Khmer, or at a mark.
                let bytes = edge_before(text, start).max(marked)..edge_behind(text, start + token.word.len());
                let before = marks.last().map_or(0, |last| last.chars.end);
                let first = before + text[marked..bytes.start].chars().count();
                let chars = first..first + text[bytes.clone()].chars().count();
                marks.push(Mark { bytes, chars, word });
            }
        });
        marks
    }
}

/// The fragments with the most distinct words, then with the most marks, then the first; none shares a mark with another.
fn best_of(texts: &[MarkedText], how: &Highlight) -> Vec<Fragment> {
    let mut all: Vec<Fragment> = Vec::new();
    for (text, MarkedText { marks, .. }) in texts.iter().enumerate() {
        let mut end = 0;
        for (at, first) in marks.iter().enumerate() {
            let fits = |mark: &Mark| mark.chars.end <= first.chars.start + how.fragment_chars;
            end = end.max(at + 1);
            while end < marks.len() && fits(&marks[end]) {
                end += 1;
            }
            let mut words: Vec<_> = marks[at..end].iter().map(|mark| mark.word).collect();
            words.sort_unstable();
            words.dedup();
            all.push(Fragment {
                text,
                marks: at..end,
                distinct: words.len(),
            });
        }
    }
    all.sort_by_key(|fragment| std::cmp::Reverse((fragment.distinct, fragment.marks.len())));
    let mut chosen: Vec<Fragment> = Vec::new();
    for fragment in all {
        let meets = |other: &Fragment| {
            other.text == fragment.text
                && other.marks.start < fragment.marks.end
                && fragment.marks.start < other.marks.end
        };
        if chosen.len() < how.fragments && !chosen.iter().any(meets) {
            chosen.push(fragment);
        }
    }
    chosen
}

/// A part of a text, its words of the query marked; of a word that is longer than the part, what is in it.
fn between(text: &str, part: Range<usize>, marks: &[Mark], how: &Highlight) -> String {
    let mut out = String::with_capacity(part.len() + marks.len() * (how.pre.len() + how.post.len()));
    let mut at = part.start;
    for Mark { bytes, .. } in marks {
        let end = bytes.end.min(part.end);
        out.push_str(&text[at..bytes.start]);
        out.push_str(&how.pre);
        out.push_str(&text[bytes.start..end]);
        out.push_str(&how.post);
        at = end;
    }
    out.push_str(&text[at..part.end]);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(params: Value, query: &str, payload: Value, how: &Highlight, expected: Value) {
        let field = TextField::new(Some(&params)).expect("parameters");
        let terms = Terms::new(&field, query, false).expect("few words");
        let marked = Marked {
            name: "t",
            field: &field,
            path: Path::parse("t").expect("a path"),
            terms: vec![terms],
        };
        let found = fragments_of(payload.to_string().as_bytes(), &[marked], how);
        let found: Value = serde_json::from_slice(&found).expect("JSON");
        assert_eq!(found, expected, "{query} in {payload}");
    }

    fn how(fragments: usize, fragment_chars: usize) -> Highlight {
        Highlight {
            fragments,
            fragment_chars,
            ..Highlight::default()
        }
    }

    fn english() -> Value {
        json!({"type": "text", "stemmer": {"type": "snowball", "language": "english"}, "stopwords": "english"})
    }

    #[test]
    fn words_are_marked_as_they_are_found() {
        let check = |query, text: &str, fragments: Value| {
            let expected = match fragments.is_null() {
                true => json!({}),
                false => json!({ "t": fragments }),
            };
            check(english(), query, json!({ "t": text }), &how(1, 200), expected)
        };
        check(
            "running dog",
            "The Dogs ran; one RUNS.",
            json!(["The <em>Dogs</em> ran; one <em>RUNS</em>."]),
        );
        check("the", "The dogs", json!(["<em>The</em> dogs"]));
        check("the dog", "The dogs", json!(["The <em>dogs</em>"]));
        check("cats", "dogs", Value::Null);
        check(
            "caf\u{e9}",
            "Un caf\u{e9}, \"deux\" caf\u{e9}s",
            json!(["Un <em>caf\u{e9}</em>, \"deux\" <em>caf\u{e9}s</em>"]),
        );
    }

    #[test]
    fn letters_are_whole_and_places_are_told() {
        for tokenizer in [Value::Null, json!("word"), json!("whitespace")] {
            let params = json!({"type": "text", "tokenizer": tokenizer});
            let query = if tokenizer == "word" {
                "cafe"
            } else {
                "cafe\u{301}"
            };
            let expected = json!({"t": ["un <em>cafe\u{301}</em> noir"]});
            check(
                params,
                query,
                json!({"t": "un cafe\u{301} noir"}),
                &how(1, 200),
                expected,
            );
        }
        let text = "👍 one cafe\u{301} two 👍🏽 Straße";
        for (unit, places) in [
            (OffsetUnit::Utf8, [0, 36, 9, 15, 29, 36]),
            (OffsetUnit::Utf16, [0, 28, 7, 12, 22, 28]),
        ] {
            let how = Highlight {
                offsets: Some(unit),
                ..how(0, 100)
            };
            let [start, end, first, first_end, second, second_end] = places;
            let expected = json!({"t": [{
                "text": "👍 one <em>cafe\u{301}</em> two 👍🏽 <em>Straße</em>", "value": 1, "start": start, "end": end,
                "marks": [[first, first_end], [second, second_end]],
            }]});
            check(
                json!({"type": "text"}),
                "café strasse",
                json!({"t": ["no", text]}),
                &how,
                expected,
            );
        }
        // Tokens of the API's tokenizers may begin within a letter: the second one of `ខ្មែរ` does.
        for (tokenizer, query) in [("word", "មែរ"), ("code", "មែរ"), ("prefix", "មែរ")] {
            let expected = json!({"t": ["<em>ខ្មែរ</em> a"]});
            let params = json!({"type": "text", "tokenizer": tokenizer});
            check(params, query, json!({"t": "ខ្មែរ a"}), &how(1, 200), expected);
        }
        // Words within a word are marked once.
        let expected = json!({"t": ["<em>wi-fi</em> <em>C++</em>"]});
        check(
            json!({"type": "text"}),
            "wifi fi wi c c++",
            json!({"t": "wi-fi C++"}),
            &how(1, 100),
            expected,
        );
    }

    #[test]
    fn the_best_fragments_in_the_order_of_the_text() {
        let filler = "lorem ipsum dolor sit amet ".repeat(12);
        let text = format!("red {filler}blue red {filler}blue blue green {filler}");
        let check = |fragments, expected: Value| {
            let payload = json!({ "t": text.clone() });
            check(
                json!({"type": "text"}),
                "red blue green",
                payload,
                &how(fragments, 20),
                json!({ "t": expected }),
            );
        };
        let most = "<em>blue</em> <em>blue</em> <em>green</em>";
        check(1, json!([most]));
        check(2, json!(["amet <em>blue</em> <em>red</em> lorem", most]));
    }

    #[test]
    fn whole_texts_lists_and_odd_tokenizers() {
        let texts = json!({"t": ["a red fox", "no", 7, "red"], "u": "red"});
        let whole = how(0, 100);
        check(
            json!({"type": "text"}),
            "red",
            texts.clone(),
            &whole,
            json!({"t": ["a <em>red</em> fox", "<em>red</em>"]}),
        );
        check(
            json!({"type": "text"}),
            "red",
            texts,
            &how(5, 100),
            json!({"t": ["a <em>red</em> fox", "<em>red</em>"]}),
        );
        let prefix = json!({"type": "text", "tokenizer": "prefix", "min_token_len": 2, "max_token_len": 5});
        check(
            prefix,
            "hel",
            json!({"t": "Hello hall"}),
            &whole,
            json!({"t": ["<em>Hello</em> hall"]}),
        );
        let marks = Highlight {
            pre: "[".into(),
            post: "]".into(),
            ..how(1, 100)
        };
        let multilingual = json!({"type": "text", "tokenizer": "multilingual"});
        check(
            multilingual,
            "天气",
            json!({"t": "今天天气 a"}),
            &marks,
            json!({"t": ["今天[天气] a"]}),
        );
    }

    #[test]
    fn fragments_are_no_longer_than_asked_for_and_cut_no_word() {
        let text: String = (0..400)
            .map(|n| format!("w{n} \u{e9}t\u{e9}{} ", n % 7))
            .collect();
        for fragment_chars in [20, 33, 64, 200] {
            let how = how(4, fragment_chars);
            let field = TextField::new(Some(&json!({"type": "text"}))).expect("parameters");
            let terms = Terms::new(&field, "w5 w100 w101 w399 \u{e9}t\u{e9}3", false).expect("few words");
            let marked = Marked {
                name: "t",
                field: &field,
                path: Path::parse("t").expect("a path"),
                terms: vec![terms],
            };
            let fragments = marked.fragments(json!({ "t": text }).to_string().as_bytes(), &how);
            assert_eq!(fragments.len(), 4);
            for fragment in fragments {
                let Excerpt::Plain(fragment) = fragment else {
                    panic!("no places were asked for")
                };
                let plain = fragment.replace("<em>", "").replace("</em>", "");
                assert!(
                    plain.chars().count() <= fragment_chars && fragment.len() > plain.len(),
                    "{fragment}"
                );
                assert!(
                    plain
                        .split(' ')
                        .all(|word| text.split(' ').any(|known| known == word)),
                    "{plain}"
                );
            }
        }
    }
}
