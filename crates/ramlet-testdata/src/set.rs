//! A set of vectors as files: base, queries, truth, and what they are.
//!
//! `NAME.base.f32` and `NAME.query.f32` (or `.u8`) hold bare rows, little endian; `NAME.gt.i32` the row numbers of the nearest, `truth_width`
//! a query; `NAME.json` a [`SetInfo`]. A set that someone else made may lack the last.

use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ramlet_io::{Backend, PAGE, ReadFile, open_best};
use ramlet_memory::AnonBuf;
use serde::{Deserialize, Serialize};

use crate::clustered::Shape;

/// How a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    F32,
    U8,
}

impl Element {
    pub fn bytes(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::U8 => 1,
        }
    }

    /// Of the set's files.
    pub fn extension(self) -> &'static str {
        match self {
            Element::F32 => "f32",
            Element::U8 => "u8",
        }
    }

    /// The values of an encoded row.
    pub fn floats(self, row: &[u8]) -> Vec<f32> {
        match self {
            Element::F32 => row
                .as_chunks::<4>()
                .0
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes))
                .collect(),
            Element::U8 => row.iter().map(|byte| f32::from(*byte)).collect(),
        }
    }
}

/// What is near. Rows of a cosine set have unit length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    Cosine,
    Euclid,
}

/// What a set is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetInfo {
    pub rows: u64,
    pub queries: usize,
    pub dims: usize,
    pub element: Element,
    pub metric: Metric,
    /// Neighbours in the truth of each query.
    pub truth_width: usize,
    /// What it was made from; None for real data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Mean local intrinsic dimension over the truth (maximum likelihood, Levina & Bickel 2004).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lid_mean: Option<f64>,
}

/// A set on disk.
#[derive(Debug, Clone)]
pub struct Set {
    prefix: PathBuf,
    pub info: SetInfo,
}

/// Truth of sets that don't say how wide it is.
const TRUTH_WIDTH: usize = 100;

/// About how many bytes are read at once from the base.
const CHUNK_BYTES: u64 = 256 << 10;

impl Set {
    /// Opens `PREFIX.json`; without one, `PREFIX.base.f32` is taken for unit rows of `dims` dimensions.
    pub fn open(prefix: &Path, dims: usize) -> Result<Set> {
        let mut set = Set {
            prefix: prefix.to_path_buf(),
            info: SetInfo {
                rows: 0,
                queries: 0,
                dims,
                element: Element::F32,
                metric: Metric::Cosine,
                truth_width: TRUTH_WIDTH,
                shape: None,
                lid_mean: None,
            },
        };
        match std::fs::read(set.info_path()) {
            Ok(text) => set.info = serde_json::from_slice(&text)?,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let row = set.row_bytes() as u64;
                set.info.rows = std::fs::metadata(set.base_path())?.len() / row;
                set.info.queries = (std::fs::metadata(set.query_path())?.len() / row) as usize;
            }
            Err(e) => return Err(e),
        }
        Ok(set)
    }

    pub(crate) fn new(prefix: &Path, info: SetInfo) -> Set {
        Set {
            prefix: prefix.to_path_buf(),
            info,
        }
    }

    /// `PREFIX` + `.` + `ending`.
    pub fn path(&self, ending: &str) -> PathBuf {
        let mut name = self.prefix.clone().into_os_string();
        name.push(".");
        name.push(ending);
        name.into()
    }

    pub fn info_path(&self) -> PathBuf {
        self.path("json")
    }

    pub fn base_path(&self) -> PathBuf {
        self.path(&format!("base.{}", self.info.element.extension()))
    }

    pub fn query_path(&self) -> PathBuf {
        self.path(&format!("query.{}", self.info.element.extension()))
    }

    pub fn truth_path(&self) -> PathBuf {
        self.path("gt.i32")
    }

    pub fn row_bytes(&self) -> usize {
        self.info.dims * self.info.element.bytes()
    }

    /// The first `count` queries, encoded.
    pub fn queries(&self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = read_head(
            &self.query_path(),
            count.min(self.info.queries) * self.row_bytes(),
        )?;
        bytes.shrink_to_fit();
        Ok(bytes)
    }

    /// The `k` nearest of each of the first `count` queries.
    pub fn truth(&self, count: usize, k: usize) -> Result<Vec<Vec<u32>>> {
        let width = self.info.truth_width * 4;
        let bytes = read_head(&self.truth_path(), count.min(self.info.queries) * width)?;
        Ok(bytes
            .chunks_exact(width)
            .map(|ids| {
                ids.as_chunks::<4>()
                    .0
                    .iter()
                    .take(k)
                    .map(|id| u32::from_le_bytes(*id))
                    .collect()
            })
            .collect())
    }

    /// The base as a file of the storage seam: with O_DIRECT where that works, so that reading it leaves no page cache
    /// that would be charged to the cgroup of a measurement.
    pub fn base(&self) -> Result<Arc<dyn ReadFile>> {
        let path = self.base_path();
        let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str())) else {
            return Err(Error::other(format!("{} is not a file", path.display())));
        };
        let directory = if directory.as_os_str().is_empty() {
            Path::new(".")
        } else {
            directory
        };
        let (storage, _) = open_best(directory, Backend::Auto).map_err(Error::other)?;
        storage.open(name).map_err(Error::other)
    }

    /// Shows `each` the rows `first..end` in chunks of about 256 KiB: the number of the first row, and the encoded rows.
    pub fn for_each_chunk(
        &self,
        first: u64,
        end: u64,
        each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let file = self.base()?;
        let (row, end) = (self.row_bytes() as u64, end.min(self.info.rows));
        // Whole pages, so that no read needs a copy.
        let unit = PAGE as u64 >> row.trailing_zeros().min(PAGE.trailing_zeros());
        let step = (CHUNK_BYTES / row / unit).max(1) * unit;
        let mut buf = AnonBuf::new((step * row) as usize);
        let mut at = first;
        while at < end {
            let count = step.min(end - at);
            let out = &mut buf[..(count * row) as usize];
            file.read_at(out, at * row).map_err(Error::other)?;
            each(at, out)?;
            at += count;
        }
        Ok(())
    }
}

fn read_head(path: &Path, bytes: usize) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut out = vec![0; bytes];
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut out))
        .map_err(|e| Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    Ok(out)
}
