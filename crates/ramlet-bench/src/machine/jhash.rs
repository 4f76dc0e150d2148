//! Bob Jenkins' lookup3, as the Linux kernel has it (`jhash`): three words of state, twelve bytes a round.
//! <https://burtleburtle.net/bob/hash/doobs.html>

/// Added to the length at the start.
const INITIAL: u32 = 0xdead_beef;

/// Hash of `data`; `seed` makes it another.
pub fn jhash(data: &[u8], seed: u32) -> u32 {
    let start = INITIAL.wrapping_add(data.len() as u32).wrapping_add(seed);
    let [mut a, mut b, mut c] = [start; 3];
    // The last one to twelve bytes are mixed in another way.
    let whole = data.len().saturating_sub(1) / 12 * 12;
    let (body, tail) = data.split_at(whole);
    for words in body.as_chunks::<12>().0 {
        a = a.wrapping_add(word(words, 0));
        b = b.wrapping_add(word(words, 4));
        c = c.wrapping_add(word(words, 8));
        mix(&mut a, &mut c, b, 4);
        mix(&mut b, &mut a, c, 6);
        mix(&mut c, &mut b, a, 8);
        mix(&mut a, &mut c, b, 16);
        mix(&mut b, &mut a, c, 19);
        mix(&mut c, &mut b, a, 4);
    }
    if tail.is_empty() {
        return c;
    }
    let mut last = [0u8; 12];
    last[..tail.len()].copy_from_slice(tail);
    a = a.wrapping_add(word(&last, 0));
    b = b.wrapping_add(word(&last, 4));
    c = c.wrapping_add(word(&last, 8));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[inline(always)]
fn mix(x: &mut u32, y: &mut u32, z: u32, turn: u32) {
    *x = x.wrapping_sub(*y) ^ y.rotate_left(turn);
    *y = y.wrapping_add(z);
}

fn word(bytes: &[u8; 12], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_its_author_gives() {
        // From the self test of lookup3.c.
        assert_eq!(jhash(b"", 0), 0xdead_beef);
        assert_eq!(jhash(b"", 0xdead_beef), 0xbd5b_7dde);
        let text = b"Four score and seven years ago";
        assert_eq!(jhash(text, 0), 0x1777_0551);
        assert_eq!(jhash(text, 1), 0xcd62_8161);
    }
}
