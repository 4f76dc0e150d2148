//! The checksum of a whole file, taken as it is written.

/// Running crc32c of a whole file, for [`FileEntry::crc`](crate::manifest::FileEntry::crc).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileCrc(u32);

impl FileCrc {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the file's next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    /// crc32c of all bytes so far; 0 for none.
    pub fn value(&self) -> u32 {
        self.0
    }
}
