//! What each identity is told by each method of gRPC. `methods.txt` is the table; a method that isn't in it fails.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use axum::http::Request;
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use ramlet::Engine;
use ramlet_proto::DESCRIPTORS;
use ramlet_proto::wire::{Field, Fields};
use ramlet_server::{GrpcPort, ServerOptions};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::fields::{SECRET, filled, identities, locked};
use crate::harness::options_of;

/// The codes' names, by number.
const CODES: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid argument",
    "deadline exceeded",
    "not found",
    "already exists",
    "permission denied",
    "resource exhausted",
    "failed precondition",
    "aborted",
    "out of range",
    "unimplemented",
    "internal",
    "unavailable",
    "data loss",
    "unauthenticated",
];

/// The port of gRPC over a filled engine, and a connection to it.
pub struct Caller {
    send: SendRequest<Bytes>,
    pub engine: Arc<Engine>,
    _stop: oneshot::Sender<()>,
}

impl Caller {
    pub async fn open(server: crate::harness::Server) -> Caller {
        Caller::open_with(server.engine, |_| {}).await
    }

    pub async fn open_with(engine: Arc<Engine>, adjust: impl FnOnce(&mut ServerOptions)) -> Caller {
        let mut options = locked(options_of(engine.clone()));
        adjust(&mut options);
        (options.port, options.grpc_port) = (0, GrpcPort::At(0));
        let bound = ramlet_server::bind(options).await.expect("free ports");
        let addr = bound.grpc_addr().expect("it was asked for");
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(bound.serve(async {
            let _ = stopped.await;
        }));
        let socket = TcpStream::connect(addr).await.expect("connects");
        let (send, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
        tokio::spawn(connection);
        Caller {
            send,
            engine,
            _stop: stop,
        }
    }

    /// The name of the code, and what is told with it. Of several messages the first will do.
    pub async fn call(&self, path: &str, key: Option<&str>, message: &[u8]) -> (&'static str, String) {
        let mut request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(key) = key {
            request = request.header("api-key", key);
        }
        let mut send = self.send.clone().ready().await.expect("the connection lives");
        let request = request.body(()).expect("a request");
        let (response, mut body) = send.send_request(request, false).expect("sends");
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(message.len() as u32);
        frame.put_slice(message);
        body.send_data(frame.freeze(), true).expect("sends");
        let (parts, mut body) = response.await.expect("an answer").into_parts();
        let told = |headers: &axum::http::HeaderMap| {
            let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
            let code: usize = text("grpc-status")?.parse().ok()?;
            Some((CODES[code], text("grpc-message").unwrap_or_default()))
        };
        if let Some(told) = told(&parts.headers) {
            return told;
        }
        let is_stream = path.ends_with("/Watch") || path.ends_with("/ServerReflectionInfo");
        while let Some(data) = body.data().await {
            let data = data.expect("the answer comes whole");
            body.flow_control()
                .release_capacity(data.len())
                .expect("it was taken");
            if is_stream && !data.is_empty() {
                return (CODES[0], String::new());
            }
        }
        let trailers = body.trailers().await.expect("trailers").expect("a status");
        told(&trailers).expect("a status")
    }
}

/// The text of a field, and the messages in one.
fn parts(message: &'static [u8], number: u32) -> impl Iterator<Item = &'static [u8]> {
    Fields::new(message).filter_map(move |field| match field {
        Ok((n, Field::Len(bytes))) if n == number => Some(bytes),
        _ => None,
    })
}

fn text(message: &'static [u8], number: u32) -> &'static str {
    let bytes = parts(message, number).next().unwrap_or_default();
    std::str::from_utf8(bytes).expect("names are text")
}

/// Every method that reflection tells of: of each file its package (2), services (6), their names (1) and methods (2).
fn methods() -> Vec<String> {
    let mut all = Vec::new();
    for file in parts(DESCRIPTORS, 1) {
        for service in parts(file, 6) {
            let name = format!("{}.{}", text(file, 2), text(service, 1));
            all.extend(parts(service, 2).map(|method| format!("/{name}/{}", text(method, 1))));
        }
    }
    // Served, but not told of.
    all.push("/grpc.health.v1.Health/Watch".to_owned());
    all
}

/// A message that names a collection, as nearly every one does in its first field.
fn about(collection: &str) -> Vec<u8> {
    let mut message = vec![0x0A, collection.len() as u8];
    message.extend_from_slice(collection.as_bytes());
    message
}

/// Whether it is one of the API's, and not of health or reflection, whose messages name no collection.
fn is_of_the_api(method: &str) -> bool {
    method.starts_with("/qdrant.")
}

/// Whether it may change what the next one asks about.
fn changes(method: &str) -> bool {
    let reads = [
        "Get",
        "List",
        "Exists",
        "Info",
        "Check",
        "Search",
        "Recommend",
        "Discover",
        "Query",
        "Scroll",
        "Count",
        "Facet",
        "StorageRead",
    ];
    is_of_the_api(method) && !reads.iter().any(|word| method.contains(word))
}

#[tokio::test]
async fn identities_against_methods() {
    let mut caller = Caller::open(filled().await).await;
    let mut table = String::new();
    for method in methods() {
        let mut outcomes = BTreeMap::<&str, Vec<&str>>::new();
        for (who, key) in identities() {
            let message = match is_of_the_api(&method) {
                true => about("a"),
                false => Vec::new(),
            };
            let (code, told) = caller.call(&method, key.as_deref(), &message).await;
            let is_limited =
                who.starts_with("a:") || ["nobody", "expired", "forged", "unsigned"].contains(&who);
            assert!(!is_limited || !told.contains(SECRET), "{who} at {method}: {told}");
            outcomes.entry(code).or_default().push(who);
            if code == CODES[0] && changes(&method) {
                caller = Caller::open(filled().await).await;
            }
        }
        writeln!(table, "{method}").unwrap();
        for (code, who) in outcomes {
            writeln!(table, "  {code}: {}", who.join(",")).unwrap();
        }
    }
    let agreed = include_str!("methods.txt");
    if table != agreed {
        let now = std::env::temp_dir().join("methods.txt");
        std::fs::write(&now, &table).expect("writes");
        let mut pairs = table.lines().zip(agreed.lines());
        let differs = pairs.find(|(now, before)| now != before);
        panic!(
            "what an identity may call has changed: look hard at {}, then make it methods.txt. First: {differs:?}",
            now.display()
        );
    }
}

/// A collection that isn't theirs is to those who may see another one as if it weren't there.
#[tokio::test]
async fn nobody_finds_out_by_grpc_what_there_is() {
    let caller = Caller::open(filled().await).await;
    for method in methods().into_iter().filter(|method| is_of_the_api(method)) {
        for (who, key) in identities() {
            if ["admin", "m", "r", "reader"].contains(&who) {
                continue;
            }
            let told = async |name: &str| {
                let (code, told) = caller.call(&method, key.as_deref(), &about(name)).await;
                (code, told.replace(name, "NAME"))
            };
            let missing = told("nowhere").await;
            for name in [SECRET, "alias-undisclosed"] {
                assert_eq!(told(name).await, missing, "{who} at {method}");
            }
        }
    }
}
