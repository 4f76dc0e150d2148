//! Every table against an exact reference.

mod codes;
mod convert;
mod distances;
mod entry;
mod grid;
mod interleaved;
mod nearest;
mod nearness;
mod random;
mod scan;
mod sift;
mod table;
mod trellis;
