//! Numbers that look random and are the same every time.

/// xoshiro256++ (Blackman & Vigna 2019), seeded by splitmix64. Not for secrets.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
    /// The second value of the last pair of normals.
    spare: Option<f32>,
}

impl Random {
    /// The stream number `stream` of `seed`: streams don't depend on each other, so that row `n` can be made without the rows before it.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut at = seed ^ mix(stream.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(at)
        });
        Random { state, spare: None }
    }

    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// In `0..1`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// In `0..n`; the bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Normally distributed, mean 0, variance 1 (Marsaglia's polar method: two a round).
    pub fn normal(&mut self) -> f32 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (self.unit() * 2.0 - 1.0, self.unit() * 2.0 - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some((y * scale) as f32);
                return (x * scale) as f32;
            }
        }
    }
}

/// splitmix64's finalizer: every bit of the result depends on every bit of `x`.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
