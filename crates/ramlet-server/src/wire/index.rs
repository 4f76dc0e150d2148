//! Payload indexes coming in.

use ramlet::text::TextField;
use ramlet::{FieldIndex, FieldKind};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{ApiError, ApiResult};

/// `PUT /index`.
#[derive(Debug, Deserialize)]
pub struct WireCreateIndex {
    pub field_name: String,
    #[serde(alias = "field_type")]
    field_schema: Option<Value>,
}

impl WireCreateIndex {
    pub fn into_index(self) -> ApiResult<(String, FieldIndex)> {
        if self.field_name.is_empty() {
            return Err(ApiError::validation("field_name", "must not be empty"));
        }
        let index = match self.field_schema {
            None => {
                return Err(ApiError::format(
                    "`field_schema` must be given: the kind of the values",
                ));
            }
            Some(Value::String(name)) => FieldIndex {
                kind: kind(&name)?,
                params: None,
            },
            Some(Value::Object(params)) => {
                let Some(Value::String(name)) = params.get("type") else {
                    return Err(ApiError::format(
                        "`field_schema.type` must be given: the kind of the values",
                    ));
                };
                let kind = kind(name)?;
                let mut params = params;
                if kind == FieldKind::Text {
                    check_text(&Value::Object(params.clone()))?;
                    TextField::spell_out(&mut params);
                }
                let params = Value::Object(params);
                let is_off = |name| params.get(name) == Some(&Value::Bool(false));
                if kind == FieldKind::Integer && is_off("lookup") && is_off("range") {
                    let what =
                        "Validation error: the 'lookup' and 'range' capabilities can't be both disabled";
                    return Err(ApiError::validation("field_schema", what));
                }
                FieldIndex {
                    kind,
                    params: Some(params),
                }
            }
            Some(_) => {
                return Err(ApiError::format(
                    "`field_schema` is a kind or an object with `type`",
                ));
            }
        };
        Ok((self.field_name, index))
    }
}

/// What the API knows of a text index beside what makes its tokens.
#[derive(Deserialize)]
struct TextParams {
    #[serde(default, rename = "on_disk")]
    _on_disk: Option<bool>,
    #[serde(default, rename = "phrase_matching")]
    _phrase_matching: Option<bool>,
    #[serde(default, rename = "enable_hnsw")]
    _enable_hnsw: Option<bool>,
    /// Of an array's elements, each of which would be a text of its own.
    #[serde(default)]
    nested: Option<Value>,
}

fn check_text(params: &Value) -> ApiResult<()> {
    let known = TextParams::deserialize(params).map_err(ApiError::format)?;
    if known.nested.is_some() {
        return Err(ApiError::unsupported("`nested` of a text index"));
    }
    Ok(TextField::check_new(params)?)
}

fn kind(name: &str) -> ApiResult<FieldKind> {
    Ok(match name {
        "keyword" => FieldKind::Keyword,
        "integer" => FieldKind::Integer,
        "float" => FieldKind::Float,
        "bool" => FieldKind::Bool,
        "geo" => FieldKind::Geo,
        "datetime" => FieldKind::Datetime,
        "uuid" => FieldKind::Uuid,
        "text" => FieldKind::Text,
        other => {
            return Err(ApiError::format(format!(
                "unknown kind of payload index `{other}`; known are keyword, integer, float, bool, geo, datetime, uuid, text"
            )));
        }
    })
}

/// The API's name of a kind.
pub fn kind_name(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Keyword => "keyword",
        FieldKind::Integer => "integer",
        FieldKind::Float => "float",
        FieldKind::Bool => "bool",
        FieldKind::Geo => "geo",
        FieldKind::Datetime => "datetime",
        FieldKind::Uuid => "uuid",
        FieldKind::Text => "text",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> ApiResult<(String, FieldIndex)> {
        serde_json::from_str::<WireCreateIndex>(text)
            .map_err(ApiError::format)?
            .into_index()
    }

    #[test]
    fn kinds_by_name_and_by_params() {
        for name in [
            "keyword", "integer", "float", "bool", "geo", "datetime", "uuid", "text",
        ] {
            let (field, plain) =
                parse(&format!(r#"{{"field_name":"a.b","field_schema":"{name}"}}"#)).unwrap();
            assert_eq!(
                (field.as_str(), kind_name(plain.kind), plain.params),
                ("a.b", name, None)
            );
            let with = parse(&format!(
                r#"{{"field_name":"a","field_schema":{{"type":"{name}","on_disk":true}}}}"#
            ));
            let (_, with) = with.unwrap();
            assert_eq!(kind_name(with.kind), name);
            assert_eq!(with.params.unwrap()["on_disk"], true);
        }
    }

    #[test]
    fn what_is_no_index_is_refused() {
        for (body, code) in [
            (r#"{"field_name":"","field_schema":"keyword"}"#, 422),
            (r#"{"field_name":"a"}"#, 400),
            (r#"{"field_name":"a","field_schema":"colour"}"#, 400),
            (r#"{"field_name":"a","field_schema":{"on_disk":true}}"#, 400),
            (r#"{"field_name":"a","field_schema":3}"#, 400),
        ] {
            assert_eq!(parse(body).unwrap_err().status.as_u16(), code, "{body}");
        }
    }

    #[test]
    fn the_default_tokenizer_has_no_name_to_clients() {
        let body =
            r#"{"field_name":"a","field_schema":{"type":"text","tokenizer":"unicode","lowercase":true}}"#;
        let (_, index) = parse(body).unwrap();
        assert_eq!(index.params, Some(json!({"type": "text", "lowercase": true})));
        for (language, expected) in [
            (
                "de",
                json!({"type": "text", "stopwords": "german", "stemmer": {"type": "snowball", "language": "german"}}),
            ),
            ("azerbaijani", json!({"type": "text", "stopwords": "azerbaijani"})),
            ("chinese", json!({"type": "text"})),
            ("none", json!({"type": "text"})),
        ] {
            let body = json!({"field_name": "a", "field_schema": {"type": "text", "language": language}});
            let (_, index) = parse(&body.to_string()).unwrap();
            assert_eq!(index.params, Some(expected), "{language}");
        }
    }

    #[test]
    fn params_of_a_text_index() {
        let with = |more: &str| {
            parse(&format!(
                r#"{{"field_name":"a","field_schema":{{"type":"text",{more}}}}}"#
            ))
        };
        for more in [
            r#""tokenizer":"prefix","min_token_len":2,"max_token_len":10,"lowercase":false"#,
            r#""stopwords":"english","stemmer":{"type":"snowball","language":"german"}"#,
            r#""stopwords":{"languages":["english"],"custom":["x"]},"ascii_folding":true,"phrase_matching":true"#,
            r#""on_disk":true,"stemmer":null,"scoring":false"#,
            r#""scoring":true"#,
            r#""scoring":{"type":"bm25"}"#,
            r#""scoring":null,"nested":null"#,
            r#""language":"german""#,
            r#""tokenizer":"unicode","language":"none""#,
        ] {
            assert!(with(more).is_ok(), "{more}");
        }
        let words: Vec<String> = (0..5_000).map(|n| format!("\"{n}\"")).collect();
        for more in [
            r#""tokenizer":"runes""#,
            r#""min_token_len":-1"#,
            r#""lowercase":"yes""#,
            r#""stopwords":"klingon""#,
            r#""stemmer":{"type":"snowball","language":"klingon"}"#,
            r#""on_disk":3"#,
            r#""scoring":{"type":"tfidf"}"#,
            r#""scoring":{}"#,
            r#""scoring":"bm25""#,
            r#""nested":"a""#,
            r#""language":"klingon""#,
            r#""language":3"#,
            r#""tokenizer":"word","language":"german""#,
            &format!(r#""stopwords":{{"custom":[{}]}}"#, words.join(",")),
        ] {
            assert_eq!(with(more).unwrap_err().status.as_u16(), 400, "{more}");
        }
    }
}
