//! Words that are marked in the texts of hits: those of prefetches too, which the shards that are asked for the last stage don't see.

use ramlet::{Prefetch, QueryKind};
use serde_json::{Value, json};

use super::raw::{Object, Query};

/// Puts the words of all prefetches beside what is said of highlights.
pub fn add_words(query: &mut Query) {
    if query.typed.highlight.is_none() || query.typed.prefetch.is_empty() {
        return;
    }
    let mut how = match query.raw.remove("highlight") {
        Some(Value::Object(how)) => how,
        _ => Object::new(),
    };
    let mut texts = Vec::new();
    gather(&query.typed.prefetch, &mut texts);
    if let Some(Value::Array(own)) = how.remove("texts") {
        texts.extend(own);
    }
    how.insert("texts".to_owned(), Value::Array(texts));
    query.raw.insert("highlight".to_owned(), Value::Object(how));
}

fn gather(prefetches: &[Prefetch], texts: &mut Vec<Value>) {
    for one in prefetches {
        if let Some(QueryKind::Text(query)) = &one.query {
            texts.push(json!({ "using": one.using, "text": query.text }));
        }
        gather(&one.prefetch, texts);
    }
}
