//! `ramlet search`: words, or a point's own vectors, asked of a running server; the hits on the terminal.

use std::io::IsTerminal;

use anyhow::{Context, Result, bail};
use ramlet_bench::api::collection_path;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::args::{Mode, SearchArgs};
use crate::import::api::Api;

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
    let body = query(args, field.as_deref())?;
    let path = format!("{}/points/query", collection_path(&args.collection));
    let answer = api.ok(Method::POST, &path, &body)?;
    let points = answer["points"].as_array().context("an answer without points")?;
    if points.is_empty() {
        eprintln!("nothing was found");
    }
    let marks = std::io::stdout().is_terminal();
    for (at, point) in points.iter().enumerate() {
        match args.json {
            true => println!("{point}"),
            false => println!("{}", told(at + 1, point, field.as_deref(), &args.words, marks)),
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
        (None, []) => bail!("no field of '{}' has a text index", args.collection),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
            bail!(
                "--field names one of the fields with a text index: {}",
                names.join(", ")
            )
        }
    }
}

fn query(args: &SearchArgs, field: Option<&str>) -> Result<Value> {
    let words = args.words.join(" ");
    let mut body = json!({ "limit": args.limit, "with_payload": true });
    let filter: Option<Value> = match &args.filter {
        None => None,
        Some(text) => Some(serde_json::from_str(text).context("--filter is no JSON")?),
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
        .map_or_else(|| point["id"].to_string(), str::to_string);
    let score = point["score"].as_f64().unwrap_or_default();
    let mut out = format!("{place:>3}. {score:<9.4} {id}");
    if let Some(title) = payload["title"].as_str().filter(|_| field != Some("title")) {
        out.push_str(&format!("  {title}"));
    }
    let text = match field {
        Some(field) => value_at(payload, field).as_str().map(str::to_string),
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

/// A value by its path: `article.body`.
fn value_at<'v>(payload: &'v Value, path: &str) -> &'v Value {
    match payload.get(path) {
        Some(value) => value,
        None => path.split('.').fold(payload, |value, key| &value[key]),
    }
}

fn snippet(text: &str, words: &[String], marks: bool) -> String {
    let stems: Vec<String> = words
        .iter()
        .flat_map(|word| word.split(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .map(beginning)
        .collect();
    let is_asked = |word: &str| {
        let word = word.to_lowercase();
        stems.iter().any(|stem| {
            let more = word.chars().count().saturating_sub(stem.chars().count());
            word.starts_with(stem) && more <= 2 * ENDING_CHARS
        })
    };
    let chars: Vec<char> = text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .collect();
    let words = spans(&chars);
    let word = |span: &(usize, usize)| chars[span.0..span.1].iter().collect::<String>();
    let first = words
        .iter()
        .find(|span| is_asked(&word(span)))
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
        if marks && is_asked(&word(span)) {
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
    use super::*;

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
    fn marks_are_for_whole_words() {
        let shown = snippet("cat catalogue cats", &words("cat"), true);
        assert_eq!(
            shown,
            "\x1b[1mcat\x1b[0m \x1b[1mcatalogue\x1b[0m \x1b[1mcats\x1b[0m"
        );
        assert_eq!(snippet("concatenation", &words("cat"), true), "concatenation");
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
