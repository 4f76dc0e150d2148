//! Objects in the place of a vector: what they are, and what becomes of them. Nothing here knows REST or gRPC.

use ramlet::{SparseVector, Vector};
use serde_json::value::RawValue;

/// What is to be embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InferenceKind {
    Text,
    Image,
    Object,
}

/// An object in the place of a vector, not embedded yet.
#[derive(Debug, Clone)]
pub struct Inference {
    pub kind: InferenceKind,
    /// The text; of an image or an object nothing is kept, since nothing is made of it.
    pub text: String,
    pub model: String,
    /// JSON text of the model's options.
    pub options: Option<Box<RawValue>>,
}

/// What an embedding is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It is stored.
    Document,
    /// It is searched with.
    Query,
}

/// A vector as it comes in: numbers, or what they are made of.
#[derive(Debug, Clone)]
pub enum InputVector {
    Vector(Vector),
    Inference(Box<Inference>),
}

/// Why an object becomes no vector.
#[derive(Debug, Clone, PartialEq)]
pub struct InferenceError(pub String);

impl From<SparseVector> for InputVector {
    fn from(sparse: SparseVector) -> InputVector {
        InputVector::Vector(sparse.into())
    }
}

impl InputVector {
    /// The vector; objects are embedded.
    pub fn resolve(self, _purpose: Purpose) -> Result<Vector, InferenceError> {
        match self {
            InputVector::Vector(vector) => Ok(vector),
            InputVector::Inference(inference) => Err(InferenceError(format!(
                "no inference service is configured for model `{}`",
                inference.model
            ))),
        }
    }
}
