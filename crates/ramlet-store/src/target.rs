//! Where the files of a backup go.

use std::io;

/// Where files go.
pub trait Target {
    /// The file of that name and length, and whether it was there: of one that was, what fits is kept.
    fn open(&self, name: &str, bytes: u64) -> io::Result<(Box<dyn TargetFile>, bool)>;
}

/// A file that is written in pieces, in any order.
pub trait TargetFile: Send {
    fn read_at(&mut self, out: &mut [u8], at: u64) -> io::Result<()>;
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// What was written is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}
