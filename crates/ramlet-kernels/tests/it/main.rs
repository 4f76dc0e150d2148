//! Every table against an exact reference.

mod braid;
mod codes;
mod convert;
mod distances;
mod random;
mod scan;
mod table;
