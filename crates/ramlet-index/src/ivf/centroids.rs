//! Centres of clusters, and finding the nearest.

use ramlet_kernels::{Kernels, Measure, kernels};

/// Centroids compared by one call of the kernels; their distances lie on the stack.
pub(crate) const AT_ONCE: usize = 64;

/// `count` vectors of `f32`, as little-endian bytes: the form in which they are stored and compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Centroids {
    dims: usize,
    bytes: Vec<u8>,
}

impl Centroids {
    pub(crate) fn with_capacity(dims: usize, count: usize) -> Centroids {
        Centroids {
            dims,
            bytes: Vec::with_capacity(dims * 4 * count),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.bytes.len() / (self.dims * 4)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn push(&mut self, centroid: impl Iterator<Item = f32>) {
        self.bytes.extend(centroid.flat_map(f32::to_le_bytes));
        debug_assert!(self.bytes.len().is_multiple_of(self.dims * 4));
    }

    pub(crate) fn append(&mut self, others: &Centroids) {
        self.bytes.extend_from_slice(&others.bytes);
    }

    pub(crate) fn set(&mut self, i: usize, centroid: impl Iterator<Item = f32>) {
        let (target, _) = self.bytes[i * self.dims * 4..][..self.dims * 4].as_chunks_mut::<4>();
        for (target, value) in target.iter_mut().zip(centroid) {
            *target = value.to_le_bytes();
        }
    }

    pub(crate) fn row(&self, i: usize) -> impl Iterator<Item = f32> {
        let (elements, _) = self.bytes[i * self.dims * 4..][..self.dims * 4].as_chunks::<4>();
        elements.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }

    /// The nearest to `vector` by squared distance among `range`, which isn't empty; the first of equals.
    pub(crate) fn nearest(&self, vector: &[f32], range: std::ops::Range<usize>) -> (usize, f32) {
        let mut best = (range.start, f32::INFINITY);
        self.distances(vector, range, |i, distance| {
            if distance < best.1 {
                best = (i, distance);
            }
        });
        best
    }

    /// Squared distances from `vector` to the centroids of `range`, in order.
    pub(crate) fn distances(
        &self,
        vector: &[f32],
        range: std::ops::Range<usize>,
        mut each: impl FnMut(usize, f32),
    ) {
        let table: &Kernels = kernels();
        let stride = self.dims * 4;
        let mut distances = [0.0f32; AT_ONCE];
        for start in range.clone().step_by(AT_ONCE) {
            let distances = &mut distances[..AT_ONCE.min(range.end - start)];
            table.f32_rows(
                Measure::L2sq,
                vector,
                &self.bytes[start * stride..],
                stride,
                distances,
            );
            for (i, distance) in distances.iter().enumerate() {
                each(start + i, *distance);
            }
        }
    }
}
