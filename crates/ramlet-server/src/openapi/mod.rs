//! The OpenAPI description: every route of the table, with the types that `types.txt` and `operations.txt` describe.
//!
//! Made when it is asked for. The e2e suite sends what is described, and what isn't, to every route and looks at the answers.

mod notation;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::access::auth::Access;
use crate::answers::answer::Answer;
use crate::bodies::body_rule::BodyRule;
use crate::error::{ApiError, ApiResult};
use crate::handlers::service::API_VERSION;
use crate::request::route::{Route, shown_path};
use notation::{definitions, schema};

const TYPES: &str = include_str!("types.txt");
const OPERATIONS: &str = include_str!("operations.txt");

/// The description of `routes`.
pub fn describe(routes: &[Route]) -> ApiResult<Answer> {
    let document = document(routes).map_err(ApiError::internal)?;
    Ok(Answer::Plain {
        status: axum::http::StatusCode::OK,
        content_type: "application/json",
        body: document.to_string(),
    })
}

/// A line of `operations.txt`.
struct Described {
    summary: &'static str,
    /// Query parameters, as an object.
    query: &'static str,
    body: &'static str,
    /// Of the envelope's `result`; with `=` in front of the whole answer, with `text` plain text, with `media` text of that type, with `file` bytes.
    result: &'static str,
}

/// `METHOD path ; summary ; query ; body ; result`.
fn described() -> Result<HashMap<(&'static str, &'static str), Described>, String> {
    let mut out = HashMap::new();
    for line in OPERATIONS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let parts: Vec<&str> = line.split(" ; ").map(str::trim).collect();
        let [route, summary, query, body, result] = parts[..] else {
            return Err(format!("not five parts: `{line}`"));
        };
        let route = route
            .split_once(' ')
            .ok_or_else(|| format!("no method: `{line}`"))?;
        let described = Described {
            summary,
            query,
            body,
            result,
        };
        out.insert(route, described);
    }
    Ok(out)
}

fn document(routes: &[Route]) -> Result<Value, String> {
    let described = described()?;
    let mut paths = Map::new();
    for route in routes {
        let operation = operation(route, described.get(&(route.method, route.path)))?;
        let path = paths.entry(shown_path(route.path)).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation;
    }
    Ok(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Ramlet", "version": API_VERSION,
            "description": "The Qdrant API as Ramlet speaks it. What differs: docs/compatibility.md.",
        },
        "security": [{ "api-key": [] }, { "bearer": [] }, {}],
        "paths": paths,
        "components": {
            "schemas": definitions(TYPES)?,
            "securitySchemes": {
                "api-key": { "type": "apiKey", "in": "header", "name": "api-key" },
                "bearer": { "type": "http", "scheme": "bearer" },
            },
        },
    }))
}

fn operation(route: &Route, described: Option<&Described>) -> Result<Value, String> {
    let at = |e: String| format!("{} {}: {e}", route.method, route.path);
    let mut parameters = path_parameters(route.path);
    if let Some(d) = described.filter(|d| !d.query.is_empty()) {
        parameters.extend(query_parameters(d.query).map_err(at)?);
    }
    let is_file =
        route.method == "GET" && (route.path.ends_with("/{snapshot}") || route.path.ends_with("/snapshot"));
    let content = match is_file {
        true => json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } }),
        false => content(described).map_err(at)?,
    };
    let mut out = json!({
        "operationId": operation_id(route),
        "tags": [tag(route.path)],
        "summary": described.map_or("", |d| d.summary),
        "parameters": parameters,
        "responses": {
            "200": { "description": "Done", "content": content },
            "4XX": { "description": "Refused", "content": json_content(json!({ "$ref": "#/components/schemas/ErrorResponse" })) },
            "5XX": { "description": "Failed", "content": json_content(json!({ "$ref": "#/components/schemas/ErrorResponse" })) },
        },
    });
    if route.access == Access::Public {
        out["security"] = json!([]);
    }
    if described.is_some_and(|d| d.body == "form") {
        let file = json!({ "type": "string", "format": "binary" });
        let form = json!({ "type": "object", "required": ["snapshot"], "properties": { "snapshot": file } });
        out["requestBody"] = json!({ "content": { "multipart/form-data": { "schema": form } } });
    }
    if route.body != BodyRule::NONE {
        let body = match described.map(|d| d.body) {
            None | Some("") => json!({}),
            Some(body) => schema(body).map_err(at)?,
        };
        out["requestBody"] = json!({ "required": true, "content": json_content(body) });
    }
    Ok(out)
}

fn json_content(schema: Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn content(described: Option<&Described>) -> Result<Value, String> {
    let result = match described.map(|d| d.result) {
        Some("file") => {
            let file = json!({ "type": "string", "format": "binary" });
            return Ok(json!({ "application/octet-stream": { "schema": file } }));
        }
        Some(media) if media.starts_with("media ") => {
            return Ok(json!({ &media["media ".len()..]: { "schema": { "type": "string" } } }));
        }
        Some("text") => return Ok(json!({ "text/plain": { "schema": { "type": "string" } } })),
        Some(whole) if whole.starts_with('=') => return schema(&whole[1..]).map(json_content),
        None | Some("") => json!({}),
        Some(result) => schema(result)?,
    };
    Ok(json_content(json!({
        "type": "object",
        "required": ["result", "status", "time"],
        "properties": {
            "result": result, "status": { "const": "ok" }, "time": { "type": "number", "minimum": 0 },
        },
    })))
}

fn path_parameters(path: &str) -> Vec<Value> {
    let shown = shown_path(path);
    let names = shown
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| {
            let schema = match name {
                "id" => json!({ "$ref": "#/components/schemas/PointId" }),
                "peer_id" => json!({ "type": "integer", "minimum": 0 }),
                _ => json!({ "type": "string", "minLength": 1 }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect()
}

fn query_parameters(text: &str) -> Result<Vec<Value>, String> {
    let object = schema(&format!("{{{text}}}"))?;
    let fields = object["properties"].as_object().cloned().unwrap_or_default();
    let parameter = |(name, schema): (String, Value)| {
        // A parameter is left out or there: it has no null.
        let schema = schema["anyOf"].get(0).cloned().unwrap_or(schema);
        json!({ "name": name, "in": "query", "required": false, "schema": schema })
    };
    Ok(fields.into_iter().map(parameter).collect())
}

/// The same for the same route, and a name in any language.
fn operation_id(route: &Route) -> String {
    let words = route
        .path
        .split(['/', '{', '}', '.'])
        .filter(|word| !word.is_empty());
    let path: Vec<&str> = words.collect();
    format!("{}_{}", route.method.to_lowercase(), path.join("_"))
        .trim_end_matches('_')
        .to_owned()
}

fn tag(path: &str) -> &'static str {
    match path {
        _ if path.contains("/snapshots") => "Snapshots",
        _ if path.contains("/points") || path.ends_with("/facet") => "Points",
        _ if path.contains("cluster") || path.contains("/shards") => "Cluster",
        _ if path.contains("/aliases") => "Aliases",
        _ if path.contains("/index") => "Indexes",
        _ if path.starts_with("/collections") => "Collections",
        _ => "Service",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::routes;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(to)) = map.get("$ref") {
                    found.push(to.clone());
                }
                map.values().for_each(|v| references(v, found));
            }
            Value::Array(list) => list.iter().for_each(|v| references(v, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_holds_together() {
        let document = document(routes()).expect("every line is understood");
        let mut found = Vec::new();
        references(&document, &mut found);
        for to in found {
            let pointer = to.strip_prefix('#').expect("within the document");
            assert!(document.pointer(pointer).is_some(), "{to} is nowhere");
        }
        let operations: usize = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .map(|p| p.as_object().unwrap().len())
            .sum();
        assert_eq!(operations, routes().len());
    }

    #[test]
    fn every_route_is_described() {
        let described = described().unwrap();
        for route in routes() {
            let found = described.get(&(route.method, route.path));
            let found = found.unwrap_or_else(|| panic!("{} {}", route.method, route.path));
            assert!(!found.result.is_empty(), "{} {}", route.method, route.path);
            let reads = route.body != BodyRule::NONE;
            assert!(
                !reads || !found.body.is_empty(),
                "{} {}",
                route.method,
                route.path
            );
        }
    }

    #[test]
    fn what_is_described_is_a_route() {
        for (method, path) in described().unwrap().into_keys() {
            assert!(
                routes().iter().any(|r| (r.method, r.path) == (method, path)),
                "{method} {path}"
            );
        }
    }
}
