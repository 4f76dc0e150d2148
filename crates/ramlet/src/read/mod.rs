//! Reads: views of a collection, and the requests that read them.

pub mod facet;
pub mod info;
pub mod lookup;
pub mod matching;
pub mod matrix;
pub mod sample;
pub mod scroll;
pub mod sums;
pub mod view;
