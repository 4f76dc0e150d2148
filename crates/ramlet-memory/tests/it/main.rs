//! Tests of the budget: accounts, memory, division.

mod anon_buf;
mod append;
mod budget;
mod ledger;
mod reclaim;
mod reclaimable_buf;

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
        self.number() % bound
    }
}
