//! Sparse vectors: rows of weights by dimension, compared by their dot product.

mod row;

pub use row::SparseRow;

/// The distance of a dot product; of none, where nothing is shared, the farthest.
pub fn sparse_distance(dot: Option<f64>) -> f32 {
    match dot {
        Some(dot) => 0.0 - (dot as f32).clamp(f32::MIN, f32::MAX),
        None => f32::INFINITY,
    }
}
