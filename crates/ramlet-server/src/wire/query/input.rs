//! Where a query starts from: a vector of any kind, what a model makes one of, or a point's id.

use std::fmt;

use ramlet::{PointId, QueryVector};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::error::ApiResult;
use crate::wire::inference::Purpose;
use crate::wire::vector::{WireVector, vector_of_map, vector_of_seq};

/// A vector or an id, as it came.
#[derive(Debug, Clone)]
pub enum VectorInput {
    Id(PointId),
    Vector(WireVector),
}

impl VectorInput {
    /// What the engine starts from; `path`: its place in the body, for errors.
    pub fn resolve(self, path: &str) -> ApiResult<QueryVector> {
        match self {
            VectorInput::Id(id) => Ok(QueryVector::Id(id)),
            VectorInput::Vector(vector) => vector.resolve(path, Purpose::Query).map(QueryVector::Vector),
        }
    }
}

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
        Ok(VectorInput::Id(PointId::Num(id)))
    }
    fn visit_str<E: Error>(self, id: &str) -> Result<VectorInput, E> {
        PointId::deserialize(serde::de::value::StrDeserializer::new(id)).map(VectorInput::Id)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<VectorInput, A::Error> {
        vector_of_seq(seq).map(VectorInput::Vector)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<VectorInput, A::Error> {
        vector_of_map(map).map(|input| VectorInput::Vector(WireVector(Ok(input))))
    }
}
