//! The protobuf encoding itself: tags, varints, and a reader that goes over the fields of a message.

/// How a field's value is laid out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Len(&'a [u8]),
    Fixed32([u8; 4]),
}

/// The bytes aren't a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// Goes over the fields of a message in the order of the wire. Ends after the first fault.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn new(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message }
    }

    fn next_field(&mut self) -> Result<(u32, Field<'a>), Broken> {
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| *n != 0).ok_or(Broken)?;
        let field = match tag & 7 {
            0 => Field::Varint(varint(&mut self.rest)?),
            1 => Field::Fixed64(*take_array(&mut self.rest)?),
            2 => {
                let len = usize::try_from(varint(&mut self.rest)?).map_err(|_| Broken)?;
                let (value, rest) = self.rest.split_at_checked(len).ok_or(Broken)?;
                self.rest = rest;
                Field::Len(value)
            }
            5 => Field::Fixed32(*take_array(&mut self.rest)?),
            // Groups: not part of proto3.
            _ => return Err(Broken),
        };
        Ok((number, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.next_field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

fn take_array<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], Broken> {
    let (value, after) = rest.split_first_chunk::<N>().ok_or(Broken)?;
    *rest = after;
    Ok(value)
}

/// The varint at the front of `rest`, which is left behind it.
pub fn varint(rest: &mut &[u8]) -> Result<u64, Broken> {
    let mut value = 0u64;
    for (at, &byte) in rest.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has one bit of the number left.
        if at == 9 && bits > 1 {
            return Err(Broken);
        }
        value |= bits << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Ok(value);
        }
    }
    Err(Broken)
}

/// Appends `value` in one to ten bytes.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes of `value` as a varint.
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Tag of a varint field.
pub fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire_type));
}

pub fn put_uint(out: &mut Vec<u8>, number: u32, value: u64) {
    put_tag(out, number, 0);
    put_varint(out, value);
}

pub fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_tag(out, number, 1);
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_float(out: &mut Vec<u8>, number: u32, value: f32) {
    put_tag(out, number, 5);
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_tag(out, number, 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A field of what `write` appends. Its length stands in front: a byte is kept for it, and what is longer than 127
/// bytes is moved up.
pub fn put_message<E>(
    out: &mut Vec<u8>,
    number: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    put_tag(out, number, 2);
    let at = out.len();
    out.push(0);
    write(out)?;
    let len = out.len() - at - 1;
    let width = varint_len(len as u64);
    if width > 1 {
        out.extend_from_slice(&[0; 9][..width - 1]);
        out.copy_within(at + 1..at + 1 + len, at + width);
    }
    let mut left = len as u64;
    for byte in &mut out[at..at + width] {
        *byte = left as u8 | 0x80;
        left >>= 7;
    }
    out[at + width - 1] &= 0x7f;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back() {
        for value in [
            0,
            1,
            127,
            128,
            300,
            1 << 20,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            let mut rest = out.as_slice();
            assert_eq!(varint(&mut rest), Ok(value));
            assert!(rest.is_empty());
            for cut in 0..out.len() {
                assert_eq!(varint(&mut &out[..cut]), Err(Broken));
            }
        }
        assert_eq!(varint(&mut &[0xff; 11][..]), Err(Broken));
        assert_eq!(
            varint(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..]),
            Err(Broken)
        );
    }

    #[test]
    fn lengths_stand_in_front_whatever_their_width() {
        for len in [0, 1, 127, 128, 16_383, 16_384, 3_000_000] {
            let mut out = vec![9];
            put_message::<()>(&mut out, 3, |out| {
                out.extend((0..len).map(|i| i as u8));
                Ok(())
            })
            .unwrap();
            let mut fields = Fields::new(&out[1..]);
            let Some(Ok((3, Field::Len(value)))) = fields.next() else {
                panic!("{len}")
            };
            assert!(value.iter().copied().eq((0..len).map(|i| i as u8)), "{len}");
            assert!(fields.next().is_none());
        }
    }

    #[test]
    fn broken_messages_end_with_a_fault() {
        for bytes in [
            &[0x0a, 5, 1][..],
            &[0],
            &[0x0b],
            &[0x09, 1, 2],
            &[0x0d, 1],
            &[0x80],
        ] {
            let all: Vec<_> = Fields::new(bytes).collect();
            assert_eq!(all.last(), Some(&Err(Broken)), "{bytes:?}");
        }
    }
}
