//! 128 numbers, each in as many bits as the largest needs.
//!
//! Number `4 i + l` lies in lane `l`, from bit `i * bits` of the lane on. Four lanes of 32-bit words take turns in the bytes, so that a plain loop handles four
//! numbers at once on every machine.

/// Numbers of a block.
pub const BLOCK: usize = 128;

const LANES: usize = 4;
const LANE_BYTES: usize = LANES * 4;

/// Bits that each of the numbers needs.
pub fn bits_of(numbers: &[u32]) -> u32 {
    u32::BITS - numbers.iter().fold(0, |all, number| all | number).leading_zeros()
}

/// Bytes of a block.
pub fn packed_bytes(bits: u32) -> usize {
    bits as usize * LANE_BYTES
}

/// Appends a block whose numbers have no more than `bits`.
pub fn pack(numbers: &[u32; BLOCK], bits: u32, out: &mut Vec<u8>) {
    if bits == 0 {
        return;
    }
    let mut words = [[0u32; LANES]; u32::BITS as usize];
    for (group, bit) in numbers
        .as_chunks::<LANES>()
        .0
        .iter()
        .zip((0..).step_by(bits as usize))
    {
        let (word, shift) = (bit / 32, bit as u32 % 32);
        for (lane, number) in group.iter().enumerate() {
            words[word][lane] |= number << shift;
            if shift + bits > 32 {
                words[word + 1][lane] |= number >> (32 - shift);
            }
        }
    }
    let used = words[..bits as usize].as_flattened();
    out.extend(used.iter().flat_map(|word| word.to_le_bytes()));
}

/// `None`: the bytes are too few, or numbers have no so many bits.
pub fn unpack(bytes: &[u8], bits: u32, out: &mut [u32; BLOCK]) -> Option<()> {
    if bits == 0 {
        out.fill(0);
        return Some(());
    }
    if bits > u32::BITS {
        return None;
    }
    let (words, _) = bytes.get(..packed_bytes(bits))?.as_chunks::<LANE_BYTES>();
    let mask = u32::MAX >> (u32::BITS - bits);
    for (out, bit) in out
        .as_chunks_mut::<LANES>()
        .0
        .iter_mut()
        .zip((0..).step_by(bits as usize))
    {
        let (word, shift) = (bit / 32, bit as u32 % 32);
        let mut numbers = lanes(&words[word]).map(|word| word >> shift);
        if shift + bits > 32 {
            let more = lanes(&words[word + 1]);
            for (number, more) in numbers.iter_mut().zip(more) {
                *number |= more << (32 - shift);
            }
        }
        *out = numbers.map(|number| number & mask);
    }
    Some(())
}

#[inline]
fn lanes(bytes: &[u8; LANE_BYTES]) -> [u32; LANES] {
    let (words, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|lane| u32::from_le_bytes(words[lane]))
}

/// The next varint (LEB128) of at most 32 bits.
pub fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7F).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

pub fn push_varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What is behind so many varints.
pub fn skip_varints(bytes: &[u8], mut count: u32) -> Option<&[u8]> {
    if count == 0 {
        return Some(bytes);
    }
    let last = bytes.iter().position(|byte| {
        count -= u32::from(*byte < 0x80);
        count == 0
    })?;
    bytes.get(last + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let mut random = 9u32;
        for bits in 0..=32u32 {
            let numbers: [u32; BLOCK] = std::array::from_fn(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if bits == 0 { 0 } else { random >> (32 - bits) }
            });
            let (mut bytes, mut back) = (Vec::new(), [7; BLOCK]);
            pack(&numbers, bits, &mut bytes);
            assert_eq!(bytes.len(), packed_bytes(bits));
            assert_eq!(unpack(&bytes, bits, &mut back), Some(()));
            assert_eq!(back, numbers, "{bits} bits");
            assert!(bits == 0 || unpack(&bytes[1..], bits, &mut back).is_none());
        }
        assert_eq!(unpack(&[0; 1024], 33, &mut [0; BLOCK]), None);
        assert_eq!(bits_of(&[0, 5, 2]), 3);
    }

    #[test]
    fn varints_are_read_and_passed_over() {
        let numbers = [0, 127, 128, 300, u32::MAX, 1];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| push_varint(*number, &mut bytes));
        for from in 0..=numbers.len() {
            let mut rest = skip_varints(&bytes, from as u32).expect("so many");
            for number in &numbers[from..] {
                assert_eq!(varint(&mut rest), Some(*number));
            }
            assert_eq!(varint(&mut rest), None);
        }
        assert_eq!(skip_varints(&bytes, 7), None);
        assert_eq!(varint(&mut &[0xFF; 9][..]), None);
    }
}
