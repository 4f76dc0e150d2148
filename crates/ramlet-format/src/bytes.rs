//! Bounds-checked little-endian reads and varints: `None` means that the bytes end too early.

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Bytes that [`put_varint`] takes for `value`.
pub(crate) fn varint_len(value: u32) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

/// LEB128: seven bits a byte, low ones first, the high bit says that more follow.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The varint at `*at`, which moves past it. `None` if it is cut off or exceeds 32 bits.
#[inline]
pub(crate) fn take_varint(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u32::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    for shift in [7, 14, 21, 28] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return u32::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_return_and_reject_what_is_cut_off_or_too_large() {
        for value in [
            0,
            1,
            127,
            128,
            300,
            16_383,
            16_384,
            1 << 21,
            (1 << 28) - 1,
            1 << 28,
            u32::MAX,
        ] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes.len(), varint_len(value));
            let mut at = 0;
            assert_eq!(take_varint(&bytes, &mut at), Some(value));
            assert_eq!(at, bytes.len());
            assert_eq!(take_varint(&bytes[..bytes.len() - 1], &mut 0), None);
        }
        assert_eq!(take_varint(&[0xff, 0xff, 0xff, 0xff, 0x10], &mut 0), None);
        assert_eq!(take_varint(&[0x80; 6], &mut 0), None);
    }

    #[test]
    fn reads_past_the_end_are_none() {
        assert_eq!(u16_at(&[1, 2, 3], 1), Some(0x0302));
        assert_eq!(u16_at(&[1, 2, 3], 2), None);
        assert_eq!(u64_at(&[0; 7], 0), None);
        assert_eq!(u32_at(&[0; 7], usize::MAX), None);
    }
}
