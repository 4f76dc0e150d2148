//! The notation that the API's types are described in, and the JSON schemas it stands for.
//!
//! | written | means |
//! |---|---|
//! | `uint`, `int`, `number`, `string`, `bool`, `null`, `uuid`, `datetime`, `any` | what they say |
//! | `uint >= 1`, `number <= 1` | with a bound |
//! | `'asc'` | exactly this text |
//! | `Name` | the type of that name |
//! | `[T]`, `{...: T}` | a list, a map of T |
//! | `{a*: T; b: T}` | an object; what has a star must be there, all else may be left out or null |
//! | `A \| B` | one of them |

use serde_json::{Map, Value, json};

/// The schema of a type.
pub fn schema(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: text.trim() };
    let schema = reader.either()?;
    match reader.rest {
        "" => Ok(schema),
        rest => Err(format!("not understood: `{rest}`")),
    }
}

/// `Name = type`, one after the other with empty lines between; `#` begins a comment line.
pub fn definitions(text: &str) -> Result<Map<String, Value>, String> {
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let text = text.join("\n");
    let mut out = Map::new();
    for part in text.split("\n\n").map(str::trim).filter(|part| !part.is_empty()) {
        let (name, kind) = part
            .split_once('=')
            .ok_or_else(|| format!("no `=` in `{part}`"))?;
        let kind = schema(kind).map_err(|e| format!("{}: {e}", name.trim()))?;
        out.insert(name.trim().to_owned(), kind);
    }
    Ok(out)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn take(&mut self, mark: &str) -> bool {
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        match self.take(mark) {
            true => Ok(()),
            false => Err(format!("expected `{mark}` at `{}`", self.rest)),
        }
    }

    fn while_is(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn either(&mut self) -> Result<Value, String> {
        let mut all = vec![self.one()?];
        while self.take("|") {
            all.push(self.one()?);
        }
        // Several texts are one list of them.
        let texts: Option<Vec<&Value>> = all.iter().map(|s| s.get("const")).collect();
        match (texts, all.len()) {
            (_, 1) => Ok(all.remove(0)),
            (Some(texts), _) => Ok(json!({ "type": "string", "enum": texts })),
            _ => Ok(json!({ "anyOf": all })),
        }
    }

    fn one(&mut self) -> Result<Value, String> {
        if self.take("[") {
            let items = self.either()?;
            self.expect("]")?;
            return Ok(json!({ "type": "array", "items": items }));
        }
        if self.take("{") {
            return self.object();
        }
        if let Some(rest) = self.rest.strip_prefix('\'') {
            let (text, rest) = rest.split_once('\'').ok_or("a text without an end")?;
            self.rest = rest.trim_start();
            return Ok(json!({ "type": "string", "const": text }));
        }
        let word = self.while_is(|c| c.is_alphanumeric() || c == '_');
        let mut schema = match word {
            "" => return Err(format!("expected a type at `{}`", self.rest)),
            "uint" => json!({ "type": "integer", "minimum": 0 }),
            "int" => json!({ "type": "integer" }),
            "number" | "string" | "null" => json!({ "type": word }),
            "bool" => json!({ "type": "boolean" }),
            "uuid" => json!({ "type": "string", "format": "uuid" }),
            "datetime" => json!({ "type": "string", "format": "date-time" }),
            "any" => json!({}),
            name => json!({ "$ref": format!("#/components/schemas/{name}") }),
        };
        for (mark, bound) in [(">=", "minimum"), ("<=", "maximum")] {
            if self.take(mark) {
                let number = self.while_is(|c| c.is_ascii_digit() || c == '.' || c == '-');
                schema[bound] = serde_json::from_str(number).map_err(|e| format!("bound `{number}`: {e}"))?;
            }
        }
        Ok(schema)
    }

    /// After the opening brace.
    fn object(&mut self) -> Result<Value, String> {
        let (mut fields, mut required, mut others) = (Map::new(), Vec::new(), None);
        while !self.take("}") {
            if self.take("...") {
                self.expect(":")?;
                others = Some(self.either()?);
            } else {
                let name = self.while_is(|c| c.is_alphanumeric() || c == '_' || c == '$');
                let must = self.take("*");
                self.expect(":")?;
                let mut schema = self.either()?;
                match must {
                    true => required.push(name),
                    false if schema != json!({}) => schema = json!({ "anyOf": [schema, { "type": "null" }] }),
                    false => {}
                }
                fields.insert(name.to_owned(), schema);
            }
            if !self.take(";") && !self.rest.starts_with('}') {
                return Err(format!("expected `;` or `}}` at `{}`", self.rest));
            }
        }
        let mut out = json!({ "type": "object" });
        if !fields.is_empty() {
            out["properties"] = Value::Object(fields);
        }
        if !required.is_empty() {
            out["required"] = json!(required);
        }
        if let Some(others) = others {
            out["additionalProperties"] = others;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_become_schemas() {
        for (text, wanted) in [
            ("uint >= 1", json!({"type": "integer", "minimum": 1})),
            ("[number]", json!({"type": "array", "items": {"type": "number"}})),
            ("'a' | 'b'", json!({"type": "string", "enum": ["a", "b"]})),
            (
                "Name | null",
                json!({"anyOf": [{"$ref": "#/components/schemas/Name"}, {"type": "null"}]}),
            ),
            (
                "{...: any}",
                json!({"type": "object", "additionalProperties": {}}),
            ),
            (
                "{ a*: bool; b: string }",
                json!({"type": "object", "required": ["a"], "properties": {
                    "a": {"type": "boolean"}, "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                }}),
            ),
        ] {
            assert_eq!(schema(text), Ok(wanted), "{text}");
        }
        for bad in ["", "[uint", "{a: }", "{a uint}", "'a", "uint >= x", "a b"] {
            assert!(schema(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn definitions_have_names() {
        let all = definitions("# about\nA = uint\n\nB = {\n  a: A;\n}\n").unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["A", "B"]);
    }
}
