//! Every table against an exact reference.

mod codes;
mod convert;
mod distances;
mod random;
mod scan;
mod table;
