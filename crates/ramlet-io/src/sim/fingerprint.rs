//! A 128-bit fingerprint of a disk's contents.

/// Different contents have the same one by chance only: of a million disks two with a probability of 2^-88.
pub type Fingerprint = u128;

/// Two sums of 64 bits, each by a rule of its own. Each step maps what was there one to one, so nothing that was added gets lost.
/// Against chance, not against an adversary.
pub struct Mixer(u64, u64);

impl Default for Mixer {
    fn default() -> Mixer {
        Mixer(0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F)
    }
}

impl Mixer {
    pub fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        self.0 ^= self.0 >> 29;
        self.1 = self
            .1
            .wrapping_add(word.rotate_left(31))
            .wrapping_mul(0x94D0_49BB_1331_11EB);
        self.1 ^= self.1 >> 32;
    }

    pub fn add_fingerprint(&mut self, fingerprint: Fingerprint) {
        self.add(fingerprint as u64);
        self.add((fingerprint >> 64) as u64);
    }

    /// With their length, so that two texts aren't one.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
    }

    pub fn of_bytes(bytes: &[u8]) -> Fingerprint {
        let mut mixer = Mixer::default();
        mixer.add_bytes(bytes);
        mixer.finish()
    }

    pub fn finish(mut self) -> Fingerprint {
        // The last words reach all bits too.
        self.add(0);
        self.add(0);
        u128::from(self.0) << 64 | u128::from(self.1)
    }
}
