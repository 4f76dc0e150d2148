//! Rows in files and in RAM: reading, caching and scanning them.

pub mod cached_rows;
pub mod positions;
pub mod reading;
pub mod rows_file;
pub mod scan;
