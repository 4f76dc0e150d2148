//! A vector made ready to be compared with rows.

use ramlet_kernels::{Kernels, Measure, kernels};

use crate::vector::{divide, norm, to_u8};
use crate::{Element, Metric};

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
#[derive(Debug)]
pub struct Query {
    metric: Metric,
    element: Element,
    kernels: &'static Kernels,
    /// What float rows and centroids are compared with: under cosine normalised.
    floats: Vec<f32>,
    /// What rows of bytes are compared with; empty for floats.
    bytes: Vec<u8>,
    /// Length of `bytes`; 0 unless cosine on bytes.
    bytes_norm: f64,
}

impl Query {
    /// A query of its own; a finite vector (see [`crate::validate`]).
    pub fn new(metric: Metric, element: Element, vector: &[f32]) -> Query {
        let mut query = Query {
            metric,
            element,
            kernels: kernels(),
            floats: Vec::new(),
            bytes: Vec::new(),
            bytes_norm: 0.0,
        };
        query.prepare(metric, element, vector);
        query
    }

    /// Makes this the query for another vector, keeping its memory.
    pub fn prepare(&mut self, metric: Metric, element: Element, vector: &[f32]) {
        (self.metric, self.element) = (metric, element);
        self.floats.clear();
        self.bytes.clear();
        if element == Element::U8 {
            self.bytes.extend(vector.iter().map(|value| to_u8(*value)));
            self.floats.extend(self.bytes.iter().map(|byte| f32::from(*byte)));
        } else {
            self.floats.extend_from_slice(vector);
        }
        self.bytes_norm = 0.0;
        if metric == Metric::Cosine {
            self.bytes_norm = f64::from(self.kernels.dot_u8(&self.bytes, &self.bytes)).sqrt();
            let norm = norm(&self.floats);
            self.floats
                .iter_mut()
                .for_each(|value| *value = divide(*value, norm));
        }
    }

    pub fn metric(&self) -> Metric {
        self.metric
    }

    pub fn element(&self) -> Element {
        self.element
    }

    pub fn dims(&self) -> usize {
        self.floats.len()
    }

    /// What centroids are compared with: under cosine of unit length.
    pub(crate) fn floats(&self) -> &[f32] {
        &self.floats
    }

    pub(crate) fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    /// Bytes of a row that this query can be compared with.
    pub fn row_bytes(&self) -> usize {
        self.element.row_bytes(self.dims())
    }

    /// The API's score of a row. Panics unless the row has exactly [`Query::row_bytes`] bytes.
    pub fn score_row(&self, row: &[u8]) -> f32 {
        self.metric.score(self.key_row(row))
    }

    /// The key of a row: smaller is nearer.
    pub fn key_row(&self, row: &[u8]) -> f32 {
        let measure = self.metric.measure();
        let measured = match self.element {
            Element::F32 => self.kernels.f32_row(measure, &self.floats, row),
            Element::F16 => self.kernels.f16_row(measure, &self.floats, row),
            Element::U8 => self.measure_bytes(row),
        };
        self.metric.key(measured)
    }

    /// The keys of `keys.len()` rows that start `stride` bytes apart, bit-equal to [`Query::key_row`].
    pub fn key_rows(&self, rows: &[u8], stride: usize, keys: &mut [f32]) {
        let measure = self.metric.measure();
        match self.element {
            Element::F32 => self.kernels.f32_rows(measure, &self.floats, rows, stride, keys),
            Element::F16 => self.kernels.f16_rows(measure, &self.floats, rows, stride, keys),
            Element::U8 => {
                for (i, key) in keys.iter_mut().enumerate() {
                    *key = self.measure_bytes(&rows[i * stride..][..self.bytes.len()]);
                }
            }
        }
        keys.iter_mut().for_each(|key| *key = self.metric.key(*key));
    }

    /// How near centroids are: `keys.len()` rows of `f32`, whatever the element; smaller is nearer.
    ///
    /// Under cosine by squared distance, as rows are assigned: the mean of a wide cluster of unit vectors is short,
    /// and a dot product would push it back.
    pub(crate) fn key_centroids(&self, centroids: &[u8], keys: &mut [f32]) {
        self.key_centroids_of(&self.floats, centroids, keys);
    }

    /// The same where centroids and query were rotated alike.
    pub(crate) fn key_centroids_of(&self, floats: &[f32], centroids: &[u8], keys: &mut [f32]) {
        let measure = if self.metric == Metric::Cosine {
            Measure::L2sq
        } else {
            self.metric.measure()
        };
        self.kernels
            .f32_rows(measure, floats, centroids, self.dims() * 4, keys);
        if measure == Measure::Dot {
            keys.iter_mut().for_each(|key| *key = self.metric.key(*key));
        }
    }

    fn measure_bytes(&self, row: &[u8]) -> f32 {
        let measured = self.kernels.u8_row(self.metric.measure(), &self.bytes, row);
        if self.metric != Metric::Cosine {
            return measured as f32;
        }
        let norm = f64::from(self.kernels.u8_row(Measure::Dot, row, row)).sqrt() * self.bytes_norm;
        if norm == 0.0 {
            0.0
        } else {
            (f64::from(measured) / norm) as f32
        }
    }
}
