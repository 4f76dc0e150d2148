//! The log as requests of the API.

use serde::Serialize;
use serde_json::{Value, json};

use crate::traffic::http::Target;
use crate::traffic::requests::Requests;

/// How the words of a query are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Its longest word.
    Term,
    /// Any of its words: what is asked in the grid.
    Any,
    /// All of its words.
    All,
    /// Two words that stand side by side in some document.
    Phrase,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Term, Kind::Any, Kind::All, Kind::Phrase];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Term => "one word",
            Kind::Any => "any word",
            Kind::All => "all words",
            Kind::Phrase => "phrase",
        }
    }

    pub fn words(self, query: &str) -> &str {
        match self {
            Kind::Term => query.split(' ').max_by_key(|word| word.len()).unwrap_or(query),
            _ => query,
        }
    }

    /// The words that must be there as a filter: the ranking alone is by any word.
    fn filter(self) -> Option<&'static str> {
        match self {
            Kind::Term | Kind::Any => None,
            Kind::All => Some("text"),
            Kind::Phrase => Some("phrase"),
        }
    }

    pub fn body(self, query: &str, field: &str, limit: usize) -> Value {
        let words = self.words(query);
        let mut body =
            json!({ "query": { "text": words }, "using": field, "limit": limit, "with_payload": true });
        if let Some(how) = self.filter() {
            body["filter"] = json!({ "must": [{ "key": field, "match": { how: words } }] });
        }
        body
    }
}

/// Renders the queries, ahead of the replay.
pub fn render(
    target: &Target,
    collection: &str,
    kind: Kind,
    queries: &[String],
    field: &str,
    limit: usize,
) -> Requests {
    let mut requests = Requests::default();
    for query in queries {
        requests.add(target, collection, &kind.body(query, field, limit));
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies() {
        let check = |kind: Kind, words: &str, filter: Value| {
            let body = kind.body("red wheelbarrow", "body", 20);
            assert_eq!(body["query"]["text"], words);
            assert_eq!(body["using"], "body");
            assert_eq!(body["filter"], filter, "{kind:?}");
        };
        check(Kind::Any, "red wheelbarrow", Value::Null);
        check(Kind::Term, "wheelbarrow", Value::Null);
        let must = |how: &str| json!({"must": [{"key": "body", "match": {how: "red wheelbarrow"}}]});
        check(Kind::All, "red wheelbarrow", must("text"));
        check(Kind::Phrase, "red wheelbarrow", must("phrase"));
    }
}
