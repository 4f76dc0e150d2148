//! ann-benchmarks `.hdf5`: a dataset of rows (`train` by default), the distance as an attribute of the file.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use hdf5_reader::{Dataset, Datatype, H5Type, Hdf5File, OpenOptions, SliceInfo, SliceInfoElem, storage};

use super::distance::Distance;
use super::rows::{DIM_MAX, Rows};

/// Most bytes read at once.
const SLAB_BYTES: usize = 1 << 20;
const CHUNK_CACHE_BYTES: usize = 4 << 20;

/// Rows of an HDF5 dataset. Memory: a slab of 1 MiB as read and as f32, and a chunk cache of 4 MiB
/// (a compressed file is read by its own chunks, whatever their size).
pub struct Hdf5Rows {
    // Keeps the file's storage open as long as the dataset is read.
    _file: Hdf5File,
    dataset: Dataset,
    kind: Kind,
    distance: Named,
    rows: u64,
    dim: usize,
    row: u64,
    slab: Vec<f32>,
    slab_start: u64,
}

/// How the dataset's elements are asked for: the reader converts none, so the type must be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    F64,
    U8,
    I8,
    I32,
    U32,
    I64,
    Bool,
}

/// The distance that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    Nothing,
    Known(Distance),
    /// None of the API's.
    Other(String),
}

/// An element of an array of truth values, which h5py writes as an enumeration of one byte.
#[derive(Debug, Clone, Copy)]
struct Truth(f32);

impl H5Type for Truth {
    fn hdf5_type() -> Datatype {
        u8::hdf5_type()
    }

    fn from_bytes(bytes: &[u8], _: &Datatype) -> Result<Truth, hdf5_reader::error::Error> {
        Ok(Truth(if bytes.first().is_some_and(|byte| *byte != 0) {
            1.0
        } else {
            0.0
        }))
    }

    fn element_size(_: &Datatype) -> usize {
        1
    }
}

/// Opens `key` of an HDF5 file.
pub fn open(path: &Path, key: &str) -> Result<Hdf5Rows> {
    let options = OpenOptions::default().with_chunk_cache_bytes(CHUNK_CACHE_BYTES);
    // Positioned reads, not the crate's default mmap: page cache that isn't ours stays evictable.
    let storage = Arc::new(storage::FileStorage::open(path)?);
    let file = Hdf5File::from_storage_with_options(storage, options)?;
    let dataset = file.dataset(key).with_context(|| {
        format!(
            "it has no dataset '{key}', it has: {} (choose one with --key)",
            names(&file)
        )
    })?;
    let &[rows, dim] = dataset.shape() else {
        bail!(
            "dataset '{key}' has {} axes; vectors are rows, 2 axes",
            dataset.ndim()
        );
    };
    if dim == 0 || dim > DIM_MAX {
        bail!("the dimension of '{key}' is {dim}; 1 to {DIM_MAX} is possible");
    }
    let kind = kind(dataset.dtype()).with_context(|| format!("dataset '{key}'"))?;
    let distance = distance(&file);
    Ok(Hdf5Rows {
        _file: file,
        dataset,
        kind,
        distance,
        rows,
        dim: dim as usize,
        row: 0,
        slab: Vec::new(),
        slab_start: 0,
    })
}

fn kind(datatype: &Datatype) -> Result<Kind> {
    Ok(match datatype {
        Datatype::FloatingPoint { size: 4, .. } => Kind::F32,
        Datatype::FloatingPoint { size: 8, .. } => Kind::F64,
        Datatype::FixedPoint {
            size: 1,
            signed: false,
            ..
        } => Kind::U8,
        Datatype::FixedPoint {
            size: 1,
            signed: true,
            ..
        } => Kind::I8,
        Datatype::FixedPoint {
            size: 4,
            signed: true,
            ..
        } => Kind::I32,
        Datatype::FixedPoint {
            size: 4,
            signed: false,
            ..
        } => Kind::U32,
        Datatype::FixedPoint {
            size: 8,
            signed: true,
            ..
        } => Kind::I64,
        Datatype::Enum { base, .. } if matches!(**base, Datatype::FixedPoint { size: 1, .. }) => Kind::Bool,
        other => bail!("its elements are {other:?}; f32, f64, u8, i8, i32, u32, i64 and bool are read"),
    })
}

/// The attribute `distance` that ann-benchmarks writes.
fn distance(file: &Hdf5File) -> Named {
    let attribute = file.root_group().and_then(|root| root.attribute("distance"));
    let Ok(name) = attribute.and_then(|attribute| attribute.read_string()) else {
        return Named::Nothing;
    };
    match name.as_str() {
        "angular" | "cosine" => Named::Known(Distance::Cosine),
        "euclidean" | "l2" => Named::Known(Distance::Euclid),
        "dot" | "ip" => Named::Known(Distance::Dot),
        // Of zeros and ones it is the number of places in which they differ.
        "manhattan" | "l1" | "hamming" => Named::Known(Distance::Manhattan),
        _ => Named::Other(name),
    }
}

/// The datasets of the file.
pub fn datasets(path: &Path) -> Result<Vec<String>> {
    let storage = Arc::new(storage::FileStorage::open(path)?);
    let file = Hdf5File::from_storage_with_options(storage, OpenOptions::default())?;
    Ok(file.root_group()?.member_names()?.1)
}

fn names(file: &Hdf5File) -> String {
    let group = file.root_group().and_then(|root| root.member_names());
    match group {
        Ok((_, datasets)) if !datasets.is_empty() => datasets.join(", "),
        _ => "none at its top level".to_string(),
    }
}

impl Hdf5Rows {
    fn rows_per_slab(&self) -> u64 {
        (SLAB_BYTES / (self.dim * 4)).max(1) as u64
    }

    fn fill(&mut self) -> Result<()> {
        let start = self.row;
        let end = (start + self.rows_per_slab()).min(self.rows);
        let selection = SliceInfo {
            selections: vec![
                SliceInfoElem::Slice { start, end, step: 1 },
                SliceInfoElem::Slice {
                    start: 0,
                    end: u64::MAX,
                    step: 1,
                },
            ],
        };
        macro_rules! read {
            ($t:ty, $widen:expr) => {{
                let array = self.dataset.read_slice::<$t>(&selection)?;
                self.slab.clear();
                self.slab.extend(array.iter().copied().map($widen));
            }};
        }
        match self.kind {
            Kind::F32 => read!(f32, |v| v),
            Kind::F64 => read!(f64, |v| v as f32),
            Kind::U8 => read!(u8, f32::from),
            Kind::I8 => read!(i8, f32::from),
            Kind::I32 => read!(i32, |v| v as f32),
            Kind::U32 => read!(u32, |v| v as f32),
            Kind::I64 => read!(i64, |v| v as f32),
            Kind::Bool => read!(Truth, |v| v.0),
        }
        if self.slab.len() as u64 != (end - start) * self.dim as u64 {
            bail!("rows {start} to {end} came back short");
        }
        self.slab_start = start;
        Ok(())
    }
}

impl Rows for Hdf5Rows {
    fn rows(&self) -> u64 {
        self.rows
    }
    fn dim(&self) -> usize {
        self.dim
    }
    fn is_u8(&self) -> bool {
        self.kind == Kind::U8
    }
    fn distance(&self) -> Option<Distance> {
        match self.distance {
            Named::Known(distance) => Some(distance),
            _ => None,
        }
    }
    fn unknown_distance(&self) -> Option<&str> {
        match &self.distance {
            Named::Other(name) => Some(name),
            _ => None,
        }
    }

    fn seek(&mut self, row: u64) -> Result<()> {
        self.row = row.min(self.rows);
        self.slab.clear();
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<f32>) -> Result<bool> {
        if self.row >= self.rows {
            return Ok(false);
        }
        let slab_end = self.slab_start + (self.slab.len() / self.dim) as u64;
        if self.slab.is_empty() || self.row >= slab_end {
            self.fill().with_context(|| format!("reading row {}", self.row))?;
        }
        let at = (self.row - self.slab_start) as usize * self.dim;
        out.clear();
        out.extend_from_slice(&self.slab[at..at + self.dim]);
        self.row += 1;
        Ok(true)
    }
}
