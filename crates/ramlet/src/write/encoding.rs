//! The encoding of vectors, the same in log records, memtable and segments. Little endian.
//!
//! | kind | bytes |
//! |---|---|
//! | dense | the elements, of the field's type |
//! | sparse | count u32, then that many indices u32 ascending, then as many weights f32 |
//! | several | part after part, each as a dense one: their number is the length's |

use ramlet_index::{Element, Metric, Query, SparseRow, decode_row, encode_row, validate};

use crate::error::{Error, Result};
use crate::limits::{MULTI_NUMBERS_MAX, SPARSE_ENTRIES_MAX};
use crate::schema::{Schema, VectorField, VectorKind};
use crate::types::NamedVectors;
use crate::types::vector::{MultiVector, SparseVector, Vector};

/// Vectors of a point, checked and encoded, by slot, ascending.
pub(crate) fn encode_vectors(schema: &Schema, vectors: &NamedVectors) -> Result<Vec<(u16, Vec<u8>)>> {
    let mut encoded: Vec<(u16, Vec<u8>)> = Vec::with_capacity(vectors.len());
    for (name, vector) in vectors {
        let field = schema.vector(name)?;
        let row = encode_vector(field, vector)?;
        encoded.retain(|(slot, _)| *slot != field.slot);
        encoded.push((field.slot, row));
    }
    encoded.sort_unstable_by_key(|(slot, _)| *slot);
    Ok(encoded)
}

/// One vector, checked.
pub(crate) fn encode_vector(field: &VectorField, vector: &Vector) -> Result<Vec<u8>> {
    match (field.kind, vector) {
        (VectorKind::Dense, Vector::Dense(values)) => {
            check_dense(field, values)?;
            let mut row = Vec::with_capacity(field.row_bytes());
            encode_row(field.metric, field.element, values, &mut row);
            Ok(row)
        }
        (VectorKind::Sparse, Vector::Sparse(sparse)) => Ok(encode_sparse(&sorted_sparse(sparse)?)),
        (VectorKind::Multi, Vector::Multi(multi)) => encode_multi(field, multi),
        // One part may come without its own brackets.
        (VectorKind::Multi, Vector::Dense(values)) => {
            check_dense(field, values)?;
            let mut row = Vec::with_capacity(field.row_bytes());
            encode_row(field.metric, field.element, values, &mut row);
            Ok(row)
        }
        _ => Err(wrong_kind(field, vector)),
    }
}

/// What [`encode_vector`] wrote.
pub(crate) fn decode_vector(field: &VectorField, bytes: &[u8]) -> Result<Vector> {
    match field.kind {
        VectorKind::Dense => {
            let mut values = Vec::with_capacity(field.dim);
            decode_row(field.element, bytes, &mut values);
            Ok(values.into())
        }
        VectorKind::Sparse => {
            let row = SparseRow::parse(bytes).ok_or_else(|| damaged(field, bytes))?;
            let (indices, values) = row.iter().unzip();
            Ok(SparseVector { indices, values }.into())
        }
        VectorKind::Multi => {
            if field.row_bytes() == 0 || !bytes.len().is_multiple_of(field.row_bytes()) {
                return Err(damaged(field, bytes));
            }
            let mut values = Vec::with_capacity(bytes.len() / field.element.bytes());
            decode_row(field.element, bytes, &mut values);
            let dim = field.dim;
            Ok(MultiVector { dim, values }.into())
        }
    }
}

fn damaged(field: &VectorField, bytes: &[u8]) -> Error {
    let (name, n) = (&field.name, bytes.len());
    Error::corrupt(format!("vector `{name}`: {n} bytes that don't decode"))
}

fn encode_sparse(sparse: &SparseVector) -> Vec<u8> {
    let mut row = Vec::with_capacity(4 + 8 * sparse.indices.len());
    row.extend_from_slice(&(sparse.indices.len() as u32).to_le_bytes());
    for index in &sparse.indices {
        row.extend_from_slice(&index.to_le_bytes());
    }
    for value in &sparse.values {
        row.extend_from_slice(&value.to_le_bytes());
    }
    row
}

/// With ascending indices; refuses one whose parts don't agree, with an index twice, or with weights that aren't numbers.
pub(crate) fn sorted_sparse(sparse: &SparseVector) -> Result<SparseVector> {
    let SparseVector { indices, values } = sparse;
    let refuse = |what: String| Err(Error::bad_input(format!("Wrong input: sparse vector: {what}")));
    if indices.len() != values.len() {
        let (i, v) = (indices.len(), values.len());
        return refuse(format!("{i} indices and {v} values: must be the same length"));
    }
    if indices.len() > SPARSE_ENTRIES_MAX {
        let n = indices.len();
        return refuse(format!("{n} indices; at most {SPARSE_ENTRIES_MAX} are possible"));
    }
    if let Err(e) = validate(values) {
        return refuse(e.to_string());
    }
    let mut entries: Vec<(u32, f32)> = indices.iter().copied().zip(values.iter().copied()).collect();
    entries.sort_unstable_by_key(|(index, _)| *index);
    if let Some(twice) = entries.windows(2).find(|w| w[0].0 == w[1].0) {
        return refuse(format!(
            "index {} is given twice: indices must be unique",
            twice[0].0
        ));
    }
    let (indices, values) = entries.into_iter().unzip();
    Ok(SparseVector { indices, values })
}

fn encode_multi(field: &VectorField, multi: &MultiVector) -> Result<Vec<u8>> {
    check_multi(field, multi)?;
    check_halves(field, &multi.values)?;
    let mut row = Vec::with_capacity(multi.values.len() * field.element.bytes());
    for part in multi.parts() {
        encode_row(field.metric, field.element, part, &mut row);
    }
    Ok(row)
}

/// Refuses a vector that rows of a field can't be compared with.
pub(crate) fn check_query(field: &VectorField, vector: &Vector) -> Result<()> {
    match (field.kind, vector) {
        (VectorKind::Dense | VectorKind::Multi, Vector::Dense(values)) => check_numbers(field, values),
        (VectorKind::Sparse, Vector::Sparse(sparse)) => sorted_sparse(sparse).map(drop),
        (VectorKind::Multi, Vector::Multi(multi)) => check_multi(field, multi),
        _ => Err(wrong_kind(field, vector)),
    }
}

/// Makes a query of a vector that [`check_query`] has passed; a sparse one ascends.
pub(crate) fn prepare_query(query: &mut Query, field: &VectorField, vector: &Vector) -> Result<()> {
    match (field.kind, vector) {
        (VectorKind::Dense, Vector::Dense(values)) => query.prepare(field.metric, field.element, values),
        (VectorKind::Sparse, Vector::Sparse(sparse)) => {
            query.prepare_sparse(sparse.indices.iter().copied().zip(sparse.values.iter().copied()))
        }
        (VectorKind::Multi, Vector::Dense(values)) => {
            query.prepare_multi(field.metric, field.element, field.dim, values)
        }
        (VectorKind::Multi, Vector::Multi(multi)) => {
            query.prepare_multi(field.metric, field.element, field.dim, &multi.values)
        }
        _ => return Err(wrong_kind(field, vector)),
    }
    Ok(())
}

/// Refuses a multivector without parts, of another dimension, or with more numbers than are possible.
pub(crate) fn check_multi(field: &VectorField, multi: &MultiVector) -> Result<()> {
    if multi.values.is_empty() {
        return Err(Error::bad_input("Wrong input: multivector must not be empty"));
    }
    if multi.dim != field.dim || !multi.values.len().is_multiple_of(multi.dim) {
        return Err(dimension(field, multi.dim));
    }
    if multi.values.len() > MULTI_NUMBERS_MAX {
        return Err(Error::bad_input(format!(
            "Wrong input: a multivector of {} numbers; at most {MULTI_NUMBERS_MAX} are possible",
            multi.values.len()
        )));
    }
    validate(&multi.values).map_err(|e| Error::bad_input(format!("Wrong input: vector: {e}")))
}

/// Refuses numbers of the wrong dimension, or that aren't any.
pub(crate) fn check_numbers(field: &VectorField, values: &[f32]) -> Result<()> {
    if values.len() != field.dim {
        return Err(dimension(field, values.len()));
    }
    validate(values).map_err(|e| Error::bad_input(format!("Wrong input: vector: {e}")))
}

/// Whether these are the numbers of one of the field's vectors, or of one of its parts.
pub(crate) fn check_dense(field: &VectorField, values: &[f32]) -> Result<()> {
    check_numbers(field, values)?;
    check_halves(field, values)
}

/// Whether so many numbers are a dense vector of the field for each of the points.
pub(crate) fn check_column(field: &VectorField, numbers: usize, points: usize) -> Result<()> {
    if field.kind != VectorKind::Dense {
        return Err(Error::bad_input(format!(
            "Wrong input: vector `{}` isn't dense: its points are written one by one",
            field.name
        )));
    }
    match numbers.is_multiple_of(points) {
        true if numbers / points == field.dim => Ok(()),
        true => Err(dimension(field, numbers / points)),
        false => Err(Error::bad_input(format!(
            "Wrong input: vector `{}`: {numbers} numbers for {points} points of {} dimensions",
            field.name, field.dim
        ))),
    }
}

/// From here on a number rounds to an infinite half.
const HALVES_END: f32 = 65_520.0;

/// Refuses numbers that a field of 16-bit floats can't hold: an infinite one would compare with nothing and come back as null.
fn check_halves(field: &VectorField, values: &[f32]) -> Result<()> {
    if field.element != Element::F16 || field.metric == Metric::Cosine {
        return Ok(());
    }
    match values.iter().position(|value| value.abs() >= HALVES_END) {
        None => Ok(()),
        Some(position) => Err(Error::bad_input(format!(
            "Wrong input: vector: element {position} is {}: this datatype is stored as 16-bit floats, whose maximum is 65504",
            values[position]
        ))),
    }
}

fn dimension(field: &VectorField, got: usize) -> Error {
    Error::bad_input(format!(
        "Wrong input: Vector dimension error: expected dim: {}, got {got}",
        field.dim
    ))
}

/// The vector is of another kind than the field's.
pub(crate) fn wrong_kind(field: &VectorField, vector: &Vector) -> Error {
    let (name, kind) = (&field.name, vector.kind_name());
    Error::bad_input(match field.kind {
        VectorKind::Dense if kind == "sparse" => format!(
            "Wrong input: Conversion between sparse and regular vectors failed: vector `{name}` takes dense vectors"
        ),
        VectorKind::Sparse => format!(
            "Wrong input: Conversion between sparse and regular vectors failed: vector `{name}` takes sparse vectors"
        ),
        _ => format!(
            "Wrong input: Conversion between multi and regular vectors failed: vector `{name}` can't take a {kind} vector"
        ),
    })
}
