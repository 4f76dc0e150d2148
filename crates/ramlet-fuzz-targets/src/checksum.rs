//! The checksum of a whole file or record.

use ramlet_format::FileCrc;

pub fn crc_of(bytes: &[u8]) -> u32 {
    let mut crc = FileCrc::new();
    crc.update(bytes);
    crc.value()
}
