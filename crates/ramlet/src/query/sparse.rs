//! Sparse queries: made ready, weighted by how rare their dimensions are, and averaged.

use std::collections::BTreeMap;

use ramlet_index::SparseRow;

use crate::encoding::{check_query, sorted_sparse};
use crate::error::{Error, Result};
use crate::lookup::Lookup;
use crate::schema::VectorField;
use crate::types::Modifier;
use crate::vector::{SparseVector, Vector};
use crate::view::View;

/// (dimension, weight), as stored.
pub fn entries(sparse: &SparseVector) -> impl Iterator<Item = (u32, f32)> {
    let SparseVector { indices, values } = sparse;
    indices.iter().copied().zip(values.iter().copied())
}

/// A vector to search with: checked for its field; a sparse one sorted, and weighted where the field says so.
pub fn ready(view: &View, field: &VectorField, vector: Vector, lookup: &mut Lookup) -> Result<Vector> {
    check_query(field, &vector)?;
    match vector {
        Vector::Sparse(sparse) => {
            let mut sparse = sorted_sparse(&sparse)?;
            if field.modifier == Some(Modifier::Idf) {
                weigh(view, field, &mut sparse, lookup)?;
            }
            Ok(sparse.into())
        }
        other => Ok(other),
    }
}

/// Multiplies each weight with the inverse document frequency of its dimension, `ln(1 + (n - df + 0.5) / (df + 0.5))`, over
/// the `n` points that have the vector (Robertson and Zaragoza 2009, section 3.1, kept above 0). Rows of a segment that were
/// deleted since count until it is written anew, as the API has it.
fn weigh(view: &View, field: &VectorField, query: &mut SparseVector, lookup: &mut Lookup) -> Result<()> {
    let held = (query.indices.len() * size_of::<u64>()) as u64;
    let _held = lookup.rare.reserve(held)?;
    let mut counts = vec![0u64; query.indices.len()];
    let mut points = 0;
    for segment in &view.segments {
        let Some(column) = segment.segment.vector(field.slot) else {
            continue;
        };
        points += u64::from(column.index.rows());
        column.document_frequencies(&query.indices, lookup, &mut counts)?;
    }
    for buffer in &view.buffers {
        for row in buffer.live_rows() {
            let row = buffer.buffer.row(row);
            let Some(bytes) = row.vector(field.slot) else {
                continue;
            };
            points += 1;
            let row = SparseRow::parse(bytes).ok_or_else(|| Error::corrupt("a sparse row of a buffer"))?;
            row.count(&query.indices, &mut counts);
        }
    }
    for (value, df) in query.values.iter_mut().zip(counts) {
        *value = (f64::from(*value) * idf(points, df)) as f32;
    }
    Ok(())
}

fn idf(points: u64, df: u64) -> f64 {
    let (n, df) = (points as f64, df.min(points) as f64);
    ((n - df + 0.5) / (df + 0.5) + 1.0).ln()
}

/// The mean of the positive ones, as far again from the mean of the negative ones.
pub fn average(positive: &[Vector], negative: &[Vector]) -> Vector {
    let mut sum: BTreeMap<u32, f64> = BTreeMap::new();
    let mut add = |vectors: &[Vector], factor: f64| {
        for vector in vectors {
            let Vector::Sparse(sparse) = vector else { continue };
            for (dim, weight) in entries(sparse) {
                *sum.entry(dim).or_default() += factor / vectors.len() as f64 * f64::from(weight);
            }
        }
    };
    add(positive, if negative.is_empty() { 1.0 } else { 2.0 });
    add(negative, -1.0);
    let (indices, values) = sum.into_iter().map(|(dim, weight)| (dim, weight as f32)).unzip();
    SparseVector { indices, values }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse(entries: &[(u32, f32)]) -> SparseVector {
        let (indices, values) = entries.iter().copied().unzip();
        SparseVector { indices, values }
    }

    #[test]
    fn rare_dimensions_weigh_more() {
        assert!((idf(10, 1) - (1.0f64 + 9.5 / 1.5).ln()).abs() < 1e-12);
        assert!(idf(10, 10) > 0.0 && idf(10, 0) > idf(10, 1));
    }

    #[test]
    fn the_average_has_all_dimensions() {
        let mean = average(
            &[sparse(&[(1, 2.0), (3, 4.0)]).into(), sparse(&[(3, 2.0)]).into()],
            &[sparse(&[(9, 1.0)]).into()],
        );
        assert_eq!(mean, sparse(&[(1, 2.0), (3, 6.0), (9, -1.0)]).into());
    }
}
