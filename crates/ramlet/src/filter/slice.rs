//! Slices of the id space: SipHash-2-4 (Aumasson and Bernstein, 2012) with a zero key over the id's bytes.
//! The standard library's hasher is another variant (1-3), so it is spelled out here.

use crate::types::PointId;

/// Which of `total` slices an id falls into; `None` for no slices at all.
pub(super) fn slice_of(id: PointId, total: u64) -> Option<u64> {
    let hash = match id {
        PointId::Num(n) => siphash24(&n.to_le_bytes()),
        PointId::Uuid(u) => siphash24(&u.to_be_bytes()),
    };
    hash.checked_rem(total)
}

fn siphash24(data: &[u8]) -> u64 {
    let mut v = [
        0x736f_6d65_7073_6575u64,
        0x646f_7261_6e64_6f6d,
        0x6c79_6765_6e65_7261,
        0x7465_6462_7974_6573,
    ];
    let mut chunks = data.chunks_exact(8);
    let mut last = (data.len() as u64) << 56;
    for chunk in &mut chunks {
        let word = chunk.iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b));
        absorb(&mut v, word);
    }
    for (i, b) in chunks.remainder().iter().enumerate() {
        last |= u64::from(*b) << (8 * i);
    }
    absorb(&mut v, last);
    v[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn absorb(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    round(v);
    round(v);
    v[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}
