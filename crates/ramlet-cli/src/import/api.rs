//! The few calls of the REST API that an import makes.

use std::fmt;
use std::io::{self, Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use indicatif::ProgressBar;
use ramlet_bench::api::{collection_path, sentence};
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::{Method, Uri};
use ureq::{Agent, SendBody};

use super::interrupt;
use super::source::Layout;
use crate::args::{Datatype, Distance};
use crate::output::note;
use crate::serving::redirect::followed;
use crate::settings::tls_settings;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that merges may keep an upsert waiting, but not for longer than this.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
const ANSWER_BYTES_MAX: u64 = 16 << 20;
const COUNT_EVERY: Duration = Duration::from_millis(200);
/// How long a connection that fails is tried again; upserts may be repeated, they end in the same state.
const RECONNECT_FOR: Duration = Duration::from_secs(30);
/// Refusals in a row from which on it is told that the server refuses, and each time that they are twice as many.
const REFUSED_TOLD: u32 = 4;
/// How long a server may answer nothing but 429 to one request.
const BUSY_FOR: Duration = Duration::from_secs(600);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// A server, and the key for it. Cheap to share: connections are kept alive inside.
pub struct Api {
    agent: Agent,
    url: String,
    key: Option<String>,
}

/// A server's answer.
pub struct Reply {
    pub status: u16,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

/// An answer that isn't read, as it is longer than was asked for: less of it may be.
#[derive(Debug)]
pub struct TooLong {
    /// When the server told before it sent.
    bytes: Option<u64>,
    bytes_max: u64,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.bytes_max;
        match self.bytes {
            Some(bytes) => write!(f, "a response of {bytes} bytes; the limit is {most}"),
            None => write!(f, "a response longer than the limit of {most} bytes"),
        }
    }
}

impl std::error::Error for TooLong {}

/// The server is gone, for everything that would be asked of it next as well.
#[derive(Debug)]
pub struct ServerGone(String);

impl fmt::Display for ServerGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer from {}", self.0)
    }
}

/// Why there is no reply.
enum Failure {
    TooLong(TooLong),
    Http(ureq::Error),
}

impl From<ureq::Error> for Failure {
    fn from(error: ureq::Error) -> Failure {
        match error {
            ureq::Error::BodyExceedsLimit(bytes_max) => Failure::TooLong(TooLong {
                bytes: None,
                bytes_max,
            }),
            error => Failure::Http(error),
        }
    }
}

/// Why the server takes no points.
#[derive(Debug)]
pub enum Refusal {
    /// Smaller requests may pass.
    TooLarge(String),
    /// A point that the collection can't take is among them.
    Wrong(anyhow::Error),
    /// Anything else that repeating won't change.
    Final(anyhow::Error),
}

/// What the collection says of itself.
#[derive(Debug, Deserialize)]
pub struct CollectionState {
    pub status: String,
    #[serde(default)]
    pub points_count: Option<u64>,
    #[serde(default)]
    pub optimizer_status: Value,
    pub config: Value,
    #[serde(default)]
    pub payload_schema: Value,
    /// What another Ramlet tells beyond the API.
    #[serde(default)]
    pub ramlet: Value,
}

impl Api {
    /// `connections`: how many threads will ask at once.
    pub fn new(url: &str, key: Option<String>, connections: usize) -> Result<Api> {
        let url = url.trim_end_matches('/').to_string();
        let host = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"));
        if host.is_none_or(str::is_empty) {
            bail!("the URL '{url}' must begin with http:// or https://");
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .max_idle_connections_per_host(connections)
            .tls_config(tls_settings::of_client())
            .build();
        Ok(Api {
            agent: config.new_agent(),
            url,
            // An empty variable is an unset one.
            key: key.filter(|key| !key.is_empty()),
        })
    }

    fn call(&self, method: Method, path: &str, body: &[u8], bytes_max: u64) -> Result<Reply, Failure> {
        let uri = format!("{}{path}", self.url).parse::<Uri>();
        let uri = uri.map_err(|e| ureq::Error::from(ureq::http::Error::from(e)))?;
        let ask = |uri: &Uri, key: Option<&str>| {
            let mut request = ureq::http::Request::builder()
                .method(&method)
                .uri(uri)
                .header("content-type", "application/json");
            if let Some(key) = key {
                request = request.header("api-key", key);
            }
            self.agent.run(request.body(body)?)
        };
        // What changes something isn't said twice, and never to another server.
        let mut answer = match method {
            Method::GET => followed(uri, self.key.as_deref(), ask),
            _ => ask(&uri, self.key.as_deref()),
        }?;
        let bytes = answer.body().content_length();
        if bytes.is_some_and(|bytes| bytes > bytes_max) {
            return Err(Failure::TooLong(TooLong { bytes, bytes_max }));
        }
        let retry_after = answer
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        Ok(Reply {
            status: answer.status().as_u16(),
            retry_after,
            body: answer.body_mut().with_config().limit(bytes_max).read_to_vec()?,
        })
    }

    /// Asks until there is an answer other than 429: waits as long as the server says, and outlives a short loss of the connection.
    pub fn ask(&self, method: Method, path: &str, body: &[u8]) -> Result<Reply> {
        self.ask_for(method, path, body, ANSWER_BYTES_MAX)
    }

    /// As [`Api::ask`], for so many bytes at most: else the error is [`TooLong`].
    pub fn ask_for(&self, method: Method, path: &str, body: &[u8], bytes_max: u64) -> Result<Reply> {
        let start = Instant::now();
        let (mut pause, mut lost_since, mut refused) = (Duration::from_millis(250), None, 0u32);
        loop {
            let failure = match self.call(method.clone(), path, body, bytes_max) {
                Ok(reply) if reply.is_busy() && start.elapsed() < BUSY_FOR => {
                    lost_since = None;
                    refused += 1;
                    if refused >= REFUSED_TOLD && refused.is_power_of_two() {
                        let seconds = start.elapsed().as_secs();
                        note!(
                            "refused {refused} times in {seconds} s, retrying: {}",
                            reply.sentence()
                        );
                    }
                    sleep(
                        reply
                            .retry_after
                            .unwrap_or(Duration::from_secs(1))
                            .min(RETRY_AFTER_MAX),
                    );
                    interrupt::check()?;
                    continue;
                }
                Ok(reply) => return Ok(reply),
                Err(Failure::TooLong(why)) => return Err(anyhow!(why)),
                Err(Failure::Http(error)) => error,
            };
            if let Some(why) = self.tls_fault(&failure) {
                return Err(anyhow!(why));
            }
            let lost = *lost_since.get_or_insert_with(Instant::now);
            if lost.elapsed() > RECONNECT_FOR {
                return Err(anyhow!(failure).context(ServerGone(self.url.clone())));
            }
            sleep(pause);
            interrupt::check()?;
            pause = (pause * 2).min(Duration::from_secs(4));
        }
    }

    /// Writes what a path gives to `to`, as it comes; `bar` is asked for once the length is known, where it is.
    pub fn download(
        &self,
        path: &str,
        bar: &mut dyn FnMut(Option<u64>) -> ProgressBar,
        to: &mut dyn Write,
    ) -> Result<()> {
        let uri: Uri = format!("{}{path}", self.url).parse()?;
        let mut answer = followed(uri, self.key.as_deref(), |uri, key| {
            let request = self.agent.get(uri);
            match key {
                Some(key) => request.header("api-key", key),
                None => request,
            }
            .call()
        })?;
        let bytes = answer.body().content_length();
        let status = answer.status().as_u16();
        if !(200..300).contains(&status) {
            let body = answer
                .body_mut()
                .with_config()
                .limit(ANSWER_BYTES_MAX)
                .read_to_vec()?;
            bail!("{status}: {}", sentence(&body));
        }
        let bar = bar(bytes);
        let mut body = bar.wrap_read(answer.body_mut().with_config().limit(u64::MAX).reader());
        let copied = io::copy(&mut body, to).context("the server's answer")?;
        bar.finish_and_clear();
        match bytes.is_some_and(|bytes| bytes != copied) {
            true => bail!("the response ended after {copied} bytes"),
            false => Ok(()),
        }
    }

    /// Sends so many bytes as the file of a form. Nothing is said twice: what was sent is gone.
    pub fn upload(&self, path: &str, name: &str, (file, bytes): (impl Read, u64)) -> Result<()> {
        const BOUNDARY: &str = "ramlet-7d1f40c2b8";
        let head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\
             content-type: application/octet-stream\r\n\r\n"
        );
        let end = format!("\r\n--{BOUNDARY}--\r\n");
        let length = head.len() as u64 + bytes + end.len() as u64;
        let mut body = head.as_bytes().chain(file).chain(end.as_bytes());
        let mut request = self
            .agent
            .post(format!("{}{path}", self.url))
            .header(
                "content-type",
                format!("multipart/form-data; boundary={BOUNDARY}"),
            )
            .header("content-length", length.to_string());
        if let Some(key) = &self.key {
            request = request.header("api-key", key);
        }
        let mut answer = request.send(SendBody::from_reader(&mut body))?;
        let status = answer.status().as_u16();
        let body = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_vec()?;
        match (200..300).contains(&status) {
            true => Ok(()),
            false => bail!("{status}: {}", sentence(&body)),
        }
    }

    /// The `result` of an answer that must be 2xx.
    pub fn ok(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let body = match body {
            Value::Null => Vec::new(),
            body => serde_json::to_vec(body)?,
        };
        self.ask(method, path, &body)?.result()
    }

    /// The `result`; `None` for 404.
    pub fn get(&self, path: &str) -> Result<Option<Value>> {
        let reply = self.ask(Method::GET, path, b"")?;
        match reply.status {
            404 => Ok(None),
            _ => reply.result().map(Some),
        }
    }

    /// A sentence when encryption fails, which it would again.
    fn tls_fault(&self, error: &ureq::Error) -> Option<String> {
        let is_tls = match error {
            ureq::Error::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
            ureq::Error::Rustls(_) => true,
            _ => false,
        };
        (is_tls && self.url.starts_with("https://")).then(|| tls_sentence(&self.url, &error.to_string()))
    }

    /// Fails at once, with the way out, when nobody listens.
    pub fn check_reachable(&self) -> Result<()> {
        let error = match self.call(Method::GET, "/", b"", ANSWER_BYTES_MAX) {
            Ok(_) | Err(Failure::TooLong(_)) => return Ok(()),
            Err(Failure::Http(error)) => error,
        };
        Err(match self.tls_fault(&error) {
            Some(why) => anyhow!(why),
            None => anyhow!(
                "no server answers at {} ({error}); start one: ramlet serve --memory 135MB",
                self.url
            ),
        })
    }

    /// The collection, or `None` when there is none.
    pub fn collection(&self, name: &str) -> Result<Option<CollectionState>> {
        let reply = self.ask(Method::GET, &collection_path(name), b"")?;
        if reply.status == 404 {
            return Ok(None);
        }
        #[derive(Deserialize)]
        struct Answer {
            result: CollectionState,
        }
        let answer: Answer =
            serde_json::from_slice(reply.success()?).context("the server's answer about the collection")?;
        Ok(Some(answer.result))
    }

    /// Its points, exactly.
    pub fn count(&self, collection: &str) -> Result<u64> {
        let path = format!("{}/points/count", collection_path(collection));
        let answer = self.ok(Method::POST, &path, &json!({ "exact": true }))?;
        answer["count"].as_u64().context("an answer without a count")
    }

    /// As [`Api::count`], once it is `least`, or has stayed below that for so long: shortly after an upsert is acknowledged it may not
    /// be counted yet.
    pub fn count_settled(&self, collection: &str, least: u64, timeout: Duration) -> Result<u64> {
        let (mut since, mut count) = (Instant::now(), self.count(collection)?);
        while count < least && since.elapsed() < timeout {
            sleep(COUNT_EVERY);
            let now = self.count(collection)?;
            if now != count {
                (since, count) = (Instant::now(), now);
            }
        }
        Ok(count)
    }

    /// How far the index is that is built, if the server says so: `, compare 45 %`.
    pub fn step(&self, collection: &str) -> Option<String> {
        let path = format!("{}/optimizations", collection_path(collection));
        let answer = self.get(&path).ok()??;
        let step = &answer["running"][0]["progress"]["children"][0];
        let (done, total) = (step["done"].as_u64()?, step["total"].as_u64()?);
        let percent = done * 100 / total.max(1);
        Some(format!(", {} {percent} %", step["name"].as_str()?))
    }

    pub fn create_collection(
        &self,
        name: &str,
        layout: &Layout,
        distance: Distance,
        datatype: Option<Datatype>,
    ) -> Result<()> {
        let params = |dim: usize| {
            let mut params = json!({"size": dim, "distance": distance.api_name()});
            if let Some(datatype) = datatype {
                params["datatype"] = json!(datatype.api_name());
            }
            params
        };
        let vectors: Value = match layout.dense.as_slice() {
            [(name, dim)] if name.is_empty() => params(*dim),
            named => named
                .iter()
                .map(|(name, dim)| (name.clone(), params(*dim)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        };
        let mut settings = json!({ "vectors": vectors });
        for name in &layout.sparse {
            settings["sparse_vectors"][name] = json!({});
        }
        let body = serde_json::to_vec(&settings)?;
        let reply = self.ask(Method::PUT, &collection_path(name), &body)?;
        reply
            .success()
            .with_context(|| format!("creating collection '{name}'"))?;
        Ok(())
    }

    pub fn delete_collection(&self, name: &str) -> Result<()> {
        self.ok(Method::DELETE, &collection_path(name), &Value::Null)
            .map(drop)
    }

    /// The number behind the highest that is an id: numbers come before UUIDs in the order of a scroll, so that halving finds it in at
    /// most 64 requests for a point.
    pub fn number_behind(&self, collection: &str) -> Result<u64> {
        let Some(mut highest) = self.number_from(collection, 0)? else {
            return Ok(0);
        };
        let mut most = u64::MAX;
        while highest < most {
            let middle = highest + (most - highest).div_ceil(2);
            match self.number_from(collection, middle)? {
                Some(number) => highest = number,
                None => most = middle - 1,
            }
        }
        highest
            .checked_add(1)
            .context("the highest id is the last possible number: use --ids uuid")
    }

    /// The first id that is a number, from `least` on.
    fn number_from(&self, collection: &str, least: u64) -> Result<Option<u64>> {
        let path = format!("{}/points/scroll", collection_path(collection));
        let body = json!({ "limit": 1, "offset": least, "with_payload": false, "with_vector": false });
        let answer = self.ok(Method::POST, &path, &body)?;
        Ok(answer["points"][0]["id"].as_u64())
    }

    /// What tells a running server from others, if it says so.
    pub fn identity(&self) -> Option<String> {
        let answer = self.get("/telemetry").ok()??;
        answer["id"].as_str().map(ToString::to_string)
    }

    /// Makes a payload index, and waits until it is there.
    pub fn create_index(&self, collection: &str, field: &str, schema: &Value) -> Result<()> {
        let path = format!("{}/index?wait=true", collection_path(collection));
        let body = json!({ "field_name": field, "field_schema": schema });
        self.ok(Method::PUT, &path, &body)
            .with_context(|| format!("creating the index on '{field}'"))?;
        Ok(())
    }

    /// Sends `{"points":[..]}`; when this returns, the points are durable.
    pub fn upsert(&self, collection: &str, body: &[u8]) -> Result<(), Refusal> {
        let path = format!("{}/points?wait=false", collection_path(collection));
        let reply = self.ask(Method::PUT, &path, body).map_err(Refusal::Final)?;
        if reply.asks_for_less() {
            return Err(Refusal::TooLarge(reply.sentence()));
        }
        let is_wrong = matches!(reply.status, 400 | 422);
        let wrong = |error| {
            if is_wrong {
                Refusal::Wrong(error)
            } else {
                Refusal::Final(error)
            }
        };
        reply.success().map(drop).map_err(wrong)
    }
}

/// What a failure of the TLS library is about, by its words: it has no error of its own for a server without TLS.
fn tls_sentence(url: &str, error: &str) -> String {
    if error.contains("corrupt message") {
        let plain = url.replacen("https://", "http://", 1);
        format!("{url} doesn't speak TLS ({error}); without encryption it is {plain}")
    } else if error.contains("certificate") {
        format!(
            "{url} isn't trusted: {error}; set SSL_CERT_FILE=ca.pem to the authority that signed its certificate"
        )
    } else {
        format!("no encrypted connection to {url}: {error}")
    }
}

impl Reply {
    /// It may answer the same request later.
    fn is_busy(&self) -> bool {
        self.status == 429 && !self.asks_for_less()
    }

    /// It refuses as many points at once, and may take fewer: no room for the request (413), a limit of the collection's strict mode
    /// (400), or more than the collection's rate of a minute (429).
    pub fn asks_for_less(&self) -> bool {
        match self.status {
            413 => true,
            429 => self.sentence().contains("split your request"),
            _ => self.is_over_limit(),
        }
    }

    /// Strict mode's word for a number in the request that is too large, which it stays.
    pub fn is_over_limit(&self) -> bool {
        matches!(self.status, 400 | 422) && self.sentence().contains("Limit exceeded")
    }

    fn result(&self) -> Result<Value> {
        #[derive(Deserialize)]
        struct Answer {
            result: Value,
        }
        let answer: Answer = serde_json::from_slice(self.success()?).context("the server's answer")?;
        Ok(answer.result)
    }

    /// The body of an answer that must be 2xx.
    pub fn into_body(self) -> Result<Vec<u8>> {
        self.success()?;
        Ok(self.body)
    }

    pub fn success(&self) -> Result<&[u8]> {
        match self.status {
            200..=299 => Ok(&self.body),
            status => Err(anyhow!("the server answered {status}: {}", self.sentence())),
        }
    }

    /// The API's `status.error`, or the body as it is.
    fn sentence(&self) -> String {
        let api: Option<String> = serde_json::from_slice::<Value>(&self.body)
            .ok()
            .and_then(|answer| Some(answer.get("status")?.get("error")?.as_str()?.to_string()));
        api.unwrap_or_else(|| {
            String::from_utf8_lossy(&self.body[..self.body.len().min(500)])
                .trim()
                .to_string()
        })
    }
}

impl CollectionState {
    pub fn layout(&self) -> Layout {
        let size = |params: &Value| params["size"].as_u64().map(|size| size as usize);
        let dense = self.vectors().into_iter();
        let sparse = self.config["params"]["sparse_vectors"].as_object();
        Layout {
            dense: dense
                .filter_map(|(name, params)| Some((name.to_string(), size(params)?)))
                .collect(),
            sparse: sparse
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect(),
        }
    }

    /// Its dense vectors' settings by name.
    pub fn vectors(&self) -> Vec<(&str, &Value)> {
        let vectors = &self.config["params"]["vectors"];
        if vectors["size"].is_u64() {
            return vec![("", vectors)];
        }
        let named = vectors.as_object().into_iter().flatten();
        named.map(|(name, params)| (name.as_str(), params)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serving::redirect::tests::{peer, text, to};

    #[test]
    fn sentences() {
        let reply = |body: &str| Reply {
            status: 400,
            retry_after: None,
            body: body.into(),
        };
        let api = r#"{"status":{"error":"Wrong input: x"},"time":0.1}"#;
        assert_eq!(reply(api).sentence(), "Wrong input: x");
        assert_eq!(reply("bad gateway\n").sentence(), "bad gateway");
    }

    #[test]
    fn the_key_stays_with_the_server_it_is_for() {
        let (elsewhere, seen) = peer(|_| text(r#"{"result": 7}"#));
        let (port, _) = peer(move |path| to(&format!("http://127.0.0.1:{elsewhere}{path}")));
        let api = Api::new(&format!("http://127.0.0.1:{port}"), Some("secret".to_owned()), 1).expect("a URL");
        assert_eq!(api.get("/x").expect("an answer"), Some(json!(7)));
        let posted = api.ask(Method::POST, "/y", b"{}").expect("an answer");
        assert_eq!(posted.status, 302, "only what changes nothing follows");
        assert_eq!(*seen.lock().expect("no panic"), [("/x".to_owned(), None)]);
    }

    #[test]
    fn answers_that_ask_for_less() {
        let asks = |status, sentence: &str| {
            let reply = Reply {
                status,
                retry_after: None,
                body: json!({ "status": { "error": sentence } }).to_string().into(),
            };
            (reply.asks_for_less(), reply.is_busy())
        };
        let limit = "Bad request: Limit exceeded 32 > 20 for \"limit\". Help: Reduce it";
        assert_eq!(asks(413, "Payload too large"), (true, false));
        assert_eq!(asks(400, limit), (true, false));
        assert_eq!(asks(400, "Wrong input: Vector dimension error"), (false, false));
        assert_eq!(asks(404, limit), (false, false));
        assert_eq!(asks(429, "Too many requests"), (false, true));
        assert_eq!(asks(429, "please try to split your request"), (true, false));
    }

    #[test]
    fn failures_of_tls_are_told_apart() {
        let said = |error: &str| tls_sentence("https://h:6333", error);
        let plain = said("io: received corrupt message of type InvalidContentType");
        assert!(
            plain.contains("doesn't speak TLS") && plain.contains("http://h:6333"),
            "{plain}"
        );
        let distrusted = said("io: invalid peer certificate: UnknownIssuer");
        assert!(distrusted.contains("SSL_CERT_FILE"), "{distrusted}");
        assert!(!said("io: received fatal alert: ProtocolVersion").contains("SSL_CERT_FILE"));
    }

    #[test]
    fn layouts_of_collections() {
        let layout = |vectors: Value| {
            let state = CollectionState {
                status: "green".into(),
                points_count: None,
                optimizer_status: Value::Null,
                config: json!({"params": {"vectors": vectors}}),
                payload_schema: Value::Null,
                ramlet: Value::Null,
            };
            state.layout()
        };
        assert_eq!(
            layout(json!({"size": 4, "distance": "Dot"})).dense,
            [(String::new(), 4)]
        );
        assert_eq!(
            layout(json!({"a": {"size": 4, "distance": "Dot"}})).dense,
            [("a".to_string(), 4)]
        );
        assert!(layout(json!({})).is_empty());
    }

    #[test]
    fn urls_need_a_scheme_and_a_host() {
        for url in ["ftp://host:6333", "localhost:6333", "http://", "https://"] {
            assert!(Api::new(url, None, 1).is_err(), "{url}");
        }
        for url in ["http://host:6333", "https://host"] {
            assert!(Api::new(url, None, 1).is_ok(), "{url}");
        }
    }
}
