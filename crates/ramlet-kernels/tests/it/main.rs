//! Every table against an exact reference.

mod bounds;
mod braid;
mod codes;
mod convert;
mod distances;
mod entry;
mod nearness;
mod random;
mod scan;
mod table;
