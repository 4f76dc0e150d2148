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
    let count = count as usize;
    if count == 0 || !of.data.len().is_multiple_of(count) {
        return Node::Wrong(format!(
            "{} numbers can't be {count} vectors of one length",
            of.data.len()
        ));
    }
    let dim = of.data.len() / count;
    let mut rest = of.data;
    let mut rows = Vec::with_capacity(count);
    while rows.len() + 1 < count {
        let after = rest.split_off(dim);
        rows.push(std::mem::replace(&mut rest, after));
    }
    rows.push(rest);
    Node::list(rows, Node::Floats)
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
