//! Bytes in and out of files: the only crate that touches a file system.
//!
//! [`Storage`] is the seam. Behind it: [`PreadStorage`], [`UringStorage`], [`MmapStorage`] over a directory,
//! [`RamStorage`] in memory, [`OverlayStorage`] over another whose files it leaves as they are, [`SyncTogether`] over another whose files are synced side by side, [`SimStorage`] a disk that fails as told and shows what a power loss may leave. Above it:
//! [`BlockFile`] reads verified blocks through an [`IoContext`] (one per thread), with a [`BlockCache`] between.

mod append_buffer;
mod block_cache;
mod block_file;
mod context;
mod error;
pub mod measure;
mod open;
mod overlay;
mod posix;
mod probe;
mod program;
mod ram;
mod reader;
mod record_cache;
mod rolling;
mod sim;
mod stages;
pub mod storage;
mod sync_together;
pub mod system;

pub use block_cache::{BlockCache, CacheStats};
pub use block_file::{BlockFile, Verify, block_of};
pub use context::{Clock, IoContext, IoStats};
pub use open::{Backend, open_best};
pub use overlay::OverlayStorage;
pub use posix::{Access, MmapStorage, PreadStorage, ScratchFile, UringStorage, ring_reader, serial_reader};
pub use probe::{DiskFigures, DiskProbe, PROBE_DEPTH, PROBE_FILE_BYTES};
pub use program::read_code_in_portions;
pub use ram::RamStorage;
pub use record_cache::{RecordCache, RecordStats, Symbols};
pub use rolling::{Period, RollingBounds, RollingFiles};
pub use sim::{CrashPoints, CrashState, Fault, FaultOp, SimStorage};
pub use stages::{SearchStage, StageUse, Stages};
pub use storage::*;
pub use sync_together::SyncTogether;
