//! Vectors of the wire, parsed straight into `Vec<f32>`.

use std::cell::Cell;
use std::fmt;

use ramlet::NamedVectors;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::limits::VECTOR_SIZE_MAX;

pub const NO_MULTI: &str = "multivectors (lists of lists) are not supported by this version of Ramlet";
pub const NO_SPARSE: &str = "sparse vectors are not supported by this version of Ramlet";
pub const NO_INFERENCE: &str =
    "inference (text, image or object as a vector) is not supported by this version of Ramlet";

thread_local! {
    /// Elements of the last vector parsed on this thread: the next one is nearly always as long, and so takes one
    /// allocation of the right size instead of seven.
    static LAST_LEN: Cell<usize> = const { Cell::new(0) };
}

/// One number of a dense vector.
struct Component(f32);

impl<'de> Deserialize<'de> for Component {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Component, D::Error> {
        d.deserialize_any(ComponentVisitor)
    }
}

struct ComponentVisitor;

impl<'de> Visitor<'de> for ComponentVisitor {
    type Value = Component;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of a vector")
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<Component, E> {
        let component = v as f32;
        if component.is_finite() {
            Ok(Component(component))
        } else {
            Err(E::custom(format!(
                "vector component {v} is out of the range of 32-bit floats"
            )))
        }
    }
    fn visit_u64<E: Error>(self, v: u64) -> Result<Component, E> {
        Ok(Component(v as f32))
    }
    fn visit_i64<E: Error>(self, v: i64) -> Result<Component, E> {
        Ok(Component(v as f32))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Component, A::Error> {
        Err(A::Error::custom(NO_MULTI))
    }
}

/// A dense vector. Sparse, multi and inference forms are refused by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense(pub Vec<f32>);

impl<'de> Deserialize<'de> for Dense {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Dense, D::Error> {
        d.deserialize_any(DenseVisitor)
    }
}

/// The numbers of a list whose bracket is open already.
pub fn dense_of_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<Vec<f32>, A::Error> {
    let mut out = Vec::with_capacity(LAST_LEN.get());
    while let Some(Component(v)) = seq.next_element()? {
        if out.len() == VECTOR_SIZE_MAX {
            return Err(A::Error::custom(format!(
                "a vector has more than {VECTOR_SIZE_MAX} components"
            )));
        }
        out.push(v);
    }
    LAST_LEN.set(out.len());
    // A queue of points must not hold what the guess was too large by.
    out.shrink_to_fit();
    Ok(out)
}

struct DenseVisitor;

impl<'de> Visitor<'de> for DenseVisitor {
    type Value = Dense;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vector: a list of numbers")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Dense, A::Error> {
        dense_of_seq(seq).map(Dense)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Dense, A::Error> {
        Err(refused_map(&mut map)?)
    }
}

/// Which feature a JSON object in the place of a vector asks for.
fn refused_map<'de, A: MapAccess<'de>>(map: &mut A) -> Result<A::Error, A::Error> {
    let mut sparse = false;
    while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
        sparse |= key == "indices" || key == "values";
    }
    Ok(A::Error::custom(if sparse { NO_SPARSE } else { NO_INFERENCE }))
}

/// The `vector` of a point: a list (the default vector) or a map by name.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorStruct(pub NamedVectors);

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
        let vector = dense_of_seq(seq)?;
        Ok(VectorStruct(vec![(
            ramlet::DEFAULT_VECTOR.to_owned(),
            vector.into(),
        )]))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VectorStruct, A::Error> {
        let mut out = NamedVectors::new();
        while let Some(name) = map.next_key::<String>()? {
            match map.next_value::<NamedValue>()? {
                NamedValue::Dense(vector) => put(&mut out, name, vector)?,
                NamedValue::Text => return Err(A::Error::custom(NO_INFERENCE)),
            }
        }
        Ok(VectorStruct(out))
    }
}

fn put<E: Error>(out: &mut NamedVectors, name: String, vector: Vec<f32>) -> Result<(), E> {
    if out.iter().any(|(other, _)| *other == name) {
        return Err(E::custom(format!("vector `{name}` is given twice")));
    }
    out.push((name, vector.into()));
    Ok(())
}

/// A value of the map form; `{"text": "...", "model": "..."}` shows itself by its strings.
enum NamedValue {
    Dense(Vec<f32>),
    Text,
}

impl<'de> Deserialize<'de> for NamedValue {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<NamedValue, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = NamedValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vector: a list of numbers")
            }
            fn visit_str<E: Error>(self, _: &str) -> Result<NamedValue, E> {
                Ok(NamedValue::Text)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<NamedValue, A::Error> {
                dense_of_seq(seq).map(NamedValue::Dense)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NamedValue, A::Error> {
                Err(refused_map(&mut map)?)
            }
        }
        d.deserialize_any(V)
    }
}

/// The `vectors` of the batch form: a list of vectors, or a map of such lists by name.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchVectors {
    Default(Vec<Vec<f32>>),
    Named(Vec<(String, Vec<Vec<f32>>)>),
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
                while let Some(Dense(vector)) = seq.next_element()? {
                    out.push(vector);
                }
                Ok(BatchVectors::Default(out))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BatchVectors, A::Error> {
                let mut out: Vec<(String, Vec<Vec<f32>>)> = Vec::new();
                while let Some((name, list)) = map.next_entry::<String, Vec<Dense>>()? {
                    if out.iter().any(|(other, _)| *other == name) {
                        return Err(A::Error::custom(format!("vector `{name}` is given twice")));
                    }
                    out.push((name, list.into_iter().map(|d| d.0).collect()));
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

    fn check(input: &str, expected: Result<&[(&str, &[f32])], &str>) {
        let got: Result<VectorStruct, _> = serde_json::from_str(input);
        match (got, expected) {
            (Ok(got), Ok(expected)) => {
                let got: Vec<(&str, &[f32])> = got
                    .0
                    .iter()
                    .map(|(n, v)| (n.as_str(), v.dense().unwrap()))
                    .collect();
                assert_eq!(got, expected, "{input}");
            }
            (Err(e), Err(part)) => assert!(e.to_string().contains(part), "{input}: {e}"),
            (got, _) => panic!("{input}: {got:?}"),
        }
    }

    #[test]
    fn a_point_s_vector_takes_its_forms() {
        check("[1, -2.5, 3e-1]", Ok(&[("", &[1.0, -2.5, 0.3])]));
        check("[]", Ok(&[("", &[])]));
        check("{}", Ok(&[]));
        check(
            r#"{"": [1], "b": [2, 3]}"#,
            Ok(&[("", &[1.0]), ("b", &[2.0, 3.0])]),
        );
    }

    #[test]
    fn forms_that_are_not_built_are_named() {
        check("[[1, 2], [3, 4]]", Err("multivectors"));
        check(r#"{"a": [[1, 2]]}"#, Err("multivectors"));
        check(
            r#"{"a": {"indices": [1], "values": [0.5]}}"#,
            Err("sparse vectors"),
        );
        check(r#"{"text": "hello", "model": "m"}"#, Err("inference"));
        check(r#"{"a": {"text": "hello", "model": "m"}}"#, Err("inference"));
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
        let long: VectorStruct = serde_json::from_str(&long).unwrap();
        let Dense(short) = serde_json::from_str("[1,2]").unwrap();
        assert_eq!((long.0[0].1.numbers(), short.len()), (1001, 2));
        assert!(short.capacity() < 100);
    }

    #[test]
    fn batch_vectors_by_list_or_name() {
        let list: BatchVectors = serde_json::from_str("[[1],[2]]").unwrap();
        assert_eq!(list, BatchVectors::Default(vec![vec![1.0], vec![2.0]]));
        let map: BatchVectors = serde_json::from_str(r#"{"a":[[1],[2]]}"#).unwrap();
        assert_eq!(
            map,
            BatchVectors::Named(vec![("a".into(), vec![vec![1.0], vec![2.0]])])
        );
        let multi = serde_json::from_str::<BatchVectors>("[[[1]]]").unwrap_err();
        assert!(multi.to_string().contains("multivectors"), "{multi}");
    }
}
