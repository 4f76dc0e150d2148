//! Where a measurement was taken, and what that machine can do (`ramlet machine`; docs/machine.md).

mod depths;
mod disk;
mod fio;
mod hashing;
mod http;
mod jhash;
mod memory;
mod network;
mod progress;
mod redis;
mod rocksdb;
mod row;
mod run;
mod scratch;
mod source;
mod sqlite;
mod suite;
mod system;
mod tool;

use ramlet_io::system as kernel;
use serde::Serialize;

pub use disk::{Case, cases};
pub use fio::{FioComparison, against_fio, comparable};
pub use row::{Row, Unit};
pub use run::{Measured, groups, measure};
pub use scratch::Scratch;
pub use suite::Options;

use crate::DiskFigures;

/// The machine's figures, to stand beside every record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    pub cpu: String,
    /// The instruction set that kernels are compiled for: one name may stand for processors with it and without.
    pub kernels: &'static str,
    pub cores: usize,
    pub ram_bytes: u64,
    pub kernel: String,
    /// Of the disk that the data lies on; None when it wasn't measured.
    pub disk: Option<DiskFigures>,
}

impl Machine {
    /// What the kernel says at once; the disk takes a probe of its own.
    pub fn here() -> Machine {
        let machine = kernel::machine();
        Machine {
            cpu: machine.cpu,
            kernels: ramlet_kernels::kernels().name(),
            cores: machine.cores,
            ram_bytes: machine.ram_bytes,
            kernel: machine.kernel,
            disk: None,
        }
    }

    /// A short name for a directory: `epyc-2core`.
    pub fn name(&self) -> String {
        const FAMILIES: [&str; 8] = [
            "epyc",
            "xeon",
            "ryzen",
            "threadripper",
            "core",
            "apple",
            "neoverse",
            "graviton",
        ];
        let cpu = self.cpu.to_lowercase();
        let family = FAMILIES.into_iter().find(|family| cpu.contains(family));
        format!("{}-{}core", family.unwrap_or(std::env::consts::ARCH), self.cores)
    }
}
