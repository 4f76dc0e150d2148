//! Reads: what a request sees of a collection, and what it asks of it.

pub mod facet;
pub mod lookup;
pub mod matching;
pub mod matrix;
pub mod sample;
pub mod scroll;
pub mod sums;
pub mod view;
