//! Where a query starts from: a vector of any kind, or a point's id.

use std::fmt;

use ramlet::{PointId, QueryVector, Vector};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::inference::Purpose;
pub use crate::wire::vector::vector_of_seq;
use crate::wire::vector::{VectorKeys, check_sparse};

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
pub struct VectorObject(Option<VectorKeys>);

impl VectorObject {
    /// Takes the value of a key that is its own.
    pub fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        if !VectorKeys::knows(key) {
            return Ok(false);
        }
        self.0.get_or_insert_default().take(key, map)?;
        Ok(true)
    }

    /// The vector, texts embedded; `None` where no key of one was seen.
    pub fn into_vector<E: Error>(self) -> Result<Option<Vector>, E> {
        let Some(keys) = self.0 else { return Ok(None) };
        let vector = keys.finish::<E>()?.resolve(Purpose::Query);
        let vector = vector.map_err(|e| E::custom(e.0))?;
        if let Vector::Sparse(sparse) = &vector {
            check_sparse("query", sparse).map_err(|e| E::custom(e.message))?;
        }
        Ok(Some(vector))
    }
}
