//! MurmurHash3 x86 32-bit (Austin Appleby, public domain): what names a token's dimension.

/// The hash with seed 0.
pub fn murmur3(bytes: &[u8]) -> u32 {
    let (words, tail) = bytes.as_chunks::<4>();
    let mut hash = 0u32;
    for word in words {
        hash = (hash ^ mixed(u32::from_le_bytes(*word))).rotate_left(13);
        hash = hash.wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let last = tail
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash ^= mixed(last);
    }
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

fn mixed(word: u32) -> u32 {
    word.wrapping_mul(0xcc9e_2d51)
        .rotate_left(15)
        .wrapping_mul(0x1b87_3593)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        for (text, hash) in [
            ("", 0),
            ("hello", 0x248b_fa47),
            ("hello, world", 0x149b_bb7f),
            ("The quick brown fox jumps over the lazy dog", 0x2e4f_f723),
        ] {
            assert_eq!(murmur3(text.as_bytes()), hash, "{text}");
        }
    }
}
