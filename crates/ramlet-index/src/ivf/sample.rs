//! Encoded rows, decoded as vectors for clustering.

use crate::vector::{divide, norm};
use crate::{Element, Metric, decode_row};

/// How a stored row becomes the vector that is clustered: decoded, and under cosine of unit length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder {
    pub(crate) metric: Metric,
    pub(crate) element: Element,
    pub(crate) dims: usize,
}

impl Decoder {
    pub(crate) fn row_bytes(&self) -> usize {
        self.element.row_bytes(self.dims)
    }

    /// Replaces `out` by the row's vector.
    pub(crate) fn decode(&self, row: &[u8], out: &mut Vec<f32>) {
        out.clear();
        decode_row(self.element, row, out);
        if self.metric == Metric::Cosine && self.element == Element::U8 {
            let norm = norm(out);
            out.iter_mut().for_each(|value| *value = divide(*value, norm));
        }
    }
}
