//! XXH64 with seed 0: <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>.
//!
//! On disk in Bloom filters: must not change. Checked against the specification's published values in the tests.

use crate::bytes::{u32_at, u64_at};

const P1: u64 = 0x9E37_79B1_85EB_CA87;
const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P3: u64 = 0x1656_67B1_9E37_79F9;
const P4: u64 = 0x85EB_CA77_C2B2_AE63;
const P5: u64 = 0x27D4_EB2F_1656_67C5;

const STRIPE: usize = 32;
const LANES: [u64; 4] = [P1.wrapping_add(P2), P2, 0, 0u64.wrapping_sub(P1)];

/// XXH64 of `bytes`, seed 0. A few ns for an id; not for keys that an attacker may choose to collide *and* must not.
pub fn hash64(bytes: &[u8]) -> u64 {
    let stripes = bytes.chunks_exact(STRIPE);
    let tail = stripes.remainder();
    let start = if bytes.len() < STRIPE {
        P5
    } else {
        hash_stripes(stripes)
    };
    avalanche(hash_tail(start.wrapping_add(bytes.len() as u64), tail))
}

/// The same of bytes that come one after another: what has come so far costs nothing anew.
#[derive(Debug, Clone)]
pub struct Hash64 {
    lanes: [u64; 4],
    /// What is behind the last whole stripe: the first `bytes % 32` of them.
    tail: [u8; STRIPE],
    bytes: usize,
}

impl Hash64 {
    /// Of no bytes.
    pub fn new() -> Hash64 {
        Hash64 {
            lanes: LANES,
            tail: [0; STRIPE],
            bytes: 0,
        }
    }

    /// Bytes that came.
    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let at = self.bytes % STRIPE;
            let (now, later) = bytes.split_at(bytes.len().min(STRIPE - at));
            self.tail[at..at + now.len()].copy_from_slice(now);
            self.bytes += now.len();
            if self.bytes.is_multiple_of(STRIPE) {
                add_stripe(&mut self.lanes, &self.tail);
            }
            bytes = later;
        }
    }

    /// [`hash64`] of all that came.
    pub fn get(&self) -> u64 {
        let start = if self.bytes < STRIPE {
            P5
        } else {
            fold_lanes(&self.lanes)
        };
        let tail = &self.tail[..self.bytes % STRIPE];
        avalanche(hash_tail(start.wrapping_add(self.bytes as u64), tail))
    }
}

impl Default for Hash64 {
    fn default() -> Hash64 {
        Hash64::new()
    }
}

fn hash_stripes(stripes: std::slice::ChunksExact<'_, u8>) -> u64 {
    let mut lanes = LANES;
    stripes.for_each(|stripe| add_stripe(&mut lanes, stripe));
    fold_lanes(&lanes)
}

fn add_stripe(lanes: &mut [u64; 4], stripe: &[u8]) {
    for (lane, word) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
        *lane = round(*lane, u64_at(word, 0).unwrap_or(0));
    }
}

fn fold_lanes(lanes: &[u64; 4]) -> u64 {
    let sum = lanes[0]
        .rotate_left(1)
        .wrapping_add(lanes[1].rotate_left(7))
        .wrapping_add(lanes[2].rotate_left(12))
        .wrapping_add(lanes[3].rotate_left(18));
    lanes.iter().fold(sum, |hash, &lane| {
        (hash ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4)
    })
}

fn hash_tail(mut hash: u64, mut tail: &[u8]) -> u64 {
    while let Some(word) = u64_at(tail, 0) {
        hash = (hash ^ round(0, word))
            .rotate_left(27)
            .wrapping_mul(P1)
            .wrapping_add(P4);
        tail = &tail[8..];
    }
    if let Some(word) = u32_at(tail, 0) {
        hash = (hash ^ u64::from(word).wrapping_mul(P1))
            .rotate_left(23)
            .wrapping_mul(P2)
            .wrapping_add(P3);
        tail = &tail[4..];
    }
    for &byte in tail {
        hash = (hash ^ u64::from(byte).wrapping_mul(P5))
            .rotate_left(11)
            .wrapping_mul(P1);
    }
    hash
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2))
        .rotate_left(31)
        .wrapping_mul(P1)
}

fn avalanche(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}
