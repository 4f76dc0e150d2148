//! Where an index is, and whether its searchers are shared.

use clap::ValueEnum;
use serde::Serialize;

/// Where an index is, and how it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// All files in a file system in RAM
    Ram,
    /// On disk, through the page cache
    Mmap,
    /// On disk, read directly
    #[value(name = "io_uring")]
    IoUring,
}

impl Storage {
    pub const ALL: [Storage; 3] = [Storage::Ram, Storage::Mmap, Storage::IoUring];

    pub fn name(self) -> &'static str {
        match self {
            Storage::Ram => "ram",
            Storage::Mmap => "mmap",
            Storage::IoUring => "io_uring",
        }
    }

    /// The backend of `ramlet serve`.
    pub fn backend(self) -> &'static str {
        match self {
            Storage::Ram => "auto",
            Storage::Mmap => "mmap",
            Storage::IoUring => "io_uring",
        }
    }
}

/// The article's t2 and t2u.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Searchers {
    Shared,
    Separate,
}

impl Searchers {
    pub fn name(self) -> &'static str {
        match self {
            Searchers::Shared => "shared",
            Searchers::Separate => "separate",
        }
    }
}
