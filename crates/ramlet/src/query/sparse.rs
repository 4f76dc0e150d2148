//! Sparse queries: prepared, weighted by IDF, and averaged.

use std::collections::BTreeMap;

use ramlet_index::SparseRow;

use super::compile;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::read::lookup::Lookup;
use crate::read::matching;
use crate::read::view::{Place, View};
use crate::request::{Idf, SparseStatistics};
use crate::schema::VectorField;
use crate::types::Modifier;
use crate::types::vector::{SparseVector, Vector};
use crate::write::encoding::{check_query, sorted_sparse};

/// (dimension, weight), as stored.
pub fn entries(sparse: &SparseVector) -> impl Iterator<Item = (u32, f32)> {
    let SparseVector { indices, values } = sparse;
    indices.iter().copied().zip(values.iter().copied())
}

/// A vector to search with: checked for its field; a sparse one sorted, and weighted where the field says so.
pub fn ready(
    view: &View,
    field: &VectorField,
    vector: Vector,
    idf: Option<&Idf>,
    lookup: &mut Lookup,
) -> Result<Vector> {
    check_query(field, &vector)?;
    match vector {
        Vector::Sparse(sparse) => {
            let mut sparse = sorted_sparse(&sparse)?;
            if field.modifier == Some(Modifier::Idf) {
                weigh(view, field, &mut sparse, idf, lookup)?;
            }
            Ok(sparse.into())
        }
        other => Ok(other),
    }
}

/// Refuses `idf` where it couldn't act: it would change scores, so it isn't passed over.
pub fn check_idf(field: &VectorField, idf: Option<&Idf>) -> Result<()> {
    if idf.is_none() || field.modifier == Some(Modifier::Idf) {
        return Ok(());
    }
    Err(Error::bad_input(format!(
        "Wrong input: search param `idf` requires a sparse vector with the `idf` modifier, which vector \"{}\" is not",
        field.name
    )))
}

/// Multiplies each weight with the inverse document frequency of its dimension, `ln(1 + (n - df + 0.5) / (df + 0.5))`, over
/// the `n` points that have the vector (Robertson and Zaragoza 2009, section 3.1, kept above 0).
fn weigh(
    view: &View,
    field: &VectorField,
    query: &mut SparseVector,
    idf: Option<&Idf>,
    lookup: &mut Lookup,
) -> Result<()> {
    let held = (query.indices.len() * size_of::<u64>()) as u64;
    let _held = lookup.rare.reserve(held)?;
    let mut counts = vec![0u64; query.indices.len()];
    let points = count(view, field, &query.indices, idf, &mut counts, lookup)?;
    for (value, df) in query.values.iter_mut().zip(counts) {
        *value = (f64::from(*value) * inverse(points, df)) as f32;
    }
    Ok(())
}

/// The points whose statistics weigh a query, and how many of them have each of `dims`.
fn count(
    view: &View,
    field: &VectorField,
    dims: &[u32],
    idf: Option<&Idf>,
    counts: &mut [u64],
    lookup: &mut Lookup,
) -> Result<u64> {
    match idf {
        Some(Idf::Corpus(filter)) => count_matching(view, field, dims, filter, counts, lookup),
        Some(Idf::Global) | None => count_all(view, field, dims, counts, lookup),
        Some(Idf::Counted(all)) => {
            for (count, dim) in counts.iter_mut().zip(dims) {
                *count = *all.frequencies.get(dim).ok_or_else(|| {
                    Error::bad_input(format!(
                        "Wrong input: params.idf.statistics has nothing of dimension {dim}"
                    ))
                })?;
            }
            Ok(all.points)
        }
    }
}

/// The same of any dimensions, ascending, as a query of other parts is weighed by.
pub fn statistics(
    view: &View,
    using: &str,
    dims: &[u32],
    idf: Option<&Idf>,
    lookup: &mut Lookup,
) -> Result<SparseStatistics> {
    let field = view.schema.vector(using)?;
    if field.modifier != Some(Modifier::Idf) {
        return Err(Error::bad_input(format!(
            "Wrong input: vector \"{using}\" has no `idf` modifier"
        )));
    }
    let _held = lookup
        .rare
        .reserve((dims.len() * size_of::<(u32, u64)>()) as u64)?;
    let mut counts = vec![0u64; dims.len()];
    let points = count(view, field, dims, idf, &mut counts, lookup)?;
    Ok(SparseStatistics {
        points,
        frequencies: dims.iter().copied().zip(counts).collect(),
    })
}

/// Points with the vector, and how many have each of `dims`. Rows of a segment that were deleted since count until it is
/// written anew, as the API has it.
fn count_all(
    view: &View,
    field: &VectorField,
    dims: &[u32],
    counts: &mut [u64],
    lookup: &mut Lookup,
) -> Result<u64> {
    let mut points = 0;
    for segment in &view.segments {
        let Some(column) = segment.segment.vector(field.slot) else {
            continue;
        };
        points += u64::from(column.index.rows());
        column.document_frequencies(dims, lookup, counts)?;
    }
    for memtable in &view.memtables {
        for row in memtable.live_rows() {
            let row = memtable.memtable.row(row);
            let Some(bytes) = row.vector(field.slot) else {
                continue;
            };
            points += 1;
            let row = SparseRow::parse(bytes).ok_or_else(|| Error::corrupt("a sparse row of a buffer"))?;
            row.count(dims, counts);
        }
    }
    Ok(points)
}

/// As [`count_all`], of the live points that match: the vector of each is read.
fn count_matching(
    view: &View,
    field: &VectorField,
    dims: &[u32],
    filter: &Filter,
    counts: &mut [u64],
    lookup: &mut Lookup,
) -> Result<u64> {
    let Some(filter) = compile(view, Some(filter))? else {
        return count_all(view, field, dims, counts, lookup);
    };
    let mut bytes = Vec::new();
    let mut points = 0;
    let mut count = |bytes: &[u8]| {
        points += 1;
        SparseRow::parse(bytes)
            .ok_or_else(|| Error::corrupt("a sparse row"))
            .map(|row| row.count(dims, counts))
    };
    for (index, segment) in (0..).zip(&view.segments) {
        let (rows, _held) = matching::matching_rows(&view.schema, segment, Some(&filter), lookup)?;
        for row in &rows {
            bytes.clear();
            if view.encoded_vector_of(Place::Segment { index, row }, field.slot, lookup, &mut bytes)? {
                count(&bytes)?;
            }
        }
    }
    for memtable in &view.memtables {
        for row in memtable.live_rows() {
            let row = memtable.memtable.row(row);
            if let Some(bytes) = row.vector(field.slot).filter(|_| filter.matches(&row)) {
                count(bytes)?;
            }
        }
    }
    Ok(points)
}

fn inverse(points: u64, df: u64) -> f64 {
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
        assert!((inverse(10, 1) - (1.0f64 + 9.5 / 1.5).ln()).abs() < 1e-12);
        assert!(inverse(10, 10) > 0.0 && inverse(10, 0) > inverse(10, 1));
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
