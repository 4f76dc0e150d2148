//! Product quantization: a few bits for each part of a vector.
//!
//! Jégou, Douze, Schmid, "Product quantization for nearest neighbor search", TPAMI 2011. The dimensions are cut into
//! `m` parts of equal width; each part has its own book of 16 words (k-means of that part of a sample), and a
//! vector `r`, as a rule the residual to its cluster's centroid, becomes `m` codes: the nearest word `p_j` of each part.
//! A query `y` in the same space is compared with words once, by part; a distance is then a sum of `m` table entries
//! (asymmetric distance computation):
//!
//! ```text
//! distance  |y - r|^2  ~  |y|^2 + sum_j (|p_j|^2 - 2 <y_j, p_j>) + E|e|^2      e = r - p
//! product   -<y, r>    ~  -sum_j <y_j, p_j>
//! ```
//!
//! Words are means of what they stand for, so `e` is 0 on average for each and both estimates are unbiased over the
//! vectors of a cell. They miss by about `2 sqrt(v (|y - r|^2 - E|e|^2) + Var|e|^2 / 4)` and `sqrt(v_j |y_j|^2)`, with
//! `v` the mean square of `e` in a dimension; the factor to that was measured on vectors that the books were not
//! trained with ([`ProductModel::train`]).
//!
//! The codes of 32 vectors stand in groups and tables are rounded to bytes (FastScan, see
//! [`ramlet_kernels::Kernels::fast_scan_sums`]): each entry then is off by at most half a step, evenly spread, which the
//! deviation includes.
//!
//! Under cosine and dot product take `-<q, c> - <q, r>`: the tables of `<q, .>` serve all clusters of a query, where those
//! of distances are made for each (1.5 us at 100 dimensions), and nothing is missed for the sake of `|r|`, which is known:
//! Euclid too can take `|q|^2 + |x|^2 - 2 <q, x>` where `|x|^2` stands beside the code.
//!
//! Measured on 20,000 vectors of 100 dimensions, glove-like, of unit length (200 queries; residuals to 256 centroids;
//! trained with 16,384 of the vectors): recall@10 of ranking all by the code alone, and how many vectors are ranked at
//! least as well as the worst of the ten nearest, which is how many would have to be looked at. Codes of 8 bits were measured only.
//!
//! | code | bytes | compared | recall@10 | rank of the worst, median | p90 |
//! |---|---|---|---|---|---|
//! | 8 bits, x4 | 100 | product with residuals | .978 | 10 | 11 |
//! | 8 bits, x8 | 50 | same | .902 | 12 | 16 |
//! | 8 bits, x16 | 25 | same | .698 | 24 | 55 |
//! | 8 bits, x32 | 13 | same | .488 | 86 | 268 |
//! | 8 bits, x64 | 7 | same | .346 | 247 | 961 |
//! | 4 bits for 2 dimensions | 25 | same | .672 | 29 | 68 |
//! | 4 bits for 2 dimensions | 25 | distance between residuals | .625 | 31 | 91 |
//! | 4 bits for 2 dimensions | 25 | the same, tables rounded | .627 | 31 | 86 |
//! | 4 bits for 2 dimensions | 25 | the same, of rotated residuals | .624 | 33 | 90 |
//! | 4 bits for 2 dimensions | 25 | distance between vectors as they are | .597 | 46 | 118 |
//!
//! The estimates of these queries missed by .96 to .99 of the deviation with products, by .90 with distances. What is also
//! known when coding, `<c, e>`, would bring .697 instead of .672 for two bytes more.

mod anisotropic;
mod chains;
mod nearest_word;
mod overlapping;
mod tables;
#[cfg(test)]
mod tests;
mod train;

pub(crate) use anisotropic::AnisotropicEncoder;
pub(crate) use tables::{ProductTables, TableKind};

use crate::error::{IndexError, Result};

/// Version of the bytes; others are refused.
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
/// Most dimensions of a model: those of a kernel for bytes.
const DIMS_MAX: usize = ramlet_kernels::MAX_U8_DIMS;

/// Words of a part's book: codes have 4 bits.
const WORDS: usize = 16;

/// What a code consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProductShape {
    pub(crate) dims: usize,
    /// Parts, one to a sub-quantizer, each with a code of 4 bits; at most `dims`.
    pub(crate) parts: usize,
}

impl ProductShape {
    /// Codes of 4 bits for every two dimensions: `d / 4` bytes, 25 at 100 dimensions.
    pub(crate) fn scanned(dims: usize) -> ProductShape {
        ProductShape {
            dims,
            parts: dims.div_ceil(2).min(ramlet_kernels::MAX_COLUMNS),
        }
    }

    /// Dimensions of a part.
    pub(crate) fn part(&self, part: usize) -> std::ops::Range<usize> {
        part * self.dims / self.parts..(part + 1) * self.dims / self.parts
    }

    /// Where parts begin, and the last one's end.
    fn edges(&self) -> Vec<usize> {
        (0..=self.parts)
            .map(|part| part * self.dims / self.parts)
            .collect()
    }

    fn is_valid(&self) -> bool {
        (1..=DIMS_MAX).contains(&self.dims)
            && (1..=self.dims).contains(&self.parts)
            && self.parts <= ramlet_kernels::MAX_COLUMNS
    }
}

/// The books of all parts, and how far their words are from what they stand for.
///
/// Holds `64 * (dims + parts)` bytes: 10 KB for 50 parts at 100 dimensions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProductModel {
    shape: ProductShape,
    /// Where parts begin, and the last one's end: a division each to find out.
    edges: Vec<usize>,
    /// For each part, for each of its dimensions, that dimension of all words.
    books: Vec<f32>,
    /// In the same order what the words of the code before say of each dimension, nothing in the first part; or empty. See
    /// [`overlapping`].
    overlap: Vec<f32>,
    /// For each part, the squared lengths of its words.
    squares: Vec<f32>,
    /// For each part, the mean square of `e` in one of its dimensions.
    errors: Vec<f32>,
    spread: Spread,
}

/// What is known of `e` as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    /// Mean of `|e|^2`.
    error: f32,
    /// Variance of `|e|^2`.
    error_variance: f32,
    /// By how much distances and products miss, measured, in units of what the formulas say.
    distance_factor: f32,
    product_factor: f32,
}

impl ProductModel {
    /// Makes the books for vectors like those of the sample, which stand one behind another.
    ///
    /// A sample of 64 vectors for each word is enough; more costs time only. Beside the sample, each thread holds
    /// `4 * dims / parts + 1` bytes per vector of it; time is some `12 * words * dims` multiplications per vector. The same
    /// sample and seed give the same model, whatever the threads.
    ///
    /// An eighth of the sample (if that are 64 vectors) isn't trained with: it tells by how much estimates miss.
    pub(crate) fn train(
        shape: ProductShape,
        sample: &[f32],
        seed: u64,
        threads: usize,
    ) -> Result<ProductModel> {
        ProductModel::trained(shape, sample, (seed, false), threads)
    }

    /// The same with overlapping words, which say something of the next part too: better, but products alone can be estimated.
    pub(crate) fn train_overlapping(
        shape: ProductShape,
        sample: &[f32],
        seed: u64,
        threads: usize,
    ) -> Result<ProductModel> {
        ProductModel::trained(shape, sample, (seed, true), threads)
    }

    /// Of words that overlap or don't.
    fn trained(
        shape: ProductShape,
        sample: &[f32],
        (seed, overlap): (u64, bool),
        threads: usize,
    ) -> Result<ProductModel> {
        if !shape.is_valid() || sample.len() < shape.dims {
            return Err(broken(format!(
                "{shape:?} from a sample of {} numbers",
                sample.len()
            )));
        }
        Ok(train::train(shape, sample, (seed, overlap), threads.max(1)))
    }

    fn overlaps(&self) -> bool {
        !self.overlap.is_empty()
    }

    pub(crate) fn shape(&self) -> &ProductShape {
        &self.shape
    }

    /// Writes the codes of a vector, one to a byte: `parts` of them. Words don't overlap.
    pub(crate) fn encode(&self, vector: &[f32], codes: &mut [u8]) {
        debug_assert!(!self.overlaps(), "codes that depend on each other");
        assert_eq!(vector.len(), self.shape.dims, "the vector's dimensions");
        assert_eq!(codes.len(), self.shape.parts, "the code's codes");
        for (part, code) in codes.iter_mut().enumerate() {
            let (values, book) = (&vector[self.part(part)], self.book(part));
            *code = nearest_word::nearest(book, values).0;
        }
    }

    /// The vector that codes stand for.
    pub(crate) fn decode(&self, codes: &[u8], vector: &mut [f32]) {
        for (part, code) in codes.iter().enumerate() {
            let word = usize::from(*code) % WORDS;
            let columns = self.book(part).chunks_exact(WORDS);
            for (value, column) in vector[self.part(part)].iter_mut().zip(columns) {
                *value = column[word];
            }
        }
        if self.overlaps() {
            for (part, code) in (1..).zip(&codes[..codes.len().saturating_sub(1)]) {
                let (dims, word) = (self.part(part), usize::from(*code) % WORDS);
                let columns = self.overlap[dims.start * WORDS..].chunks_exact(WORDS);
                for (value, column) in vector[dims].iter_mut().zip(columns) {
                    *value += column[word];
                }
            }
        }
    }

    /// Puts the codes of a vector in its lane (0 to 31) of a group whose `parts * 16` bytes hold 0 there.
    pub(crate) fn put(codes: &[u8], lane: usize, columns: &mut [u8]) {
        let shift = if lane < 16 { 0 } else { 4 };
        for (code, column) in codes.iter().zip(columns.chunks_exact_mut(16)) {
            column[lane % 16] |= (code & 15) << shift;
        }
    }

    /// Dimensions of a part.
    fn part(&self, part: usize) -> std::ops::Range<usize> {
        self.edges[part]..self.edges[part + 1]
    }

    fn book(&self, part: usize) -> &[f32] {
        let dims = self.part(part);
        &self.books[dims.start * WORDS..dims.end * WORDS]
    }

    /// Bytes of [`ProductModel::to_bytes`], of words of their own part alone and of overlapping ones.
    pub(crate) fn bytes_for(shape: &ProductShape) -> [usize; 2] {
        let plain = HEADER_BYTES + 4 * (shape.parts + WORDS * (shape.parts + shape.dims));
        [plain, plain + 4 * WORDS * shape.dims]
    }

    /// Little endian:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 0..4 | version u32 = 1 |
    /// | 4..8 | dims u32 |
    /// | 8..12 | parts u32 |
    /// | 12..16 | whether words overlap the next part u32: 0 or 1 |
    /// | 16..32 | `E\|e\|^2`, `Var\|e\|^2`, factor of distances, factor of products, f32 |
    /// | then | per part the mean square of `e` in a dimension, f32 |
    /// | then | per part and word its squared length, f32 |
    /// | then | per dimension and word of its part, f32 |
    /// | then | where words overlap, per dimension and word of the part before, f32 |
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let overlaps = self.overlaps();
        let mut out = Vec::with_capacity(ProductModel::bytes_for(&self.shape)[usize::from(overlaps)]);
        let ProductShape { dims, parts } = self.shape;
        for number in [VERSION, dims as u32, parts as u32, overlaps.into()] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let spread = &self.spread;
        let spread = [
            spread.error,
            spread.error_variance,
            spread.distance_factor,
            spread.product_factor,
        ];
        for list in [
            &spread[..],
            &self.errors,
            &self.squares,
            &self.books,
            &self.overlap,
        ] {
            list.iter()
                .for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }
        out
    }

    /// Reads what `to_bytes` wrote; anything else is an error.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<ProductModel> {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| words.get(at).map_or(0, |word| u32::from_le_bytes(*word));
        if word(0) != VERSION {
            return Err(broken(format!(
                "version {}, this program reads {VERSION}",
                word(0)
            )));
        }
        let overlaps = match word(3) {
            0 => 0,
            1 => 1,
            other => return Err(broken(format!("{other} for whether words overlap"))),
        };
        let shape = ProductShape {
            dims: word(1) as usize,
            parts: word(2) as usize,
        };
        if !shape.is_valid() || bytes.len() != ProductModel::bytes_for(&shape)[overlaps] {
            return Err(broken(format!("{shape:?} in {} bytes", bytes.len())));
        }
        let floats = |from: usize, count: usize| -> Vec<f32> {
            let list = &words[from..][..count];
            list.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        };
        let header = HEADER_BYTES / 4;
        let spread = floats(4, 4);
        let squares_at = header + shape.parts;
        let books_at = squares_at + shape.parts * WORDS;
        let model = ProductModel {
            shape,
            edges: shape.edges(),
            errors: floats(header, shape.parts),
            squares: floats(squares_at, shape.parts * WORDS),
            books: floats(books_at, shape.dims * WORDS),
            overlap: floats(books_at + shape.dims * WORDS, overlaps * shape.dims * WORDS),
            spread: Spread {
                error: spread[0],
                error_variance: spread[1],
                distance_factor: spread[2],
                product_factor: spread[3],
            },
        };
        let all = [
            &spread,
            &model.errors,
            &model.squares,
            &model.books,
            &model.overlap,
        ];
        if !all.into_iter().flatten().all(|value| value.is_finite()) {
            return Err(broken("a number that isn't finite"));
        }
        Ok(model)
    }
}

fn broken(detail: impl Into<String>) -> IndexError {
    IndexError::Mismatch(format!("product quantizer: {}", detail.into()))
}
