//! The text index that an import or a search asks for.

use clap::ValueEnum as _;
use ramlet::text::TextField;
use serde_json::{Value, json};

use crate::args::TextTokenizer;

/// What the options of the command line change of an index.
const ANALYSIS: [&str; 5] = ["tokenizer", "language", "stopwords", "stemmer", "ascii_folding"];

/// The parameters of an index that ranks and knows phrases.
pub fn text_schema(tokenizer: TextTokenizer, language: &str, folding: Option<bool>) -> Value {
    let mut schema = json!({
        "type": "text", "lowercase": true, "scoring": true, "phrase_matching": true
    });
    let params = schema.as_object_mut().expect("an object");
    if let Some(folding) = folding {
        params.insert("ascii_folding".to_owned(), json!(folding));
    }
    // In the API's words, so that any server that speaks it understands them.
    params.insert("language".to_owned(), json!(language));
    TextField::spell_out(params);
    if tokenizer != TextTokenizer::Unicode {
        // What it doesn't know the server refuses.
        if TextField::check_new(&json!({ "language": language })).is_ok() {
            params.remove("language");
        }
        let name = tokenizer.to_possible_value();
        params.insert(
            "tokenizer".to_owned(),
            json!(name.as_ref().map(|name| name.get_name())),
        );
    }
    schema
}

/// The first option in which an index differs from the wanted one, and its value there.
pub fn difference<'v>(there: &'v Value, wanted: &Value) -> Option<(String, &'v Value)> {
    let told = wanted
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str());
    let mut keys = told.chain(ANALYSIS);
    keys.find(|key| there[*key] != wanted[*key])
        .map(|key| (key.to_owned(), &there[key]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_in_the_words_of_the_api() {
        let german = text_schema(TextTokenizer::Unicode, "german", None);
        assert_eq!(
            german["stemmer"],
            json!({"type": "snowball", "language": "german"})
        );
        assert_eq!(german["stopwords"], "german");
        assert!(german["tokenizer"].is_null() && german["language"].is_null());
        let word = text_schema(TextTokenizer::Word, "none", Some(true));
        assert_eq!(
            (&word["tokenizer"], &word["ascii_folding"]),
            (&json!("word"), &json!(true))
        );
        // A server refuses what nobody knows.
        for tokenizer in [TextTokenizer::Unicode, TextTokenizer::Word] {
            assert_eq!(text_schema(tokenizer, "klingon", None)["language"], "klingon");
            assert!(
                text_schema(tokenizer, "arabic", None)["language"].is_null()
                    || tokenizer == TextTokenizer::Unicode
            );
        }
        assert_eq!(difference(&german, &german), None);
        let unicode = text_schema(TextTokenizer::Unicode, "none", Some(true));
        assert_eq!(
            difference(&word, &unicode),
            Some(("tokenizer".into(), &json!("word")))
        );
        assert!(difference(&german, &word).is_some());
    }
}
