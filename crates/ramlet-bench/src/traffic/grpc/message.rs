//! Calls of the Qdrant gRPC API, rendered ahead, and the ids of their answers.

use anyhow::{Context, Result, bail};
use ramlet_proto::Message;
use ramlet_proto::qdrant::{
    AcornSearchParams, DenseVector, QuantizationSearchParams, Query, QueryPoints, SearchParams, SearchPoints,
    VectorInput, query, vector_input,
};
use serde_json::Value;

use super::hpack;
use crate::traffic::http::Target;
use crate::traffic::setting::{Setting, id_of_text};

/// Of the static table of header fields.
const METHOD_POST: u8 = 3;
const SCHEME_HTTP: u8 = 6;

/// The header fields of all calls. Renders each query's message, with its prefix, behind the one before, and notes where it ends.
pub(crate) fn render_all<'a>(
    target: &Target,
    setting: &Setting,
    queries: impl Iterator<Item = &'a [f32]>,
    (text, ends): (&mut Vec<u8>, &mut Vec<usize>),
) -> Result<Vec<u8>> {
    let params = params(&setting.params())?;
    for query in queries {
        if !query.iter().all(|value| value.is_finite()) {
            bail!("a query has a value that is no number");
        }
        let from = text.len();
        text.extend([0; 5]);
        match setting.old_route {
            true => search(setting, query, params.clone()).encode(text)?,
            false => by_query(setting, query, params.clone()).encode(text)?,
        }
        let length = u32::try_from(text.len() - from - 5).context("a query is too long")?;
        text[from + 1..from + 5].copy_from_slice(&length.to_be_bytes());
        ends.push(text.len());
    }
    let method = if setting.old_route { "Search" } else { "Query" };
    Ok(header(target, &format!("/qdrant.Points/{method}")))
}

fn header(target: &Target, path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    hpack::write_indexed(METHOD_POST, &mut out);
    hpack::write_indexed(SCHEME_HTTP, &mut out);
    hpack::write_field(":path", path, &mut out);
    hpack::write_field(":authority", &target.authority(), &mut out);
    hpack::write_field("content-type", "application/grpc", &mut out);
    hpack::write_field("te", "trailers", &mut out);
    if let Some(key) = target.key() {
        hpack::write_field("api-key", key, &mut out);
    }
    out
}

fn by_query(setting: &Setting, query: &[f32], params: Option<SearchParams>) -> QueryPoints {
    let vector = DenseVector { data: query.to_vec() };
    let input = VectorInput {
        variant: Some(vector_input::Variant::Dense(vector)),
    };
    QueryPoints {
        collection_name: setting.collection.clone(),
        query: Some(Query {
            variant: Some(query::Variant::Nearest(input)),
        }),
        using: setting.using.clone(),
        params,
        limit: Some(setting.k as u64),
        ..QueryPoints::default()
    }
}

fn search(setting: &Setting, query: &[f32], params: Option<SearchParams>) -> SearchPoints {
    SearchPoints {
        collection_name: setting.collection.clone(),
        vector: query.to_vec(),
        vector_name: setting.using.clone(),
        params,
        limit: setting.k as u64,
        ..SearchPoints::default()
    }
}

/// The message of what REST has as an object of the same names.
fn params(object: &Value) -> Result<Option<SearchParams>> {
    let mut out = SearchParams::default();
    for (name, value) in fields(object)? {
        match name.as_str() {
            "hnsw_ef" => out.hnsw_ef = value.as_u64(),
            "exact" => out.exact = value.as_bool(),
            "indexed_only" => out.indexed_only = value.as_bool(),
            "quantization" => out.quantization = Some(quantization(value)?),
            "acorn" => out.acorn = Some(acorn(value)?),
            other => bail!("--params: over gRPC '{other}' isn't known"),
        }
    }
    Ok((out != SearchParams::default()).then_some(out))
}

fn quantization(object: &Value) -> Result<QuantizationSearchParams> {
    let mut out = QuantizationSearchParams::default();
    for (name, value) in fields(object)? {
        match name.as_str() {
            "ignore" => out.ignore = value.as_bool(),
            "rescore" => out.rescore = value.as_bool(),
            "oversampling" => out.oversampling = value.as_f64(),
            other => bail!("--params: over gRPC 'quantization.{other}' isn't known"),
        }
    }
    Ok(out)
}

fn acorn(object: &Value) -> Result<AcornSearchParams> {
    let mut out = AcornSearchParams::default();
    for (name, value) in fields(object)? {
        match name.as_str() {
            "enable" => out.enable = value.as_bool(),
            "max_selectivity" => out.max_selectivity = value.as_f64(),
            other => bail!("--params: over gRPC 'acorn.{other}' isn't known"),
        }
    }
    Ok(out)
}

fn fields(object: &Value) -> Result<&serde_json::Map<String, Value>> {
    object.as_object().context("--params: an object is expected")
}

/// Replaces `ids` with those in the answer, best first, without decoding the rest. An id that is text counts as the hash of it. What
/// breaks off ends the list.
pub(crate) fn read_ids(message: &[u8], ids: &mut Vec<u64>) {
    ids.clear();
    // `result` is field 1 of both answers, `id` field 1 of a point, a number field 1 of an id and text field 2.
    each(message, &mut |field, value| {
        if let (1, Wanted::Bytes(point)) = (field, value) {
            each(point, &mut |field, value| {
                if let (1, Wanted::Bytes(id)) = (field, value) {
                    each(id, &mut |field, value| match (field, value) {
                        (1, Wanted::Number(number)) => ids.push(number),
                        (2, Wanted::Bytes(text)) => ids.push(id_of_text(text)),
                        _ => {}
                    });
                }
            });
        }
    });
}

/// A field's value; fixed ones are passed over.
enum Wanted<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

fn each<'m>(mut message: &'m [u8], see: &mut dyn FnMut(u64, Wanted<'m>)) {
    while let Some(key) = varint(&mut message) {
        let value = match key & 7 {
            0 => varint(&mut message).map(Wanted::Number),
            2 => varint(&mut message)
                .and_then(|length| message.split_at_checked(usize::try_from(length).ok()?))
                .map(|(value, rest)| {
                    message = rest;
                    Wanted::Bytes(value)
                }),
            kind => {
                let Some(rest) = message
                    .get(if kind == 1 { 8 } else { 4 }..)
                    .filter(|_| matches!(kind, 1 | 5))
                else {
                    return;
                };
                message = rest;
                continue;
            }
        };
        let Some(value) = value else { return };
        see(key >> 3, value);
    }
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (at, &byte) in message.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *message = &message[at + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use ramlet_proto::qdrant::point_id::PointIdOptions;
    use ramlet_proto::qdrant::{PointId, QueryResponse, ScoredPoint};
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_of_answers() {
        let point = |id| ScoredPoint {
            id: Some(PointId {
                point_id_options: Some(id),
            }),
            score: 0.5,
            version: 3,
            ..ScoredPoint::default()
        };
        let uuid = "550e8400-e29b-41d4-a716-446655440000";
        let answer = QueryResponse {
            result: vec![
                point(PointIdOptions::Num(u64::MAX)),
                point(PointIdOptions::Uuid(uuid.into())),
                // Zero isn't left out in a choice.
                point(PointIdOptions::Num(0)),
            ],
            time: 0.25,
            ..QueryResponse::default()
        };
        let (bytes, mut ids) = (answer.encode_to_vec(), vec![7]);
        read_ids(&bytes, &mut ids);
        assert_eq!(ids, [u64::MAX, id_of_text(uuid.as_bytes()), 0]);
        for end in 0..bytes.len() {
            read_ids(&bytes[..end], &mut ids);
            assert!(ids.len() <= 3);
        }
    }

    #[test]
    fn calls_are_what_the_api_takes() {
        let setting = Setting {
            collection: "c".into(),
            using: Some("a".into()),
            k: 10,
            ef: Some(64),
            params: Some(json!({"quantization": {"oversampling": 2, "rescore": true}})),
            ..Setting::default()
        };
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        let queries = [[1.0f32, 0.5], [2.0, -1.0]];
        let rendered = |setting: &Setting, text: &mut Vec<u8>, ends: &mut Vec<usize>| {
            render_all(
                &Target::local(1),
                setting,
                queries.iter().map(|q| q.as_slice()),
                (text, ends),
            )
        };
        rendered(&setting, &mut text, &mut ends).expect("rendered");
        let message = &text[ends[0]..ends[1]];
        assert_eq!(message[..5], [0, 0, 0, 0, message.len() as u8 - 5]);
        let call = QueryPoints::decode(&message[5..]).expect("a message");
        let params = call.params.expect("parameters");
        assert_eq!(
            (params.hnsw_ef, params.exact, call.limit),
            (Some(64), None, Some(10))
        );
        assert_eq!(params.quantization.expect("given").oversampling, Some(2.0));
        assert_eq!(
            (call.collection_name.as_str(), call.using.as_deref()),
            ("c", Some("a"))
        );
        let unknown = Setting {
            params: Some(json!({"speed": 1})),
            ..setting.clone()
        };
        let error = rendered(&unknown, &mut text, &mut ends).expect_err("unknown");
        assert!(error.to_string().contains("'speed'"));
        let old = Setting {
            old_route: true,
            ..setting
        };
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        rendered(&old, &mut text, &mut ends).expect("rendered");
        let call = SearchPoints::decode(&text[5..ends[0]]).expect("a message");
        assert_eq!(
            (call.vector, call.vector_name),
            (vec![1.0, 0.5], Some("a".into()))
        );
    }
}
