//! Points of answers, written as messages where they are read.

use ramlet::{
    MultiVector, NamedVectors, OrderValue, PointId, Record, ScoredPoint, ShardKey, SparseVector, Vector,
};
use ramlet_proto::wire::{put_bytes, put_double, put_float, put_message, put_tag, put_uint, put_varint};

use super::super::value::{payload_bytes, put_floats, put_payload};

type Written = Result<(), serde_json::Error>;

/// Bytes of the fields around payload and vectors, at most.
const HEAD: usize = 128;
/// ... and around a vector.
const VECTOR_HEAD: usize = 48;

/// Bytes that [`record`] writes at most.
pub fn record_bytes(record: &Record) -> usize {
    key_bytes(record.shard_key.as_deref()) + bytes(record.payload.as_deref(), record.vectors.as_ref())
}

/// Bytes that [`hit`] writes at most.
pub fn hit_bytes(hit: &ScoredPoint) -> usize {
    key_bytes(hit.shard_key.as_deref()) + bytes(hit.payload.as_deref(), hit.vectors.as_ref())
}

fn key_bytes(key: Option<&ShardKey>) -> usize {
    match key {
        Some(ShardKey::Word(word)) => word.len(),
        _ => 0,
    }
}

fn bytes(payload: Option<&[u8]>, vectors: Option<&NamedVectors>) -> usize {
    let vector = |(name, v): &(String, Vector)| {
        // Indices take five bytes at most, rows of a multivector a head of their own.
        VECTOR_HEAD + name.len() + 2 * v.bytes()
    };
    let vectors: usize = vectors.into_iter().flatten().map(vector).sum();
    HEAD + payload.map_or(0, payload_bytes) + vectors
}

/// The fields of a `ScoredPoint`.
pub fn hit(out: &mut Vec<u8>, hit: &ScoredPoint) -> Written {
    put_id(out, 1, hit.id)?;
    put_payload_of(out, 2, hit.payload.as_deref())?;
    put_float(out, 3, hit.score);
    put_uint(out, 5, hit.version);
    put_vectors(out, 6, hit.vectors.as_ref())?;
    put_shard_key(out, 7, hit.shard_key.as_deref())?;
    put_order(out, 8, hit.order_value)
}

/// The fields of a `RetrievedPoint`.
pub fn record(out: &mut Vec<u8>, record: &Record) -> Written {
    put_id(out, 1, record.id)?;
    put_payload_of(out, 2, record.payload.as_deref())?;
    put_vectors(out, 4, record.vectors.as_ref())?;
    put_shard_key(out, 5, record.shard_key.as_deref())?;
    put_order(out, 6, record.order_value)
}

pub fn put_id(out: &mut Vec<u8>, number: u32, id: PointId) -> Written {
    put_message(out, number, |out| {
        match id {
            PointId::Num(n) => put_uint(out, 1, n),
            uuid => put_bytes(out, 2, uuid.to_string().as_bytes()),
        }
        Ok(())
    })
}

fn put_payload_of(out: &mut Vec<u8>, number: u32, payload: Option<&[u8]>) -> Written {
    match payload {
        None | Some([]) => Ok(()),
        Some(json) => put_payload(out, number, json),
    }
}

fn put_shard_key(out: &mut Vec<u8>, number: u32, key: Option<&ShardKey>) -> Written {
    let Some(key) = key else { return Ok(()) };
    put_message(out, number, |out| {
        match key {
            ShardKey::Word(word) => put_bytes(out, 1, word.as_bytes()),
            ShardKey::Number(number) => put_uint(out, 2, *number),
        }
        Ok(())
    })
}

fn put_order(out: &mut Vec<u8>, number: u32, order: Option<OrderValue>) -> Written {
    let Some(order) = order else { return Ok(()) };
    put_message(out, number, |out| {
        match order {
            OrderValue::Int(n) => put_uint(out, 1, n as u64),
            OrderValue::Float(x) => put_double(out, 2, x),
        }
        Ok(())
    })
}

/// The default vector alone, or vectors by name.
fn put_vectors(out: &mut Vec<u8>, number: u32, vectors: Option<&NamedVectors>) -> Written {
    let Some(vectors) = vectors else { return Ok(()) };
    put_message(out, number, |out| {
        if let [(name, vector)] = vectors.as_slice()
            && name == ramlet::DEFAULT_VECTOR
        {
            return put_message(out, 1, |out| put_vector(out, vector));
        }
        put_message(out, 2, |out| {
            for (name, vector) in vectors {
                put_message(out, 1, |out| {
                    put_bytes(out, 1, name.as_bytes());
                    put_message(out, 2, |out| put_vector(out, vector))
                })?;
            }
            Ok(())
        })
    })
}

fn put_vector(out: &mut Vec<u8>, vector: &Vector) -> Written {
    match vector {
        Vector::Dense(floats) => put_message(out, 101, |out| {
            put_floats(out, 1, floats);
            Ok(())
        }),
        Vector::Sparse(sparse) => put_message(out, 102, |out| {
            put_sparse(out, sparse);
            Ok(())
        }),
        Vector::Multi(multi) => put_message(out, 103, |out| put_multi(out, multi)),
    }
}

fn put_sparse(out: &mut Vec<u8>, sparse: &SparseVector) {
    put_floats(out, 1, &sparse.values);
    if sparse.indices.is_empty() {
        return;
    }
    let bytes: usize = sparse
        .indices
        .iter()
        .map(|i| ramlet_proto::wire::varint_len(u64::from(*i)))
        .sum();
    put_tag(out, 2, 2);
    put_varint(out, bytes as u64);
    for index in &sparse.indices {
        put_varint(out, u64::from(*index));
    }
}

fn put_multi(out: &mut Vec<u8>, multi: &MultiVector) -> Written {
    for row in multi.parts() {
        put_message(out, 1, |out| {
            put_floats(out, 1, row);
            Ok::<_, serde_json::Error>(())
        })?;
    }
    Ok(())
}
