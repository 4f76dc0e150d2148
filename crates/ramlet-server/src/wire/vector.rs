//! Vectors of the wire in all their forms, parsed straight into numbers.
//!
//! | JSON | is |
//! |---|---|
//! | `[1, 2]` | a dense vector |
//! | `[[1, 2], [3, 4]]` | a multivector |
//! | `{"indices": [7], "values": [0.5]}` | a sparse vector |
//! | `{"text": .., "model": .., "options": ..}`, the same with `image` or `object` | what a model makes a vector of |

use std::cell::Cell;
use std::fmt;

use ramlet::limits::{MULTI_NUMBERS_MAX, SPARSE_ENTRIES_MAX, VECTORS_MAX};
use ramlet::{DEFAULT_VECTOR, MultiVector, NamedVectors, SparseVector, Vector};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::inference::{Inference, InferenceKind, InputVector, Purpose};
use crate::error::{ApiError, ApiResult};
use crate::limits::VECTOR_SIZE_MAX;

thread_local! {
    /// Elements of the last vector parsed on this thread: the next one is nearly always as long, and so takes one
    /// allocation of the right size instead of seven.
    static LAST_LEN: Cell<usize> = const { Cell::new(0) };
}

/// One number of a vector.
struct Component(f32);

impl<'de> Deserialize<'de> for Component {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Component, D::Error> {
        d.deserialize_any(ComponentVisitor)
    }
}

/// Apart from [`ElementVisitor`], whose value may hold a list: with that the numbers of a message took three times as long.
struct ComponentVisitor;

impl<'de> Visitor<'de> for ComponentVisitor {
    type Value = Component;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ElementVisitor.expecting(f)
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<Component, E> {
        component(v).map(Component)
    }
    fn visit_u64<E: Error>(self, v: u64) -> Result<Component, E> {
        Ok(Component(v as f32))
    }
    fn visit_i64<E: Error>(self, v: i64) -> Result<Component, E> {
        Ok(Component(v as f32))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Component, A::Error> {
        numbers(seq, LAST_LEN.get(), VECTOR_SIZE_MAX)?;
        Err(A::Error::custom("a list where a number of a vector is expected"))
    }
}

fn component<E: Error>(v: f64) -> Result<f32, E> {
    let component = v as f32;
    if component.is_finite() {
        Ok(component)
    } else {
        Err(E::custom(format!(
            "vector component {v} is out of the range of 32-bit floats"
        )))
    }
}

/// One element of a list: a number, or a list of them.
enum Element {
    Number(f32),
    Part(Vec<f32>),
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Element, D::Error> {
        d.deserialize_any(ElementVisitor)
    }
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of a vector")
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<Element, E> {
        component(v).map(Element::Number)
    }
    fn visit_u64<E: Error>(self, v: u64) -> Result<Element, E> {
        Ok(Element::Number(v as f32))
    }
    fn visit_i64<E: Error>(self, v: i64) -> Result<Element, E> {
        Ok(Element::Number(v as f32))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Element, A::Error> {
        numbers(seq, LAST_LEN.get(), VECTOR_SIZE_MAX).map(Element::Part)
    }
}

/// A list of at most `most` numbers whose bracket is open already.
fn numbers<'de, A: SeqAccess<'de>>(mut seq: A, likely: usize, most: usize) -> Result<Vec<f32>, A::Error> {
    let mut out = Vec::with_capacity(likely);
    while let Some(Component(v)) = seq.next_element()? {
        push(&mut out, v, most)?;
    }
    LAST_LEN.set(out.len().min(VECTOR_SIZE_MAX));
    // A queue of points must not hold what the guess was too large by.
    out.shrink_to_fit();
    Ok(out)
}

fn push<E: Error>(out: &mut Vec<f32>, v: f32, most: usize) -> Result<(), E> {
    if out.len() == most {
        return Err(E::custom(format!("a vector has more than {most} components")));
    }
    out.push(v);
    Ok(())
}

/// A dense vector or a multivector whose bracket is open already.
pub fn vector_of_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<WireVector, A::Error> {
    let vector = |vector: Vector| WireVector(Ok(InputVector::Vector(vector)));
    match seq.next_element()? {
        None => Ok(vector(Vec::new().into())),
        Some(Element::Part(first)) => match multi_of_seq(first, seq)? {
            Ok(multi) => Ok(vector(Vector::Multi(multi))),
            Err(uneven) => Ok(WireVector(Err(uneven))),
        },
        Some(Element::Number(first)) => {
            let mut out = Vec::with_capacity(LAST_LEN.get());
            out.push(first);
            while let Some(Component(v)) = seq.next_element()? {
                push(&mut out, v, VECTOR_SIZE_MAX)?;
            }
            LAST_LEN.set(out.len());
            out.shrink_to_fit();
            Ok(vector(out.into()))
        }
    }
}

/// Parts that are no multivector together: what the API says of them by its validation, once their place is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uneven {
    Empty,
    /// One has so many numbers, the first has others.
    Other(usize),
}

impl fmt::Display for Uneven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uneven::Empty => f.write_str("all vectors must be non-empty"),
            Uneven::Other(got) => write!(
                f,
                "all vectors must have the same dimension, found vector with dimension {got}"
            ),
        }
    }
}

fn multi_of_seq<'de, A: SeqAccess<'de>>(
    first: Vec<f32>,
    mut seq: A,
) -> Result<Result<MultiVector, Uneven>, A::Error> {
    let dim = first.len();
    let mut values = first;
    let mut uneven = (dim == 0).then_some(Uneven::Empty);
    while let Some(part) = seq.next_element()? {
        let Element::Part(part) = part else {
            return Err(A::Error::custom(
                "a number where a part of a multivector is expected",
            ));
        };
        match part.len() {
            0 => uneven = Some(Uneven::Empty),
            got if got != dim => uneven = uneven.or(Some(Uneven::Other(got))),
            _ => {}
        }
        if uneven.is_some() {
            continue;
        }
        if values.len() + dim > MULTI_NUMBERS_MAX {
            return Err(A::Error::custom(format!(
                "a multivector has more than {MULTI_NUMBERS_MAX} numbers"
            )));
        }
        values.extend_from_slice(&part);
    }
    values.shrink_to_fit();
    Ok(uneven.map_or(Ok(MultiVector { dim, values }), Err))
}

/// The weights of a sparse vector: as many as there may be indices.
struct Weights(Vec<f32>);

impl<'de> Deserialize<'de> for Weights {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Weights, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Weights;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Weights, A::Error> {
                numbers(seq, 0, SPARSE_ENTRIES_MAX).map(Weights)
            }
        }
        d.deserialize_seq(V)
    }
}

/// The dimensions of a sparse vector.
struct Indices(Vec<u32>);

impl<'de> Deserialize<'de> for Indices {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Indices, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Indices;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of indices")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Indices, A::Error> {
                let mut out = Vec::new();
                while let Some(index) = seq.next_element::<u32>()? {
                    if out.len() == SPARSE_ENTRIES_MAX {
                        return Err(A::Error::custom(format!(
                            "a sparse vector has more than {SPARSE_ENTRIES_MAX} indices"
                        )));
                    }
                    out.push(index);
                }
                Ok(Indices(out))
            }
        }
        d.deserialize_seq(V)
    }
}

/// What the keys of an object in the place of a vector have said so far.
#[derive(Default)]
pub struct VectorKeys {
    indices: Option<Vec<u32>>,
    values: Option<Vec<f32>>,
    text: Option<String>,
    image: bool,
    object: bool,
    model: Option<String>,
    options: Option<Box<RawValue>>,
}

impl VectorKeys {
    /// Whether [`VectorKeys::take`] knows a key.
    pub fn knows(key: &str) -> bool {
        matches!(
            key,
            "indices" | "values" | "text" | "image" | "object" | "model" | "options"
        )
    }

    /// The value of the key `text`, read elsewhere.
    pub fn set_text(&mut self, text: String) {
        self.text = Some(text);
    }

    /// Reads the value of a key; one that is unknown is passed over.
    pub fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "indices" => self.indices = Some(map.next_value::<Indices>()?.0),
            "values" => self.values = Some(map.next_value::<Weights>()?.0),
            "text" => self.text = Some(map.next_value()?),
            "image" => {
                map.next_value::<IgnoredAny>()?;
                self.image = true;
            }
            "object" => {
                map.next_value::<IgnoredAny>()?;
                self.object = true;
            }
            "model" => self.model = Some(map.next_value()?),
            "options" => self.options = map.next_value()?,
            _ => {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    /// What all of them mean.
    pub fn finish<E: Error>(self) -> Result<InputVector, E> {
        let kind = match (self.text.is_some(), self.image, self.object) {
            (true, false, false) => InferenceKind::Text,
            (false, true, false) => InferenceKind::Image,
            (false, false, true) => InferenceKind::Object,
            (false, false, false) => {
                let indices = self.indices.ok_or_else(|| E::missing_field("indices"))?;
                let values = self.values.ok_or_else(|| E::missing_field("values"))?;
                return Ok(SparseVector { indices, values }.into());
            }
            _ => return Err(E::custom("one of `text`, `image` and `object` may be given")),
        };
        Ok(InputVector::Inference(Box::new(Inference {
            kind,
            text: self.text.unwrap_or_default(),
            model: self.model.ok_or_else(|| E::missing_field("model"))?,
            options: self.options,
        })))
    }
}

/// An object in the place of a vector whose brace is open already: a sparse vector, or what one is made of.
pub fn vector_of_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<InputVector, A::Error> {
    let mut keys = VectorKeys::default();
    while let Some(key) = map.next_key::<String>()? {
        keys.take(&key, &mut map)?;
    }
    keys.finish()
}

/// A vector of any form, or lists that are none.
#[derive(Debug, Clone)]
pub struct WireVector(pub Result<InputVector, Uneven>);

impl<'de> Deserialize<'de> for WireVector {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<WireVector, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = WireVector;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vector: a list of numbers, a list of such lists, `indices` and `values`, or an object for a model")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<WireVector, A::Error> {
                vector_of_seq(seq)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WireVector, A::Error> {
                vector_of_map(map).map(|input| WireVector(Ok(input)))
            }
        }
        d.deserialize_any(V)
    }
}

impl WireVector {
    /// The vector, for its place in the body: 422 where its parts don't agree.
    pub fn resolve(self, path: &str, purpose: Purpose) -> ApiResult<Vector> {
        let vector = match self.0 {
            Ok(input) => input.resolve(purpose)?,
            Err(uneven) => return Err(ApiError::validation(format!("{path}.data"), uneven)),
        };
        match &vector {
            Vector::Sparse(sparse) => check_sparse(path, sparse)?,
            // A query without numbers is of the wrong size, as the API has it.
            Vector::Dense(numbers) if numbers.is_empty() && purpose == Purpose::Document => {
                let path = format!("{path}.vector");
                return Err(ApiError::validation(path, "dense vector must not be empty"));
            }
            _ => {}
        }
        Ok(vector)
    }
}

/// What the API asks of a sparse vector: as many values as indices, each index once.
pub fn check_sparse(path: &str, sparse: &SparseVector) -> ApiResult<()> {
    if sparse.indices.len() != sparse.values.len() {
        return Err(ApiError::validation(
            format!("{path}.values"),
            "Validation error: must be the same length as indices [{}]",
        ));
    }
    let mut sorted = sparse.indices.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        let path = format!("{path}.indices");
        return Err(ApiError::validation(
            path,
            "Validation error: must be unique [{}]",
        ));
    }
    Ok(())
}

/// The `vector` of a point: one of any form (the default vector) or a map by name.
#[derive(Debug, Clone)]
pub struct VectorStruct(pub Vec<(String, WireVector)>);

impl VectorStruct {
    /// Its vectors, for storing.
    pub fn resolve(self, path: &str) -> ApiResult<NamedVectors> {
        let resolve = |(name, vector): (String, WireVector)| {
            // The API doesn't say which.
            let path = match name.as_str() {
                "" => path.to_owned(),
                _ => format!("{path}.?"),
            };
            Ok((name, vector.resolve(&path, Purpose::Document)?))
        };
        self.0.into_iter().map(resolve).collect()
    }
}

impl<'de> Deserialize<'de> for VectorStruct {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<VectorStruct, D::Error> {
        d.deserialize_any(StructVisitor)
    }
}

struct StructVisitor;

impl<'de> Visitor<'de> for StructVisitor {
    type Value = VectorStruct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vector (a list of numbers) or a map of vectors by name")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<VectorStruct, A::Error> {
        let vector = vector_of_seq(seq)?;
        Ok(VectorStruct(vec![(DEFAULT_VECTOR.to_owned(), vector)]))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VectorStruct, A::Error> {
        let (mut out, mut doubtful) = (Vec::new(), Vec::new());
        while let Some(name) = map.next_key::<String>()? {
            // A vector may be called `text` as well: what it is shows when all is read.
            match name.as_str() {
                "text" | "image" | "object" | "model" | "options" => {
                    doubtful.push((name, map.next_value::<Box<RawValue>>()?))
                }
                _ => {
                    let vector = map.next_value::<WireVector>()?;
                    put(&mut out, name, vector)?;
                }
            }
        }
        let is_object =
            |(name, value): &(String, Box<RawValue>)| name == "model" && value.get().starts_with('"');
        if doubtful.iter().any(is_object) {
            let vector = object(&doubtful)?;
            put(&mut out, DEFAULT_VECTOR.to_owned(), vector)?;
        } else {
            for (name, value) in doubtful {
                let vector = serde_json::from_str(value.get())
                    .map_err(|e| A::Error::custom(format!("vector `{name}`: {e}")))?;
                put(&mut out, name, vector)?;
            }
        }
        Ok(VectorStruct(out))
    }
}

/// An object for a model, by its fields.
fn object<E: Error>(fields: &[(String, Box<RawValue>)]) -> Result<WireVector, E> {
    let string = |value: &RawValue| serde_json::from_str::<String>(value.get()).map_err(E::custom);
    let mut keys = VectorKeys::default();
    for (name, value) in fields {
        match name.as_str() {
            "text" => keys.text = Some(string(value)?),
            "image" => keys.image = true,
            "object" => keys.object = true,
            "model" => keys.model = Some(string(value)?),
            _ => keys.options = Some(value.clone()).filter(|value| value.get() != "null"),
        }
    }
    keys.finish().map(|input| WireVector(Ok(input)))
}

/// Adds what a name says. No collection has more names than [`VECTORS_MAX`]; each is compared with all before it, and a body of
/// 32 MB would hold millions of them.
fn put<T, E: Error>(out: &mut Vec<(String, T)>, name: String, said: T) -> Result<(), E> {
    if out.iter().any(|(other, _)| *other == name) {
        return Err(E::custom(format!("vector `{name}` is given twice")));
    }
    if out.len() == VECTORS_MAX {
        return Err(E::custom(format!("more than {VECTORS_MAX} vectors of one point")));
    }
    out.push((name, said));
    Ok(())
}

/// The `vectors` of the batch form: a list of vectors, or a map of such lists by name.
#[derive(Debug, Clone)]
pub enum BatchVectors {
    Default(Vec<WireVector>),
    Named(Vec<(String, Vec<WireVector>)>),
}

impl<'de> Deserialize<'de> for BatchVectors {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<BatchVectors, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = BatchVectors;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of vectors or a map of lists of vectors by name")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<BatchVectors, A::Error> {
                let mut out = Vec::new();
                while let Some(vector) = seq.next_element()? {
                    out.push(vector);
                }
                Ok(BatchVectors::Default(out))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BatchVectors, A::Error> {
                let mut out: Vec<(String, Vec<WireVector>)> = Vec::new();
                while let Some((name, list)) = map.next_entry::<String, Vec<WireVector>>()? {
                    put(&mut out, name, list)?;
                }
                Ok(BatchVectors::Named(out))
            }
        }
        d.deserialize_any(V)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(input: &str) -> Result<NamedVectors, String> {
        let parsed: VectorStruct = serde_json::from_str(input).map_err(|e| e.to_string())?;
        parsed
            .resolve("vector")
            .map_err(|e| format!("{} {}", e.status.as_u16(), e.message))
    }

    fn check(input: &str, expected: Result<&[(&str, &[f32])], &str>) {
        match (named(input), expected) {
            (Ok(got), Ok(expected)) => {
                let got: Vec<(&str, &[f32])> = got
                    .iter()
                    .map(|(n, v)| (n.as_str(), v.dense().unwrap()))
                    .collect();
                assert_eq!(got, expected, "{input}");
            }
            (Err(e), Err(part)) => assert!(e.contains(part), "{input}: {e}"),
            (got, _) => panic!("{input}: {got:?}"),
        }
    }

    fn sparse(indices: &[u32], values: &[f32]) -> Vector {
        let (indices, values) = (indices.to_vec(), values.to_vec());
        SparseVector { indices, values }.into()
    }

    #[test]
    fn a_point_s_vector_takes_its_forms() {
        check("[1, -2.5, 3e-1]", Ok(&[("", &[1.0, -2.5, 0.3])]));
        check(
            "[]",
            Err("422 Validation error in JSON body: [vector.vector: dense vector must not be empty]"),
        );
        check("{}", Ok(&[]));
        check(
            r#"{"": [1], "b": [2, 3]}"#,
            Ok(&[("", &[1.0]), ("b", &[2.0, 3.0])]),
        );
        check(
            r#"{"image": [1], "text": [2, 3]}"#,
            Ok(&[("image", &[1.0]), ("text", &[2.0, 3.0])]),
        );
    }

    #[test]
    fn as_many_names_as_a_collection_can_have() {
        let point = |names: usize| {
            let names: Vec<String> = (0..names).map(|n| format!(r#""v{n}": [1]"#)).collect();
            named(&format!("{{{}}}", names.join(",")))
        };
        assert_eq!(point(VECTORS_MAX).map(|all| all.len()), Ok(VECTORS_MAX));
        let refused = point(VECTORS_MAX + 1).expect_err("one too many");
        assert!(refused.contains("more than 64 vectors"), "{refused}");
    }

    #[test]
    fn sparse_and_several() {
        let multi = MultiVector {
            dim: 2,
            values: vec![1.0, 2.0, 3.0, 4.0],
        };
        assert_eq!(named("[[1, 2], [3, 4]]").unwrap()[0].1, multi.clone().into());
        assert_eq!(named(r#"{"text": [[1, 2], [3, 4]]}"#).unwrap()[0].1, multi.into());
        assert_eq!(
            named(r#"{"s": {"values": [0.5, 1], "indices": [9, 1]}}"#).unwrap(),
            vec![("s".to_owned(), sparse(&[9, 1], &[0.5, 1.0]))]
        );
        assert_eq!(
            named(r#"{"s": {"values": [], "indices": []}}"#).unwrap(),
            vec![("s".to_owned(), sparse(&[], &[]))]
        );
        for (input, part) in [
            (
                "[[1, 2], [3]]",
                "422 Validation error in JSON body: [vector.data: all vectors must have the same dimension, found vector with dimension 1]",
            ),
            (
                r#"{"m": [[1, 2], [3], []]}"#,
                "422 Validation error in JSON body: [vector.?.data: all vectors must be non-empty]",
            ),
            (
                r#"{"m": []}"#,
                "[vector.?.vector: dense vector must not be empty]",
            ),
            ("[[1, 2], 3]", "a part of a multivector"),
            ("[1, [2]]", "a number of a vector"),
            ("[[]]", "[vector.data: all vectors must be non-empty]"),
            (
                r#"{"s": {"indices": [1], "values": []}}"#,
                "422 Validation error in JSON body: [vector.?.values: Validation error: must be the same length as indices [{}]]",
            ),
            (
                r#"{"s": {"indices": [1, 1], "values": [1, 2]}}"#,
                "422 Validation error in JSON body: [vector.?.indices: Validation error: must be unique [{}]]",
            ),
            (r#"{"s": {"indices": [-1], "values": [1]}}"#, "invalid value"),
            (
                r#"{"s": {"indices": [4294967296], "values": [1]}}"#,
                "invalid value",
            ),
            (r#"{"s": {"indices": [1]}}"#, "missing field `values`"),
            (r#"{"s": {"indices": [1], "values": [1e39]}}"#, "out of the range"),
            (r#"{"s": {}}"#, "missing field `indices`"),
        ] {
            check(input, Err(part));
        }
    }

    #[test]
    fn objects_for_models() {
        let of = |input: &str| match serde_json::from_str::<VectorStruct>(input)
            .unwrap()
            .0
            .remove(0)
            .1
            .0
        {
            Ok(InputVector::Inference(inference)) => inference,
            other => panic!("{input}: {other:?}"),
        };
        let text = of(r#"{"a": {"text": "hello", "model": "m", "options": {"k": 2}}}"#);
        assert_eq!(
            (text.kind, text.text.as_str(), text.model.as_str()),
            (InferenceKind::Text, "hello", "m")
        );
        assert_eq!(text.options.unwrap().get(), r#"{"k": 2}"#);
        let whole = of(r#"{"model": "m", "text": "hello", "options": null}"#);
        assert_eq!((whole.kind, whole.options.is_none()), (InferenceKind::Text, true));
        assert_eq!(
            of(r#"{"image": {"a": 1}, "model": "m"}"#).kind,
            InferenceKind::Image
        );
        assert_eq!(
            of(r#"{"a": {"object": [1], "model": "m"}}"#).kind,
            InferenceKind::Object
        );
        check(r#"{"a": {"text": "hello"}}"#, Err("missing field `model`"));
        check(r#"{"a": "hello"}"#, Err("a vector"));
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        check("[1, null]", Err("null"));
        check("[1, \"a\"]", Err("a number of a vector"));
        check("[1e39]", Err("out of the range"));
        check("7", Err("a vector"));
        check(r#"{"a": [1], "a": [2]}"#, Err("given twice"));
        check(
            &format!("[{}1]", "1,".repeat(VECTOR_SIZE_MAX)),
            Err("more than 65536"),
        );
    }

    #[test]
    fn the_length_guess_never_shows() {
        let long = format!("[{}1]", "1,".repeat(1000));
        let long = named(&long).unwrap();
        let short = named("[1,2]").unwrap().remove(0).1.into_dense().unwrap();
        assert_eq!((long[0].1.numbers(), short.len()), (1001, 2));
        assert!(short.capacity() < 100);
    }

    #[test]
    fn batch_vectors_by_list_or_name() {
        let dense = |list: Vec<WireVector>| -> Vec<Vec<f32>> {
            let resolve = |v: WireVector| v.resolve("v", Purpose::Document).unwrap().into_dense().unwrap();
            list.into_iter().map(resolve).collect()
        };
        match serde_json::from_str("[[1],[2]]").unwrap() {
            BatchVectors::Default(list) => assert_eq!(dense(list), [[1.0], [2.0]]),
            other => panic!("{other:?}"),
        }
        match serde_json::from_str(r#"{"a":[[1],[2]]}"#).unwrap() {
            BatchVectors::Named(mut named) => assert_eq!(dense(named.remove(0).1), [[1.0], [2.0]]),
            other => panic!("{other:?}"),
        }
        for text in [
            "[[[1]],[[2],[3]]]",
            r#"[{"text": "a", "model": "m"}]"#,
            r#"{"s": [{"indices": [], "values": []}]}"#,
        ] {
            serde_json::from_str::<BatchVectors>(text).unwrap();
        }
    }
}
