//! Requests to a server over the sample collection: bodies in JSON, compressed bodies, messages of gRPC.
//!
//! What only reads runs to its end on the sample. What writes is asked of a collection that isn't there: its body is read and turned into
//! the engine's nouns, and nothing changes, so that an input always does the same.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use http_body_util::BodyExt;
use ramlet::Engine;
use ramlet_proto::{Message, qdrant as q};
use ramlet_server::grpc::{methods, unframed};
use ramlet_server::{App, ServerOptions, router};
use serde_json::Value;
use tokio::runtime::Runtime;
use tower_service::Service;

use crate::Seed;
use crate::input::Input;
use crate::sample::{self, NAME};

/// Of a collection that isn't there.
const MISSING: &str = "missing";

/// Routes below a collection that take a body and change nothing.
const READS: [&str; 18] = [
    "points/query",
    "points/query/batch",
    "points/query/groups",
    "points/search",
    "points/search/batch",
    "points/search/groups",
    "points/recommend",
    "points/recommend/batch",
    "points/recommend/groups",
    "points/discover",
    "points/discover/batch",
    "points/scroll",
    "points/count",
    "points",
    "facet",
    "points/search/matrix/pairs",
    "points/search/matrix/offsets",
    // Beside the collections.
    "/plan",
];

/// Those that change points or settings.
const WRITES: [(&str, &str); 15] = [
    ("PUT", "points"),
    ("POST", "points/delete"),
    ("POST", "points/payload"),
    ("PUT", "points/payload"),
    ("POST", "points/payload/delete"),
    ("POST", "points/payload/clear"),
    ("PUT", "points/vectors"),
    ("POST", "points/vectors/delete"),
    ("POST", "points/batch"),
    ("PUT", "index"),
    ("PUT", "vectors/new"),
    ("PATCH", ""),
    ("POST", "cluster"),
    ("PUT", "shards"),
    ("PUT", "snapshots/recover"),
];

struct Server {
    engine: Arc<Engine>,
    app: Arc<App>,
    router: Router,
    runtime: Runtime,
}

/// One for all inputs.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let engine = sample::open(sample::ram()).expect("opens");
        sample::fill(&engine);
        engine
            .collection(NAME)
            .and_then(|collection| collection.wait_idle())
            .expect("settles");
        let mut options = ServerOptions::new(engine.clone());
        options.request_bytes = 8 << 20;
        options.response_bytes = 8 << 20;
        let app = App::new(options);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        Server {
            engine,
            router: router(app.clone()),
            app,
            runtime,
        }
    })
}

impl Server {
    /// The status, and the body. No request makes the server fail, and none is a fault of it.
    fn send(&self, method: &str, path: &str, encoding: &str, body: &[u8]) -> (StatusCode, Vec<u8>) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("content-encoding", encoding)
            .header("content-length", body.len())
            .body(Body::from(Bytes::copy_from_slice(body)))
            .expect("a request");
        let mut router = self.router.clone();
        let (status, answer) = self.runtime.block_on(async {
            let answered: Result<_, std::convert::Infallible> = router.call(request).await;
            let Ok(response) = answered;
            let status = response.status();
            let body = response.into_body().collect().await;
            (
                status,
                body.map(|body| body.to_bytes().to_vec()).unwrap_or_default(),
            )
        });
        assert!(
            status != StatusCode::INTERNAL_SERVER_ERROR,
            "{method} {path}: {}",
            String::from_utf8_lossy(&answer)
        );
        (status, answer)
    }
}

/// The input is a byte that chooses the route, then the body.
pub fn query(bytes: &[u8]) {
    let mut input = Input(bytes);
    let route = input.pick(&READS);
    let path = match route.strip_prefix('/') {
        Some(_) => (*route).to_owned(),
        None => format!("/collections/{NAME}/{route}"),
    };
    let (status, answer) = server().send("POST", &path, "identity", input.0);
    let told = serde_json::from_slice::<Value>(&answer);
    assert!(told.is_ok(), "{status}: {}", String::from_utf8_lossy(&answer));
}

pub fn query_seeds() -> Vec<Seed> {
    let of = |route: &str, body: &str| {
        let place = READS.iter().position(|known| *known == route);
        [&[place.expect("a route of the list") as u8], body.as_bytes()].concat()
    };
    vec![
        (
            "nearest",
            of(
                "points/query",
                r#"{"query":[1,0,0,0,0,0,0,0,0,0,0,0.5],"limit":3,"params":{"exact":true},"with_payload":["n"],"with_vector":true}"#,
            ),
        ),
        (
            "stages",
            of(
                "points/query",
                r#"{"prefetch":[{"query":6,"using":"graph","limit":9},{"query":{"indices":[3,100],"values":[1,2]},"using":"words","filter":{"must":{"key":"n","range":{"lt":9}}}}],"query":{"rrf":{"k":3,"weights":[1,2]}}}"#,
            ),
        ),
        (
            "formula",
            of(
                "points/query",
                r#"{"prefetch":{"query":8},"query":{"formula":{"sum":["$score",{"mult":[0.5,{"key":"k","match":{"value":"key1"}}]},{"exp_decay":{"x":{"datetime_key":"d"},"target":{"datetime":"2024-06-01T00:00:00Z"},"scale":86400}},{"geo_distance":{"origin":{"lon":1,"lat":2},"to":"g"}}]},"defaults":{"f":1}}}"#,
            ),
        ),
        (
            "text",
            of(
                "points/query",
                r#"{"query":{"text":{"query":"disk \"small vector\" the","scoring":{"bm25":{"k":1.1,"b":0.5}}}},"using":"t","highlight":{"fragments":2,"fragment_chars":40}}"#,
            ),
        ),
        (
            "mmr",
            of(
                "points/query",
                r#"{"query":{"nearest":[1,2,3,4,5,6,7,8,9,10,11,12],"mmr":{"diversity":0.5,"candidates_limit":20}},"using":"scalar"}"#,
            ),
        ),
        (
            "order",
            of(
                "points/query",
                r#"{"query":{"order_by":{"key":"d","direction":"desc","start_from":"2024-05-01"}},"limit":4}"#,
            ),
        ),
        (
            "several",
            of(
                "points/query",
                r#"{"query":[[1,0,0,0,0,0,0,0,0,0,0,0],[0,1,0,0,0,0,0,0,0,0,0,0]],"using":"several","score_threshold":0.1}"#,
            ),
        ),
        (
            "context",
            of(
                "points/query",
                r#"{"query":{"context":[{"positive":6,"negative":8}]},"using":"binary"}"#,
            ),
        ),
        (
            "batch",
            of(
                "points/query/batch",
                r#"{"searches":[{"query":{"recommend":{"positive":[6,8],"negative":[9],"strategy":"best_score"}}},{"query":{"sample":"random"}}]}"#,
            ),
        ),
        (
            "groups",
            of(
                "points/query/groups",
                r#"{"query":6,"group_by":"k","group_size":2,"limit":3,"with_lookup":{"collection":"c"}}"#,
            ),
        ),
        (
            "search",
            of(
                "points/search",
                r#"{"vector":{"name":"product","vector":[1,2,3,4,5,6,7,8,9,10,11,12]},"limit":3,"params":{"hnsw_ef":64,"quantization":{"rescore":false,"oversampling":2}}}"#,
            ),
        ),
        (
            "discover",
            of(
                "points/discover",
                r#"{"target":6,"context":[{"positive":8,"negative":9}],"limit":2}"#,
            ),
        ),
        (
            "scroll",
            of(
                "points/scroll",
                r#"{"limit":5,"offset":8,"filter":{"must":[{"key":"t","match":{"phrase":"small page"}}]},"order_by":null}"#,
            ),
        ),
        (
            "count",
            of(
                "points/count",
                r#"{"filter":{"must_not":[{"key":"b","match":{"value":true}}]},"exact":true}"#,
            ),
        ),
        (
            "facet",
            of(
                "facet",
                r#"{"key":"k","limit":2,"filter":{"must":[{"key":"n","match":{"except":[1]}}]}}"#,
            ),
        ),
        (
            "matrix",
            of(
                "points/search/matrix/pairs",
                r#"{"sample":10,"limit":2,"using":"bytes"}"#,
            ),
        ),
        ("plan", of("/plan", r#"{"points":1000000,"dims":100}"#)),
    ]
}

/// The input is a byte that chooses the route, then the body.
pub fn update(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (method, route) = *input.pick(&WRITES);
    let path = format!("/collections/{MISSING}/{route}");
    let (status, _) = server().send(method, path.trim_end_matches('/'), "identity", input.0);
    assert!(!status.is_success(), "{status}: there is no such collection");
}

pub fn update_seeds() -> Vec<Seed> {
    let of = |route: usize, body: &str| [&[route as u8], body.as_bytes()].concat();
    vec![
        (
            "points",
            of(
                0,
                r#"{"points":[{"id":1,"vector":{"":[1,2.5e-3],"words":{"indices":[1,9],"values":[0.5,1]},"several":[[1,2],[3,4]]},"payload":{"a":[1,{"b":null}]}}]}"#,
            ),
        ),
        (
            "columns",
            of(
                0,
                r#"{"batch":{"ids":[1,"6f9619ff-8b86-d011-b42d-00c04fc964ff"],"vectors":[[1,2],[3,4]],"payloads":[{},null]}}"#,
            ),
        ),
        (
            "text",
            of(
                0,
                r#"{"points":[{"id":1,"vector":{"words":{"text":"some words","model":"qdrant/bm25","options":{"language":"german"}}}}],"update_filter":{"must":{"key":"n","match":{"value":1}}}}"#,
            ),
        ),
        ("delete", of(1, r#"{"filter":{"must":{"has_id":[1,2]}}}"#)),
        (
            "payload",
            of(2, r#"{"payload":{"a":1},"points":[1,2],"key":"b.c[0]"}"#),
        ),
        (
            "batch",
            of(
                8,
                r#"{"operations":[{"upsert":{"points":[]}},{"delete":{"points":[3]}},{"set_payload":{"payload":{},"filter":{}}},{"clear_payload":{"points":[1]}},{"delete_vectors":{"points":[1],"vector":["a"]}}]}"#,
            ),
        ),
        (
            "index",
            of(
                9,
                r#"{"field_name":"t","field_schema":{"type":"text","tokenizer":"multilingual","stopwords":{"languages":["english"],"custom":["x"]},"stemmer":{"type":"snowball","language":"greek"},"scoring":true}}"#,
            ),
        ),
        (
            "vector",
            of(
                10,
                r#"{"dense":{"size":4,"distance":"Cosine","quantization_config":{"turbo":{"bits":"bits4"}}}}"#,
            ),
        ),
        (
            "settings",
            of(
                11,
                r#"{"optimizers_config":{"indexing_threshold":100},"strict_mode_config":{"enabled":true,"max_query_limit":5}}"#,
            ),
        ),
    ]
}

/// How an input of [`body`] becomes a packed body.
const PACKINGS: [&str; 4] = ["gzip as it is", "deflate as it is", "into gzip", "into deflate"];

/// The input is a byte, then a packed body, or one to be packed. A body's checksum is behind it, so what comes before is decoded anyhow;
/// a packed one says what the plain one says.
pub fn body(bytes: &[u8]) {
    let path = format!("/collections/{NAME}/points/count");
    let mut input = Input(bytes);
    let packing = input.below(PACKINGS.len());
    let encoding = ["gzip", "deflate"][packing % 2];
    if packing < 2 {
        server().send("POST", &path, encoding, input.0);
        return;
    }
    let packed = match encoding {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(input.0).and_then(|()| encoder.finish())
        }
        _ => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(input.0).and_then(|()| encoder.finish())
        }
    };
    let packed = packed.expect("packs into memory");
    let plain = server().send("POST", &path, "identity", input.0);
    let unpacked = server().send("POST", &path, encoding, &packed);
    assert_eq!(plain.0, unpacked.0);
}

pub fn body_seeds() -> Vec<Seed> {
    let text = br#"{"filter":{"must":{"key":"n","match":{"value":1}}},"exact":true}"#;
    let mut gzip = GzEncoder::new(vec![0], Compression::fast());
    let mut zlib = ZlibEncoder::new(vec![1], Compression::fast());
    gzip.write_all(text).expect("packs into memory");
    zlib.write_all(text).expect("packs into memory");
    let gzip = gzip.finish().expect("packs into memory");
    vec![
        ("two-members", [&gzip[..], &gzip[1..]].concat()),
        ("gzip", gzip),
        ("deflate", zlib.finish().expect("packs into memory")),
        ("to-gzip", [&[2], &text[..]].concat()),
        ("to-deflate", [&[3], &text[..]].concat()),
    ]
}

/// The input is a byte that chooses the method, then the message.
pub fn grpc(bytes: &[u8]) {
    let mut input = Input(bytes);
    let all = methods();
    let method = &all[input.below(all.len())];
    // They write whole snapshots.
    if method.path.starts_with("/qdrant.Snapshots/") {
        return;
    }
    let message = Bytes::copy_from_slice(input.0);
    let server = server();
    let call = unframed(&server.app, method.path, message, MISSING);
    if let Err(e) = server.runtime.block_on(call) {
        assert!(
            e.status != StatusCode::INTERNAL_SERVER_ERROR,
            "{}: {}",
            method.path,
            e.message
        );
    }
    // It may have been created.
    server
        .engine
        .delete_collection(MISSING)
        .expect("nothing hinders it");
}

pub fn grpc_seeds() -> Vec<Seed> {
    let of = |path: &str, message: Vec<u8>| {
        let place = methods().iter().position(|method| method.path.ends_with(path));
        [&[place.expect("a method") as u8][..], &message].concat()
    };
    let id = |n| q::PointId {
        point_id_options: Some(q::point_id::PointIdOptions::Num(n)),
    };
    let matched = q::Condition {
        condition_one_of: Some(q::condition::ConditionOneOf::Field(q::FieldCondition {
            key: "n".into(),
            range: Some(q::Range {
                lt: Some(9.0),
                ..Default::default()
            }),
            ..Default::default()
        })),
    };
    let filter = q::Filter {
        must: vec![matched],
        ..Default::default()
    };
    let search = q::SearchPoints {
        collection_name: NAME.into(),
        vector: vec![0.5; 12],
        limit: 3,
        filter: Some(filter.clone()),
        ..Default::default()
    };
    let scroll = q::ScrollPoints {
        collection_name: NAME.into(),
        filter: Some(filter.clone()),
        limit: Some(4),
        offset: Some(id(3)),
        ..Default::default()
    };
    let get = q::GetPoints {
        collection_name: NAME.into(),
        ids: vec![id(6), id(8)],
        ..Default::default()
    };
    let count = q::CountPoints {
        collection_name: NAME.into(),
        filter: Some(filter),
        exact: Some(true),
        ..Default::default()
    };
    let upsert = q::UpsertPoints {
        collection_name: NAME.into(),
        points: vec![q::PointStruct {
            id: Some(id(1)),
            // A map's entry: a key, and a Value that is a text.
            payload: vec![Bytes::from_static(b"\x0a\x01a\x12\x04\x22\x02hi")],
            vectors: None,
        }],
        ..Default::default()
    };
    vec![
        ("search", of("Points/Search", search.encode_to_vec())),
        ("scroll", of("Points/Scroll", scroll.encode_to_vec())),
        ("get", of("Points/Get", get.encode_to_vec())),
        ("count", of("Points/Count", count.encode_to_vec())),
        ("upsert", of("Points/Upsert", upsert.encode_to_vec())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else mutations of them would find the first check and nothing behind it.
    #[test]
    fn valid_inputs_are_answered() {
        let mut refused = Vec::new();
        for (name, bytes) in query_seeds() {
            let mut input = Input(&bytes);
            let route = *input.pick(&READS);
            let path = match route.strip_prefix('/') {
                Some(_) => route.to_owned(),
                None => format!("/collections/{NAME}/{route}"),
            };
            let (status, answer) = server().send("POST", &path, "identity", input.0);
            if !status.is_success() {
                refused.push(format!("{name}: {}", String::from_utf8_lossy(&answer)));
            }
        }
        for (name, bytes) in update_seeds() {
            let mut input = Input(&bytes);
            let (method, route) = *input.pick(&WRITES);
            let path = format!("/collections/{MISSING}/{route}");
            let (status, answer) = server().send(method, path.trim_end_matches('/'), "identity", input.0);
            if status != StatusCode::NOT_FOUND {
                refused.push(format!("{name}: {}", String::from_utf8_lossy(&answer)));
            }
        }
        for (name, bytes) in grpc_seeds() {
            let (method, message) = bytes.split_first().expect("a method");
            let method = &methods()[usize::from(*method)];
            let message = Bytes::copy_from_slice(message);
            let call = unframed(&server().app, method.path, message, MISSING);
            match server().runtime.block_on(call) {
                Ok(()) => {}
                Err(e) if name == "upsert" && e.status == StatusCode::NOT_FOUND => {}
                Err(e) => refused.push(format!("{name}: {}", e.message)),
            }
        }
        assert!(refused.is_empty(), "{refused:#?}");
    }
}
