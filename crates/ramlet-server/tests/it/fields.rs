//! What each identity sees of each answer: its status, and the names of its fields. `fields.txt` is the table; a route that isn't in it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ramlet_server::routes::{Route, routes};
use ramlet_server::{Access, ServerOptions};
use ring::hmac;
use serde_json::{Value, json};

use crate::harness::{Reply, Server, options, request};

pub const ADMIN: &str = "admin-key";
const READER: &str = "reader-key";
/// Part of each name and value of the collection that no limited token opens.
pub const SECRET: &str = "undisclosed";
/// How deep names of fields are told.
const DEPTH: usize = 3;

pub fn token(head: Value, claims: Value, key: &str) -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(head), part(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// Name and key.
pub fn identities() -> Vec<(&'static str, Option<String>)> {
    let head = || json!({"alg": "HS256", "typ": "JWT"});
    let good = |claims: Value| Some(token(head(), claims, ADMIN));
    let of_a = |access: &str| good(json!({"access": [{"collection": "a", "access": access}]}));
    let unsigned = token(
        json!({"alg": "none", "typ": "JWT"}),
        json!({"access": "m"}),
        ADMIN,
    );
    let unsigned = unsigned.rsplit_once('.').expect("three parts").0.to_owned() + ".";
    vec![
        ("nobody", None),
        ("reader", Some(READER.into())),
        ("admin", Some(ADMIN.into())),
        ("r", good(json!({"access": "r"}))),
        ("m", good(json!({"access": "m"}))),
        ("a:r", of_a("r")),
        ("a:rw", of_a("rw")),
        ("a:prw", of_a("prw")),
        ("expired", good(json!({"access": "m", "exp": 1_000_000_000}))),
        (
            "forged",
            Some(token(head(), json!({"access": "m"}), "another-key")),
        ),
        ("unsigned", Some(unsigned)),
    ]
}

/// With keys, and tokens.
pub fn locked(mut options: ServerOptions) -> ServerOptions {
    options.api_key = Some(ADMIN.into());
    options.read_only_api_key = Some(READER.into());
    options.jwt_rbac = true;
    options
}

/// A server with the collection `a` and one that is hidden from those who may see `a` alone, each with points, an alias and a snapshot.
pub async fn filled() -> Server {
    let server = Server::new(locked(options()));
    let admin = async |method: &str, path: &str, body: Value| {
        let asked = request(method, path, &[("api-key", ADMIN)], Body::from(body.to_string()));
        server.send(asked).await.result();
    };
    for (name, text) in [("a", "open"), (SECRET, SECRET)] {
        let of = format!("/collections/{name}");
        admin("PUT", &of, json!({"vectors": {"size": 2, "distance": "Dot"}})).await;
        let index = json!({"field_name": "n", "field_schema": "keyword"});
        admin("PUT", &format!("{of}/index?wait=true"), index).await;
        let points = json!({"points": [{"id": 7, "vector": [1, 2], "payload": {"n": text}}]});
        admin("PUT", &format!("{of}/points?wait=true"), points).await;
        let alias = json!({"create_alias": {"collection_name": name, "alias_name": format!("alias-{text}")}});
        admin("POST", "/collections/aliases", json!({"actions": [alias]})).await;
        admin("POST", &format!("{of}/snapshots?wait=true"), json!(null)).await;
    }
    admin("POST", "/snapshots?wait=true", json!(null)).await;
    server
}

/// The path that asks about a collection, with all that it can tell.
fn example(route: &Route, collection: &str) -> String {
    let parts = route.path.split('/').map(|part| match part {
        "{collection}" => collection,
        "{id}" => "7",
        "{shard}" => "0",
        "{field}" => "n",
        part if part.starts_with('{') => "x",
        part => part,
    });
    let path = parts.collect::<Vec<_>>().join("/");
    match route.path {
        "/telemetry" => path + "?details_level=10&per_collection=true",
        "/cluster/telemetry" => path + "?details_level=10",
        "/metrics" => path + "?per_collection=true",
        _ => path,
    }
}

fn body_of(path: &str) -> Value {
    match path.rsplit_once("/points/").map_or(path, |(_, rest)| rest) {
        "scroll" | "count" | "query" | "query/batch" => json!({"limit": 1, "searches": [{"limit": 1}]}),
        "query/groups" => json!({"limit": 1, "group_by": "n", "query": [1, 2]}),
        "search" => json!({"limit": 1, "vector": [1, 2]}),
        "/collections/{collection}/facet" => json!({"key": "n"}),
        "/collections/{collection}/points" => json!({"ids": [7]}),
        _ => json!({}),
    }
}

/// Names of fields down to [`DEPTH`]; those of a list's elements together.
fn fields_of(value: &Value, path: &str, depth: usize, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) if depth > 0 && !map.is_empty() => {
            for (name, value) in map {
                // A segment's id.
                let name = if name.contains("-c0") { "{segment}" } else { name };
                let dot = if path.is_empty() { "" } else { "." };
                fields_of(value, &format!("{path}{dot}{name}"), depth - 1, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            list.iter()
                .for_each(|value| fields_of(value, &format!("{path}[]"), depth, out));
        }
        _ => drop(out.insert(path.to_owned())),
    }
}

/// Status and fields of an answer, as a line of the table has them.
fn seen(reply: &Reply) -> String {
    let status = reply.status.as_u16();
    if status != 200 {
        return status.to_string();
    }
    let mut fields = BTreeSet::new();
    match serde_json::from_slice::<Value>(&reply.body) {
        Ok(answer) => fields_of(&answer["result"], "", DEPTH, &mut fields),
        Err(_) => {
            let text = String::from_utf8_lossy(&reply.body);
            let families = text
                .lines()
                .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
            // What the system tells of a process isn't the same everywhere.
            let is_ours = |name: &&str| !name.starts_with("process_") && !name.starts_with("ramlet_disk_");
            fields.extend(families.filter(is_ours).map(str::to_owned));
        }
    }
    let fields: Vec<String> = fields.into_iter().filter(|field| !field.is_empty()).collect();
    format!("{status} {}", fields.join(" ")).trim_end().to_owned()
}

async fn ask(server: &Server, route: &Route, collection: &str, key: Option<&str>) -> Reply {
    let headers: Vec<(&str, &str)> = key.map(|key| ("api-key", key)).into_iter().collect();
    let body = match route.method {
        "GET" | "DELETE" => Body::empty(),
        _ => Body::from(body_of(route.path).to_string()),
    };
    server
        .send(request(route.method, &example(route, collection), &headers, body))
        .await
}

/// A collection that isn't theirs is to those who may see another one as if it weren't there.
#[tokio::test]
async fn nobody_finds_out_what_there_is() {
    let server = filled().await;
    let with_collection = routes()
        .iter()
        .filter(|route| route.path.contains("{collection}"));
    for route in with_collection {
        for (who, key) in identities() {
            if ["admin", "m", "r", "reader"].contains(&who) {
                continue;
            }
            let told = async |name: &str| {
                let reply = ask(&server, route, name, key.as_deref()).await;
                (reply.status.as_u16(), reply.error().replace(name, "NAME"))
            };
            let missing = told("missing").await;
            assert!(
                [401, 403].contains(&missing.0),
                "{who} at {}: {missing:?}",
                route.path
            );
            for name in [SECRET, "alias-undisclosed"] {
                assert_eq!(
                    told(name).await,
                    missing,
                    "{who} at {} {}",
                    route.method,
                    route.path
                );
            }
        }
    }
}

#[tokio::test]
async fn nobody_sees_what_is_not_theirs() {
    let shared = filled().await;
    let mut table = String::new();
    for route in routes() {
        let reads = !matches!(route.access, Access::Write | Access::WriteFiles | Access::Manage);
        let mut outcomes = BTreeMap::<String, Vec<&str>>::new();
        for (who, key) in identities() {
            // What changes something changes a server of its own.
            let own;
            let server = match reads {
                true => &shared,
                false => {
                    own = filled().await;
                    &own
                }
            };
            let reply = ask(server, route, "a", key.as_deref()).await;
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            let is_limited =
                who.starts_with("a:") || ["nobody", "expired", "forged", "unsigned"].contains(&who);
            assert!(
                !is_limited || !text.contains(SECRET),
                "{who} at {} {}: {text}",
                route.method,
                route.path
            );
            outcomes.entry(seen(&reply)).or_default().push(who);
        }
        writeln!(table, "{} {}", route.method, route.path).unwrap();
        let mut outcomes: Vec<_> = outcomes
            .into_iter()
            .map(|(seen, who)| (who.join(","), seen))
            .collect();
        outcomes.sort();
        for (who, seen) in outcomes {
            writeln!(table, "  {who}: {seen}").unwrap();
        }
    }
    let agreed = include_str!("fields.txt");
    if table != agreed {
        let now = std::env::temp_dir().join("fields.txt");
        std::fs::write(&now, &table).expect("writes");
        let differs = table
            .lines()
            .zip(agreed.lines())
            .find(|(now, before)| now != before);
        panic!(
            "what an identity sees has changed: look hard at {}, then make it fields.txt. First: {differs:?}",
            now.display()
        );
    }
}
