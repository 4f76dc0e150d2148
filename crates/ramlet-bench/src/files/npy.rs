//! NumPy `.npy`, format versions 1 to 3: magic, version, head length, a Python dictionary as text, then the numbers.
//! Source: numpy.lib.format.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result, bail};

use super::element::Element;
use super::rows::{RowFile, RowLayout};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest head read. NumPy writes under 128 bytes for an array of rows; longer ones are structured types.
const HEAD_MAX: usize = 64 << 10;

/// Opens an array of shape (rows, dimension) in C order.
pub fn open(mut file: File) -> Result<RowFile> {
    let mut start = [0; 8];
    file.read_exact(&mut start)
        .context("the file is shorter than a .npy head")?;
    if &start[..6] != MAGIC {
        bail!("it does not begin as a .npy file does");
    }
    let (length, at) = head_length(&mut file, start[6])?;
    let mut head = vec![0; length];
    file.read_exact(&mut head)
        .context("the file ends inside its .npy head")?;
    let layout = parse_head(&String::from_utf8_lossy(&head), at + length as u64)?;
    RowFile::new(file, layout)
}

/// Length of the dictionary and its offset: u16 in version 1, u32 since version 2.
fn head_length(file: &mut File, version: u8) -> Result<(usize, u64)> {
    let mut word = [0; 4];
    let width = match version {
        1 => 2,
        2 | 3 => 4,
        other => bail!("version {other} of the .npy format; versions 1 to 3 are known"),
    };
    file.read_exact(&mut word[..width])?;
    let length = u32::from_le_bytes(word) as usize;
    if length > HEAD_MAX {
        bail!("its .npy head of {length} bytes is longer than {HEAD_MAX}");
    }
    Ok((length, 8 + width as u64))
}

fn parse_head(head: &str, start: u64) -> Result<RowLayout> {
    let descr = value(head, "descr")?;
    let element = match descr.trim_matches(['\'', '"']) {
        "|u1" | "<u1" => Element::U8,
        "|i1" | "<i1" => Element::I8,
        "<u2" => Element::U16,
        "<i2" => Element::I16,
        "<i4" => Element::I32,
        "<f2" => Element::F16,
        "<f4" => Element::F32,
        "<f8" => Element::F64,
        other => bail!(
            "its numbers are of type {other}; f2, f4, f8, u1, i1, u2, i2 and i4 in little endian are read \
             (array.astype('<f4') makes one of them)"
        ),
    };
    let shape = shape(value(head, "shape")?)?;
    let &[rows, dim] = shape.as_slice() else {
        bail!("its shape has {} axes; an array of rows has 2", shape.len());
    };
    // With a single row or column both orders are the same bytes.
    if value(head, "fortran_order")? == "True" && rows > 1 && dim > 1 {
        bail!("it is stored column by column; save numpy.ascontiguousarray(array)");
    }
    let dim = usize::try_from(dim).context("its dimension")?;
    Ok(RowLayout {
        element,
        dim,
        rows,
        start,
        prefixed: false,
    })
}

/// The text of `key`'s value: up to the comma that ends it, or the closing bracket of a tuple.
fn value<'a>(head: &'a str, key: &str) -> Result<&'a str> {
    let missing = || format!("its .npy head has no '{key}'");
    let quoted = format!("'{key}'");
    let after = head.find(&quoted).with_context(missing)? + quoted.len();
    let rest = head[after..].trim_start();
    let rest = rest.strip_prefix(':').with_context(missing)?.trim_start();
    let end = match rest.as_bytes().first() {
        Some(b'(') => rest.find(')').map(|at| at + 1),
        _ => rest.find([',', '}']),
    };
    Ok(rest[..end.with_context(missing)?].trim())
}

fn shape(text: &str) -> Result<Vec<u64>> {
    text.trim_matches(['(', ')'])
        .split(',')
        .map(str::trim)
        .filter(|axis| !axis.is_empty())
        .map(|axis| {
            axis.parse()
                .with_context(|| format!("its shape {text} is no tuple of numbers"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: Option<(Element, u64, usize)>) {
        let got = parse_head(head, 128).ok().map(|l| (l.element, l.rows, l.dim));
        assert_eq!(got, expected, "{head}");
    }

    #[test]
    fn heads() {
        check(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }  \n",
            Some((Element::F32, 60_000, 784)),
        );
        check(
            "{'shape': (3, 5), 'fortran_order': False, 'descr': '|u1'}",
            Some((Element::U8, 3, 5)),
        );
        check(
            "{'descr': '<f2', 'fortran_order': True, 'shape': (1, 5), }",
            Some((Element::F16, 1, 5)),
        );
    }

    #[test]
    fn heads_that_are_refused() {
        for head in [
            "",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 5), }",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 5), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (15,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3, 5), }",
        ] {
            check(head, None);
        }
    }
}
