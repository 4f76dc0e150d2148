//! Every identity against every route.

use axum::body::Body;
use axum::http::StatusCode;
use ramlet_server::routes::routes;
use ramlet_server::{Access, ServerOptions};

use crate::harness::{Server, Untouched, options, request};

fn locked() -> Server {
    let mut options = options();
    options.api_key = Some("admin-key".into());
    options.alt_api_key = Some("next-key".into());
    options.read_only_api_key = Some("reader-key".into());
    Server::new(options)
}

/// A path that the pattern matches.
fn example(pattern: &str) -> String {
    pattern
        .split('/')
        .map(|part| match part {
            "{id}" => "7",
            part if part.starts_with('{') => "x",
            part => part,
        })
        .collect::<Vec<_>>()
        .join("/")
}

#[test]
fn the_table_is_as_it_was_agreed() {
    let table: Vec<String> = routes()
        .iter()
        .map(|r| format!("{} {} {:?}", r.method, r.path, r.access))
        .collect();
    let agreed: Vec<&str> = include_str!("routes.txt").lines().collect();
    assert_eq!(
        table, agreed,
        "a route or its access changed: look hard, then change routes.txt too"
    );
}

#[tokio::test]
async fn identities_against_routes() {
    let server = locked();
    let identities: [(&str, &[(&str, &str)]); 8] = [
        ("anonymous", &[]),
        ("unknown", &[("api-key", "admin-kez")]),
        ("unknown", &[("authorization", "Basic admin-key")]),
        ("reader", &[("api-key", "reader-key")]),
        ("reader", &[("authorization", "bearer reader-key")]),
        ("admin", &[("api-key", "admin-key")]),
        ("admin", &[("authorization", "Bearer admin-key")]),
        ("admin", &[("api-key", "next-key")]),
    ];
    for route in routes() {
        for (who, headers) in identities {
            let allowed = matches!(
                (who, route.access),
                ("admin", _)
                    | (_, Access::Public)
                    | ("reader", Access::Read | Access::ReadSome | Access::ReadFiles)
            );
            let body = if allowed {
                Body::empty()
            } else {
                Body::new(Untouched)
            };
            let reply = server
                .send(request(route.method, &example(route.path), headers, body))
                .await;
            let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&reply.status);
            assert_eq!(
                refused, !allowed,
                "{who} {headers:?} at {} {}: {}",
                route.method, route.path, reply.status
            );
            if refused {
                let expected = if who == "reader" {
                    StatusCode::FORBIDDEN
                } else {
                    StatusCode::UNAUTHORIZED
                };
                assert_eq!(reply.status, expected);
                assert!(!reply.error().is_empty());
            }
        }
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_passes_the_check() {
    let server = locked();
    for uri in [
        "/collections/",
        "//collections",
        "/collections%2Fx",
        "/%63ollections",
        "/collections/x%2Fpoints",
        "/healthz/../collections",
        "/healthz/%2e%2e/collections",
        "/collections/..%2f..%2fhealthz",
        "/collections?x=/healthz",
        "/healthz//../collections",
        "///collections///x//",
        "/COLLECTIONS",
    ] {
        let reply = server.get(uri).await;
        let refused = [StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND].contains(&reply.status);
        assert!(refused, "{uri}: {}", reply.status);
    }
}

#[tokio::test]
async fn keys_are_whole_or_nothing() {
    let server = locked();
    for key in [
        "",
        "a",
        "admin-ke",
        "admin-key ",
        "admin-keyadmin-key",
        "reader-kez",
        "ADMIN-KEY",
    ] {
        let reply = server
            .send(request("GET", "/collections", &[("api-key", key)], Body::empty()))
            .await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{key:?}");
    }
}

#[tokio::test]
async fn an_empty_key_is_no_key() {
    let mut options = options();
    options.api_key = Some(String::new());
    assert_eq!(
        Server::new(options).get("/collections").await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn browsers_are_not_lured_to_localhost() {
    let open = Server::open();
    let cases: [(&[(&str, &str)], bool); 6] = [
        (&[("host", "localhost:6333")], true),
        (&[("host", "127.0.0.1:6333")], true),
        (&[("host", "[::1]:6333")], true),
        (&[("host", "evil.example:6333")], false),
        (
            &[("host", "localhost:6333"), ("origin", "http://localhost:6333")],
            true,
        ),
        (
            &[("host", "localhost:6333"), ("origin", "https://evil.example")],
            false,
        ),
    ];
    for (headers, allowed) in cases {
        let mut request = request("GET", "/collections", &[], Body::empty());
        for (name, value) in headers {
            let name = axum::http::HeaderName::from_static(name);
            request
                .headers_mut()
                .insert(name, value.parse().expect("a header"));
        }
        let reply = open.send(request).await;
        assert_eq!(
            reply.status.is_success(),
            allowed,
            "{headers:?}: {}",
            reply.status
        );
    }
}

/// A server of these options, and whether pages of other origins may use it.
async fn check_pages(adjust: fn(&mut ServerOptions), allowed: bool) {
    let mut options = options();
    adjust(&mut options);
    let server = Server::new(options);
    let page = [("origin", "https://page.example"), ("api-key", "key")];
    let wish = [
        page[0],
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "api-key,content-type"),
    ];
    for (path, found) in [("/collections", true), ("/nowhere", false)] {
        let reply = server.send(request("GET", path, &page, Body::empty())).await;
        let named = reply.headers.get("access-control-allow-origin");
        assert_eq!(named.is_some_and(|v| v == "*"), allowed, "{path}");
        assert_eq!(reply.status.is_success() && allowed, found && allowed, "{path}");
        let reply = server.send(request("OPTIONS", path, &wish, Body::empty())).await;
        assert_eq!(reply.status == StatusCode::NO_CONTENT, allowed, "{path}");
        let headers = reply.headers.get("access-control-allow-headers");
        assert_eq!(headers.is_some_and(|v| v == "api-key,content-type"), allowed);
    }
    let without = server
        .send(request("GET", "/collections", &page[1..], Body::empty()))
        .await;
    assert!(
        !without.headers.contains_key("access-control-allow-origin"),
        "no page asks"
    );
}

#[tokio::test]
async fn pages_of_other_origins_are_let_in_where_a_key_or_the_user_says_so() {
    check_pages(|_| {}, false).await;
    check_pages(|options| options.cors = Some(true), true).await;
    check_pages(|options| options.api_key = Some("key".into()), true).await;
    let kept_out = |options: &mut ServerOptions| {
        options.api_key = Some("key".into());
        options.cors = Some(false);
    };
    check_pages(kept_out, false).await;
}
