//! `.fbin`, `.u8bin`, `.i8bin` (big-ann-benchmarks): rows and dimension as two u32, then all the numbers.

use std::fs::File;
use std::io::{BufReader, Read};

use anyhow::{Context, Result, bail};

use super::element::{ByteOrder, Element};
use super::rows::{RowFile, RowLayout};

/// Opens a big-ann file.
pub fn open(mut file: File, element: Element) -> Result<RowFile> {
    let (rows, dim) = read_head(&mut file)?;
    let layout = RowLayout {
        element,
        order: ByteOrder::Little,
        dim: dim as usize,
        rows: u64::from(rows),
        start: 8,
        prefixed: false,
    };
    RowFile::new(file, layout)
}

fn read_head(file: &mut impl Read) -> Result<(u32, u32)> {
    let mut head = [0; 8];
    file.read_exact(&mut head)
        .context("the file is shorter than its 8-byte head")?;
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    Ok((word(0), word(4)))
}

/// The first `k` of each of the first `queries` rows of a file of row numbers, which aren't widened: a billion rows have numbers that an
/// f32 can't hold.
pub fn read_truth(file: File, queries: usize, k: usize) -> Result<Vec<Vec<u64>>> {
    let length = file.metadata()?.len();
    let mut file = BufReader::new(file);
    let (rows, width) = read_head(&mut file)?;
    if (rows as usize) < queries || (width as usize) < k {
        bail!("{rows} rows of {width} neighbours; {queries} of {k} are wanted");
    }
    // Before memory is taken for what the head says.
    let needed = 8 + queries as u128 * u128::from(width) * 4;
    if u128::from(length) < needed {
        bail!(
            "{queries} rows of {width} neighbours need {needed} bytes, but the file has {length}: it is cut short"
        );
    }
    let mut row = vec![0; width as usize * 4];
    let mut lists = Vec::new();
    for _ in 0..queries {
        file.read_exact(&mut row).context("it ends before its last row")?;
        let numbers = row.as_chunks::<4>().0.iter().take(k);
        lists.push(numbers.map(|word| u64::from(u32::from_le_bytes(*word))).collect());
    }
    Ok(lists)
}
