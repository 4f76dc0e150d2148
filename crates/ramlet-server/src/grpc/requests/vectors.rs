//! Vectors of points and of queries.

use ramlet_proto::qdrant as q;

use super::super::node::{Fields, Key, Node};
use super::id;

/// The `vector` of a point: one, or several by name.
pub fn vectors(of: q::Vectors) -> Node {
    use q::vectors::VectorsOptions::{Vector, Vectors};
    match of.vectors_options {
        Some(Vector(one)) => vector(one),
        Some(Vectors(named)) => Node::Map(
            named
                .vectors
                .into_iter()
                .map(|entry| (Key::Owned(entry.key), vector(entry.value.unwrap_or_default())))
                .collect(),
        ),
        None => Node::Map(Vec::new()),
    }
}

pub fn vector(of: q::Vector) -> Node {
    use q::vector::Vector as Is;
    match of.vector {
        Some(Is::Dense(dense)) => Node::Floats(dense.data),
        Some(Is::Sparse(of)) => sparse(of.indices, of.values),
        Some(Is::MultiDense(of)) => multi(of),
        Some(Is::Document(of)) => document(of),
        Some(Is::Image(of)) => image(of),
        Some(Is::Object(of)) => object(of),
        None => old_vector(of),
    }
}

/// As clients before 1.16 send them.
#[allow(deprecated)]
fn old_vector(of: q::Vector) -> Node {
    if let Some(indices) = of.indices {
        return sparse(indices.data, of.data);
    }
    let Some(count) = of.vectors_count else {
        return Node::Floats(of.data);
    };
    let (data, count) = (of.data, count as usize);
    if count == 0 {
        return Node::Wrong("Validation error: vectors count must be greater than 0".to_owned());
    }
    // The count is the client's word, the numbers are there: a part has at least one of them.
    if data.is_empty() || !data.len().is_multiple_of(count) {
        return Node::Wrong("Validation error: invalid dense vector length for vectors count".to_owned());
    }
    let dim = data.len() / count;
    // One part at a time: all of them are what the message was weighed for, once.
    let part = move |at: usize| Node::Floats(data[at * dim..(at + 1) * dim].to_vec());
    Node::List(Box::new((0..count).map(part)))
}

pub fn sparse(indices: Vec<u32>, values: Vec<f32>) -> Node {
    Fields::new()
        .put("indices", Node::Indices(indices))
        .put("values", Node::Floats(values))
        .node()
}

fn multi(of: q::MultiDenseVector) -> Node {
    Node::list(of.vectors, |row| Node::Floats(row.data))
}

fn options(options: Vec<bytes::Bytes>) -> Option<Node> {
    (!options.is_empty()).then_some(Node::Payload(options))
}

fn document(of: q::Document) -> Node {
    Fields::new()
        .put("text", Node::Text(of.text))
        .put("model", Node::Text(of.model))
        .maybe("options", options(of.options), |o| o)
        .node()
}

fn image(of: q::Image) -> Node {
    Fields::new()
        .put("image", Node::Value(of.image))
        .put("model", Node::Text(of.model))
        .maybe("options", options(of.options), |o| o)
        .node()
}

fn object(of: q::InferenceObject) -> Node {
    Fields::new()
        .put("object", Node::Value(of.object))
        .put("model", Node::Text(of.model))
        .maybe("options", options(of.options), |o| o)
        .node()
}

/// A vector, or the id of the point that has it.
pub fn input(of: q::VectorInput) -> Node {
    use q::vector_input::Variant as Is;
    match of.variant {
        Some(Is::Id(of)) => id(of),
        Some(Is::Dense(dense)) => Node::Floats(dense.data),
        Some(Is::Sparse(of)) => sparse(of.indices, of.values),
        Some(Is::MultiDense(of)) => multi(of),
        Some(Is::Document(of)) => document(of),
        Some(Is::Image(of)) => image(of),
        Some(Is::Object(of)) => object(of),
        None => Node::Wrong("a vector of the query is empty".to_owned()),
    }
}

/// An example of the older recommend and discover requests.
pub fn example(of: q::VectorExample) -> Node {
    use q::vector_example::Example::{Id, Vector};
    match of.example {
        Some(Id(of)) => id(of),
        Some(Vector(of)) => vector(of),
        None => Node::Wrong("an example is empty: neither an id nor a vector".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::node::read;

    #[allow(deprecated)]
    fn old(data: Vec<f32>, count: u32) -> Result<Vec<Vec<f32>>, String> {
        let of = q::Vector {
            data,
            vectors_count: Some(count),
            ..q::Vector::default()
        };
        read(vector(of)).map_err(|e| e.to_string())
    }

    #[test]
    fn old_multivectors_are_cut_into_parts() {
        assert_eq!(
            old(vec![1.0, 2.0, 3.0, 4.0], 2),
            Ok(vec![vec![1.0, 2.0], vec![3.0, 4.0]])
        );
        assert_eq!(old(vec![1.0, 2.0], 1), Ok(vec![vec![1.0, 2.0]]));
        // A copy of what is left for each would be 320 GB here.
        let parts = old(vec![0.5; 400_000], 400_000).expect("parts of one number");
        assert_eq!((parts.len(), parts[1].as_slice()), (400_000, &[0.5][..]));
    }

    #[test]
    fn a_count_without_its_numbers_is_refused_before_anything_is_made_of_it() {
        for (numbers, count) in [(0, u32::MAX), (0, 1), (0, 0), (3, 0), (3, 2), (3, u32::MAX)] {
            let refused = old(vec![0.5; numbers], count).expect_err("no parts of one length");
            let what = match count {
                0 => "vectors count must be greater than 0",
                _ => "invalid dense vector length for vectors count",
            };
            assert!(
                refused.contains(what),
                "{numbers} numbers, {count} parts: {refused}"
            );
        }
    }
}
