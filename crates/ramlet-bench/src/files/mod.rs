//! Files of vectors that people have: `.npy`, `.npz`, `.fvecs` and its kin, big-ann's `.fbin`, ann-benchmarks' `.hdf5`; read row by row.

mod bigann;
mod columns;
mod distance;
mod element;
mod hdf5;
mod npy;
mod npz;
mod rows;
mod vecs;

pub use distance::Distance;
pub use element::{ByteOrder, Element};
pub use rows::{DIM_MAX, Rows};

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Extensions that [`open_rows`] takes.
pub const EXTENSIONS: [&str; 11] = [
    "npy", "npz", "fvecs", "bvecs", "ivecs", "fbin", "u8bin", "i8bin", "ibin", "hdf5", "h5",
];

/// Opens a file of rows by its extension; `key` names the dataset of an HDF5 file (`""`: `train`, or the only one) or the array of a
/// `.npz` (`""`: the only one of rows).
///
/// Holds 256 KiB and one row; 5 MiB for HDF5, 1 MiB more for arrays stored by columns. Fails where the file is cut short or its head makes
/// no sense; the error names the file.
pub fn open_rows(path: &Path, key: &str) -> Result<Box<dyn Rows>> {
    let extension = extension(path);
    let file = || File::open(path);
    let opened = || -> Result<Box<dyn Rows>> {
        Ok(match extension.as_str() {
            "npy" => npy::open(file()?)?,
            "npz" => npz::open(path, key)?,
            "fvecs" => Box::new(vecs::open(file()?, Element::F32)?),
            "bvecs" => Box::new(vecs::open(file()?, Element::U8)?),
            "ivecs" => Box::new(vecs::open(file()?, Element::I32)?),
            "fbin" => Box::new(bigann::open(file()?, Element::F32)?),
            "u8bin" => Box::new(bigann::open(file()?, Element::U8)?),
            "i8bin" => Box::new(bigann::open(file()?, Element::I8)?),
            "ibin" => Box::new(bigann::open(file()?, Element::I32)?),
            "hdf5" | "h5" => Box::new(hdf5::open(path, key)?),
            _ => bail!(
                "the format follows from the extension, one of .{}",
                EXTENSIONS.join(" .")
            ),
        })
    };
    opened().with_context(|| path.display().to_string())
}

/// In lower case; big-ann's `base.fbin.crop_nb_10000000` is an `fbin`.
fn extension(path: &Path) -> String {
    let of = |path: &Path| {
        path.extension()
            .and_then(OsStr::to_str)
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    match of(path) {
        crop if crop.starts_with("crop_nb_") => of(&path.with_extension("")),
        other => other,
    }
}

/// Whether a file of neighbours is big-ann's: `.ibin`, or a name without any of the other extensions (`.bin`, none).
pub fn is_bigann_truth(path: &Path) -> bool {
    let extension = extension(path);
    extension == "ibin" || !EXTENSIONS.contains(&extension.as_str())
}

/// The first `k` row numbers of each of the first `queries` lists of a big-ann truth file: numbers of 32 bits, distances behind them or not.
pub fn read_bigann_truth(path: &Path, queries: usize, k: usize) -> Result<Vec<Vec<u64>>> {
    let read = || bigann::read_truth(File::open(path)?, queries, k);
    read().with_context(|| path.display().to_string())
}

/// Opens a file of bare numbers, one row after another.
pub fn open_bare(path: &Path, element: Element, dim: usize) -> Result<Box<dyn Rows>> {
    let opened = || -> Result<Box<dyn Rows>> {
        let file = File::open(path)?;
        let rows = file.metadata()?.len() / (dim * element.bytes()).max(1) as u64;
        let layout = rows::RowLayout {
            element,
            order: ByteOrder::Little,
            dim,
            rows,
            start: 0,
            prefixed: false,
        };
        Ok(Box::new(rows::RowFile::new(file, layout)?))
    };
    opened().with_context(|| path.display().to_string())
}

/// The names in an HDF5 file at its top level.
pub fn hdf5_datasets(path: &Path) -> Result<Vec<String>> {
    hdf5::datasets(path).with_context(|| path.display().to_string())
}
