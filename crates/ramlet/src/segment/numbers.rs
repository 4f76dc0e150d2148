//! Ids and versions by row, packed into RAM, so that hits need no read.

use ramlet_memory::{AnonBuf, Consumer, OverBudget};

/// Rows that share a reference.
const BLOCK_ROWS: usize = 256;

/// Bytes behind the last number, so that any of them can be read as 16 bytes.
const PADDING: usize = 16;

/// A number per row, each block of [`BLOCK_ROWS`] against a reference of its own: a line of slope 0 or 1 below all of them,
/// above which each takes as many bits as the highest.
///
/// Bytes: 1/16 a row, and the bits. Numbers that are all the same, or count up by one, take none; numbers in any order
/// below 2^b take b bits each. Reading one is an addition, a shift and a mask.
pub struct Packed {
    blocks: AnonBuf,
    bits: AnonBuf,
    rows: usize,
}

/// A block's reference: number `i` is `base + slope * i + (width bits from the bit at + i * width)`.
#[derive(Clone, Copy, Default)]
struct Block {
    base: u64,
    /// First byte of its bits.
    at: u32,
    width: u8,
    slope: u8,
}

/// Packs numbers as they come.
pub struct Packer {
    out: Packed,
    /// Bytes of `blocks` and `bits` that are written.
    written: (usize, usize),
    pending: Vec<u64>,
    bytes_max: usize,
}

impl Block {
    const BYTES: usize = 16;

    fn encode(self) -> [u8; Block::BYTES] {
        let mut out = [0; Block::BYTES];
        out[..8].copy_from_slice(&self.base.to_le_bytes());
        out[8..12].copy_from_slice(&self.at.to_le_bytes());
        (out[12], out[13]) = (self.width, self.slope);
        out
    }

    fn decode(bytes: &[u8; Block::BYTES]) -> Block {
        let [b0, b1, b2, b3, b4, b5, b6, b7, a0, a1, a2, a3, width, slope, ..] = *bytes;
        Block {
            base: u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
            at: u32::from_le_bytes([a0, a1, a2, a3]),
            width,
            slope,
        }
    }

    /// The reference of these numbers, at the given slope.
    fn fit(numbers: &[u64], slope: u8) -> Block {
        let above = |(i, number): (usize, &u64)| number.wrapping_sub(u64::from(slope) * i as u64);
        let lines = || numbers.iter().enumerate().map(above);
        // A line that would begin below zero is no line of numbers that count up from it.
        let wraps = numbers
            .iter()
            .enumerate()
            .any(|(i, number)| *number < u64::from(slope) * i as u64);
        if wraps {
            return Block {
                width: 65,
                ..Block::default()
            };
        }
        let base = lines().min().unwrap_or(0);
        let most = lines().max().unwrap_or(0) - base;
        Block {
            base,
            at: 0,
            width: (u64::BITS - most.leading_zeros()) as u8,
            slope,
        }
    }
}

impl Packed {
    /// The number of a row; `None` beyond the last one.
    pub fn get(&self, row: u32) -> Option<u64> {
        let row = row as usize;
        if row >= self.rows {
            return None;
        }
        let (block, i) = (row / BLOCK_ROWS, row % BLOCK_ROWS);
        let (blocks, _) = self.blocks.as_chunks::<{ Block::BYTES }>();
        let block = Block::decode(blocks.get(block)?);
        let line = block.base + u64::from(block.slope) * i as u64;
        if block.width == 0 {
            return Some(line);
        }
        let bit = i * usize::from(block.width);
        let at = block.at as usize + bit / 8;
        let bits = u128::from_le_bytes(*self.bits.get(at..)?.first_chunk::<16>()?) >> (bit % 8);
        let mask = u64::MAX >> (64 - block.width);
        Some(line + (bits as u64 & mask))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        (self.blocks.capacity() + self.bits.capacity()) as u64
    }
}

impl Packer {
    /// For numbers that come to at most `bytes_max` bytes, reserved as they come.
    pub fn new(consumer: &Consumer, bytes_max: u64) -> Result<Packer, OverBudget> {
        Ok(Packer {
            out: Packed {
                blocks: AnonBuf::reserved(consumer, 0)?,
                bits: AnonBuf::reserved(consumer, 0)?,
                rows: 0,
            },
            written: (0, 0),
            pending: Vec::with_capacity(BLOCK_ROWS),
            bytes_max: usize::try_from(bytes_max.min(u64::from(u32::MAX))).unwrap_or(0),
        })
    }

    /// False when there is no room for it: then there is none for the whole.
    #[must_use]
    pub fn push(&mut self, number: u64) -> bool {
        self.pending.push(number);
        self.pending.len() < BLOCK_ROWS || self.close_block()
    }

    /// All that was pushed; `None` when there is no room for it.
    pub fn finish(mut self) -> Option<Packed> {
        if !self.pending.is_empty() && !self.close_block() {
            return None;
        }
        let (blocks, bits) = self.written;
        self.out.blocks.shrink_to(blocks);
        self.out.bits.shrink_to(bits + PADDING);
        Some(self.out)
    }

    fn close_block(&mut self) -> bool {
        let (flat, steep) = (Block::fit(&self.pending, 0), Block::fit(&self.pending, 1));
        let mut block = if steep.width < flat.width { steep } else { flat };
        let width = usize::from(block.width);
        let (blocks, bits) = self.written;
        block.at = bits as u32;
        let (blocks_end, bits_end) = (
            blocks + Block::BYTES,
            bits + (self.pending.len() * width).div_ceil(8),
        );
        if blocks_end + bits_end + PADDING > self.bytes_max {
            return false;
        }
        let out = &mut self.out;
        // In steps that grow: each is a system call.
        let room = |end: usize| (end + end / 4).next_multiple_of(4096).min(self.bytes_max);
        if out.blocks.len() < blocks_end && out.blocks.ensure(room(blocks_end)).is_err() {
            return false;
        }
        if out.bits.len() < bits_end + PADDING && out.bits.ensure(room(bits_end + PADDING)).is_err() {
            return false;
        }
        out.blocks[blocks..blocks_end].copy_from_slice(&block.encode());
        for (i, number) in self.pending.iter().enumerate() {
            let above = number - block.base - u64::from(block.slope) * i as u64;
            let (bit, bytes) = (i * width, &mut out.bits[bits..]);
            let target = bytes[bit / 8..]
                .first_chunk_mut::<16>()
                .expect("there is padding");
            let with = u128::from_le_bytes(*target) | u128::from(above) << (bit % 8);
            *target = with.to_le_bytes();
        }
        out.rows += self.pending.len();
        self.written = (blocks_end, bits_end);
        self.pending.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use ramlet_memory::Ledger;

    use super::*;

    fn pack(numbers: impl IntoIterator<Item = u64>, bytes_max: u64) -> Option<Packed> {
        let consumer = Ledger::new(1 << 30).consumer("numbers", u64::MAX);
        let mut packer = Packer::new(&consumer, bytes_max).expect("nothing needed");
        for number in numbers {
            if !packer.push(number) {
                return None;
            }
        }
        packer.finish()
    }

    fn check(numbers: &[u64]) -> u64 {
        let packed = pack(numbers.iter().copied(), u64::MAX).expect("room");
        for (row, number) in numbers.iter().enumerate() {
            assert_eq!(packed.get(row as u32), Some(*number), "row {row}");
        }
        assert_eq!(packed.get(numbers.len() as u32), None);
        packed.bytes()
    }

    fn random(seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        std::iter::from_fn(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            Some(state)
        })
    }

    #[test]
    fn numbers_come_back() {
        check(&[]);
        check(&[u64::MAX]);
        check(&[0, u64::MAX, 0, 1, u64::MAX - 1]);
        check(&[5, 4, 3, 2, 1, 0]);
        check(&(0..1000).map(|i| u64::MAX - 1000 + i).collect::<Vec<_>>());
        for bits in [1, 7, 8, 20, 33, 57, 58, 63, 64] {
            let numbers = random(bits).take(3000).map(|n| n >> (64 - bits));
            check(&numbers.collect::<Vec<_>>());
        }
        let mixed = random(9).take(5000).enumerate();
        check(&mixed.map(|(i, n)| n >> (i / 256 * 7 % 64)).collect::<Vec<_>>());
    }

    #[test]
    fn what_counts_up_takes_no_bits() {
        const PAGES: u64 = 2 * 4096;
        let rows = 1_000_000;
        assert!(check(&(0..rows).map(|i| i + 7).collect::<Vec<_>>()) <= rows / 16 + PAGES);
        assert!(check(&vec![123_456_789; rows as usize]) <= rows / 16 + PAGES);
        let shuffled: Vec<u64> = random(3).take(rows as usize).map(|n| n % rows).collect();
        assert!(check(&shuffled) <= rows * 5 / 2 + rows / 16 + PAGES);
    }

    #[test]
    fn too_little_room_is_none() {
        assert!(pack(random(1).take(10_000), 80_000).is_none());
        assert!(pack(random(1).take(10_000), 81_000).is_some());
    }
}
