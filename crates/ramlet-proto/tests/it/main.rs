//! Tests of the crate from outside.

mod counting;
mod weigh;
