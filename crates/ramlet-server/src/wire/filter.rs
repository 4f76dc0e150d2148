//! Filters in the API's JSON.

pub use ramlet::filter::Filter as WireFilter;
