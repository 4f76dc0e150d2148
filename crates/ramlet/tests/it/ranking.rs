//! Ranking by words against BM25 worked out over all points, one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::*;
use ramlet_io::RamStorage;
use serde_json::{Value, json};

use crate::support::*;

/// Fields, what their indexes are made of, and how the oracle cuts their texts.
fn fields() -> Vec<(&'static str, Value)> {
    vec![
        (
            "word",
            json!({"type": "text", "scoring": true, "phrase_matching": true}),
        ),
        (
            "prefix",
            json!({"type": "text", "tokenizer": "prefix", "min_token_len": 2, "scoring": {"type": "bm25"}}),
        ),
        (
            "nest[].t",
            json!({"type": "text", "stopwords": {"custom": ["w0"]}, "scoring": true, "phrase_matching": true}),
        ),
        // Of the words some have two forms, as `C++` has.
        (
            "signs",
            json!({"type": "text", "scoring": true, "phrase_matching": true}),
        ),
    ]
}

/// A token and its place: a word that is left out has one, and between two texts are many.
type Placed = (String, u64);

/// `whole`: with stop words.
fn tokens(field: &str, texts: &[&str], is_query: bool, whole: bool) -> Vec<Placed> {
    let words = (0..).zip(texts).flat_map(|(nth, text)| {
        let words = text.split(' ').filter(|word| !word.is_empty());
        (1_000_000 * nth..).zip(words)
    });
    let words = words.map(|(at, word)| (word.to_owned(), at));
    match field {
        "prefix" if !is_query => words
            .flat_map(|(word, at)| (2..=word.len()).map(move |n| (word[..n].to_owned(), at)))
            .collect(),
        "nest[].t" => words.filter(|(word, _)| whole || *word != "w0").collect(),
        "signs" if !is_query => words
            .flat_map(|(word, at)| {
                let form = word.strip_suffix("++").map(|word| (word.to_owned(), at));
                [Some((word, at)), form].into_iter().flatten()
            })
            .collect(),
        _ => words.collect(),
    }
}

/// Each word counts once, whatever its forms.
fn length(field: &str, texts: &[&str], whole: bool) -> usize {
    tokens(field, texts, field == "signs", whole).len()
}

/// Some words with signs behind them.
fn with_signs(text: &str) -> String {
    let words = text.split(' ').zip(text.len()..);
    let words = words.map(|(word, at)| match !word.is_empty() && at % 3 == 0 {
        true => format!("{word}++"),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Of a query; whether all of its words are stop words.
fn asked_tokens(field: &str, text: &str) -> (Vec<Placed>, bool) {
    let asked = tokens(field, &[text], true, false);
    let whole = asked.is_empty() && !text.is_empty();
    (
        if whole {
            tokens(field, &[text], true, true)
        } else {
            asked
        },
        whole,
    )
}

fn has_word(tokens: &[Placed], word: &str) -> bool {
    tokens.iter().any(|(token, _)| token == word)
}

fn has_phrase(tokens: &[Placed], phrase: &[Placed]) -> bool {
    let Some((first, begin)) = phrase.first() else {
        return false;
    };
    let starts = tokens.iter().filter(|(token, _)| token == first);
    starts.map(|(_, at)| at).any(|start| {
        let mut words = phrase.iter();
        words.all(|(word, at)| tokens.contains(&(word.clone(), start + at - begin)))
    })
}

fn texts<'a>(field: &str, payload: &'a Value) -> Vec<&'a str> {
    match field {
        "nest[].t" => payload["nest"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|e| e["t"].as_str())
            .collect(),
        _ => match &payload[field] {
            Value::String(text) => vec![text],
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        },
    }
}

struct Data {
    engine: Arc<Engine>,
    collection: Arc<Collection>,
    scratch: Scratch,
    points: BTreeMap<u64, Value>,
    rng: Rng,
}

impl Data {
    fn new(engine: Arc<Engine>, seed: u64) -> Data {
        Data {
            collection: engine.collection("c").unwrap(),
            scratch: engine.scratch().unwrap(),
            engine,
            points: BTreeMap::new(),
            rng: Rng(seed),
        }
    }

    /// Common words are common.
    fn text(&mut self, most: u64) -> String {
        let count = self.rng.below(most + 1);
        let words = (0..count).map(|_| {
            let n = self.rng.below(40).min(self.rng.below(40)).min(self.rng.below(40));
            format!("w{n}")
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn payload(&mut self) -> Value {
        let mut payload = json!({"g": self.rng.below(5), "h": self.rng.below(5)});
        if self.rng.below(10) > 0 {
            payload["word"] = json!(self.text(90));
        }
        payload["signs"] = json!(with_signs(&self.text(20)));
        payload["prefix"] = match self.rng.below(5) {
            0 => json!([self.text(9), 7, self.text(9)]),
            _ => json!(self.text(12)),
        };
        payload["nest"] = (0..self.rng.below(3))
            .map(|_| json!({"t": self.text(8)}))
            .collect();
        payload
    }

    fn fill(&mut self, count: u64) {
        let mut batch = Vec::new();
        for _ in 0..count {
            let (id, payload) = (self.rng.below(1200), self.payload());
            batch.push(point(id, self.rng.vector(4), &payload.to_string()));
            self.points.insert(id, payload);
        }
        self.collection.update(upsert(batch)).unwrap();
        let gone: Vec<u64> = (0..count / 6).map(|_| self.rng.below(1200)).collect();
        gone.iter().for_each(|id| drop(self.points.remove(id)));
        self.collection.update(delete(&gone)).unwrap();
    }

    /// Scores of all points that have some of the words.
    fn scores(&self, field: &str, query: &TextQuery) -> BTreeMap<u64, f64> {
        let (asked, whole) = asked_tokens(field, &query.text);
        let mut asked: Vec<String> = asked.into_iter().map(|(word, _)| word).collect();
        let words = |placed: Vec<Placed>| placed.into_iter().map(|(word, _)| word).collect::<Vec<String>>();
        let all = self.points.iter();
        let all: Vec<(u64, Vec<String>, usize)> = all
            .map(|(id, payload)| {
                let texts = texts(field, payload);
                let length = length(field, &texts, whole);
                (*id, words(tokens(field, &texts, false, whole)), length)
            })
            .filter(|(_, tokens, _)| !tokens.is_empty())
            .collect();
        let n = all.len() as f64;
        let average = all.iter().map(|(.., length)| length).sum::<usize>() as f64 / n;
        asked.sort();
        if !query.repeated {
            asked.dedup();
        }
        let (k, b) = (query.k.unwrap_or(1.2), query.b.unwrap_or(0.75));
        let mut scores = BTreeMap::new();
        for word in &asked {
            let df = all.iter().filter(|(_, tokens, _)| tokens.contains(word)).count() as f64;
            for (id, tokens, length) in &all {
                let tf = tokens.iter().filter(|token| *token == word).count() as f64;
                if tf > 0.0 {
                    let long = 1.0 - b + b * *length as f64 / average;
                    let idf = ((n - df + 0.5) / (df + 0.5) + 1.0).ln();
                    *scores.entry(*id).or_insert(0.0) += idf * tf * (k + 1.0) / (tf + k * long);
                }
            }
        }
        scores
    }

    fn ask(&mut self, request: QueryRequest) -> Vec<(u64, f32)> {
        let found = self.collection.query(request, &self.engine, &mut self.scratch);
        let hits = found.expect("ranks").hits.into_iter();
        hits.map(|hit| match hit.id {
            PointId::Num(id) => (id, hit.score),
            PointId::Uuid(_) => panic!("no point has such an id"),
        })
        .collect()
    }

    fn check(&mut self) {
        let filters = [
            json!(null),
            json!({"must": [{"key": "g", "match": {"value": 1}}]}),
            json!({"must": [{"key": "h", "match": {"value": 1}}]}),
            json!({"must": [{"has_id": [3, 7, 11, 15]}]}),
        ];
        for (field, _) in fields() {
            for round in 0..12 {
                let text = self.text(5);
                let query = TextQuery {
                    statistics: None,
                    text: if field == "signs" { with_signs(&text) } else { text },
                    repeated: round % 5 == 4,
                    k: [None, Some(0.0), Some(2.5)][round % 3],
                    b: [None, Some(0.0), Some(1.0)][round / 3 % 3],
                };
                let wanted = &filters[round % 4];
                let (limit, offset) = ([3, 10, 5000][round % 3], [0, 4][round % 2]);
                let found = self.ask(QueryRequest {
                    query: Some(QueryKind::Text(query.clone())),
                    using: field.into(),
                    filter: (!wanted.is_null())
                        .then(|| serde_json::from_value::<Filter>(wanted.clone()).unwrap()),
                    limit,
                    offset,
                    ..QueryRequest::default()
                });
                let mut scores = self.scores(field, &query);
                scores.retain(|id, _| match round % 4 {
                    1 => self.points[id]["g"] == 1,
                    2 => self.points[id]["h"] == 1,
                    3 => [3, 7, 11, 15].contains(id),
                    _ => true,
                });
                same(
                    &found,
                    &scores,
                    (offset, limit),
                    &format!("{field} {query:?} {wanted}"),
                );
            }
        }
    }
}

/// Words that must be there, one by one or one after another, beside the words that rank.
impl Data {
    fn check_required(&mut self) {
        for (field, _) in fields() {
            for round in 0..24 {
                let query = TextQuery {
                    text: self.text(4),
                    k: [None, Some(0.4)][round % 2],
                    b: [None, Some(0.1), Some(1.0)][round % 3],
                    ..TextQuery::default()
                };
                let (how, words) = (
                    ["text", "phrase"][round / 2 % 2],
                    self.some_words(field, 1 + round % 3),
                );
                let mut must = vec![json!({"key": field, "match": {how: words}})];
                let with_number = round % 4 == 3;
                if with_number {
                    must.push(json!({"key": "g", "match": {"value": 1}}));
                }
                let filter = json!({ "must": must });
                let (asked, whole) = asked_tokens(field, &words);
                let mut scores = self.scores(field, &query);
                scores.retain(|id, _| {
                    let of_point = tokens(field, &texts(field, &self.points[id]), false, whole);
                    let has = match how {
                        "text" => asked.iter().all(|(word, _)| has_word(&of_point, word)),
                        _ => has_phrase(&of_point, &asked),
                    };
                    has && !asked.is_empty() && (!with_number || self.points[id]["g"] == 1)
                });
                let mut lists = [3, 5_000].map(|limit| {
                    let found = self.ask(QueryRequest {
                        query: Some(QueryKind::Text(query.clone())),
                        using: field.into(),
                        filter: Some(serde_json::from_value::<Filter>(filter.clone()).unwrap()),
                        limit,
                        ..QueryRequest::default()
                    });
                    same(
                        &found,
                        &scores,
                        (0, limit),
                        &format!("{field} {query:?} {filter}"),
                    );
                    found
                });
                // What is passed over changes nothing of what is found.
                lists[1].truncate(3);
                assert_eq!(lists[0], lists[1], "{field} {query:?} {filter}");
            }
        }
    }

    /// Words that follow one another in some point.
    fn some_words(&mut self, field: &str, count: usize) -> String {
        let at = self.rng.below(self.points.len() as u64) as usize;
        let payload = self.points.values().nth(at).unwrap();
        let all = tokens(field, &texts(field, payload), true, true);
        let from = self.rng.below(all.len().max(1) as u64) as usize;
        let some = all[from.min(all.len())..all.len().min(from + count)].iter();
        some.map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// The best scores in their order, each that of its point.
fn same(found: &[(u64, f32)], scores: &BTreeMap<u64, f64>, (offset, limit): (usize, usize), what: &str) {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-5 * b.abs().max(1e-3);
    let mut best: Vec<f64> = scores.values().copied().collect();
    best.sort_by(|a, b| b.total_cmp(a));
    let expected: Vec<f64> = best.into_iter().skip(offset).take(limit).collect();
    assert_eq!(found.len(), expected.len(), "{what}");
    for ((id, score), expected) in found.iter().zip(expected) {
        assert!(
            close(f64::from(*score), expected),
            "{what}: {score}, not {expected}"
        );
        assert!(
            close(f64::from(*score), scores[id]),
            "{what}: {id} has {}, not {score}",
            scores[id]
        );
    }
}

fn index(params: &Value) -> FieldIndex {
    FieldIndex {
        kind: FieldKind::Text,
        params: Some(params.clone()),
    }
}

#[test]
fn ranks_are_those_of_all_points_one_by_one() {
    for (seed, megabytes) in [(41, 64), (42, 16), (43, 24)] {
        check_ranks(seed, &|storage| open_within(storage, megabytes * MB));
    }
}

fn check_ranks(seed: u64, open: &dyn Fn(Arc<RamStorage>) -> Arc<Engine>) {
    let storage = Arc::new(RamStorage::new(None));
    let engine = open(storage.clone());
    engine
        .create_collection("c", config(4, Distance::Euclid))
        .unwrap();
    let mut data = Data::new(engine, seed);
    // Some rows are in a segment and some in a buffer that knows nothing of the fields.
    data.fill(300);
    data.collection.flush().unwrap();
    data.fill(60);
    for (field, params) in fields() {
        let plain = json!({"type": "text"});
        data.collection
            .create_payload_index(field, index(&plain))
            .unwrap();
        data.collection
            .create_payload_index(field, index(&params))
            .unwrap();
    }
    let number = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    data.collection.create_payload_index("g", number).unwrap();
    data.check();
    data.check_required();
    data.fill(200);
    data.check();
    data.check_required();
    data.collection.flush().unwrap();
    data.check();
    data.check_required();
    data.fill(150);
    data.collection.flush().unwrap();
    data.fill(100);
    data.check();
    data.check_required();
    data.collection.wait_idle().unwrap();
    data.check();
    data.check_required();

    let Data { points, rng, .. } = data;
    drop((data.collection, data.scratch, data.engine));
    let mut data = Data {
        points,
        rng,
        ..Data::new(open(storage.clone()), 0)
    };
    data.check();
    data.check_required();
    for (field, _) in fields() {
        data.collection.delete_payload_index(field).unwrap();
        let refused = data.collection.query(
            QueryRequest {
                query: Some(QueryKind::Text(TextQuery::default())),
                using: field.into(),
                ..QueryRequest::default()
            },
            &data.engine,
            &mut data.scratch,
        );
        assert!(refused.is_err());
    }
    let left = storage_files(&*storage);
    assert!(
        !left
            .iter()
            .any(|name| [".twd", ".tls", ".tln", ".tps"].iter().any(|s| name.contains(s))),
        "{left:?}"
    );
}

fn storage_files(storage: &dyn ramlet_io::Storage) -> Vec<String> {
    let collections = (0..4).map(|n| storage.subdir(&format!("c{n:08}")).unwrap());
    let all: Vec<String> = collections.flat_map(|inner| inner.list().unwrap()).collect();
    assert!(!all.is_empty());
    all
}

/// Nothing yet, and one scored field.
fn with_one_field() -> Data {
    let engine = open(Arc::new(RamStorage::new(None)));
    engine
        .create_collection("c", config(4, Distance::Euclid))
        .unwrap();
    let data = Data::new(engine, 5);
    let (_, params) = fields().swap_remove(0);
    data.collection
        .create_payload_index("word", index(&params))
        .unwrap();
    data
}

#[test]
fn long_lists_and_words_are_found() {
    let mut data = with_one_field();
    let long = [
        "a".repeat(240),
        "a".repeat(241),
        "a".repeat(3000),
        format!("{}b", "a".repeat(2999)),
    ];
    let mut batch = Vec::new();
    // More rows than a window has, a word in all of them, and one that few have at the far end.
    for id in 0..70_000u64 {
        let mut text = "all".to_string();
        match id {
            0..4 => text = format!("{text} {}", long[id as usize]),
            _ if id % 3 == 0 => text += " third third",
            69_990.. => text += " late",
            _ => {}
        }
        batch.push(point(id, vec![0.0; 4], &json!({ "word": text }).to_string()));
        data.points.insert(id, json!({ "word": text }));
        if batch.len() == 5_000 {
            data.collection
                .update(upsert(std::mem::take(&mut batch)))
                .unwrap();
        }
    }
    data.collection.flush().unwrap();
    data.collection.wait_idle().unwrap();
    let queries = long.iter().cloned().chain([
        "all late".to_string(),
        "all third".into(),
        "late third all".into(),
    ]);
    for text in queries {
        let query = TextQuery {
            text,
            ..TextQuery::default()
        };
        let found = data.ask(QueryRequest {
            query: Some(QueryKind::Text(query.clone())),
            using: "word".into(),
            limit: 20,
            ..QueryRequest::default()
        });
        let scores = data.scores("word", &query);
        same(&found, &scores, (0, 20), &query.text[..query.text.len().min(20)]);
    }
    for (text, how, words) in [
        ("late third", "text", "all late"),
        ("third", "phrase", "third third"),
        ("all", "phrase", "all third"),
        ("all late", "phrase", "third all"),
        ("third", "text", "late third"),
    ] {
        let query = TextQuery {
            text: text.into(),
            ..TextQuery::default()
        };
        let filter = json!({"must": [{"key": "word", "match": {how: words}}]});
        let found = data.ask(QueryRequest {
            query: Some(QueryKind::Text(query.clone())),
            using: "word".into(),
            filter: Some(serde_json::from_value::<Filter>(filter).unwrap()),
            limit: 30,
            ..QueryRequest::default()
        });
        let mut scores = data.scores("word", &query);
        let asked: Vec<&str> = words.split(' ').collect();
        scores.retain(|id, _| {
            let text = data.points[id]["word"].as_str().unwrap();
            let of_point: Vec<&str> = text.split(' ').collect();
            match how {
                "text" => asked.iter().all(|word| of_point.contains(word)),
                _ => of_point.windows(asked.len()).any(|window| window == asked),
            }
        });
        same(&found, &scores, (0, 30), &format!("{text} {how} {words}"));
    }
}

/// Of rows that aren't flushed: words more often, and texts longer, than the lists of a memtable note.
#[test]
fn many_words_and_long_texts_are_ranked_while_they_are_fresh() {
    let mut data = with_one_field();
    let mut batch = Vec::new();
    let of = |word: &str, times: usize| vec![word; times].join(" ");
    for (id, (often, long)) in [1, 30, 31, 32, 100]
        .into_iter()
        .flat_map(|often| [100, 2046, 2047, 2048, 5000].map(|long| (often, long)))
        .enumerate()
    {
        let id = id as u64;
        let rare = if id.is_multiple_of(3) { "rare" } else { "other" };
        let text = format!(
            "{} {rare} {}",
            of("often", often),
            of("filler", (long - often).max(1) - 1)
        );
        batch.push(point(id, vec![0.0; 4], &json!({ "word": text }).to_string()));
        data.points.insert(id, json!({ "word": text }));
    }
    data.collection.update(upsert(batch)).unwrap();
    for text in ["often", "rare", "often rare", "filler other often", "none"] {
        let query = TextQuery {
            text: text.into(),
            ..TextQuery::default()
        };
        let found = data.ask(QueryRequest {
            query: Some(QueryKind::Text(query.clone())),
            using: "word".into(),
            limit: 30,
            ..QueryRequest::default()
        });
        let scores = data.scores("word", &query);
        same(&found, &scores, (0, 30), text);
    }
}

/// A word that stands in a text more often than positions are kept for.
#[test]
fn phrases_of_words_without_positions_are_looked_for_in_the_payload() {
    let mut data = with_one_field();
    let often = "often ".repeat(300);
    let all = [
        format!("{often}seldom"),
        format!("seldom {often}"),
        "often seldom".into(),
        "seldom often".into(),
    ];
    for (id, text) in (0u64..).zip(all) {
        let payload = json!({ "word": text });
        data.collection
            .update(upsert(vec![point(id, vec![0.0; 4], &payload.to_string())]))
            .unwrap();
        data.points.insert(id, payload);
    }
    for flushed in [false, true] {
        if flushed {
            data.collection.flush().unwrap();
        }
        for (phrase, ids) in [("often seldom", [0, 2]), ("seldom often", [1, 3])] {
            let filter = json!({"must": [{"key": "word", "match": {"phrase": phrase}}]});
            let mut found = data.ask(QueryRequest {
                query: Some(QueryKind::Text(TextQuery {
                    text: "often".into(),
                    ..TextQuery::default()
                })),
                using: "word".into(),
                filter: Some(serde_json::from_value::<Filter>(filter).unwrap()),
                ..QueryRequest::default()
            });
            found.sort_by_key(|(id, _)| *id);
            let found: Vec<u64> = found.into_iter().map(|(id, _)| id).collect();
            assert_eq!(found, ids, "{phrase}, flushed: {flushed}");
        }
    }
}
