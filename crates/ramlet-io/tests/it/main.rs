//! Tests of the storage seam, every backend by the same ones, and of what stands on it.

mod allocations;
mod backends;
mod block_cache;
mod block_file;
mod conformance;
mod measure;
mod overlay;
mod probe;
mod record_cache;
mod scratch;
mod sim;
mod sync_together;
mod uring;

/// xorshift64*: the same numbers for the same seed on every machine.
pub struct Rng(pub u64);

impl Rng {
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.number() >> 11) % bound
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.number() as u8).collect()
    }
}
