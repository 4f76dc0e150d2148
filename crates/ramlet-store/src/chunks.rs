//! Where a file is cut into chunks: by its contents, so that bytes that were there before are cut as before, wherever they lie now.
//!
//! A gear hash (Xia et al., *FastCDC*, USENIX ATC 2016) rolls over the last 64 bytes. A chunk ends where its upper bits are zero. Files of a segment
//! never change; what moves are those inside of a snapshot, behind a changed head. Another table or other bounds would cut elsewhere: then a push sends
//! all once more, and nothing else is lost.

use crate::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_CUT_BITS};

const SEED: u64 = 0x7261_6d6c_6574_3031;
static GEAR: [u64; 256] = gear();

/// splitmix64, one output a byte.
const fn gear() -> [u64; 256] {
    let mut table = [0; 256];
    let (mut state, mut at) = (SEED, 0);
    while at < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[at] = z ^ (z >> 31);
        at += 1;
    }
    table
}

/// The length of the first chunk of `bytes`; `None` where more bytes decide it. `is_whole`: nothing follows.
pub fn cut(bytes: &[u8], is_whole: bool) -> Option<usize> {
    let end = bytes.len().min(CHUNK_BYTES_MAX);
    let begin = CHUNK_BYTES_MIN - 64;
    if end > CHUNK_BYTES_MIN {
        let mut hash = 0u64;
        for (at, byte) in bytes[begin..end].iter().enumerate() {
            hash = (hash << 1).wrapping_add(GEAR[*byte as usize]);
            if at >= 64 && hash >> (64 - CHUNK_CUT_BITS) == 0 {
                return Some(begin + at + 1);
            }
        }
    }
    match end {
        CHUNK_BYTES_MAX => Some(end),
        0 => None,
        end => is_whole.then_some(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(bytes: usize, seed: u64) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        let mut out: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| next()).collect();
        out.truncate(bytes);
        out
    }

    fn cuts(mut bytes: &[u8]) -> Vec<&[u8]> {
        let mut out = Vec::new();
        while let Some(length) = cut(bytes, true) {
            let (chunk, rest) = bytes.split_at(length);
            out.push(chunk);
            bytes = rest;
        }
        assert!(bytes.is_empty());
        out
    }

    #[test]
    fn chunks_are_within_bounds_and_whole() {
        let bytes = noise(40 << 20, 7);
        let chunks = cuts(&bytes);
        assert_eq!(chunks.concat(), bytes);
        let (last, others) = chunks.split_last().expect("some");
        assert!(last.len() <= CHUNK_BYTES_MAX);
        assert!(
            others
                .iter()
                .all(|chunk| (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk.len()))
        );
        let mean = bytes.len() / chunks.len();
        assert!((1 << 20..=2 << 20).contains(&mean), "{mean} bytes on average");
    }

    #[test]
    fn a_changed_head_moves_few_cuts() {
        let bytes = noise(40 << 20, 9);
        let before = cuts(&bytes);
        let moved = [&noise(12_345, 1)[..], &bytes[777..]].concat();
        let after = cuts(&moved);
        let new = after.iter().filter(|chunk| !before.contains(chunk)).count();
        assert!(new <= 3, "{new} of {} chunks are new", after.len());
    }

    #[test]
    fn what_is_decided_doesnt_change_with_more_bytes() {
        let bytes = noise(5 << 20, 11);
        let length = cut(&bytes, false).expect("more than a chunk");
        assert_eq!(
            cut(&bytes[..length], false),
            (length == CHUNK_BYTES_MAX).then_some(length).or(Some(length))
        );
        assert_eq!(cut(&bytes[..CHUNK_BYTES_MIN - 1], false), None);
        assert_eq!(cut(&[0; 10], true), Some(10));
        assert_eq!(cut(&[], true), None);
    }
}
