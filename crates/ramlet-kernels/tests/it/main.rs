//! Every table against an exact reference.

mod convert;
mod distances;
mod random;
mod table;
