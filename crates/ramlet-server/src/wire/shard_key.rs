//! `shard_key`: which shards of a collection a request is about.

use ramlet::{ShardKey, ShardSelection};
use serde::Deserialize;

/// A key, several, or one with another in its place. Null and a list of none say nothing.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Form")]
pub struct WireShards(pub ShardSelection);

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "shard_key is a word, an unsigned integer, a list of them, or {\"target\": .., \"fallback\": ..}"
)]
enum Form {
    Nothing(()),
    One(ShardKey),
    Several(Vec<ShardKey>),
    WithFallback { target: ShardKey, fallback: ShardKey },
}

impl From<Form> for WireShards {
    fn from(form: Form) -> WireShards {
        WireShards(match form {
            Form::Nothing(()) => ShardSelection::All,
            Form::One(key) => ShardSelection::Keys(vec![key]),
            Form::Several(keys) if keys.is_empty() => ShardSelection::All,
            Form::Several(keys) => ShardSelection::Keys(keys),
            Form::WithFallback { target, fallback } => ShardSelection::WithFallback { target, fallback },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let read = |text: &str| serde_json::from_str::<WireShards>(text).map(|shards| shards.0);
        let word = |text: &str| ShardKey::Word(text.to_owned());
        for (text, expected) in [
            ("null", ShardSelection::All),
            ("[]", ShardSelection::All),
            (r#""a""#, ShardSelection::Keys(vec![word("a")])),
            ("7", ShardSelection::Keys(vec![ShardKey::Number(7)])),
            (
                r#"["7", 7]"#,
                ShardSelection::Keys(vec![word("7"), ShardKey::Number(7)]),
            ),
            (
                r#"{"target": "a", "fallback": 0}"#,
                ShardSelection::WithFallback {
                    target: word("a"),
                    fallback: ShardKey::Number(0),
                },
            ),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
        for bad in ["-1", "1.5", "true", "{}", r#"{"target": "a"}"#, r#"[["a"]]"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
