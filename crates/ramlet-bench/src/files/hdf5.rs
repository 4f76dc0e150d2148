//! ann-benchmarks `.hdf5`: a dataset of rows (`train` by default), the distance as an attribute of the file.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use hdf5_reader::error::Error;
use hdf5_reader::{Dataset, Datatype, H5Type, Hdf5File, OpenOptions, SliceInfo, SliceInfoElem, storage};

use super::distance::Distance;
use super::element::{ByteOrder, Class, Element, KNOWN};
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
    element: Element,
    distance: Named,
    rows: u64,
    dim: usize,
    row: u64,
    slab: Vec<f32>,
    slab_start: u64,
}

/// The distance that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    Nothing,
    Known(Distance),
    /// None of the API's.
    Other(String),
}

/// An element of any type of the table, widened as it is read.
#[derive(Debug, Clone, Copy)]
struct Widened(f32);

impl H5Type for Widened {
    fn hdf5_type() -> Datatype {
        f32::hdf5_type()
    }

    fn from_bytes(bytes: &[u8], datatype: &Datatype) -> Result<Widened, Error> {
        let mut values = widen(bytes, datatype)?;
        values
            .pop()
            .ok_or_else(|| Error::InvalidData("no bytes".to_string()))
    }

    fn element_size(datatype: &Datatype) -> usize {
        number_type(datatype).map_or(0, |(element, _)| element.bytes())
    }

    fn decode_vec(bytes: &[u8], datatype: &Datatype, count: usize) -> Option<Result<Vec<Widened>, Error>> {
        let (element, _) = number_type(datatype)?;
        (bytes.len() == count * element.bytes()).then(|| widen(bytes, datatype))
    }
}

fn widen(bytes: &[u8], datatype: &Datatype) -> Result<Vec<Widened>, Error> {
    let (element, order) =
        number_type(datatype).ok_or_else(|| Error::InvalidData(format!("{datatype:?}")))?;
    let mut out = Vec::new();
    element.decode(order, bytes, &mut out);
    Ok(out.into_iter().map(Widened).collect())
}

/// Element and byte order of a datatype, if the table has it. h5py writes truth values as an enumeration of one byte.
fn number_type(datatype: &Datatype) -> Option<(Element, ByteOrder)> {
    let (class, size, order) = match datatype {
        Datatype::FloatingPoint { size, byte_order } => (Class::Float, *size, *byte_order),
        Datatype::FixedPoint {
            size,
            signed: true,
            byte_order,
        } => (Class::Signed, *size, *byte_order),
        Datatype::FixedPoint {
            size,
            signed: false,
            byte_order,
        } => (Class::Unsigned, *size, *byte_order),
        Datatype::Enum { base, .. } => match **base {
            Datatype::FixedPoint {
                size: 1, byte_order, ..
            } => (Class::Bool, 1, byte_order),
            _ => return None,
        },
        _ => return None,
    };
    let order = match order {
        hdf5_reader::ByteOrder::LittleEndian => ByteOrder::Little,
        hdf5_reader::ByteOrder::BigEndian => ByteOrder::Big,
    };
    Some((Element::of(class, usize::from(size))?, order))
}

/// What ann-benchmarks calls the vectors.
const USUAL: &str = "train";

/// Opens `key` of an HDF5 file; `""` is `train`, or the only dataset. The first rows are read: what can't be unpacked says so.
pub fn open(path: &Path, key: &str) -> Result<Hdf5Rows> {
    let options = OpenOptions::default().with_chunk_cache_bytes(CHUNK_CACHE_BYTES);
    // Positioned reads, not the crate's default mmap: page cache that isn't ours stays evictable.
    let storage = Arc::new(storage::FileStorage::open(path)?);
    let file = Hdf5File::from_storage_with_options(storage, options)?;
    let key = match key {
        "" => usual(&file),
        key => key.to_string(),
    };
    let dataset = file.dataset(&key).with_context(|| {
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
    let (element, _) = number_type(dataset.dtype())
        .with_context(|| format!("the elements of '{key}' are {:?}; {KNOWN}", dataset.dtype()))?;
    let distance = distance(&file);
    let mut opened = Hdf5Rows {
        _file: file,
        dataset,
        element,
        distance,
        rows,
        dim: dim as usize,
        row: 0,
        slab: Vec::new(),
        slab_start: 0,
    };
    if rows > 0 {
        opened.fill().context("reading its first rows")?;
    }
    Ok(opened)
}

fn usual(file: &Hdf5File) -> String {
    let group = file.root_group().and_then(|root| root.member_names());
    match group.map(|(_, datasets)| datasets).unwrap_or_default().as_slice() {
        [only] => only.clone(),
        _ => USUAL.to_string(),
    }
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
        let array = self.dataset.read_slice::<Widened>(&selection)?;
        self.slab.clear();
        self.slab.extend(array.iter().map(|value| value.0));
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
        self.element.is_u8()
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
