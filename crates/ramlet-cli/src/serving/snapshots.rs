//! What `ramlet serve` does about snapshots: where they lie, those to begin with, and downloads.

use std::fmt::Arguments;
use std::io::Read;
use std::path::{Path, absolute};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use ramlet::{Engine, SnapshotFile};
use ramlet_io::{Backend, Storage, open_best};
use ramlet_server::{ApiError, SnapshotFetch, collection_name_fault, limits};
use ureq::Agent;
use ureq::http::uri::InvalidUri;

use super::redirect::followed;
use crate::args::ServeArgs;
#[cfg(feature = "store")]
use crate::output::say;
use crate::output::{self, many, note};
use crate::serve_settings::Settings;
use crate::settings::tls_settings;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Silence of the other server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
const PIECE_BYTES: usize = 64 << 10;

/// Tells the engine where snapshots go, then restores what the command line names.
pub fn prepare(engine: &Arc<Engine>, settings: &Settings, args: &ServeArgs) -> Result<()> {
    let storage = storage(engine, settings)?;
    let location = storage.location();
    engine.set_snapshots(storage).context(location)?;
    if let Some(file) = &args.storage_snapshot {
        let names = engine
            .recover_everything(&open(file)?, args.force_snapshot, &collection_name_fault)
            .with_context(|| file.display().to_string())?;
        tell(format_args!(
            "restored {} from {}",
            many(names.len() as u64, "collection"),
            file.display()
        ));
    }
    for text in &args.snapshot {
        restore(engine, text, args.force_snapshot).with_context(|| format!("--snapshot {text}"))?;
    }
    Ok(())
}

/// A directory, or one in a store. There, what clients send to be restored goes to the data directory all the same.
fn storage(engine: &Arc<Engine>, settings: &Settings) -> Result<Arc<dyn Storage>> {
    let local = settings.data.join("snapshots");
    let path = settings.snapshots.clone().unwrap_or_else(|| local.clone());
    let url = path.to_str().filter(|path| path.contains("://"));
    let url = match (url, &settings.snapshots_s3) {
        (Some(url), _) => url.to_owned(),
        (None, Some(s3)) => format!("s3://{}/ramlet-snapshots", s3.bucket),
        (None, None) => {
            // The paths of `file://` are compared with it.
            let path = absolute(&path).with_context(|| path.display().to_string())?;
            let (storage, _) = open_best(&path, settings.backend)?;
            return Ok(storage);
        }
    };
    let local = absolute(&local).with_context(|| local.display().to_string())?;
    let (local, _) = open_best(&local, settings.backend)?;
    in_store(engine, settings, &url, local)
}

#[cfg(feature = "store")]
fn in_store(
    engine: &Arc<Engine>,
    settings: &Settings,
    url: &str,
    local: Arc<dyn Storage>,
) -> Result<Arc<dyn Storage>> {
    use ramlet_store::{S3Options, SnapshotStore, StoreUrl, open_with};

    let options = settings
        .snapshots_s3
        .clone()
        .map_or_else(S3Options::default, |s3| S3Options {
            region: s3.region,
            access_key: s3.access_key,
            secret_key: s3.secret_key,
            endpoint: s3.endpoint,
        });
    let parsed = StoreUrl::parse(url)?;
    let store = open_with(&parsed, true, &options)?;
    crate::store::trusted(&store)?;
    let ledger = engine.ledger();
    let memory = ledger.consumer("snapshots in a store", ledger.limit());
    let opened = SnapshotStore::open((store, &parsed), memory, local).with_context(|| url.to_owned())?;
    say(format_args!("snapshots go to {url}"));
    Ok(Arc::new(opened))
}

#[cfg(not(feature = "store"))]
fn in_store(_: &Arc<Engine>, _: &Settings, url: &str, _: Arc<dyn Storage>) -> Result<Arc<dyn Storage>> {
    bail!("snapshots can't go to {url}: this program was built without the feature `store`")
}

fn restore(engine: &Engine, text: &str, force: bool) -> Result<()> {
    let (file, name) = text.rsplit_once(':').context("it takes FILE:COLLECTION")?;
    if let Some(fault) = collection_name_fault(name) {
        bail!("'{name}' is not a valid collection name: {fault}");
    }
    if !force && engine.has_collection(name) {
        bail!("collection '{name}' exists already; --force-snapshot replaces it");
    }
    engine.recover_collection(name, &open(Path::new(file))?, None)?;
    tell(format_args!("restored '{name}' from {file}"));
    Ok(())
}

/// What was restored is there, and the server starts, whether anybody can read it or not.
fn tell(line: Arguments<'_>) {
    if let Err(error) = output::line(line) {
        note!("{error:#}");
    }
}

fn open(path: &Path) -> Result<SnapshotFile> {
    let path = absolute(path)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(dir), Some(name), true) = (path.parent(), name, path.is_file()) else {
        bail!("{} is not a file", path.display());
    };
    let (storage, _) = open_best(dir, Backend::Pread)?;
    Ok(SnapshotFile::open(storage.as_ref(), name)?)
}

/// Reads a URL for the server.
pub fn fetch() -> SnapshotFetch {
    fetch_within(ANSWER_TIMEOUT)
}

/// As [`fetch`]. One download at a time keeps all work on snapshots waiting: a peer that says nothing for `silence`, or less than
/// [`limits::BODY_RATE_MIN`] in the long run, ends it.
fn fetch_within(silence: Duration) -> SnapshotFetch {
    let config = Agent::config_builder()
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(silence))
        .timeout_per_read(Some(silence))
        // For what never comes to a byte of the body, as the frames of its chunks.
        .timeout_recv_body(Some(DOWNLOAD_TIMEOUT))
        .max_redirects(0)
        .tls_config(tls_settings::of_client())
        .build();
    let agent = config.new_agent();
    Arc::new(move |url, key, sink| {
        let failed = |e: &dyn std::fmt::Display| ApiError::wrong_input(format!("downloading {url}: {e}"));
        if !["http://", "https://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return Err(failed(&anyhow!("only http:// and https:// are possible")));
        }
        let from = url.parse().map_err(|e: InvalidUri| failed(&e))?;
        let answer = followed(from, key, |uri, key| {
            let request = agent.get(uri);
            match key {
                Some(key) => request.header("api-key", key),
                None => request,
            }
            .call()
        });
        let mut answer = answer.map_err(|e| failed(&e))?;
        if !answer.status().is_success() {
            return Err(failed(&format!("the server answered {}", answer.status())));
        }
        let mut body = answer.body_mut().with_config().limit(u64::MAX).reader();
        let mut piece = vec![0; PIECE_BYTES];
        let (start, mut bytes) = (Instant::now(), 0);
        loop {
            match body.read(&mut piece).map_err(|e| failed(&e))? {
                0 => return Ok(()),
                n => {
                    sink(&piece[..n])?;
                    bytes += n as u64;
                }
            }
            let slowest = Duration::from_secs(bytes / limits::BODY_RATE_MIN);
            if start.elapsed() > silence + slowest {
                return Err(failed(&format!("the download is too slow, {bytes} bytes so far")));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::serving::redirect::tests::{peer, text, to};

    /// What the URL gives.
    fn fetched(port: u16, path: &str, silence: Duration) -> Result<String, String> {
        let mut got = Vec::new();
        let mut sink = |part: &[u8]| {
            got.extend_from_slice(part);
            Ok(())
        };
        let url = format!("http://127.0.0.1:{port}{path}");
        let done = fetch_within(silence)(&url, Some("secret"), &mut sink);
        done.map_err(|e| e.message)?;
        Ok(String::from_utf8(got).expect("text"))
    }

    #[test]
    fn the_key_stays_with_its_origin() {
        let (elsewhere, seen_elsewhere) = peer(|_| text("abc"));
        let (port, seen) = peer(move |path| match path {
            "/away" => to(&format!("http://127.0.0.1:{elsewhere}/x")),
            "/here" => to("there"),
            "/circle" => to("/circle"),
            _ => text("def"),
        });
        assert_eq!(fetched(port, "/here", ANSWER_TIMEOUT), Ok("def".to_owned()));
        assert_eq!(fetched(port, "/away", ANSWER_TIMEOUT), Ok("abc".to_owned()));
        let circle = fetched(port, "/circle", ANSWER_TIMEOUT).expect_err("no end");
        assert!(circle.contains("302"), "{circle}");
        let secret = || Some("secret".to_owned());
        let asked = seen.lock().expect("no panic")[..3].to_vec();
        let expected = ["/here", "/there", "/away"].map(|path| (path.to_owned(), secret()));
        assert_eq!(asked, expected);
        assert_eq!(
            *seen_elsewhere.lock().expect("no panic"),
            [("/x".to_owned(), None)]
        );
    }

    /// Sends `part` again and again after a head that promises much.
    fn endless(part: &'static [u8]) -> u16 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            let _ = stream.read(&mut [0; 4096])?;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nRAML")?;
            loop {
                std::thread::sleep(Duration::from_millis(10));
                stream.write_all(part)?;
            }
            #[expect(unreachable_code, reason = "names the type of the error")]
            std::io::Result::Ok(())
        });
        port
    }

    #[test]
    fn a_peer_that_falls_silent_or_drips_is_left() {
        let silence = Duration::from_millis(300);
        let silent = fetched(endless(b""), "/a", silence).expect_err("no whole body");
        assert!(silent.contains("timeout"), "{silent}");
        let drips = fetched(endless(b"x"), "/a", silence).expect_err("no whole body");
        assert!(drips.contains("too slow"), "{drips}");
    }
}
