//! SQ8 rows, read instead of the vectors.
//!
//! | bytes | what |
//! |---|---|
//! | 0..d | a level a dimension: what it stands for is `step (level - 128)` of the row's rotated residual |
//! | 4 | `step` f32; not a number: the bytes say nothing of the row |
//! | 4 | `add` f32: `|r|^2`, under cosine `+ 1 - |x|^2` |
//! | 4 | number of the row in the segment u32 |
//!
//! A page has 36 such rows of 100 dimensions, where it has ten vectors: rows that lie near a query lie near each other, and the more of them
//! a page holds the fewer pages are read. Rounding leaves over `e`, each value of it anywhere within half a step of 0, so that
//!
//! ```text
//! <r, y> = step <levels - 128, y>,  off by about step |y| / sqrt(12)
//! ```
//!
//! (Bennett, "Spectra of quantized signals", 1948.) The step is that of the row's own largest value, times what makes `e` perpendicular to `r`:
//! a query that equals a row gets that row's distance but for rounding. At 100 dimensions a product is off by .0006 of `|r| |y|`.

use super::dot;

/// Bytes behind the levels.
const TAIL_BYTES: usize = 12;

/// Squared length from which on a residual isn't coded: values of the row might be clipped.
const SQUARES_MOST: f64 = 1e30;

/// Where things lie in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sq8Layout {
    pub(crate) dims: usize,
}

/// A row as it was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sq8Row<'a> {
    pub(crate) levels: &'a [u8],
    pub(crate) step: f32,
    pub(crate) add: f32,
    pub(crate) number: u32,
}

impl Sq8Layout {
    pub(crate) fn new(dims: usize) -> Sq8Layout {
        Sq8Layout { dims }
    }

    pub(crate) fn row_bytes(self) -> usize {
        self.dims + TAIL_BYTES
    }

    /// `row` has [`Sq8Layout::row_bytes`] bytes.
    pub(crate) fn row(self, row: &[u8]) -> Sq8Row<'_> {
        let (levels, tail) = row.split_at(self.dims);
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| tail[at + i]));
        Sq8Row {
            levels,
            step: f32::from_bits(word(0)),
            add: f32::from_bits(word(4)),
            number: word(8),
        }
    }

    /// Writes a residual of this squared length; `numbers` is overwritten.
    pub(super) fn put(
        self,
        (residual, squares): (&[f32], f64),
        (add, number): (f64, u32),
        numbers: &mut Vec<f32>,
        out: &mut [u8],
    ) {
        let (levels, tail) = out.split_at_mut(self.dims);
        ramlet_kernels::kernels().to_bytes(residual, levels);
        numbers.clear();
        numbers.extend(levels.iter().map(|level| f32::from(*level) - 128.0));
        let along = dot(residual, numbers);
        let step = match along > 0.0 && squares < SQUARES_MOST {
            true => (squares / along) as f32,
            false if squares == 0.0 => 0.0,
            false => f32::NAN,
        };
        tail[..4].copy_from_slice(&step.to_le_bytes());
        tail[4..8].copy_from_slice(&(add as f32).to_le_bytes());
        tail[8..].copy_from_slice(&number.to_le_bytes());
    }
}
