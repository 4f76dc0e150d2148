//! Every table against an exact reference.

mod codes;
mod convert;
mod distances;
mod entry;
mod fast_scan;
mod grid;
mod interleaved;
mod nearest;
mod nearness;
mod random;
mod scan;
mod table;
mod trellis;
