//! Stores in memory that lie, fail, or lose an answer.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use ramlet_store::Store;

/// Of [`Lie::CutOff`]: one of so many answers is lost.
const CUT_EVERY: usize = 5;

/// What a store does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    None,
    /// Whoever creates an object wins, also where there is one.
    AllCreate,
    /// Whoever swaps an object wins, whatever version it has.
    AllSwap,
    /// Swaps aren't known.
    NoSwap,
    /// An object that is there keeps its bytes, and overwrites are acknowledged.
    KeepsFirst,
    /// A list lacks what was written last.
    StaleList,
    /// Ranges begin one byte late.
    ShiftedRanges,
    /// Deletes do nothing.
    KeepsDeleted,
    /// Deletes are acknowledged, and done when [`Wrapped::delete_late`] says so: a sweeper that stalls.
    LateDeletes,
    /// The answer to a create of a marker, a manifest or a slot is lost, and the object is there.
    LostAnswers,
    /// The network loses the answer of so many creates and swaps, by turns before and after the store has done what it was asked.
    CutOff(usize),
    /// All is refused.
    Denied,
    /// Writes fail from this one on.
    FailsAfter(usize),
}

/// A store in memory and what it does wrong.
#[derive(Debug)]
pub struct Wrapped {
    pub inner: Arc<InMemory>,
    lie: Lie,
    puts: AtomicUsize,
    cut: AtomicUsize,
    late: Mutex<Vec<Path>>,
}

impl Wrapped {
    pub fn new(inner: &Arc<InMemory>, lie: Lie) -> Arc<Wrapped> {
        Arc::new(Wrapped {
            inner: inner.clone(),
            lie,
            puts: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
            late: Mutex::default(),
        })
    }

    /// Does the deletes that `is_due` names.
    pub fn delete_late(&self, mut is_due: impl FnMut() -> bool) {
        let mut late = self.late.lock().expect("no panic");
        late.retain(|path| {
            let due = is_due();
            if due {
                futures_util::FutureExt::now_or_never(self.inner.delete(path));
            }
            !due
        });
    }
}

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory that does wrong: {:?}", self.lie)
    }
}

/// A store over `inner`.
pub fn store(inner: &Arc<InMemory>, lie: Lie) -> Store {
    Store::over(Wrapped::new(inner, lie), "memory:").expect("threads")
}

fn failure(why: &str) -> Error {
    Error::Generic {
        store: "Wrapped",
        source: why.into(),
    }
}

fn cut_off() -> Error {
    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    Error::Generic {
        store: "Wrapped",
        source: Box::new(reset),
    }
}

#[async_trait]
impl ObjectStore for Wrapped {
    async fn put_opts(&self, path: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        let puts = self.puts.fetch_add(1, Ordering::Relaxed);
        let creates = matches!(options.mode, PutMode::Create);
        let swaps = matches!(options.mode, PutMode::Update(_));
        match self.lie {
            Lie::AllCreate if creates => options.mode = PutMode::Overwrite,
            Lie::AllSwap if swaps => options.mode = PutMode::Overwrite,
            Lie::NoSwap if swaps => {
                return Err(Error::NotImplemented {
                    operation: "swap".into(),
                    implementer: self.to_string(),
                });
            }
            Lie::KeepsFirst if !creates && !swaps => {
                if let Ok(meta) = self.inner.head(path).await {
                    return Ok(PutResult {
                        e_tag: meta.e_tag,
                        version: meta.version,
                        extensions: Default::default(),
                    });
                }
            }
            Lie::LostAnswers
                if creates
                    && ["manifests", "log/", "ramlet-store"]
                        .iter()
                        .any(|name| path.as_ref().contains(name)) =>
            {
                self.inner.put_opts(path, payload, options).await?;
                return Err(failure("the connection was reset"));
            }
            Lie::CutOff(most) if creates || swaps => {
                let cut = self.cut.fetch_add(1, Ordering::Relaxed);
                if cut < most * CUT_EVERY && cut.is_multiple_of(CUT_EVERY) {
                    if cut / CUT_EVERY % 2 == 1 {
                        self.inner.put_opts(path, payload, options).await?;
                    }
                    return Err(cut_off());
                }
            }
            Lie::Denied => {
                return Err(Error::PermissionDenied {
                    path: path.to_string(),
                    source: "the key is unknown".into(),
                });
            }
            Lie::FailsAfter(most) if puts >= most => return Err(failure("no route to host")),
            _ => {}
        }
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, mut options: GetOptions) -> Result<GetResult> {
        if let (Lie::ShiftedRanges, Some(object_store::GetRange::Bounded(range))) =
            (self.lie, &mut options.range)
        {
            *range = range.start + 1..range.end + 1;
        }
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.lie {
            Lie::KeepsDeleted => paths,
            Lie::LateDeletes => {
                let paths: Vec<_> =
                    futures_util::FutureExt::now_or_never(paths.collect()).expect("they are there");
                let known = paths.iter().flatten().cloned();
                self.late.lock().expect("no panic").extend(known);
                futures_util::stream::iter(paths).boxed()
            }
            _ => self.inner.delete_stream(paths),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let all = self.inner.list(prefix);
        match self.lie {
            Lie::StaleList => all.skip(1).boxed(),
            _ => all,
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
