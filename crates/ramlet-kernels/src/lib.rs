//! Arithmetic on slices: distances between vectors, and half-precision conversion.
//!
//! No allocation, no I/O, no dependencies. Every function exists once in plain Rust (the reference) and once
//! per instruction set; a [`Kernels`] table of one instruction set is handed out only on a processor that has
//! all of its features. Integer kernels agree bit for bit over all tables; a float kernel lies within
//! `(n + 8) * f32::EPSILON * sum |term|` of the exact sum of its terms.
//!
//! ```
//! let kernels = ramlet_kernels::kernels();
//! assert_eq!(kernels.dot_f32(&[1.0, 2.0], &[3.0, 4.0]), 11.0);
//! ```

#[cfg(target_endian = "big")]
compile_error!("rows are little-endian bytes and are read in place: big-endian machines are not supported");

#[macro_use]
mod grid;
#[macro_use]
mod nearest;
#[macro_use]
mod trellis;

mod arch;
mod choice;
mod distances;
mod entry;
mod fast_scan;
mod interleaved;
mod nearness;
mod operands;
mod scan;
mod table;

pub use choice::kernels;
pub use interleaved::{INTERLEAVED_CODES, INTERLEAVED_COLUMN_BYTES, INTERLEAVED_QUAD, interleaved_bytes};
pub use nearness::{PLACES_MORE, packed, unpacked};
pub use operands::{
    Bounds, COLUMN_BYTES, CodeWidth, Extent, FACTOR_BYTES, FAST_SCAN_GROUPS, FastScan, FastScanned, GROUP,
    InterleavedBall, InterleavedCodes, InterleavedLimit, InterleavedQuery, Kept, MAX_U8_DIMS, Measure,
    Nearest, Nearness, OwnCosts, TRELLIS_STATES, TrellisCosts,
};
pub use scan::{MAX_COLUMNS, MAX_PLANES};
pub use table::Kernels;
