//! The audit log: a line for each request that a key is asked for, whoever asks.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use ramlet_server::routes::routes;
use ramlet_server::{Access, Audit};
use serde_json::{Value, json};

use crate::fields::{ADMIN, SECRET, locked, token};
use crate::harness::{Server, engine, options_of, request};
use crate::methods::Caller;

/// An engine with keys, the log of its server, and where the lines go.
fn logged() -> (Server, Arc<Audit>, Receiver<String>) {
    let engine = engine();
    let (send, lines) = channel();
    let send = Mutex::new(send);
    let sink = move |text: &[u8], _: &str| {
        let send = send.lock().expect("nobody panics with it");
        let text = String::from_utf8(text.to_vec()).expect("text");
        text.lines().for_each(|line| _ = send.send(line.to_owned()));
        Ok(())
    };
    let audit = Audit::start(engine.ledger(), 64 << 20, Box::new(sink), false).expect("room for the queue");
    let mut options = locked(options_of(engine));
    options.audit = Some(audit.clone());
    (Server::new(options), audit, lines)
}

fn told(audit: &Audit, lines: &Receiver<String>) -> Vec<Value> {
    audit.close();
    let parse = |line: String| serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
    lines.try_iter().map(parse).collect()
}

/// A path of a route, about the collection that nobody limited may know of.
fn example(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{collection}" => SECRET,
        "{id}" | "{shard}" | "{peer}" => "0",
        part if part.starts_with('{') => "x",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn what_leaves_no_line_is_listed() {
    let without = routes()
        .iter()
        .filter(|r| r.name.is_none() && r.access != Access::Public);
    let paths: Vec<&str> = without.map(|r| r.path).collect();
    assert_eq!(paths, ["/metrics", "/telemetry", "/cluster/telemetry"]);
    assert!(
        routes()
            .iter()
            .all(|r| r.name.is_none() || r.access != Access::Public)
    );
}

#[tokio::test]
async fn each_route_leaves_a_line_and_nothing_of_what_is_sent() {
    const PASSWORD: &str = "only-in-bodies-and-queries";
    let limited = token(
        json!({"alg": "HS256", "typ": "JWT"}),
        json!({"access": [{"collection": "a", "access": "r"}], "subject": "anna"}),
        ADMIN,
    );
    let (server, audit, lines) = logged();
    let mut asked = Vec::new();
    for route in routes() {
        let body = json!({ "name": PASSWORD }).to_string();
        let path = example(route.path) + "?unknown=" + PASSWORD;
        for (key, who) in [
            (ADMIN, "admin"),
            (limited.as_str(), "limited"),
            (PASSWORD, "unknown"),
        ] {
            let headers = [("api-key", key), ("x-request-id", who)];
            server
                .send(request(route.method, &path, &headers, Body::from(body.clone())))
                .await;
            let public = route.access == Access::Public;
            if !public && (route.name.is_some() || who == "unknown") {
                asked.push((route, who));
            }
        }
    }
    let lines = told(&audit, &lines);
    let mut of_one = lines.iter().peekable();
    for (route, who) in asked {
        let line = of_one
            .next()
            .unwrap_or_else(|| panic!("{} of {who} has no line", route.path));
        let what = format!("{line} of {who} at {} {}", route.method, route.path);
        assert_eq!(line["method"].as_str(), route.name, "{what}");
        assert_eq!(line["tracing_id"], who, "{what}");
        let auth_type = match who {
            "admin" => "ApiKey",
            "limited" => "Jwt",
            _ => "None",
        };
        assert_eq!(line["auth_type"], auth_type, "{what}");
        let named = route.path.contains("{collection}").then_some(SECRET);
        assert_eq!(line["collection"].as_str(), named, "{what}");
        assert_eq!(
            line["subject"].as_str(),
            (who == "limited").then_some("anna"),
            "{what}"
        );
        let let_in = who == "admin" || (who == "limited" && route.access == Access::ReadSome);
        assert_eq!(line["result"], if let_in { "ok" } else { "denied" }, "{what}");
        assert_eq!(line["error"].is_string(), !let_in, "{what}");
        // A handler may refuse for itself what the key opens.
        of_one.next_if(|next| let_in && next["result"] == "denied" && next["tracing_id"] == who);
        for secret in [PASSWORD, ADMIN, &limited] {
            assert!(!line.to_string().contains(secret), "{what}");
        }
    }
    assert_eq!(of_one.next(), None);
}

#[tokio::test]
async fn calls_leave_lines_too() {
    let (server, audit, lines) = logged();
    let caller = Caller::open_with(server.engine.clone(), |options| {
        options.audit = Some(audit.clone())
    })
    .await;
    let about = |name: &str| [&[0x0A, name.len() as u8], name.as_bytes()].concat();
    for (path, key, message) in [
        ("/qdrant.Collections/Get", Some(ADMIN), about("a")),
        ("/qdrant.Collections/Delete", Some("reader-key"), about("a")),
        ("/qdrant.StorageRead/ReadWhole", Some(ADMIN), about("a")),
        ("/qdrant.Collections/List", None, Vec::new()),
        ("/grpc.health.v1.Health/Check", None, Vec::new()),
        ("/qdrant.Nothing/Nothing", None, Vec::new()),
    ] {
        caller.call(path, key, &message).await;
    }
    let told: Vec<String> = told(&audit, &lines)
        .iter()
        .map(|line| {
            assert_eq!(line["remote"], "127.0.0.1");
            let text = |field: &str| line[field].as_str().unwrap_or("-").to_owned();
            ["method", "api", "collection", "result"].map(text).join(" ")
        })
        .collect();
    assert_eq!(
        told,
        [
            "get_collection /qdrant.Collections/Get a ok",
            "delete_collection /qdrant.Collections/Delete - denied",
            "read_whole /qdrant.StorageRead/ReadWhole a ok",
            "list_collections /qdrant.Collections/List - denied",
            "- unknown method - denied",
        ]
    );
}
