//! The seam to the bytes of a container: ranged reads, many at once.

use crate::error::{Result, TextError};

/// One read of a batch: `out.len()` bytes from `offset`, counted from the first byte that the build appended.
pub struct RangeRead<'a> {
    pub offset: u64,
    pub out: &'a mut [u8],
}

/// Reads parts of one container. The bytes must have been verified.
pub trait Ranges {
    /// Fills all; the first error wins. A query's lists come as one batch.
    fn read(&mut self, reads: &mut [RangeRead<'_>]) -> Result<()>;
}

/// Where a build writes a container, front to back.
pub trait ByteSink {
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
}

impl ByteSink for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// A container in RAM.
impl Ranges for &[u8] {
    fn read(&mut self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        for read in reads {
            let end = read.offset.saturating_add(read.out.len() as u64);
            let bytes = usize::try_from(read.offset)
                .ok()
                .and_then(|start| self.get(start..end as usize));
            let bytes = bytes
                .ok_or_else(|| TextError::format(format!("bytes up to {end} asked of {}", self.len())))?;
            read.out.copy_from_slice(bytes);
        }
        Ok(())
    }
}
