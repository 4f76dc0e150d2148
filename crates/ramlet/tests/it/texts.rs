//! Text indexes against tokens made by hand and looked through one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::text::{TextOptions, Token, Tokenizer, TokenizerKind};
use ramlet::*;
use ramlet_io::RamStorage;
use serde_json::{Value, json};

use crate::support::*;

/// Words of the texts: as written, and their stems in English.
const WORDS: [(&str, &str); 12] = [
    ("Running", "run"),
    ("dogs", "dog"),
    ("the", "the"),
    ("House", "hous"),
    ("Ação", "ação"),
    ("今天天气", "今天天气"),
    ("wonderful", "wonder"),
    ("run", "run"),
    ("dog", "dog"),
    ("x1", "x1"),
    ("a", "a"),
    ("RUNNING", "run"),
];

/// Fields and the parameters of their indexes.
fn fields() -> Vec<(&'static str, Value)> {
    vec![
        ("word", json!({"type": "text", "tokenizer": "word"})),
        (
            "white",
            json!({"type": "text", "tokenizer": "whitespace", "lowercase": false}),
        ),
        (
            "prefix",
            json!({"type": "text", "tokenizer": "prefix", "min_token_len": 2, "max_token_len": 4}),
        ),
        ("multi", json!({"type": "text", "tokenizer": "multilingual"})),
        (
            "stem",
            json!({"type": "text", "tokenizer": "word", "stemmer": {"type": "snowball", "language": "english"}, "stopwords": {"custom": ["THE"]}}),
        ),
        (
            "fold",
            json!({"type": "text", "tokenizer": "word", "ascii_folding": true, "min_token_len": 3, "max_token_len": 7, "phrase_matching": true}),
        ),
        ("code", json!({"type": "text", "tokenizer": "code"})),
        (
            "default",
            json!({"type": "text", "scoring": true, "phrase_matching": true}),
        ),
        ("plain", Value::Null),
    ]
}

fn split(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

fn lower(text: &str) -> Vec<String> {
    split(text).iter().map(|w| w.to_lowercase()).collect()
}

/// A token and which word it is.
type Placed = (String, u64);

/// The tokens of a field's text, worked out the plain way; `whole`: with stop words.
fn tokens(field: &str, text: &str, is_query: bool, whole: bool) -> Vec<Placed> {
    let chars = |word: &String| word.chars().count();
    let beginning = |word: &String, n: usize| word.chars().take(n).collect::<String>();
    let placed = |words: Vec<String>| -> Vec<Placed> { words.into_iter().zip(0..).collect() };
    let words = placed(lower(text));
    let divided = |of: &str, parts: [&str; 2]| {
        let words = lower(text).into_iter();
        let all = words.flat_map(|w| match w == of {
            true => parts.map(str::to_owned).to_vec(),
            false => vec![w],
        });
        placed(all.collect())
    };
    match field {
        "white" => placed(text.split_whitespace().map(str::to_owned).collect()),
        "prefix" if is_query => {
            let words = words.into_iter().filter(|(w, _)| chars(w) >= 2);
            words.map(|(w, at)| (beginning(&w, 4), at)).collect()
        }
        "prefix" => words
            .iter()
            .flat_map(|(w, at)| {
                (2..=chars(w).min(4))
                    .map(|n| (beginning(w, n), *at))
                    .collect::<Vec<_>>()
            })
            .collect(),
        "multi" => divided("今天天气", ["今天", "天气"]),
        "code" => divided("x1", ["x", "1"]),
        "stem" => words
            .into_iter()
            .filter(|(w, _)| whole || *w != "the")
            .map(|(w, at)| {
                let known = WORDS.iter().find(|(word, _)| word.to_lowercase() == w);
                (known.map_or(w, |(_, stem)| (*stem).to_owned()), at)
            })
            .collect(),
        "fold" => words
            .into_iter()
            .map(|(w, at)| (w.replace("ação", "acao"), at))
            .filter(|(w, _)| (3..=7).contains(&chars(w)))
            .collect(),
        // Its rules have tests of their own; here they are the same with and without an index.
        "default" | "plain" => {
            let options = TextOptions {
                tokenizer: Some(TokenizerKind::Unicode),
                language: Some("none".into()),
                ..TextOptions::default()
            };
            let tokenizer = Tokenizer::new(&options).expect("a tokenizer");
            let mut all = Vec::new();
            let mut push = |token: Token<'_>| all.push((token.text.to_owned(), token.position.into()));
            match is_query {
                true => tokenizer.query_tokens(text, &mut push),
                false => tokenizer.tokens(text, &mut push),
            }
            all
        }
        _ => words,
    }
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Of an indexed field all values are one text, but that no phrase goes from one into another; else each stands alone.
fn documents(field: &str, value: &Value, whole: bool) -> Vec<Vec<Placed>> {
    let each = (0..).zip(texts(value)).map(|(nth, text)| {
        let tokens = tokens(field, text, false, whole).into_iter();
        tokens.map(|(token, at)| (token, at + 1_000 * nth)).collect()
    });
    match field {
        "plain" => each.collect(),
        _ => vec![each.collect::<Vec<Vec<Placed>>>().concat()],
    }
}

/// Whether the words are there in their order, each as far from the one before as in the phrase or further: by `slop` words all in all.
fn has_phrase(document: &[Placed], phrase: &[Placed], slop: u64) -> bool {
    let Some(((first, begin), rest)) = phrase.split_first() else {
        return false;
    };
    let mut ends: Vec<(u64, u64)> = document
        .iter()
        .filter(|(token, _)| token == first)
        .map(|(_, at)| (*at, *at))
        .collect();
    let mut before = begin;
    for (token, place) in rest {
        let far = place - before;
        before = place;
        ends = ends
            .iter()
            .flat_map(|(start, end)| {
                let next = document
                    .iter()
                    .filter(|(known, at)| known == token && *at >= end + far);
                next.map(|(_, at)| (*start, *at)).collect::<Vec<_>>()
            })
            .collect();
    }
    ends.iter()
        .any(|(start, end)| end - start <= before - begin + slop)
}

fn has(field: &str, value: &Value, how: &str, asked: &str) -> bool {
    let mut wanted = tokens(field, asked, true, false);
    let whole = wanted.is_empty();
    if whole {
        wanted = tokens(field, asked, true, true);
    }
    let has = |tokens: &[Placed], (wanted, _): &Placed| tokens.iter().any(|(token, _)| token == wanted);
    documents(field, value, whole).iter().any(|tokens| match how {
        "text" => !wanted.is_empty() && wanted.iter().all(|t| has(tokens, t)),
        "text_any" => wanted.iter().any(|t| has(tokens, t)),
        "phrase" => has_phrase(tokens, &wanted, 0),
        "slop" => has_phrase(tokens, &wanted, 2),
        _ => texts(value).contains(&asked),
    })
}

fn matches(how: &str, asked: &str) -> Value {
    match how {
        "slop" => json!({"phrase": asked, "slop": 2}),
        how => json!({how: asked}),
    }
}

fn some_text(rng: &mut Rng, most: u64) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(most + 1) {
        let (word, _) = WORDS[rng.below(WORDS.len() as u64) as usize];
        text += word;
        text += [" ", ", ", "-", "  "][rng.below(4) as usize];
    }
    text
}

fn some_value(rng: &mut Rng) -> Value {
    match rng.below(8) {
        0 => Value::Null,
        1 => json!(rng.below(9)),
        2 => json!([]),
        3 | 4 => json!([some_text(rng, 3), 7, some_text(rng, 3), Value::Null]),
        _ => json!(some_text(rng, 6)),
    }
}

fn some_payload(rng: &mut Rng) -> Value {
    let mut payload =
        json!({"nest": (0..rng.below(3)).map(|_| json!({"t": some_value(rng)})).collect::<Vec<_>>()});
    for (field, _) in fields() {
        if rng.below(10) > 0 {
            payload[field] = some_value(rng);
        }
    }
    payload
}

fn filter(json: Value) -> Filter {
    serde_json::from_value(json).expect("a filter")
}

fn found(collection: &Collection, filter: Filter, scratch: &mut Scratch) -> Vec<u64> {
    let counted = collection.count(Some(&filter), true, scratch).expect("counts");
    let request = ScrollRequest {
        filter: Some(filter),
        ..scroll_request(10_000)
    };
    let page = collection.scroll(&request, scratch).expect("scrolls");
    let ids: Vec<u64> = page.points.iter().map(|p| number(&p.id)).collect();
    assert_eq!(counted, ids.len() as u64);
    ids
}

fn number(id: &PointId) -> u64 {
    match id {
        PointId::Num(n) => *n,
        PointId::Uuid(_) => panic!("no point has such an id"),
    }
}

struct Data {
    collection: Arc<Collection>,
    scratch: Scratch,
    points: BTreeMap<u64, Value>,
    rng: Rng,
}

impl Data {
    fn fill(&mut self, count: u64) {
        let mut batch = Vec::new();
        for _ in 0..count {
            let (id, payload) = (self.rng.below(900), some_payload(&mut self.rng));
            batch.push(point(id, self.rng.vector(4), &payload.to_string()));
            self.points.insert(id, payload);
        }
        self.collection.update(upsert(batch)).unwrap();
        let gone: Vec<u64> = (0..count / 8).map(|_| self.rng.below(900)).collect();
        gone.iter().for_each(|id| drop(self.points.remove(id)));
        self.collection.update(delete(&gone)).unwrap();
    }

    fn matching(&self, holds: impl Fn(&Value) -> bool) -> Vec<u64> {
        let all = self.points.iter().filter(|(_, payload)| holds(payload));
        all.map(|(id, _)| *id).collect()
    }

    /// Each kind of condition on each field, by itself, turned around, beside another, and on elements.
    fn check(&mut self) {
        for (field, _) in fields() {
            for how in ["text", "text_any", "phrase", "slop", "value"] {
                for words in [1, 2, 4] {
                    let asked = some_text(&mut self.rng, words).trim().to_owned();
                    let condition = json!({"key": field, "match": matches(how, &asked)});
                    let with = self.matching(|p| has(field, &p[field], how, &asked));
                    let without = self.matching(|p| !has(field, &p[field], how, &asked));
                    let mut ask = |json| found(&self.collection, filter(json), &mut self.scratch);
                    assert_eq!(ask(json!({"must": [condition]})), with, "{condition}");
                    assert_eq!(ask(json!({"must_not": [condition]})), without, "not {condition}");
                    let empty = json!({"is_empty": {"key": "word"}});
                    let both = ask(json!({"must": [condition, empty]}));
                    let is_empty = |p: &Value| p["word"].is_null() || p["word"] == json!([]);
                    let expected: Vec<u64> = with
                        .iter()
                        .copied()
                        .filter(|id| is_empty(&self.points[id]))
                        .collect();
                    assert_eq!(both, expected, "{condition} and {empty}");
                    if field == "stem" && how != "value" {
                        let nested = json!({"nested": {"key": "nest", "filter": {"must": [{"key": "t", "match": matches(how, &asked)}]}}});
                        let elements = |p: &Value| {
                            p["nest"]
                                .as_array()
                                .is_some_and(|all| all.iter().any(|e| has("stem", &e["t"], how, &asked)))
                        };
                        assert_eq!(
                            ask(json!({"must": [nested]})),
                            self.matching(elements),
                            "{nested}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_indexes_tokens_decide_wherever_the_text_is() {
    let storage = Arc::new(RamStorage::new(None));
    let engine = open(storage.clone());
    engine
        .create_collection("c", config(4, Distance::Euclid))
        .unwrap();
    let mut data = Data {
        collection: engine.collection("c").unwrap(),
        scratch: engine.scratch().unwrap(),
        points: BTreeMap::new(),
        rng: Rng(77),
    };
    let index = |params: &Value| FieldIndex {
        kind: FieldKind::Text,
        params: Some(params.clone()),
    };
    // Over what is in segments and buffers already, with other parameters first; later rows come into indexes that are there.
    data.fill(300);
    data.collection.flush().unwrap();
    data.fill(100);
    for (field, params) in fields().iter().filter(|(_, params)| !params.is_null()) {
        let first = index(&json!({"type": "text", "min_token_len": 5}));
        data.collection.create_payload_index(field, first).unwrap();
        data.collection
            .create_payload_index(field, index(params))
            .unwrap();
    }
    let (_, stem) = fields().swap_remove(4);
    data.collection
        .create_payload_index("nest[].t", index(&stem))
        .unwrap();
    data.check();
    data.fill(300);
    data.collection.flush().unwrap();
    data.check();
    data.fill(200);
    data.check();
    data.collection.wait_idle().unwrap();
    data.check();

    let covered = data.collection.info().payload_index_points;
    let points = covered.iter().find(|(field, _)| field == "word").unwrap().1;
    let present = data.matching(|p| !p["word"].is_null() && p["word"] != json!([]));
    assert!(
        points.abs_diff(present.len() as u64) <= 10,
        "{points} {}",
        present.len()
    );

    let gone = filter(json!({"must": [{"key": "stem", "match": {"text": "the runs"}}]}));
    data.collection
        .update(UpdateOp::Delete(PointsSelector::Filter(gone)))
        .unwrap();
    let before = data.points.len();
    data.points.retain(|_, p| !has("stem", &p["stem"], "text", "run"));
    assert!(data.points.len() < before);
    data.check();

    let Data {
        collection,
        scratch,
        points,
        rng,
    } = data;
    drop((collection, scratch, engine));
    let engine = open(storage);
    let mut data = Data {
        collection: engine.collection("c").unwrap(),
        scratch: engine.scratch().unwrap(),
        points,
        rng,
    };
    data.check();
}

#[test]
fn what_is_too_much_is_looked_at_or_refused() {
    let engine = open(Arc::new(RamStorage::new(None)));
    engine
        .create_collection("c", config(4, Distance::Euclid))
        .unwrap();
    let collection = engine.collection("c").unwrap();
    let mut scratch = engine.scratch().unwrap();
    let index = |params: Value| FieldIndex {
        kind: FieldKind::Text,
        params: Some(params),
    };
    for wrong in [
        json!({"tokenizer": "runes"}),
        json!({"stopwords": "klingon"}),
        json!({"stopwords": {"custom": [ "x".repeat(70_000) ]}}),
    ] {
        assert!(collection.create_payload_index("t", index(wrong)).is_err());
    }
    for (field, tokenizer) in [("t", "word"), ("p", "prefix")] {
        let params = json!({"tokenizer": tokenizer});
        collection.create_payload_index(field, index(params)).unwrap();
    }
    let many: Vec<String> = (0..40_000).map(|n| format!("w{n}")).collect();
    let (long, other) = ("ab".repeat(20_000), format!("{}c", "ab".repeat(400)));
    let twin = format!("{}d", "ab".repeat(400));
    let payloads = [
        json!({"t": many.join(" "), "p": long}),
        json!({"t": "w39999 w1 w0", "p": other}),
        json!({"t": other, "p": "abc"}),
        json!({"t": twin}),
    ];
    let points = (1..).zip(&payloads);
    let points = points.map(|(id, payload)| point(id, vec![0.0; 4], &payload.to_string()));
    collection.update(upsert(points.collect())).unwrap();
    for flushed in [false, true] {
        if flushed {
            collection.flush().unwrap();
        }
        for (key, how, asked, ids) in [
            ("t", "text", "w39999", vec![1, 2]),
            ("t", "text", "w39999 w1", vec![1, 2]),
            ("t", "phrase", "w38001 w38002 w38003", vec![1]),
            ("t", "phrase", "w1 w0", vec![2]),
            ("t", "text_any", "w39998 nothing", vec![1]),
            ("t", "text", "w40000", vec![]),
            ("t", "text", &other, vec![3]),
            ("t", "text_any", &twin, vec![4]),
            ("p", "text", "ababa", vec![1, 2]),
            ("p", "text", &long[..30_000], vec![1]),
            ("p", "text", "abc", vec![3]),
        ] {
            let json = json!({"must": [{"key": key, "match": {how: asked}}]});
            assert_eq!(found(&collection, filter(json), &mut scratch), ids, "{key} {how}");
        }
    }
    let json = json!({"must": [{"key": "t", "match": {"text": many.join(" ")}}]});
    let refused = collection.count(Some(&filter(json)), true, &mut scratch);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("40000") && message.contains("4096"), "{message}");
}
