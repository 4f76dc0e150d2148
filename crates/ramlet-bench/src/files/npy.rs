//! NumPy `.npy`, format versions 1 to 3: magic, version, head length, a Python dictionary as text, then the numbers.
//! Source: numpy.lib.format.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result, bail};

use super::columns::ColumnFile;
use super::element::{ByteOrder, Class, Element, KNOWN};
use super::rows::{RowFile, RowLayout, Rows};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest head read. NumPy writes under 128 bytes for an array of rows; longer ones are structured types.
const HEAD_MAX: usize = 64 << 10;

/// An array of rows, as its head says.
#[derive(Debug)]
pub struct Head {
    pub layout: RowLayout,
    /// The array is stored column by column (Fortran's order).
    pub by_columns: bool,
}

/// Opens an array of shape (rows, dimension).
pub fn open(mut file: File) -> Result<Box<dyn Rows>> {
    let head = read_head(&mut file)?;
    open_at(file, head)
}

/// As [`open`], with a head that is read already, whose start is the file's.
pub fn open_at(file: File, head: Head) -> Result<Box<dyn Rows>> {
    Ok(match head.by_columns {
        true => Box::new(ColumnFile::new(file, head.layout)?),
        false => Box::new(RowFile::new(file, head.layout)?),
    })
}

/// Reads the head; the rows begin where it ends, counted from the first byte that was read.
pub fn read_head(file: &mut impl Read) -> Result<Head> {
    let mut start = [0; 8];
    file.read_exact(&mut start)
        .context("the file is shorter than a .npy head")?;
    if &start[..6] != MAGIC {
        bail!("it does not begin as a .npy file does");
    }
    let (length, at) = head_length(file, start[6])?;
    let mut head = vec![0; length];
    file.read_exact(&mut head)
        .context("the file ends inside its .npy head")?;
    parse_head(&String::from_utf8_lossy(&head), at + length as u64)
}

/// Length of the dictionary and its offset: u16 in version 1, u32 since version 2.
fn head_length(file: &mut impl Read, version: u8) -> Result<(usize, u64)> {
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

fn parse_head(head: &str, start: u64) -> Result<Head> {
    let (element, order) = number_type(value(head, "descr")?.trim_matches(['\'', '"']))?;
    let shape = shape(value(head, "shape")?)?;
    let &[rows, dim] = shape.as_slice() else {
        bail!("its shape has {} axes; an array of rows has 2", shape.len());
    };
    let dim = usize::try_from(dim).context("its dimension")?;
    Ok(Head {
        layout: RowLayout {
            element,
            order,
            dim,
            rows,
            start,
            prefixed: false,
        },
        // With a single row or column both orders are the same bytes.
        by_columns: value(head, "fortran_order")? == "True" && rows > 1 && dim > 1,
    })
}

/// `<f4`: byte order, class and bytes.
fn number_type(descr: &str) -> Result<(Element, ByteOrder)> {
    let unknown =
        || format!("its numbers are of type {descr}; {KNOWN} (array.astype('<f4') makes one of them)");
    let mut rest = descr.chars();
    let order = match rest.next() {
        Some('<' | '|') => ByteOrder::Little,
        Some('>') => ByteOrder::Big,
        _ => bail!(unknown()),
    };
    let class = match rest.next() {
        Some('b') => Class::Bool,
        Some('u') => Class::Unsigned,
        Some('i') => Class::Signed,
        Some('f') => Class::Float,
        _ => bail!(unknown()),
    };
    let bytes = rest.as_str().parse().ok();
    let element = bytes.and_then(|bytes| Element::of(class, bytes));
    Ok((element.with_context(unknown)?, order))
}

/// The text of `key`'s value: up to the comma that ends it, or the closing bracket of a tuple or a list.
fn value<'a>(head: &'a str, key: &str) -> Result<&'a str> {
    let missing = || format!("its .npy head has no '{key}'");
    let quoted = format!("'{key}'");
    let after = head.find(&quoted).with_context(missing)? + quoted.len();
    let rest = head[after..].trim_start();
    let rest = rest.strip_prefix(':').with_context(missing)?.trim_start();
    let end = match rest.as_bytes().first() {
        Some(b'(') => rest.find(')').map(|at| at + 1),
        Some(b'[') => rest.find(']').map(|at| at + 1),
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

    fn check(head: &str, expected: Option<(Element, ByteOrder, u64, usize, bool)>) {
        let got = parse_head(head, 128).ok().map(|head| {
            let layout = head.layout;
            (
                layout.element,
                layout.order,
                layout.rows,
                layout.dim,
                head.by_columns,
            )
        });
        assert_eq!(got, expected, "{head}");
    }

    #[test]
    fn heads() {
        use ByteOrder::{Big, Little};
        check(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }  \n",
            Some((Element::F32, Little, 60_000, 784, false)),
        );
        check(
            "{'shape': (3, 5), 'fortran_order': False, 'descr': '|u1'}",
            Some((Element::U8, Little, 3, 5, false)),
        );
        check(
            "{'descr': '<f2', 'fortran_order': True, 'shape': (1, 5), }",
            Some((Element::F16, Little, 1, 5, false)),
        );
        check(
            "{'descr': '>i8', 'fortran_order': True, 'shape': (3, 5), }",
            Some((Element::I64, Big, 3, 5, true)),
        );
        check(
            "{'descr': '|b1', 'fortran_order': False, 'shape': (3, 5), }",
            Some((Element::Bool, Little, 3, 5, false)),
        );
    }

    #[test]
    fn heads_that_are_refused() {
        for head in [
            "",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<c8', 'fortran_order': False, 'shape': (3, 5), }",
            "{'descr': '<f16', 'fortran_order': False, 'shape': (3, 5), }",
            "{'descr': '|O', 'fortran_order': False, 'shape': (3, 5), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (15,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3, 5), }",
        ] {
            check(head, None);
        }
    }
}
