//! Sparse vectors: rows of weights by dimension, compared by their dot product.

mod row;

pub use row::SparseRow;
