//! A point's vector of any kind, as clients send and receive it.

use serde::{Serialize, Serializer};

/// A vector of one of the kinds that a collection's settings know.
#[derive(Debug, Clone, PartialEq)]
pub enum Vector {
    Dense(Vec<f32>),
    Sparse(SparseVector),
    Multi(MultiVector),
}

/// Weights of some dimensions; all others are zero. 8 bytes a weight, stored and sent.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SparseVector {
    /// As long as `values`; each dimension once. Ascending once the engine has stored it.
    pub indices: Vec<u32>,
    pub values: Vec<f32>,
}

/// Several vectors of one dimension, compared by the sum of each query part's best match (max-sim).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MultiVector {
    /// Numbers in each part.
    pub dim: usize,
    /// Part after part: a multiple of `dim` numbers.
    pub values: Vec<f32>,
}

impl MultiVector {
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.dim.max(1))
    }
}

impl Vector {
    /// The numbers of a dense vector.
    pub fn dense(&self) -> Option<&[f32]> {
        match self {
            Vector::Dense(values) => Some(values),
            _ => None,
        }
    }

    pub fn into_dense(self) -> Option<Vec<f32>> {
        match self {
            Vector::Dense(values) => Some(values),
            _ => None,
        }
    }

    /// Numbers in it: what it takes in memory and in answers goes with them.
    pub fn numbers(&self) -> usize {
        match self {
            Vector::Dense(values) => values.len(),
            Vector::Sparse(sparse) => sparse.indices.len() + sparse.values.len(),
            Vector::Multi(multi) => multi.values.len(),
        }
    }

    /// Bytes of its numbers.
    pub fn bytes(&self) -> usize {
        self.numbers() * size_of::<f32>()
    }

    /// What the API calls its kind, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Vector::Dense(_) => "dense",
            Vector::Sparse(_) => "sparse",
            Vector::Multi(_) => "multi-dense",
        }
    }
}

impl From<Vec<f32>> for Vector {
    fn from(values: Vec<f32>) -> Vector {
        Vector::Dense(values)
    }
}

impl From<SparseVector> for Vector {
    fn from(sparse: SparseVector) -> Vector {
        Vector::Sparse(sparse)
    }
}

impl From<MultiVector> for Vector {
    fn from(multi: MultiVector) -> Vector {
        Vector::Multi(multi)
    }
}

/// In the API's words: a list, `{"indices", "values"}`, a list of lists.
impl Serialize for Vector {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Vector::Dense(values) => values.serialize(s),
            Vector::Sparse(sparse) => sparse.serialize(s),
            Vector::Multi(multi) => s.collect_seq(multi.parts()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_in_the_api_s_words() {
        let multi = MultiVector {
            dim: 2,
            values: vec![1.0, 2.0, 3.0, 4.0],
        };
        let sparse = SparseVector {
            indices: vec![7],
            values: vec![0.5],
        };
        for (vector, text) in [
            (Vector::from(vec![1.0, -0.5]), "[1.0,-0.5]"),
            (sparse.into(), r#"{"indices":[7],"values":[0.5]}"#),
            (multi.into(), "[[1.0,2.0],[3.0,4.0]]"),
        ] {
            assert_eq!(serde_json::to_string(&vector).unwrap(), text);
        }
    }
}
