//! `.fvecs`, `.bvecs`, `.ivecs` (TEXMEX): every row is its dimension as an i32, then the numbers.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result, bail};

use super::element::{ByteOrder, Element};
use super::rows::{DIM_MAX, RowFile, RowLayout};

/// Opens a `vecs` file; the number of rows follows from its length.
pub fn open(mut file: File, element: Element) -> Result<RowFile> {
    let length = file.metadata()?.len();
    let mut head = [0; 4];
    file.read_exact(&mut head)
        .context("the file is shorter than one row's head")?;
    let dim = i32::from_le_bytes(head);
    let Some(dim) = usize::try_from(dim).ok().filter(|dim| *dim > 0) else {
        bail!("the dimension is {dim}; 1 to {DIM_MAX} is possible");
    };
    let stride = 4 + dim as u64 * element.bytes() as u64;
    if !length.is_multiple_of(stride) {
        bail!(
            "{length} bytes is no whole number of rows of {stride} bytes ({dim} numbers each): it is cut short, or another format"
        );
    }
    let layout = RowLayout {
        element,
        order: ByteOrder::Little,
        dim,
        rows: length / stride,
        start: 0,
        prefixed: true,
    };
    RowFile::new(file, layout)
}
