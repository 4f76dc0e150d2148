//! A stored sparse vector, borrowed.

/// Weights by dimension, as a row is stored: count u32, that many dimensions u32 ascending, as many weights f32; little
/// endian. 4 bytes, and 8 a weight.
#[derive(Clone, Copy, Debug)]
pub struct SparseRow<'a> {
    dims: &'a [[u8; 4]],
    weights: &'a [[u8; 4]],
}

impl<'a> SparseRow<'a> {
    /// `None`: the bytes aren't as many as they say.
    pub fn parse(bytes: &'a [u8]) -> Option<SparseRow<'a>> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (words, left) = rest.as_chunks::<4>();
        if !left.is_empty() || words.len() != count.checked_mul(2)? {
            return None;
        }
        let (dims, weights) = words.split_at(count);
        Some(SparseRow { dims, weights })
    }

    pub fn len(&self) -> usize {
        self.dims.len()
    }

    pub fn is_empty(&self) -> bool {
        self.dims.is_empty()
    }

    pub fn dim(&self, i: usize) -> u32 {
        u32::from_le_bytes(self.dims[i])
    }

    pub fn weight(&self, i: usize) -> f32 {
        f32::from_le_bytes(self.weights[i])
    }

    /// (dimension, weight), ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f32)> + use<'a> {
        let (dims, weights) = (self.dims, self.weights);
        let pairs = dims.iter().zip(weights);
        pairs.map(|(dim, weight)| (u32::from_le_bytes(*dim), f32::from_le_bytes(*weight)))
    }
}
