//! A few changes to an input, for tests without a fuzzer: the same in every run.

use crate::input::Random;

/// Numbers that tend to hurt.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    u32::MAX as u64,
    1 << 32,
    1 << 63,
    u64::MAX,
];

/// Changes one to five places of `bytes`.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(5) {
        if bytes.is_empty() {
            bytes.push(random.number() as u8);
        }
        let at = random.below(bytes.len());
        match random.below(8) {
            0 | 1 => bytes[at] = random.number() as u8,
            2 => bytes[at] ^= 1 << random.below(8),
            3 => {
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                put(bytes, at, &number[..1 << random.below(4)]);
            }
            4 => {
                let piece = piece(bytes, random);
                put(bytes, at, &piece);
            }
            5 => {
                let piece = piece(bytes, random);
                bytes.splice(at..at, piece);
            }
            6 => {
                let end = (at + 1 + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ if random.below(8) == 0 => bytes.truncate(at),
            _ => bytes.insert(at, random.number() as u8),
        }
    }
}

/// A copy of up to 63 bytes from anywhere.
fn piece(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let length = random.below(64).min(bytes.len());
    let from = random.below(bytes.len() - length + 1);
    bytes[from..from + length].to_vec()
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    let places = bytes[at..].iter_mut();
    places.zip(new).for_each(|(byte, new)| *byte = *new);
}
