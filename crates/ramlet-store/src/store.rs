//! A store, asked by threads that wait: objects put, created, read, listed and deleted under a prefix.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::nonce::nonce;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::layout::{MARKER, PROBES};

const FORMAT: &str = "ramlet-store";
const VERSION: u32 = 1;
/// Enough to name the fault of what isn't ours.
const MARKER_BYTES_MAX: u64 = 4096;

/// A place in an object store. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<dyn ObjectStore>,
    runtime: Arc<Runtime>,
    url: Arc<str>,
}

/// A thread that waits.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What [`MARKER`] says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    format: String,
    version: u32,
    id: String,
}

/// An object of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub path: Path,
    pub bytes: u64,
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl Store {
    /// Over any store; `url` is what messages call it.
    pub fn over(inner: Arc<dyn ObjectStore>, url: &str) -> Result<Store> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(crate::limits::PARALLEL_MAX + 4)
            .enable_time()
            .build();
        let runtime =
            runtime.map_err(|e| StoreError::new(StoreErrorKind::Failed, format!("starting threads: {e}")))?;
        Ok(Store {
            inner,
            runtime: Arc::new(runtime),
            url: url.into(),
        })
    }

    /// A folder of this store, as a store of its own.
    pub(crate) fn within(&self, folder: &str) -> Store {
        Store {
            inner: Arc::new(PrefixStore::new(self.inner.clone(), folder)),
            runtime: self.runtime.clone(),
            url: format!("{}/{folder}", self.url.trim_end_matches('/')).into(),
        }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Waits on this thread, which doesn't count as one of the runtime: what the future calls may wait for another runtime.
    pub(crate) fn wait_beside<T>(&self, doing: impl Future<Output = T>) -> T {
        let _within = self.runtime.enter();
        let waker = Waker::from(Arc::new(Parked(thread::current())));
        let (mut doing, mut context) = (pin!(doing), Context::from_waker(&waker));
        loop {
            match doing.as_mut().poll(&mut context) {
                Poll::Ready(done) => return done,
                Poll::Pending => thread::park(),
            }
        }
    }

    pub(crate) fn inner(&self) -> Arc<dyn ObjectStore> {
        self.inner.clone()
    }

    fn wait<T>(
        &self,
        what: impl fmt::Display,
        doing: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T> {
        self.runtime
            .block_on(doing)
            .map_err(|e| StoreError::of_store(&format!("{}/{what}", self.url), &e))
    }

    /// Writes an object, over one that is there.
    pub fn put(&self, path: &Path, bytes: Bytes) -> Result<()> {
        self.wait(path, self.inner.put(path, PutPayload::from_bytes(bytes)))?;
        Ok(())
    }

    /// Writes an object of a name that nobody has taken; `Exists` where somebody has. After another failure the object may be there.
    pub fn create(&self, path: &Path, bytes: Bytes) -> Result<()> {
        let payload = PutPayload::from_bytes(bytes);
        self.wait(path, self.inner.put_opts(path, payload, PutMode::Create.into()))?;
        Ok(())
    }

    /// Writes an object over the version that is named.
    pub fn replace(&self, path: &Path, bytes: Bytes, version: UpdateVersion) -> Result<()> {
        let payload = PutPayload::from_bytes(bytes);
        let mode = PutMode::Update(version);
        self.wait(path, self.inner.put_opts(path, payload, mode.into()))?;
        Ok(())
    }

    /// A whole object of at most so many bytes.
    pub fn get(&self, path: &Path, bytes_max: u64) -> Result<Bytes> {
        let inner = self.inner.clone();
        self.runtime.block_on(get(inner, &self.url, path, bytes_max))
    }

    /// `None` where there is no such object.
    pub fn find(&self, path: &Path, bytes_max: u64) -> Result<Option<Bytes>> {
        match self.get(path, bytes_max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == StoreErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Removes an object; that there is none is no failure.
    pub fn delete(&self, path: &Path) -> Result<()> {
        match self.wait(path, self.inner.delete(path)) {
            Err(e) if e.kind() == StoreErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Removes many objects, some at once.
    pub fn delete_all(&self, paths: Vec<Path>) -> Result<()> {
        self.runtime.block_on(delete(self.inner(), &self.url, paths))
    }

    /// Tells `each` all objects in a folder and below, in any order.
    pub fn list(&self, folder: &str, each: &mut dyn FnMut(Listed) -> Result<()>) -> Result<()> {
        let listing = list(self.inner.clone(), &self.url, folder, each);
        self.runtime.block_on(listing)
    }

    /// Fails with `Foreign` where the place holds what isn't ours, by the name of it; tells whether it is ours already. Writes nothing.
    pub fn is_ours(&self) -> Result<bool> {
        let path = Path::from(MARKER);
        if let Some(bytes) = self.find(&path, MARKER_BYTES_MAX)? {
            return self.check_marker(&bytes).map(|()| true);
        }
        let inner = self.inner.clone();
        let found = self.wait("", async move {
            let mut all = inner.list(None);
            // Probes of a check that was cut off are ours.
            let is_foreign = |meta: &ObjectMeta| !meta.location.as_ref().starts_with(&format!("{PROBES}/"));
            while let Some(next) = all.next().await {
                let meta = next?;
                if is_foreign(&meta) {
                    return Ok(Some(meta.location));
                }
            }
            Ok(None)
        });
        let Some(other) = found? else {
            return Ok(false);
        };
        // Another one may have made it ours after the first look.
        match self.find(&path, MARKER_BYTES_MAX)? {
            Some(bytes) => self.check_marker(&bytes).map(|()| true),
            None => Err(StoreError::new(
                StoreErrorKind::Foreign,
                format!(
                    "{} holds something else, {other} for one: give Ramlet a place of its own, an empty one",
                    self.url
                ),
            )),
        }
    }

    fn check_marker(&self, bytes: &[u8]) -> Result<()> {
        let foreign = |why: &str| {
            let message = format!("{}/{MARKER}: {why}", self.url);
            Err(StoreError::new(StoreErrorKind::Foreign, message))
        };
        match serde_json::from_slice::<Marker>(bytes) {
            Ok(marker) if marker.format == FORMAT && marker.version == VERSION => Ok(()),
            Ok(marker) if marker.format == FORMAT => foreign(&format!(
                "version {}, this program knows {VERSION}",
                marker.version
            )),
            _ => foreign("it isn't what a store of ours begins with"),
        }
    }

    /// As [`Store::is_ours`], and makes an empty place ours.
    pub fn claim(&self) -> Result<()> {
        if self.is_ours()? {
            return Ok(());
        }
        let marker = Marker {
            format: FORMAT.to_owned(),
            version: VERSION,
            id: nonce(),
        };
        let bytes = serde_json::to_vec(&marker).expect("a marker has string keys only");
        match self.create(&Path::from(MARKER), bytes.into()) {
            // Another one made it at the same moment, or this one did and the answer was lost.
            Err(e) if e.kind() == StoreErrorKind::Exists || e.is_unknown() => match self.is_ours()? {
                true => Ok(()),
                false => Err(e),
            },
            done => done,
        }
    }

    /// What tells this store from all others.
    pub fn id(&self) -> Result<String> {
        let bytes = self.get(&Path::from(MARKER), MARKER_BYTES_MAX)?;
        self.check_marker(&bytes)?;
        let marker: Marker = serde_json::from_slice(&bytes)
            .map_err(|e| StoreError::new(StoreErrorKind::Foreign, format!("{}/{MARKER}: {e}", self.url)))?;
        Ok(marker.id)
    }

    /// As [`Store::is_ours`] for whoever reads: fails where there is nothing to read.
    pub fn must_be_ours(&self) -> Result<()> {
        match self.is_ours()? {
            true => Ok(()),
            false => Err(StoreError::not_found(format!(
                "{} is empty: no backup was pushed there",
                self.url
            ))),
        }
    }
}

/// Tells `each` all objects in a folder and below, in any order.
pub(crate) async fn list(
    inner: Arc<dyn ObjectStore>,
    url: &str,
    folder: &str,
    each: &mut dyn FnMut(Listed) -> Result<()>,
) -> Result<()> {
    let folder = Path::from(folder);
    let mut found = inner.list(Some(&folder));
    while let Some(next) = found.next().await {
        let ObjectMeta { location, size, .. } =
            next.map_err(|e| StoreError::of_store(&format!("listing {url}/{folder}"), &e))?;
        each(Listed {
            path: location,
            bytes: size,
        })?;
    }
    Ok(())
}

/// Removes many objects, some at once; that one isn't there is no failure.
pub(crate) async fn delete(inner: Arc<dyn ObjectStore>, url: &str, paths: Vec<Path>) -> Result<()> {
    let paths = futures_util::stream::iter(paths.into_iter().map(Ok)).boxed();
    let mut deleted = inner.delete_stream(paths);
    while let Some(next) = deleted.next().await {
        match next {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(e) => return Err(StoreError::of_store(&format!("deleting in {url}"), &e)),
        }
    }
    Ok(())
}

/// A whole object of at most so many bytes.
pub(crate) async fn get(
    inner: Arc<dyn ObjectStore>,
    url: &str,
    path: &Path,
    bytes_max: u64,
) -> Result<Bytes> {
    let at = format!("{url}/{path}");
    let found = inner.get(path).await;
    let found = found.map_err(|e| StoreError::of_store(&at, &e))?;
    if found.meta.size > bytes_max {
        return Err(StoreError::corrupt(format!(
            "{at}: it has {} bytes, {bytes_max} are the most that are read",
            found.meta.size
        )));
    }
    found.bytes().await.map_err(|e| StoreError::of_store(&at, &e))
}
