use ramlet_format::footer::{Footer, index_payload};
use ramlet_format::{PAGE, block};

/// Marsaglia's xorshift64*: the same numbers in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// In 0..end.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.next() >> 32) as u8).collect()
    }
}

/// Opens a block file as its reader would: footer, then index region.
pub fn open(file: &[u8], seed: u64) -> ramlet_format::Result<(Footer, Vec<u8>)> {
    let last = (file.len() / PAGE).saturating_sub(1);
    let footer = Footer::parse(file.get(last * PAGE..).unwrap_or(&[]), seed, last as u64)?;
    let region = &file[footer.index_page as usize * PAGE..last * PAGE];
    let payload = index_payload(region, &footer, seed)?;
    assert_eq!(payload.len() as u64, footer.index_bytes);
    assert_eq!(footer.file_bytes(), file.len() as u64);
    Ok((footer, payload))
}

/// A block of the file, verified as the I/O crate does.
pub fn verified(file: &[u8], seed: u64, page: u64, pages: u32) -> &[u8] {
    let block = &file[page as usize * PAGE..(page as usize + pages as usize) * PAGE];
    assert!(
        block::verify(seed, page, block),
        "block at page {page} of {pages} pages"
    );
    block
}

/// Moves what a writer emitted to the file, as often as may be.
pub fn drain(out: &mut Vec<u8>, file: &mut Vec<u8>) {
    file.append(out);
}
