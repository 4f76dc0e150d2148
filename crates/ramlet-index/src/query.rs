//! A query vector prepared for comparison with rows.

use ramlet_kernels::{Kernels, Measure, kernels};

use crate::sparse::sparse_distance;
use crate::vector::{divide, norm, to_u8};
use crate::{Element, Metric, SparseRow};

/// A query: encoded as its metric and element need it, with the kernels chosen.
///
/// Made once per search and reused ([`Query::prepare`]); holds 5 bytes per dimension and allocates only when it
/// meets more dimensions than ever before. Comparing allocates nothing.
///
/// ```
/// use ramlet_index::{Element, Metric, Query, encode_row};
/// let mut row = Vec::new();
/// encode_row(Metric::Euclid, Element::F32, &[3.0, 4.0], &mut row);
/// let query = Query::new(Metric::Euclid, Element::F32, &[0.0, 0.0]);
/// assert_eq!(query.score_row(&row), 5.0);
/// ```
///
/// One of several parts ([`Query::prepare_multi`]) is compared with rows of several parts by the sum of each query part's
/// nearest part of the row (max-sim; Khattab and Zaharia 2020, section 3.3): distances are summed before [`Metric::score`] takes
/// their root or turns their sign.
///
/// One of weights by dimension ([`Query::prepare_sparse`]) is compared with [`SparseRow`]s by their dot product, which is
/// summed in `f64` so that the order of the terms doesn't show. A row with which it shares no dimension is no hit: its distance
/// is infinite.
#[derive(Debug)]
pub struct Query {
    metric: Metric,
    element: Element,
    kernels: &'static Kernels,
    dims: usize,
    /// Whether rows have several parts, and the query too.
    several: bool,
    /// What float rows and centroids are compared with: under cosine normalised. Part after part.
    floats: Vec<f32>,
    /// What rows of bytes are compared with; empty for floats.
    bytes: Vec<u8>,
    /// Length of `bytes`; 0 unless cosine on bytes.
    bytes_norm: f64,
    /// The same of each part, if there are several.
    norms: Vec<f64>,
    /// Weights by dimension, ascending, and whether these are the query.
    entries: Vec<(u32, f32)>,
    sparse: bool,
}

/// Parts of a row compared by one call of the kernels; their distances lie on the stack.
const PARTS: usize = 64;

impl Query {
    /// A query of its own; a finite vector (see [`crate::validate`]).
    pub fn new(metric: Metric, element: Element, vector: &[f32]) -> Query {
        let mut query = Query {
            metric,
            element,
            kernels: kernels(),
            dims: 0,
            several: false,
            floats: Vec::new(),
            bytes: Vec::new(),
            bytes_norm: 0.0,
            norms: Vec::new(),
            entries: Vec::new(),
            sparse: false,
        };
        query.prepare(metric, element, vector);
        query
    }

    /// Makes this the query for another vector, keeping its memory.
    pub fn prepare(&mut self, metric: Metric, element: Element, vector: &[f32]) {
        self.begin(metric, element, vector.len());
        self.bytes_norm = self.add_part(vector);
    }

    /// Makes this the query for several vectors of `dims` numbers, one after another; rows are as many parts as they have
    /// bytes for.
    pub fn prepare_multi(&mut self, metric: Metric, element: Element, dims: usize, vectors: &[f32]) {
        self.begin(metric, element, dims);
        self.several = true;
        self.norms.reserve_exact(vectors.len() / dims.max(1));
        for part in vectors.chunks_exact(dims.max(1)) {
            let norm = self.add_part(part);
            self.norms.push(norm);
        }
    }

    /// Makes this the query for weights by dimension, which are ascending.
    pub fn prepare_sparse(&mut self, entries: impl Iterator<Item = (u32, f32)>) {
        self.begin(Metric::Dot, Element::F32, 0);
        self.sparse = true;
        self.entries.extend(entries);
    }

    /// Its weights by dimension; `None`: it isn't sparse.
    pub fn sparse(&self) -> Option<&[(u32, f32)]> {
        self.sparse.then_some(self.entries.as_slice())
    }

    fn begin(&mut self, metric: Metric, element: Element, dims: usize) {
        (self.metric, self.element) = (metric, element);
        (self.dims, self.several) = (dims, false);
        self.floats.clear();
        self.bytes.clear();
        self.norms.clear();
        self.bytes_norm = 0.0;
        self.entries.clear();
        self.sparse = false;
    }

    /// The part's length if rows are bytes and their norms are divided out, else 0.
    fn add_part(&mut self, part: &[f32]) -> f64 {
        let (from, from_bytes) = (self.floats.len(), self.bytes.len());
        if self.element == Element::U8 {
            self.bytes.extend(part.iter().map(|value| to_u8(*value)));
            let bytes = &self.bytes[from_bytes..];
            self.floats.extend(bytes.iter().map(|byte| f32::from(*byte)));
        } else {
            self.floats.extend_from_slice(part);
        }
        if self.metric != Metric::Cosine {
            return 0.0;
        }
        let (floats, bytes) = (&mut self.floats[from..], &self.bytes[from_bytes..]);
        let norm = norm(floats);
        floats.iter_mut().for_each(|value| *value = divide(*value, norm));
        f64::from(self.kernels.dot_u8(bytes, bytes)).sqrt()
    }

    /// Bytes that a query of so many numbers in so many parts holds.
    pub const fn bytes_for(numbers: usize, parts: usize) -> usize {
        numbers * 5 + parts * size_of::<f64>()
    }

    /// Gives back what a query of more than `numbers` numbers took.
    pub fn shrink_to(&mut self, numbers: usize) {
        self.floats.shrink_to(numbers);
        self.bytes.shrink_to(numbers);
        self.norms.shrink_to(numbers);
        self.entries.shrink_to(numbers);
    }

    /// Vectors that it consists of.
    pub fn parts(&self) -> usize {
        self.floats.len() / self.dims.max(1)
    }

    /// The vectors that it consists of; under cosine of unit length.
    pub fn each_part(&self) -> impl Iterator<Item = &[f32]> {
        self.floats.chunks_exact(self.dims.max(1))
    }

    /// Whether it is compared with rows of several parts.
    pub fn is_multi(&self) -> bool {
        self.several
    }

    pub fn metric(&self) -> Metric {
        self.metric
    }

    pub fn element(&self) -> Element {
        self.element
    }

    /// Of a part, if there are several.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// What centroids are compared with: under cosine of unit length.
    pub(crate) fn floats(&self) -> &[f32] {
        &self.floats
    }

    pub(crate) fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    /// Bytes of a row that this query can be compared with, or of a part of it.
    pub fn row_bytes(&self) -> usize {
        self.element.row_bytes(self.dims())
    }

    /// The API's score of a row. Panics unless the row has exactly [`Query::row_bytes`] bytes, or a part of as many.
    pub fn score_row(&self, row: &[u8]) -> f32 {
        self.metric.score(self.distance_of_row(row))
    }

    /// The distance of a row: smaller is nearer.
    pub fn distance_of_row(&self, row: &[u8]) -> f32 {
        if self.sparse {
            return sparse_distance(SparseRow::parse(row).and_then(|row| row.dot(&self.entries)));
        }
        if self.several {
            return self.distance_of_parts(row);
        }
        let measure = self.metric.measure();
        let measured = match self.element {
            Element::F32 => self.kernels.f32_row(measure, &self.floats, row),
            Element::F16 => self.kernels.f16_row(measure, &self.floats, row),
            Element::U8 => self.measure_bytes(&self.bytes, self.bytes_norm, row),
        };
        self.metric.distance(measured)
    }

    /// The distance of a row of several parts; a row without any is farthest. Costs parts x parts x dimensions.
    fn distance_of_parts(&self, row: &[u8]) -> f32 {
        let (stride, mut sum) = (self.row_bytes().max(1), 0.0f64);
        // Bytes behind the last whole part are none of it.
        let row = &row[..row.len() - row.len() % stride];
        let mut distances = [0.0f32; PARTS];
        for (part, norm) in self.norms.iter().enumerate() {
            let mut nearest = f32::INFINITY;
            for parts in row.chunks(PARTS * stride) {
                let distances = &mut distances[..parts.len() / stride];
                self.distances_of_part(part, *norm, parts, distances);
                nearest = distances.iter().copied().fold(nearest, f32::min);
            }
            sum += f64::from(nearest);
        }
        sum as f32
    }

    /// The distances of one part of the query with parts of a row.
    fn distances_of_part(&self, part: usize, norm: f64, parts: &[u8], distances: &mut [f32]) {
        let (measure, stride) = (self.metric.measure(), self.row_bytes());
        let numbers = part * self.dims..(part + 1) * self.dims;
        match self.element {
            Element::F32 => self
                .kernels
                .f32_rows(measure, &self.floats[numbers], parts, stride, distances),
            Element::F16 => self
                .kernels
                .f16_rows(measure, &self.floats[numbers], parts, stride, distances),
            Element::U8 => {
                for (distance, row) in distances.iter_mut().zip(parts.chunks_exact(stride)) {
                    *distance = self.measure_bytes(&self.bytes[numbers.clone()], norm, row);
                }
            }
        }
        distances
            .iter_mut()
            .for_each(|distance| *distance = self.metric.distance(*distance));
    }

    /// The distances of `distances.len()` rows that start `stride` bytes apart, bit-equal to [`Query::distance_of_row`].
    pub fn distances_of_rows(&self, rows: &[u8], stride: usize, distances: &mut [f32]) {
        let measure = self.metric.measure();
        match self.element {
            Element::F32 => self
                .kernels
                .f32_rows(measure, &self.floats, rows, stride, distances),
            Element::F16 => self
                .kernels
                .f16_rows(measure, &self.floats, rows, stride, distances),
            Element::U8 => {
                for (i, distance) in distances.iter_mut().enumerate() {
                    let row = &rows[i * stride..][..self.bytes.len()];
                    *distance = self.measure_bytes(&self.bytes, self.bytes_norm, row);
                }
            }
        }
        distances
            .iter_mut()
            .for_each(|distance| *distance = self.metric.distance(*distance));
    }

    fn measure_bytes(&self, bytes: &[u8], bytes_norm: f64, row: &[u8]) -> f32 {
        let measured = self.kernels.u8_row(self.metric.measure(), bytes, row);
        if self.metric != Metric::Cosine {
            return measured as f32;
        }
        let norm = f64::from(self.kernels.u8_row(Measure::Dot, row, row)).sqrt() * bytes_norm;
        if norm == 0.0 {
            0.0
        } else {
            (f64::from(measured) / norm) as f32
        }
    }
}
