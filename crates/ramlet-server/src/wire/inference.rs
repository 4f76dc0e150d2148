//! Objects in the place of a vector: what they are, and what becomes of them. Nothing here knows REST or gRPC.

use ramlet::text::{Bm25, Bm25Options};
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
    pub fn resolve(self, purpose: Purpose) -> Result<Vector, InferenceError> {
        match self {
            InputVector::Vector(vector) => Ok(vector),
            InputVector::Inference(inference) => embed(&inference, purpose).map(Vector::Sparse),
        }
    }
}

/// The one model that is computed here; its name in whatever case.
const BM25: &str = "qdrant/bm25";

/// Makes a vector of a text.
pub fn embed(inference: &Inference, purpose: Purpose) -> Result<SparseVector, InferenceError> {
    if !inference.model.eq_ignore_ascii_case(BM25) {
        return Err(InferenceError(format!(
            "InferenceService is not initialized: there is no model `{}` here. Texts are embedded by `{BM25}` alone",
            inference.model
        )));
    }
    if inference.kind != InferenceKind::Text {
        return Err(InferenceError(format!(
            "Only strings supported for model `{BM25}`"
        )));
    }
    let options: Bm25Options = match &inference.options {
        Some(options) => serde_json::from_str(options.get())
            .map_err(|e| InferenceError(format!("Invalid options of model `{BM25}`: {e}")))?,
        None => Bm25Options::default(),
    };
    let embedded = Bm25::new(&options).and_then(|model| match purpose {
        Purpose::Document => model.document(&inference.text),
        Purpose::Query => model.query(&inference.text),
    });
    embedded.map_err(|e| InferenceError(e.to_string().trim_start_matches("Wrong input: ").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(model: &str, options: Option<&str>) -> Inference {
        Inference {
            kind: InferenceKind::Text,
            text: "Hello worlds".to_owned(),
            model: model.to_owned(),
            options: options.map(|o| RawValue::from_string(o.to_owned()).unwrap()),
        }
    }

    #[test]
    fn one_model_is_known() {
        let query = embed(&text("Qdrant/bm25", None), Purpose::Query).unwrap();
        assert_eq!(query.indices, [74_040_069, 613_153_351]);
        let long = embed(
            &text("qdrant/bm25", Some(r#"{"stemmer":{"type":"none"}}"#)),
            Purpose::Document,
        );
        assert_ne!(long.unwrap().indices, query.indices);
        for (inference, part) in [
            (text("openai/ada", None), "not initialized"),
            (text("qdrant/bm25", Some(r#"{"k":"x"}"#)), "Invalid options"),
            (text("qdrant/bm25", Some(r#"{"b":2}"#)), "from 0 to 1"),
        ] {
            let error = embed(&inference, Purpose::Query).unwrap_err();
            assert!(error.0.contains(part), "{error:?}");
        }
    }
}
