//! What comes of a measurement: figures, tables, plots, records.

pub mod output_args;
pub mod plot;
pub mod progress;
pub mod record;
pub mod summary;
pub mod table;
pub mod ticks;
