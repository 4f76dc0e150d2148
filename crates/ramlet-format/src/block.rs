//! Pages, blocks and their checksum.
//!
//! A *block* is a run of whole pages:
//!
//! | bytes | what |
//! |---|---|
//! | 0 .. len-4 | content |
//! | len-4 .. len | crc32c over seed (u64), number of the block's first page (u64), content |
//!
//! The seed identifies the file, so a block that was moved to another place or file (a misdirected write, a mixed-up
//! restore) fails as a flipped bit does.

/// Bytes of a page: the unit of O_DIRECT reads and of offsets in block files.
pub const PAGE: usize = 4096;

/// Bytes of the checksum at the end of each block.
pub const CRC_BYTES: usize = 4;

/// Bytes of content in a block of one page.
pub const PAGE_CONTENT: usize = PAGE - CRC_BYTES;

/// The seed of a file: which segment and which of its components ([`Component::code`](crate::Component::code)).
pub const fn seed(segment: u64, component_code: u16) -> u64 {
    (segment << 16) | component_code as u64
}

/// crc32c over seed, page number and content.
pub fn checksum(seed: u64, page: u64, content: &[u8]) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&seed.to_le_bytes());
    place[8..].copy_from_slice(&page.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), content)
}

/// Writes the checksum into the last four bytes of `block`, whose first page is `page`.
///
/// # Panics
/// If `block` isn't a positive number of whole pages.
pub fn seal(seed: u64, page: u64, block: &mut [u8]) {
    assert!(
        is_whole_pages(block),
        "a block of {} bytes isn't whole pages",
        block.len()
    );
    let (content, crc) = block.split_at_mut(block.len() - CRC_BYTES);
    crc.copy_from_slice(&checksum(seed, page, content).to_le_bytes());
}

/// Whether `block` is what [`seal`] left, in its place. False too if it isn't whole pages.
pub fn verify(seed: u64, page: u64, block: &[u8]) -> bool {
    is_whole_pages(block)
        && block
            .split_last_chunk()
            .is_some_and(|(content, crc)| checksum(seed, page, content) == u32::from_le_bytes(*crc))
}

fn is_whole_pages(block: &[u8]) -> bool {
    !block.is_empty() && block.len().is_multiple_of(PAGE)
}
