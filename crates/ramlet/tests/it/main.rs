//! Tests of the engine from outside.

mod budgets;
mod check;
mod concurrent;
mod counts;
mod crash;
mod edges;
mod facets;
mod filter_cases;
mod filter_index;
mod filter_limits;
mod filter_payload;
mod filtered;
mod graphs;
mod indexed;
mod kinds;
mod loans;
mod model;
mod multivectors;
mod plan;
mod quantization;
mod ranking;
mod snapshots;
mod support;
mod texts;
mod upkeep;
mod variety;
