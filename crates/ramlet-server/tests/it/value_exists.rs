//! Tokens that hold only while a point is there (`value_exists`).

use axum::body::Body;
use ramlet::{PointId, PointsSelector, UpdateOp};
use serde_json::{Value, json};

use crate::fields::{ADMIN, SECRET, filled, token};
use crate::harness::{Server, request};
use crate::methods::Caller;

fn holding(value_exists: Value, more: Value) -> String {
    let mut claims = json!({"access": "m", "value_exists": value_exists});
    for (name, value) in more.as_object().expect("claims") {
        claims[name] = value.clone();
    }
    token(json!({"alg": "HS256", "typ": "JWT"}), claims, ADMIN)
}

fn point_with(collection: &str, matches: &[(&str, Value)]) -> Value {
    let matches = matches
        .iter()
        .map(|(key, value)| json!({"key": key, "value": value}));
    json!({"collection": collection, "matches": matches.collect::<Vec<_>>()})
}

async fn admin(server: &Server, method: &str, path: &str, body: Value) {
    let asked = request(method, path, &[("api-key", ADMIN)], Body::from(body.to_string()));
    server.send(asked).await.result();
}

/// The collection `users`: each of two has what the other hasn't, and one more is to go.
async fn with_users(settings: Value, of: &str) -> Server {
    let server = filled().await;
    admin(&server, "PUT", "/collections/users", settings).await;
    if !of.is_empty() {
        admin(
            &server,
            "PUT",
            "/collections/users/shards",
            json!({"shard_key": of}),
        )
        .await;
    }
    let points = json!([
        {"id": 1, "vector": {}, "payload": {"name": "ann", "role": "editor", "groups": ["x", "y"], "n": 1}},
        {"id": 2, "vector": {}, "payload": {"name": "bob", "role": "reader", "on": true, "in": {"a": 3}}},
        {"id": 3, "vector": {}, "payload": {"name": "cyd"}},
    ]);
    let mut upsert = json!({"points": points});
    if !of.is_empty() {
        upsert["shard_key"] = json!(of);
    }
    admin(&server, "PUT", "/collections/users/points?wait=true", upsert).await;
    server
}

async fn status(server: &Server, key: &str) -> u16 {
    let asked = request("GET", "/collections/a", &[("api-key", key)], Body::empty());
    server.send(asked).await.status.as_u16()
}

#[tokio::test]
async fn a_token_holds_while_its_point_is_there() {
    let keyed = json!({"sharding_method": "custom"});
    for (settings, of) in [(json!({}), ""), (keyed, "k")] {
        let server = with_users(settings, of).await;
        let check = async |matches: &[(&str, Value)], expected: u16| {
            let key = holding(point_with("users", matches), json!({}));
            assert_eq!(status(&server, &key).await, expected, "{matches:?} {of}");
        };
        check(&[("name", json!("ann"))], 200).await;
        check(&[("name", json!("ann")), ("role", json!("editor"))], 200).await;
        // Each is somewhere, both together nowhere.
        check(&[("name", json!("ann")), ("role", json!("reader"))], 401).await;
        check(&[("groups", json!("y"))], 200).await;
        check(&[("groups[]", json!("y"))], 200).await;
        check(&[("n", json!(1))], 200).await;
        check(&[("on", json!(true))], 200).await;
        check(&[("in.a", json!(3))], 200).await;
        check(&[("in.a", json!(4))], 401).await;
        check(&[("nothing", json!("ann"))], 401).await;
        // Whoever says nothing of the point asks only that there is one.
        check(&[], 200).await;
        let key = holding(point_with("users", &[("name", json!("cyd"))]), json!({}));
        assert_eq!(status(&server, &key).await, 200);
        let mut gone = json!({"points": [3]});
        if !of.is_empty() {
            gone["shard_key"] = json!(of);
        }
        admin(
            &server,
            "POST",
            "/collections/users/points/delete?wait=true",
            gone,
        )
        .await;
        assert_eq!(
            status(&server, &key).await,
            401,
            "its point was deleted after it was issued"
        );
        admin(&server, "DELETE", "/collections/users", json!(null)).await;
        assert_eq!(status(&server, &key).await, 403, "its collection was deleted");
    }
}

#[tokio::test]
async fn a_point_does_not_make_up_for_the_rest() {
    let server = with_users(json!({}), "").await;
    let ann = || point_with("users", &[("name", json!("ann"))]);
    for (value_exists, more, expected) in [
        (ann(), json!({"exp": 1_000_000_000}), 403),
        (ann(), json!({"exp": 4_000_000_000u64}), 200),
        (ann(), json!({"access": "r"}), 200),
        (
            ann(),
            json!({"access": [{"collection": "a", "access": "r"}]}),
            200,
        ),
        (
            ann(),
            json!({"access": [{"collection": SECRET, "access": "rw"}]}),
            403,
        ),
        // The collection of the point needn't be one that the token opens; it must be there.
        (
            point_with(SECRET, &[("n", json!(SECRET))]),
            json!({"access": [{"collection": "a", "access": "r"}]}),
            200,
        ),
        (point_with("missing", &[("name", json!("ann"))]), json!({}), 403),
        (json!("users"), json!({}), 401),
        (json!({"collection": "users"}), json!({}), 401),
    ] {
        let key = holding(value_exists.clone(), more.clone());
        assert_eq!(status(&server, &key).await, expected, "{value_exists} {more}");
    }
    let forged = token(
        json!({"alg": "HS256", "typ": "JWT"}),
        json!({"access": "m", "value_exists": ann()}),
        "another-key",
    );
    assert_eq!(status(&server, &forged).await, 403);
}

#[tokio::test]
async fn grpc_asks_for_the_point_too() {
    let caller = Caller::open(with_users(json!({}), "").await).await;
    let collection = [&[0x0A, 1][..], b"a"].concat();
    let key = holding(point_with("users", &[("name", json!("cyd"))]), json!({}));
    let get = async |key: &str| {
        let method = "/qdrant.Collections/Get";
        caller.call(method, Some(key), &collection).await.0
    };
    assert_eq!(get(&key).await, "ok");
    let users = caller.engine.collection("users").expect("is there");
    let gone = UpdateOp::Delete(PointsSelector::Ids(vec![PointId::Num(3)]));
    users.update(gone).expect("deletes");
    assert_eq!(get(&key).await, "unauthenticated");
    let missing = holding(point_with("missing", &[]), json!({}));
    assert_eq!(get(&missing).await, "permission denied");
}
