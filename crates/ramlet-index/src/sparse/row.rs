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

    /// The dot product with weights by ascending dimension; `None` where no dimension is shared.
    pub fn dot(&self, query: &[(u32, f32)]) -> Option<f64> {
        // A long row is searched for the few dimensions of a query, and a short one walked through.
        if query.len() * SEARCH_FACTOR < self.len() {
            return self.dot_by_search(query);
        }
        let (mut sum, mut shared, mut at) = (0.0, false, 0);
        for &(dim, weight) in query {
            while at < self.len() && self.dim(at) < dim {
                at += 1;
            }
            if at == self.len() {
                break;
            }
            if self.dim(at) == dim {
                shared = true;
                sum += f64::from(weight) * f64::from(self.weight(at));
                at += 1;
            }
        }
        shared.then_some(sum)
    }

    /// Adds one to the count of each of these dimensions, ascending, that it has.
    pub fn count(&self, dims: &[u32], counts: &mut [u64]) {
        let mut at = 0;
        for (dim, _) in self.iter() {
            while at < dims.len() && dims[at] < dim {
                at += 1;
            }
            match dims.get(at) {
                Some(wanted) if *wanted == dim => counts[at] += 1,
                Some(_) => {}
                None => return,
            }
        }
    }

    fn dot_by_search(&self, query: &[(u32, f32)]) -> Option<f64> {
        let (mut sum, mut shared, mut from) = (0.0, false, 0);
        for &(dim, weight) in query {
            let rest = &self.dims[from..];
            match rest.binary_search_by_key(&dim, |bytes| u32::from_le_bytes(*bytes)) {
                Ok(at) => {
                    shared = true;
                    sum += f64::from(weight) * f64::from(self.weight(from + at));
                    from += at + 1;
                }
                Err(at) => from += at,
            }
        }
        shared.then_some(sum)
    }
}

/// A step of a binary search takes about as long as so many of a walk.
const SEARCH_FACTOR: usize = 8;
