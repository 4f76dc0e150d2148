//! `ramlet search`: words, or a point's own vectors, asked of a running server; the hits on the terminal.

use std::io::IsTerminal;

use anyhow::{Context, Result, bail};
use clap::ValueEnum as _;
use ramlet_bench::api::collection_path;
use serde_json::{Value, json};
use ureq::http::Method;

use super::explain;
use super::text_schema::{difference, text_schema};
use crate::args::{Mode, SearchArgs, TextTokenizer};
use crate::import::api::Api;
use crate::output::{self, note, shown};

/// Characters of a text that are shown, with the first of the words among them.
const SNIPPET_CHARS: usize = 200;
const BEFORE_CHARS: usize = 60;
/// A word of the text is marked when it begins as one that was asked for, its ending left out.
const ENDING_CHARS: usize = 3;
const STEM_CHARS_MIN: usize = 3;

/// Asks and prints.
pub fn run(args: &SearchArgs) -> Result<()> {
    let api = Api::new(&args.url, args.api_key.clone(), 1)?;
    api.check_reachable()?;
    let Some(state) = api.collection(&args.collection)? else {
        bail!("there is no collection '{}' at {}", args.collection, args.url);
    };
    let field = match &args.like {
        Some(_) => None,
        None => Some(text_field(args, &state.payload_schema)?),
    };
    if let Some(field) = &field {
        renew_index(args, &api, field, &state.payload_schema[field]["params"])?;
    }
    let body = query(args, field.as_deref())?;
    let path = format!("{}/points/query", collection_path(&args.collection));
    let reply = api.ask(Method::POST, &path, &serde_json::to_vec(&body)?)?;
    let answer: Value = serde_json::from_slice(reply.success()?).context("the server's answer")?;
    let points = answer["result"]["points"]
        .as_array()
        .context("an answer without points")?;
    if points.is_empty() {
        note!("nothing was found");
    }
    let marks = std::io::stdout().is_terminal();
    for (at, point) in points.iter().enumerate() {
        match args.json {
            true => output::line(format_args!("{}", escaped(&point.to_string())))?,
            false => {
                let told = told(at + 1, point, field.as_deref(), &args.words, marks);
                output::line(format_args!("{told}"))?;
            }
        }
    }
    if args.explain {
        match args.json {
            true => output::line(format_args!(
                "{}",
                escaped(&json!({"explain": answer["explain"]}).to_string())
            ))?,
            false => output::text(explain::told(&answer["explain"]))?,
        }
    }
    Ok(())
}

/// The field that was named, or the only one with a text index.
fn text_field(args: &SearchArgs, schema: &Value) -> Result<String> {
    let texts: Vec<&String> = schema
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, of)| of["data_type"] == "text")
        .map(|(name, _)| name)
        .collect();
    match (&args.field, texts.as_slice()) {
        (Some(field), _) => Ok(field.clone()),
        (None, [one]) => Ok((*one).clone()),
        (None, []) => bail!(
            "no field of '{}' has a text index: `ramlet import --text FIELD` makes one, or PUT /collections/{}/index with {{\"field_name\": \
             \"FIELD\", \"field_schema\": {{\"type\": \"text\", \"scoring\": true}}}}",
            args.collection,
            args.collection
        ),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
            bail!(
                "--field names one of the fields with a text index: {}",
                names.join(", ")
            )
        }
    }
}

/// Makes the field's text index anew where it isn't what the options ask for.
fn renew_index(args: &SearchArgs, api: &Api, field: &str, there: &Value) -> Result<()> {
    let wanted = renewed(args, there);
    if let Some((key, value)) = difference(there, &wanted) {
        note!(
            "the text index on '{field}' has {key} {value}: rebuilding it with {}",
            wanted[&key]
        );
        api.create_index(&args.collection, field, &wanted)?;
    }
    Ok(())
}

/// The parameters of an index with those of its options changed that the command line names. All others stay.
fn renewed(args: &SearchArgs, there: &Value) -> Value {
    let mut wanted = there.clone();
    let Some(params) = wanted.as_object_mut() else {
        return wanted;
    };
    let of_index = match there["tokenizer"].as_str() {
        Some(name) => TextTokenizer::from_str(name, false).unwrap_or(TextTokenizer::Unicode),
        None => TextTokenizer::Unicode,
    };
    let tokenizer = args.tokenizer.unwrap_or(of_index);
    let language = args.language.as_deref().unwrap_or("none");
    let asked = text_schema(tokenizer, language, args.folding);
    let mut take = |keys: &[&str]| {
        for key in keys {
            match &asked[*key] {
                Value::Null => params.remove(*key),
                value => params.insert((*key).to_owned(), value.clone()),
            };
        }
    };
    if tokenizer != of_index {
        take(&["tokenizer"]);
    }
    if args.language.is_some() {
        take(&["language", "stopwords", "stemmer"]);
    }
    // Unset, each tokenizer has its own default.
    let folds = there["ascii_folding"]
        .as_bool()
        .unwrap_or(tokenizer == TextTokenizer::Unicode);
    if args.folding.is_some_and(|folding| folding != folds) {
        take(&["ascii_folding"]);
    }
    let has_scores = !matches!(there["scoring"], Value::Null | Value::Bool(false));
    if !has_scores && wanted != *there {
        // It is to be searched at once.
        wanted["scoring"] = json!(true);
    }
    wanted
}

fn query(args: &SearchArgs, field: Option<&str>) -> Result<Value> {
    let words = args.words.join(" ");
    let mut body = json!({ "limit": args.limit, "with_payload": true });
    if args.explain {
        body["params"] = json!({ "explain": true });
    }
    let filter: Option<Value> = match &args.filter {
        None => None,
        Some(text) => Some(serde_json::from_str(text).context("--filter is not JSON")?),
    };
    match (&args.like, field) {
        (Some(id), _) => {
            body["query"] = match id.parse::<u64>() {
                Ok(number) => json!(number),
                Err(_) => json!(id),
            };
            if let Some(using) = &args.using {
                body["using"] = json!(using);
            }
        }
        (None, field) => {
            body["query"] = json!({ "text": words });
            body["using"] = json!(field);
        }
    }
    let must_hold = match args.mode {
        _ if args.like.is_some() => None,
        Mode::Any => None,
        Mode::All => Some("text"),
        Mode::Phrase => Some("phrase"),
    };
    let of_words = must_hold.map(|how| json!({ "key": field, "match": { how: words } }));
    let all: Vec<Value> = of_words.into_iter().chain(filter).collect();
    if !all.is_empty() {
        body["filter"] = json!({ "must": all });
    }
    Ok(body)
}

/// A hit: its place, score and id, a title if it has one, and the text around the first of the words.
fn told(place: usize, point: &Value, field: Option<&str>, words: &[String], marks: bool) -> String {
    let payload = &point["payload"];
    let id = point["id"]
        .as_str()
        .map_or_else(|| point["id"].to_string(), shown);
    let score = point["score"].as_f64().unwrap_or_default();
    let mut out = format!("{place:>3}. {score:<9.4} {id}");
    if let Some(title) = payload["title"].as_str().filter(|_| field != Some("title")) {
        out.push_str(&format!("  {}", shown(title)));
    }
    let text = match field {
        Some(field) => best_text(&texts_at(payload, field), words).map(str::to_string),
        None => payload
            .as_object()
            .filter(|o| !o.is_empty())
            .map(|_| payload.to_string()),
    };
    if let Some(text) = text {
        out.push_str(&format!("\n     {}", snippet(&text, words, marks)));
    }
    out
}

/// The texts at a path, `article.body`, in the order of the payload; lists on the way are gone through.
fn texts_at<'v>(value: &'v Value, path: &str) -> Vec<&'v str> {
    match (value, path) {
        (Value::Array(list), path) => list.iter().flat_map(|each| texts_at(each, path)).collect(),
        (Value::String(text), "") => vec![text],
        (Value::Object(fields), path) if !path.is_empty() => {
            if let Some(value) = fields.get(path) {
                return texts_at(value, "");
            }
            let (key, rest) = path.split_once('.').unwrap_or((path, ""));
            let found = fields.get(key.strip_suffix("[]").unwrap_or(key));
            found.map_or_else(Vec::new, |value| texts_at(value, rest))
        }
        _ => Vec::new(),
    }
}

/// The first text with one of the words, or the first.
fn best_text<'v>(texts: &[&'v str], words: &[String]) -> Option<&'v str> {
    let asked = QueryWords::new(words);
    let has_word = |text: &&&str| {
        text.split(|c: char| !c.is_alphanumeric())
            .any(|word| asked.is_asked(word))
    };
    texts.iter().find(has_word).or(texts.first()).copied()
}

/// JSON escapes some control characters; those of DEL and beyond may be escaped too.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c.is_control() {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

/// The words that were asked for, by their beginnings.
struct QueryWords(Vec<String>);

impl QueryWords {
    fn new(words: &[String]) -> QueryWords {
        let parts = words
            .iter()
            .flat_map(|word| word.split(|c: char| !c.is_alphanumeric()));
        QueryWords(parts.filter(|word| !word.is_empty()).map(beginning).collect())
    }

    fn is_asked(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        self.0.iter().any(|stem| {
            let more = word.chars().count().saturating_sub(stem.chars().count());
            word.starts_with(stem) && more <= 2 * ENDING_CHARS
        })
    }
}

fn snippet(text: &str, words: &[String], marks: bool) -> String {
    let asked = QueryWords::new(words);
    let chars: Vec<char> = shown(text).chars().collect();
    let words = spans(&chars);
    let word = |span: &(usize, usize)| chars[span.0..span.1].iter().collect::<String>();
    let first = words
        .iter()
        .find(|span| asked.is_asked(&word(span)))
        .map_or(0, |span| span.0);
    let wanted = first.saturating_sub(BEFORE_CHARS);
    // Not from the middle of a word.
    let from = words
        .iter()
        .map(|span| span.0)
        .find(|at| *at >= wanted)
        .unwrap_or(0);
    let from = if wanted == 0 { 0 } else { from };
    let to = (from + SNIPPET_CHARS).min(chars.len());
    let mut out = String::from(if from > 0 { "…" } else { "" });
    let mut at = from;
    for span in words.iter().filter(|span| span.0 >= from && span.1 <= to) {
        if marks && asked.is_asked(&word(span)) {
            out.extend(&chars[at..span.0]);
            out.push_str(&format!("\x1b[1m{}\x1b[0m", word(span)));
            at = span.1;
        }
    }
    out.extend(&chars[at..to]);
    if to < chars.len() {
        out.push('…');
    }
    out
}

/// What is left of a word whatever a stemmer cuts off.
fn beginning(word: &str) -> String {
    let word = word.to_lowercase();
    let count = word.chars().count();
    word.chars()
        .take(count.saturating_sub(ENDING_CHARS).max(STEM_CHARS_MIN))
        .collect()
}

/// Where the words are.
fn spans(chars: &[char]) -> Vec<(usize, usize)> {
    let (mut spans, mut start) = (Vec::new(), None);
    for (at, c) in chars.iter().chain([&' ']).enumerate() {
        match (c.is_alphanumeric(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                spans.push((from, at));
                start = None;
            }
            _ => {}
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    #[test]
    fn snippets_show_the_words() {
        let long = format!(
            "{} the running man {}",
            "far away ".repeat(30),
            "and on ".repeat(60)
        );
        let shown = snippet(&long, &words("runs"), true);
        assert!(shown.contains("\x1b[1mrunning\x1b[0m"), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'));
        assert!(shown.chars().count() < SNIPPET_CHARS + 20);
        assert_eq!(snippet("a short  text", &words("else"), true), "a short text");
        assert_eq!(snippet("Ein Rätsel", &words("rätsel"), false), "Ein Rätsel");
        assert_eq!(snippet("", &words("x"), true), "");
    }

    #[test]
    fn an_index_keeps_what_the_options_do_not_name() {
        let renewed = |options: &str, there: &Value| {
            let line = format!("ramlet search x --collection c {options}");
            let cli = Cli::try_parse_from(line.split_whitespace()).expect("a command line");
            let Command::Search(args) = cli.command else {
                panic!("{cli:?}")
            };
            renewed(&args, there)
        };
        let there = json!({
            "type": "text", "scoring": {"type": "bm25"}, "min_token_len": 3, "memory": "cold", "stopwords": {"custom": ["foo"]}
        });
        for same in ["", "--tokenizer unicode", "--folding true"] {
            assert_eq!(renewed(same, &there), there, "{same}");
        }
        let mut plain = there.clone();
        plain["ascii_folding"] = json!(false);
        assert_eq!(renewed("--folding false", &there), plain);
        let mut word = there.clone();
        word["tokenizer"] = json!("word");
        assert_eq!(renewed("--tokenizer word", &there), word);
        assert_eq!(renewed("--tokenizer unicode", &word), there);
        assert_eq!(renewed("--folding false", &word), word, "its default");
        let mut german = there.clone();
        german["stopwords"] = json!("german");
        german["stemmer"] = json!({"type": "snowball", "language": "german"});
        assert_eq!(renewed("--language german", &there), german);
        let unscored = json!({"type": "text"});
        assert_eq!(renewed("--folding true", &unscored), unscored);
        assert_eq!(
            renewed("--tokenizer word", &unscored),
            json!({"type": "text", "tokenizer": "word", "scoring": true})
        );
    }

    #[test]
    fn marks_are_for_whole_words() {
        let shown = snippet("cat catalogue cats", &words("cat"), true);
        assert_eq!(
            shown,
            "\x1b[1mcat\x1b[0m \x1b[1mcatalogue\x1b[0m \x1b[1mcats\x1b[0m"
        );
        assert_eq!(snippet("concatenation", &words("cat"), true), "concatenation");
    }

    #[test]
    fn nothing_commands_the_terminal() {
        let evil = "\u{1b}[31mred\u{7f} \u{9b}2J\r\n\tend";
        let point = json!({"id": "x\u{1b}]0;", "score": 1.0, "payload": {"title": evil, "body": [evil]}});
        for (field, words) in [(Some("body"), words("red")), (None, Vec::new())] {
            let got = told(1, &point, field, &words, false);
            let commands = got.chars().filter(|c| c.is_control() && *c != '\n').count();
            assert_eq!(commands, 0, "{got:?}");
            assert!(got.contains("\u{fffd}[31mred\u{fffd} \u{fffd}2J end"), "{got:?}");
        }
        let line = escaped(&json!({ "a": evil }).to_string());
        assert!(!line.contains(char::is_control), "{line:?}");
        let back: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(back["a"], evil);
    }

    #[test]
    fn of_several_texts_the_one_with_the_words() {
        let payload = json!({"a": {"body": ["green", "the reds", "red"]}, "b": [{"t": "one"}, {"t": "two"}], "c.d": "e"});
        let told = |path: &str, asked: &str| {
            let texts = texts_at(&payload, path);
            best_text(&texts, &words(asked)).map(str::to_string)
        };
        assert_eq!(told("a.body", "red").as_deref(), Some("the reds"));
        assert_eq!(told("a.body[]", "blue").as_deref(), Some("green"));
        assert_eq!(told("b[].t", "two").as_deref(), Some("two"));
        assert_eq!(told("c.d", "x").as_deref(), Some("e"));
        assert_eq!(told("a", "x"), None);
    }

    #[test]
    fn hits() {
        let point = json!({"id": 7, "score": 1.5, "payload": {"title": "T", "a": {"body": "red"}}});
        let got = told(1, &point, Some("a.body"), &words("red"), false);
        assert_eq!(got, "  1. 1.5000    7  T\n     red");
        let bare = json!({"id": "x", "score": 0.25, "payload": {}});
        assert_eq!(told(12, &bare, None, &[], false), " 12. 0.2500    x");
    }
}
