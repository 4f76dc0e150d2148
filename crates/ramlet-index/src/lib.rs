//! Vectors in order: encoding, scoring, the k nearest, and the indexes that find them.
//!
//! This crate opens no file and knows no collection and no payload: it is given readers ([`ramlet_io::BlockFile`])
//! and row numbers. A row is one encoded vector; rows are numbered from 0 within a segment.
//!
//! In reading order: [`Metric`] and [`Element`] say how vectors compare and how they are stored; [`Query`] is a
//! vector made ready to be compared; [`TopK`] keeps the nearest; [`Allowed`] says which rows may be found;
//! [`VectorIndex`] is the seam behind which an index lives.

mod metric;
mod query;
mod topk;
mod vector;

pub use metric::{Element, Metric};
pub use query::Query;
pub use topk::{Hit, TopK};
pub use vector::{NotFinite, decode_row, encode_row, validate};
