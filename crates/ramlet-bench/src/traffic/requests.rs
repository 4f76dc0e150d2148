//! The queries of a measurement, rendered ahead for one setting, and what is read of their answers: the ids.

use serde_json::{Value, json};

use super::api::collection_path;
use super::grpc;
use super::http::Target;
use super::setting::{Setting, id_of_text};
use super::wire::Wire;
use crate::json::write_vector;

/// Whole HTTP requests or messages of gRPC, one a query.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    wire: Wire,
    /// gRPC: the header fields of all calls.
    header: Vec<u8>,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Requests {
    /// Renders all `queries` for a wire; holds about ten bytes a dimension of each over REST, four over gRPC. Fails on a value that is no
    /// number (NaN).
    pub fn render_for<'a>(
        wire: Wire,
        target: &Target,
        setting: &Setting,
        queries: impl Iterator<Item = &'a [f32]>,
    ) -> anyhow::Result<Requests> {
        if wire == Wire::Rest {
            return Requests::render(target, setting, queries);
        }
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        let header = grpc::render_all(target, setting, queries, (&mut text, &mut ends))?;
        Ok(Requests {
            wire,
            header,
            text,
            ends,
        })
    }

    /// For REST.
    pub fn render<'a>(
        target: &Target,
        setting: &Setting,
        queries: impl Iterator<Item = &'a [f32]>,
    ) -> anyhow::Result<Requests> {
        // The older route has the vector's name beside its numbers.
        let (route, before) = match (&setting.using, setting.old_route) {
            (_, false) => ("query", "{\"query\":".to_string()),
            (None, true) => ("search", "{\"vector\":".to_string()),
            (Some(using), true) => (
                "search",
                format!("{{\"vector\":{{\"name\":{},\"vector\":", json!(using)),
            ),
        };
        let path = format!("{}/points/{route}", collection_path(&setting.collection));
        let mut rest = String::new();
        if setting.using.is_some() && setting.old_route {
            rest.push('}');
        }
        rest.push_str(&format!(",\"limit\":{},\"with_payload\":false", setting.k));
        let params = setting.params();
        if params.as_object().is_some_and(|o| !o.is_empty()) {
            rest.push_str(&format!(",\"params\":{params}"));
        }
        if let Some(using) = setting.using.as_ref().filter(|_| !setting.old_route) {
            rest.push_str(&format!(",\"using\":{}", json!(using)));
        }
        rest.push('}');
        let mut requests = Requests::default();
        let mut body = Vec::new();
        for query in queries {
            body.clear();
            body.extend_from_slice(before.as_bytes());
            write_vector(query, &mut body)?;
            body.extend_from_slice(rest.as_bytes());
            target.render("POST", &path, &body, &mut requests.text);
            requests.ends.push(requests.text.len());
        }
        Ok(requests)
    }

    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// gRPC: the header fields that stand before each message.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Appends any other query of the API to `collection`.
    pub fn add(&mut self, target: &Target, collection: &str, query: &Value) {
        let path = format!("{}/points/query", collection_path(collection));
        target.render("POST", &path, query.to_string().as_bytes(), &mut self.text);
        self.ends.push(self.text.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }
}

/// Replaces `ids` with those in the answer, best first, without parsing the rest. An id that is text counts as the hash of it.
pub fn read_ids(body: &[u8], ids: &mut Vec<u64>) {
    const KEY: &[u8] = b"\"id\":";
    ids.clear();
    let mut rest = body;
    while let Some(at) = rest.windows(KEY.len()).position(|part| part == KEY) {
        rest = &rest[at + KEY.len()..];
        let start = rest.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
        rest = &rest[start..];
        match rest.first() {
            Some(b'"') => {
                let end = rest[1..]
                    .iter()
                    .position(|&b| b == b'"')
                    .unwrap_or(rest.len() - 1);
                ids.push(id_of_text(&rest[1..1 + end]));
                rest = &rest[1 + end..];
            }
            Some(digit) if digit.is_ascii_digit() => {
                let digits = rest.iter().take_while(|b| b.is_ascii_digit());
                ids.push(digits.fold(0u64, |n, b| n.wrapping_mul(10).wrapping_add(u64::from(b - b'0'))));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_the_api_takes() {
        let setting = Setting {
            collection: "c".into(),
            k: 10,
            ef: Some(64),
            using: Some("a\"b".into()),
            ..Setting::default()
        };
        let queries = [[1.0f32, 0.5], [2.0, -1.0]];
        let rendered = Requests::render(&Target::local(1), &setting, queries.iter().map(|q| q.as_slice()));
        let requests = rendered.expect("numbers");
        assert_eq!(requests.len(), 2);
        let text = std::str::from_utf8(requests.get(1)).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("POST /collections/c/points/query HTTP/1.1\r\n"));
        assert!(head.contains(&format!("content-length: {}", body.len())));
        let body: Value = serde_json::from_str(body).expect("JSON");
        let expected =
            json!({"query":[2,-1],"limit":10,"with_payload":false,"params":{"hnsw_ef":64},"using":"a\"b"});
        assert_eq!(body, expected);
        let old = Setting {
            old_route: true,
            ..setting.clone()
        };
        let rendered = Requests::render(&Target::local(1), &old, queries.iter().map(|q| q.as_slice()));
        let requests = rendered.expect("numbers");
        let text = std::str::from_utf8(requests.get(0)).expect("text");
        let (_, body) = text.split_once("\r\n\r\n").expect("a head");
        let body: Value = serde_json::from_str(body).expect("JSON");
        let named = json!({"name": "a\"b", "vector": [1, 0.5]});
        let expected = json!({"vector":named,"limit":10,"with_payload":false,"params":{"hnsw_ef":64}});
        assert_eq!(body, expected);
        let bad = [[f32::NAN, 0.0]];
        assert!(Requests::render(&Target::local(1), &setting, bad.iter().map(|q| q.as_slice())).is_err());
    }

    #[test]
    fn ids_of_answers() {
        let check = |text: &str, expected: &[u64]| {
            let mut ids = vec![9];
            read_ids(text.as_bytes(), &mut ids);
            assert_eq!(ids, expected, "{text}");
        };
        check(
            r#"{"result":{"points":[{"id":17,"version":0,"score":0.5},{"id": 3,"score":1}]},"status":"ok"}"#,
            &[17, 3],
        );
        check(
            r#"{"result":[{"score":1,"id":18446744073709551615}]}"#,
            &[u64::MAX],
        );
        check(r#"{"result":[{"id":"ab"}]}"#, &[id_of_text(b"ab")]);
        check(r#"{"result":{"points":[]}}"#, &[]);
        check(r#"{"id":"#, &[]);
        check(r#"{"id":""#, &[id_of_text(b"")]);
    }
}
