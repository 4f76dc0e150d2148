//! A small seeded generator (xorshift64*), so that a failure repeats.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// In -1..1, of mixed magnitudes.
    pub fn float(&mut self) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
        unit * [1.0, 1.0, 0.01, 1e-4][self.next() as usize >> 8 & 3]
    }

    pub fn byte(&mut self) -> u8 {
        (self.next() >> 32) as u8
    }
}
