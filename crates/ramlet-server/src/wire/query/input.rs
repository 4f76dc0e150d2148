//! Where a query starts from: a vector of any kind, or a point's id.

use std::fmt;

use ramlet::{MultiVector, PointId, QueryVector, SparseVector, Vector};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::limits::VECTOR_SIZE_MAX;
use crate::wire::vector::NO_INFERENCE;

/// A vector or an id.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorInput(pub QueryVector);

impl<'de> Deserialize<'de> for VectorInput {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<VectorInput, D::Error> {
        d.deserialize_any(InputVisitor)
    }
}

struct InputVisitor;

impl<'de> Visitor<'de> for InputVisitor {
    type Value = VectorInput;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vector or a point id")
    }
    fn visit_u64<E: Error>(self, id: u64) -> Result<VectorInput, E> {
        Ok(VectorInput(QueryVector::Id(PointId::Num(id))))
    }
    fn visit_str<E: Error>(self, id: &str) -> Result<VectorInput, E> {
        let id = PointId::deserialize(serde::de::value::StrDeserializer::new(id))?;
        Ok(VectorInput(QueryVector::Id(id)))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<VectorInput, A::Error> {
        vector_of_seq(seq).map(|vector| VectorInput(QueryVector::Vector(vector)))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VectorInput, A::Error> {
        let mut object = VectorObject::default();
        while let Some(key) = map.next_key::<String>()? {
            if !object.take(&key, &mut map)? {
                map.next_value::<IgnoredAny>()?;
            }
        }
        let vector = object.into_vector()?;
        vector
            .map(|vector| VectorInput(QueryVector::Vector(vector)))
            .ok_or_else(|| A::Error::custom("a vector as an object has `indices` and `values`"))
    }
}

/// The keys of vectors that are objects, as far as they were seen.
#[derive(Default)]
pub struct VectorObject {
    indices: Option<Vec<u32>>,
    values: Option<Vec<f32>>,
    inference: bool,
}

impl VectorObject {
    /// Takes the value of a key that is its own.
    pub fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "indices" => self.indices = Some(map.next_value()?),
            "values" => self.values = Some(map.next_value()?),
            "text" | "image" | "object" | "model" | "options" => {
                map.next_value::<IgnoredAny>()?;
                self.inference = true;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The vector; `None` where no key of one was seen.
    pub fn into_vector<E: Error>(self) -> Result<Option<Vector>, E> {
        if self.inference {
            return Err(E::custom(NO_INFERENCE));
        }
        match (self.indices, self.values) {
            (None, None) => Ok(None),
            (Some(indices), Some(values)) => sparse(indices, values).map(Some),
            _ => Err(E::custom("a sparse vector has both `indices` and `values`")),
        }
    }
}

fn sparse<E: Error>(indices: Vec<u32>, values: Vec<f32>) -> Result<Vector, E> {
    if indices.len() != values.len() {
        return Err(E::custom(format!(
            "a sparse vector has {} indices and {} values, it must be as many",
            indices.len(),
            values.len()
        )));
    }
    let mut seen = indices.clone();
    seen.sort_unstable();
    if seen.windows(2).any(|two| two[0] == two[1]) {
        return Err(E::custom(
            "a sparse vector has an index twice, each must be there once",
        ));
    }
    Ok(Vector::Sparse(SparseVector { indices, values }))
}

/// An element of a list: a number, or a list of numbers.
enum Part {
    Number(f32),
    Row(Vec<f32>),
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Part, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Part;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of a vector")
            }
            fn visit_f64<E: Error>(self, v: f64) -> Result<Part, E> {
                let component = v as f32;
                match component.is_finite() {
                    true => Ok(Part::Number(component)),
                    false => Err(E::custom(format!("{v} is out of the range of 32-bit floats"))),
                }
            }
            fn visit_u64<E: Error>(self, v: u64) -> Result<Part, E> {
                Ok(Part::Number(v as f32))
            }
            fn visit_i64<E: Error>(self, v: i64) -> Result<Part, E> {
                Ok(Part::Number(v as f32))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Part, A::Error> {
                crate::wire::vector::dense_of_seq(seq).map(Part::Row)
            }
        }
        d.deserialize_any(V)
    }
}

/// A vector whose bracket is open: of numbers, or of lists of them.
pub fn vector_of_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<Vector, A::Error> {
    let mut numbers = Vec::new();
    // Numbers in each part of a multivector.
    let mut dim = None;
    while let Some(part) = seq.next_element()? {
        match (part, dim) {
            (Part::Number(number), None) => numbers.push(number),
            (Part::Row(row), _) if row.is_empty() => {
                return Err(A::Error::custom("a part of a multivector is empty"));
            }
            (Part::Row(row), None) if numbers.is_empty() => {
                dim = Some(row.len());
                numbers.extend_from_slice(&row);
            }
            (Part::Row(row), Some(dim)) if row.len() == dim => numbers.extend_from_slice(&row),
            (Part::Row(_), Some(_)) => {
                return Err(A::Error::custom("the parts of a multivector are of one length"));
            }
            _ => return Err(A::Error::custom("a vector has numbers or lists of numbers")),
        }
        if dim.is_none() && numbers.len() > VECTOR_SIZE_MAX || numbers.len() > MULTI_NUMBERS_MAX {
            return Err(A::Error::custom(format!(
                "a vector has more than {VECTOR_SIZE_MAX} components"
            )));
        }
    }
    Ok(match dim {
        None => Vector::Dense(numbers),
        Some(dim) => Vector::Multi(MultiVector { dim, values: numbers }),
    })
}

/// Numbers of a multivector in all.
const MULTI_NUMBERS_MAX: usize = 1 << 20;
