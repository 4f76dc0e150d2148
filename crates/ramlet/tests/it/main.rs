//! Tests of the engine from outside.

mod check;
mod concurrent;
mod crash;
mod edges;
mod filter_cases;
mod filter_index;
mod filter_limits;
mod filter_payload;
mod filtered;
mod indexed;
mod loans;
mod model;
mod support;
mod variety;
