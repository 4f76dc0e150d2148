//! Whether the disk has room for writes.

use ramlet_io::Storage;

use crate::error::Result;
use crate::limits::DISK_FREE_MIN;

/// Bytes of disk that are free, and that writes need, where these are refused for want of it ([`crate::ErrorKind::DiskFull`]).
pub fn too_little_disk(storage: &dyn Storage) -> Result<Option<(u64, u64)>> {
    let free = storage.free_bytes()?;
    Ok((free < DISK_FREE_MIN).then_some((free, DISK_FREE_MIN)))
}
