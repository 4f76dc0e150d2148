//! Snapshots: take, list, download, upload, restore, delete; of a collection, of a shard, of everything.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ramlet::filter::format_datetime;
use ramlet::{Engine, SnapshotDescription, SnapshotScope, SnapshotUpload};
use ramlet_io::system::path_exists;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::answers::answer::Answer;
use crate::answers::download::file_answer;
use crate::app::now_micros;
use crate::bodies::receive::receive;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::options::SnapshotFetch;
use crate::request::call::Call;
use crate::wire::name_rules::check_name;

/// Query parameters of these routes: `wait` is true unless it is said to be false.
#[derive(Debug, PartialEq)]
struct Params {
    wait: bool,
    checksum: Option<String>,
}

impl Params {
    fn parse(query: &str) -> ApiResult<Params> {
        let mut params = Params {
            wait: true,
            checksum: None,
        };
        for pair in query.split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                // Anything but true and false is refused where all routes' parameters are read.
                ("wait", value) => params.wait = value != "false",
                ("priority", "no_sync" | "snapshot" | "replica") => {}
                ("priority", other) => {
                    let what = format!("priority: `{other}` is not no_sync, snapshot or replica");
                    let message = format!("Deserialize error in query parameters: {what}");
                    return Err(ApiError::new(StatusCode::BAD_REQUEST, message));
                }
                ("checksum", text) => params.checksum = Some(checksum("query parameters", text)?),
                _ => {}
            }
        }
        Ok(params)
    }
}

fn checksum(place: &str, text: &str) -> ApiResult<String> {
    if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(text.to_owned());
    }
    let message = format!(
        "Validation error in {place}: [checksum: Validation error: invalid_sha256_hash, not the 64 hex digits of a SHA-256]"
    );
    Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message))
}

#[derive(Deserialize)]
struct WireRecover {
    location: String,
    #[serde(default)]
    #[expect(
        dead_code,
        reason = "the snapshot wins whatever the priority, because there is one node"
    )]
    priority: Option<WirePriority>,
    checksum: Option<String>,
    api_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum WirePriority {
    NoSync,
    Snapshot,
    Replica,
}

/// Where a snapshot is to be read from.
enum Location {
    Path(String),
    Url(String, SnapshotFetch),
}

impl Location {
    fn parse(text: &str, fetch: Option<&SnapshotFetch>) -> ApiResult<Location> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(ApiError::format(format!(
                "location: {text:?} is no URL; file:///..., s3://..., http://... and https://... are"
            )));
        };
        let bad = |what: String| ApiError::new(StatusCode::BAD_REQUEST, format!("Bad request: {what}"));
        match scheme.to_ascii_lowercase().as_str() {
            "file" => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                match unescape(path).filter(|path| path.starts_with('/')) {
                    Some(path) => Ok(Location::Path(path)),
                    None => Err(bad(
                        "Invalid snapshot URI, file path must be absolute or on localhost".to_owned(),
                    )),
                }
            }
            "http" | "https" => match fetch {
                Some(fetch) => Ok(Location::Url(text.to_owned(), fetch.clone())),
                None => Err(bad(format!(
                    "snapshots are not downloaded from {text}: start the server with --snapshots-from-urls to allow it, \
                     or upload the file"
                ))),
            },
            // Only that of the server's own snapshots is read.
            "s3" => Ok(Location::Path(text.to_owned())),
            other => Err(bad(format!("URLs of the scheme {other} are not supported"))),
        }
    }
}

/// Percent-decoding; `None` for what isn't UTF-8 then.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// `SnapshotDescription`.
#[derive(Serialize)]
struct Described {
    name: String,
    creation_time: Option<String>,
    size: u64,
    checksum: Option<String>,
}

impl From<SnapshotDescription> for Described {
    fn from(snapshot: SnapshotDescription) -> Described {
        let micros = snapshot
            .created
            .and_then(|s| i64::try_from(s).ok()?.checked_mul(1_000_000));
        Described {
            name: snapshot.name,
            // Without a zone, as the API has it.
            creation_time: micros.map(|micros| format_datetime(micros).trim_end_matches('Z').to_owned()),
            size: snapshot.bytes,
            checksum: snapshot.checksum,
        }
    }
}

/// The collection of the path, its shard, or everything. A collection without shard keys is its shard 0.
async fn scope(call: &Call) -> ApiResult<SnapshotScope<'_>> {
    let name = call.request.param("collection");
    let shard = match call.request.param("shard") {
        "" if name.is_empty() => return Ok(SnapshotScope::Everything),
        "" => return Ok(SnapshotScope::Collection(name)),
        shard => shard.parse::<u32>().map_err(|_| {
            let message = format!("Deserialize error in path parameters: `{shard}` is no number of a shard");
            ApiError::new(StatusCode::BAD_REQUEST, message)
        })?,
    };
    let collection = call.app.collection(name).await;
    let infos = collection.ok().and_then(|collection| collection.shard_infos());
    match infos {
        Some(infos) if infos.iter().any(|info| info.number == shard) => Ok(SnapshotScope::Shard(name, shard)),
        None if shard == 0 => Ok(SnapshotScope::Collection(name)),
        _ => Err(ApiError::not_found(format!("Shard {shard} not found"))),
    }
}

/// A scope that a thread can take along.
enum Owned {
    Collection(String),
    Shard(String, u32),
    Everything,
}

impl Owned {
    fn of(scope: SnapshotScope<'_>) -> Owned {
        match scope {
            SnapshotScope::Collection(name) => Owned::Collection(name.to_owned()),
            SnapshotScope::Shard(name, number) => Owned::Shard(name.to_owned(), number),
            SnapshotScope::Everything => Owned::Everything,
        }
    }
    fn scope(&self) -> SnapshotScope<'_> {
        match self {
            Owned::Collection(name) => SnapshotScope::Collection(name),
            Owned::Shard(name, number) => SnapshotScope::Shard(name, *number),
            Owned::Everything => SnapshotScope::Everything,
        }
    }
}

/// `GET .../snapshots`.
pub async fn list(call: Call) -> ApiResult<Answer> {
    let scope = Owned::of(scope(&call).await?);
    let list = call
        .block(&call.app.managing, move |engine| {
            Ok(engine.list_snapshots(scope.scope())?)
        })
        .await?;
    let list: Vec<Described> = list.into_iter().map(Described::from).collect();
    call.answer(&list)
}

/// `POST .../snapshots`.
pub async fn create(call: Call) -> ApiResult<Answer> {
    let params = Params::parse(&call.request.incoming.query)?;
    let scope = Owned::of(scope(&call).await?);
    if let SnapshotScope::Collection(name) | SnapshotScope::Shard(name, _) = scope.scope() {
        call.app.engine.check_collection(name)?;
    }
    let now = u64::try_from(now_micros() / 1_000_000).unwrap_or(0);
    let job = move |engine: &Engine| Ok(Described::from(engine.create_snapshot(scope.scope(), now)?));
    run(&call, params.wait, job).await
}

/// `GET .../snapshots/{snapshot}`: the file.
pub async fn download(call: Call) -> ApiResult<Answer> {
    let scope = Owned::of(scope(&call).await?);
    let name = call.request.param("snapshot").to_owned();
    let file = call
        .block(&call.app.managing, move |engine| {
            Ok(engine.open_snapshot(scope.scope(), &name)?)
        })
        .await?;
    Ok(Answer::Whole(file_answer(
        &call.app,
        file,
        call.request.incoming.head_only,
    )))
}

/// `GET .../shards/{shard}/snapshot`: what is there now, as a file that is gone once it is sent.
pub async fn stream(call: Call) -> ApiResult<Answer> {
    let scope = Owned::of(scope(&call).await?);
    let now = u64::try_from(now_micros() / 1_000_000).unwrap_or(0);
    let job = move |engine: &Engine| {
        let taken = engine.create_snapshot(scope.scope(), now)?;
        let file = engine.open_snapshot(scope.scope(), &taken.name)?;
        engine.delete_snapshot(scope.scope(), &taken.name)?;
        Ok(file)
    };
    let file = finish(start(&call, job).await?).await?;
    Ok(Answer::Whole(file_answer(
        &call.app,
        file,
        call.request.incoming.head_only,
    )))
}

/// What a node tells of a shard so that another one need not send what is there already. All of a shard is one part here,
/// which changes with every operation; the part's name is of this process, so that nobody else's counts for the same.
async fn manifest_of(call: &Call) -> ApiResult<Value> {
    let scope = scope(call).await?;
    let mut collection = call.collection().await?;
    let mut part = format!("{:x}-{}", call.app.started_at, collection.id());
    if let SnapshotScope::Shard(_, number) = scope {
        collection = collection.within_shard(number)?;
        part = format!("{part}-{number}");
    }
    let version = collection.info().last_operation_id;
    let files = [
        "vector_storage/all",
        "payload_storage/all",
        "payload_index/all",
        "id_tracker/all",
    ];
    let versions: Map<String, Value> = files
        .iter()
        .map(|file| ((*file).to_owned(), json!(version)))
        .collect();
    let receiver = json!({ "segment_id": part, "segment_version": version, "file_versions": versions });
    Ok(json!({ part: receiver }))
}

/// `GET .../shards/{shard}/snapshot/partial/manifest`.
pub async fn manifest(call: Call) -> ApiResult<Answer> {
    let manifest = manifest_of(&call).await?;
    call.answer(&manifest)
}

/// `POST .../shards/{shard}/snapshot/partial/create`: the shard as a file, or 304 for whom the body shows to have all of it.
pub async fn create_partial(mut call: Call) -> ApiResult<Answer> {
    let theirs: Map<String, Value> = call.parse().await?;
    let ours = manifest_of(&call).await?;
    if ours == Value::Object(theirs) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(Answer::Whole(response));
    }
    stream(call).await
}

/// `POST .../shards/{shard}/snapshot/partial/recover_from`: makes the shard what another node's is.
pub async fn recover_from(mut call: Call) -> ApiResult<Answer> {
    #[derive(Deserialize)]
    struct Peer {
        peer_url: String,
        api_key: Option<String>,
    }
    let params = Params::parse(&call.request.incoming.query)?;
    let target = target(&call).await?;
    call.app.engine.check_collection(&target.collection)?;
    let peer: Peer = call.parse().await?;
    let name = utf8_percent_encode(&target.collection, NON_ALPHANUMERIC);
    let shard = target.shard.unwrap_or(0);
    let url = format!(
        "{}/collections/{name}/shards/{shard}/snapshot",
        peer.peer_url.trim_end_matches('/')
    );
    let Location::Url(url, fetch) = Location::parse(&url, call.app.fetch.as_ref())? else {
        return Err(ApiError::wrong_input("peer_url: an http:// URL is wanted"));
    };
    let job = move |engine: &Engine| {
        recover_url(engine, &target, (&url, peer.api_key.as_deref(), &fetch), None)?;
        Ok(true)
    };
    run(&call, params.wait, job).await
}

/// Makes a collection or a shard what the snapshot at a URL holds.
fn recover_url(
    engine: &Engine,
    target: &Target,
    (url, key, fetch): (&str, Option<&str>, &SnapshotFetch),
    checksum: Option<&str>,
) -> ApiResult<()> {
    let mut upload = engine.begin_snapshot_upload()?;
    let mut write = |part: &[u8]| upload.append(part).map_err(ApiError::from);
    fetch(url, key, &mut write)?;
    target.recover_upload(engine, upload, checksum)
}

/// `DELETE .../snapshots/{snapshot}`.
pub async fn delete(call: Call) -> ApiResult<Answer> {
    let params = Params::parse(&call.request.incoming.query)?;
    let scope = Owned::of(scope(&call).await?);
    let name = call.request.param("snapshot").to_owned();
    let job = move |engine: &Engine| {
        engine.delete_snapshot(scope.scope(), &name)?;
        Ok(true)
    };
    run(&call, params.wait, job).await
}

/// `PUT .../snapshots/recover`.
pub async fn recover(mut call: Call) -> ApiResult<Answer> {
    let params = Params::parse(&call.request.incoming.query)?;
    let target = target(&call).await?;
    if !call.request.param("shard").is_empty() {
        call.app.engine.check_collection(&target.collection)?;
    }
    let wire: WireRecover = call.parse().await?;
    let checksum = wire
        .checksum
        .map(|text| checksum("JSON body", &text))
        .transpose()?;
    let location = Location::parse(&wire.location, call.app.fetch.as_ref())?;
    let job = move |engine: &Engine| {
        match location {
            Location::Path(path) => {
                if !engine.holds_snapshot_path(&path)? {
                    return Err(outside(&path));
                }
                let file = engine.open_snapshot_path(&path)?;
                match target.shard {
                    None => engine.recover_collection(&target.collection, &file, checksum.as_deref())?,
                    Some(number) => {
                        let shard = (&target.collection[..], number);
                        engine.recover_shard(shard, &file, checksum.as_deref())?;
                    }
                }
            }
            Location::Url(url, fetch) => {
                let from = (&url[..], wire.api_key.as_deref(), &fetch);
                recover_url(engine, &target, from, checksum.as_deref())?;
            }
        }
        Ok(true)
    };
    run(&call, params.wait, job).await
}

/// Nothing is said of files elsewhere but whether they are there, to whoever may do everything: as the API has it.
fn outside(path: &str) -> ApiError {
    if !path_exists(path) {
        let message = format!("Bad request: Snapshot file {path:?} does not exist");
        return ApiError::new(StatusCode::BAD_REQUEST, message);
    }
    ApiError::new(
        StatusCode::FORBIDDEN,
        format!("Forbidden: Snapshot file path must be inside the snapshots directory: {path:?} isn't"),
    )
}

/// `POST .../snapshots/upload`.
pub async fn upload(mut call: Call) -> ApiResult<Answer> {
    let (params, target, upload) = receive_checked(&mut call).await?;
    let job = move |engine: &Engine| {
        target.recover_upload(engine, upload, params.checksum.as_deref())?;
        Ok(true)
    };
    run(&call, params.wait, job).await
}

async fn receive_checked(call: &mut Call) -> ApiResult<(Params, Target, SnapshotUpload)> {
    let params = Params::parse(&call.request.incoming.query)?;
    let target = target(call).await?;
    let app = call.app.clone();
    let _place = app.uploads.acquire().await.map_err(ApiError::internal)?;
    let upload = receive(&app, &mut call.request.incoming).await?;
    Ok((params, target, upload))
}

/// What is to be restored: a collection, which need not be there, or a shard of one with shard keys.
struct Target {
    collection: String,
    shard: Option<u32>,
}

impl Target {
    fn recover_upload(
        &self,
        engine: &Engine,
        upload: SnapshotUpload,
        checksum: Option<&str>,
    ) -> ApiResult<()> {
        let name = &self.collection[..];
        match self.shard {
            None => engine.recover_upload(name, upload, checksum)?,
            Some(number) => engine.recover_shard_upload((name, number), upload, checksum)?,
        }
        Ok(())
    }
}

async fn target(call: &Call) -> ApiResult<Target> {
    let shard = match scope(call).await? {
        SnapshotScope::Shard(_, number) => Some(number),
        _ => None,
    };
    let name = call.request.param("collection");
    check_name("collection_name", name)?;
    Ok(Target {
        collection: name.to_owned(),
        shard,
    })
}

/// A job under way, which holds its place until it ends.
type Running<T> = oneshot::Receiver<ApiResult<T>>;

/// What failed by itself was most likely a read or a write in the snapshot directory.
fn beside_directory(mut e: ApiError) -> ApiError {
    if e.status == StatusCode::INTERNAL_SERVER_ERROR && !e.is_damage {
        e.message
            .push_str(". Check that the snapshot directory (--snapshots-path) is there, and that the server may write to it");
    }
    e
}

/// Runs a job that may take long on a thread of its own, one at a time; it runs to its end even when the client leaves.
async fn start<T, F>(call: &Call, job: F) -> ApiResult<Running<T>>
where
    T: Send + 'static,
    F: FnOnce(&Engine) -> ApiResult<T> + Send + 'static,
{
    let app = call.app.clone();
    let place = app
        .snapshotting
        .clone()
        .acquire_owned()
        .await
        .map_err(ApiError::internal)?;
    let held = app.requests.reserve(limits::JOB_THREAD_BYTES)?;
    let engine: Arc<Engine> = app.engine.clone();
    let (sender, receiver) = oneshot::channel();
    let run = move || {
        let result = job(&engine).map_err(beside_directory);
        if let Err(e) = &result {
            tracing::warn!("snapshots: {}", e.message);
        }
        // Given back first: who has the answer may count on them.
        drop((place, held));
        let _ = sender.send(result);
    };
    std::thread::Builder::new()
        .name("snapshots".into())
        .stack_size(limits::THREAD_STACK_BYTES)
        .spawn(run)
        .map_err(ApiError::internal)?;
    Ok(receiver)
}

async fn finish<T>(running: Running<T>) -> ApiResult<T> {
    running
        .await
        .map_err(|_| ApiError::internal("the job ended without an answer"))?
}

/// Answers when the job is done, or, without `wait`, that it is accepted.
async fn run<T, F>(call: &Call, wait: bool, job: F) -> ApiResult<Answer>
where
    T: Serialize + Send + 'static,
    F: FnOnce(&Engine) -> ApiResult<T> + Send + 'static,
{
    let running = start(call, job).await?;
    if !wait {
        return Ok(Answer::Plain {
            status: StatusCode::ACCEPTED,
            content_type: "application/json",
            body: json!({ "status": "accepted", "time": call.request.elapsed().as_secs_f64() }).to_string(),
        });
    }
    call.answer(&finish(running).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        let parse = |q: &str| Params::parse(q).map_err(|e| e.status.as_u16());
        let expect = |wait, checksum| Ok(Params { wait, checksum });
        assert_eq!(parse(""), expect(true, None));
        assert_eq!(parse("wait=false&priority=no_sync"), expect(false, None));
        let sha = "aF".repeat(32);
        assert_eq!(parse(&format!("checksum={sha}")), expect(true, Some(sha)));
        assert_eq!(parse("priority=first"), Err(400));
        assert_eq!(parse("checksum=12"), Err(422));
    }

    #[test]
    fn locations() {
        let path = |text: &str| match Location::parse(text, None) {
            Ok(Location::Path(path)) => Ok(path),
            Ok(Location::Url(..)) => Ok("a URL".to_owned()),
            Err(e) => Err(e.status.as_u16()),
        };
        assert_eq!(path("file:///a/b%20c.snapshot"), Ok("/a/b c.snapshot".into()));
        assert_eq!(path("FILE://localhost/a"), Ok("/a".into()));
        assert_eq!(path("s3://bucket/a/b"), Ok("s3://bucket/a/b".into()));
        for bad in [
            "file://host/a",
            "file://a",
            "a.snapshot",
            "",
            "ftp://x",
            "http://x/y",
            "file:///%zz",
            "file:///%ff",
        ] {
            assert_eq!(path(bad), Err(400), "{bad}");
        }
    }
}
