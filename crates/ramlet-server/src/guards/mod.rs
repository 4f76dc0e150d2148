//! What is refused before it runs: strict mode and its rates, quotas.

pub mod quotas;
pub mod rates;
pub mod strict_guard;
