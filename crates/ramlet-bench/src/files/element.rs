//! The table of element types that all readers of vector files share: which there are, and how each is widened to f32.

/// Element type of a vector file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// A byte, true unless it is 0; one and zero as numbers.
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
}

/// What kinds of numbers there are, in any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Bool,
    Unsigned,
    Signed,
    Float,
}

/// In which order the bytes of a number stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    Little,
    Big,
}

/// Every type, by class and bytes.
const TYPES: [(Class, usize, Element); 12] = [
    (Class::Bool, 1, Element::Bool),
    (Class::Unsigned, 1, Element::U8),
    (Class::Signed, 1, Element::I8),
    (Class::Unsigned, 2, Element::U16),
    (Class::Signed, 2, Element::I16),
    (Class::Unsigned, 4, Element::U32),
    (Class::Signed, 4, Element::I32),
    (Class::Unsigned, 8, Element::U64),
    (Class::Signed, 8, Element::I64),
    (Class::Float, 2, Element::F16),
    (Class::Float, 4, Element::F32),
    (Class::Float, 8, Element::F64),
];

/// For errors: what [`Element::of`] knows.
pub const KNOWN: &str = "booleans, whole numbers of 8 to 64 bits and floats of 16 to 64 bits are read";

impl Element {
    pub fn of(class: Class, bytes: usize) -> Option<Element> {
        let found = TYPES.iter().find(|(c, b, _)| (*c, *b) == (class, bytes));
        found.map(|(_, _, element)| *element)
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        let found = TYPES.iter().find(|(_, _, element)| *element == self);
        found.map_or(0, |(_, bytes, _)| *bytes)
    }

    /// Whether every element is a whole number from 0 to 255.
    pub fn is_u8(self) -> bool {
        matches!(self, Element::U8 | Element::Bool)
    }

    /// Appends the elements in `bytes` (a whole number of them) to `out`.
    pub fn decode(self, order: ByteOrder, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            Element::Bool => out.extend(bytes.iter().map(|&b| f32::from(u8::from(b != 0)))),
            Element::U8 => out.extend(bytes.iter().map(|&b| f32::from(b))),
            Element::I8 => out.extend(bytes.iter().map(|&b| f32::from(b as i8))),
            Element::U16 => widen(order, bytes, out, |b| f32::from(u16::from_le_bytes(b))),
            Element::I16 => widen(order, bytes, out, |b| f32::from(i16::from_le_bytes(b))),
            Element::U32 => widen(order, bytes, out, |b| u32::from_le_bytes(b) as f32),
            Element::I32 => widen(order, bytes, out, |b| i32::from_le_bytes(b) as f32),
            Element::U64 => widen(order, bytes, out, |b| u64::from_le_bytes(b) as f32),
            Element::I64 => widen(order, bytes, out, |b| i64::from_le_bytes(b) as f32),
            Element::F16 => widen(order, bytes, out, |b| f16_to_f32(u16::from_le_bytes(b))),
            Element::F32 => widen(order, bytes, out, f32::from_le_bytes),
            Element::F64 => widen(order, bytes, out, |b| f64::from_le_bytes(b) as f32),
        }
    }
}

/// `read` takes little endian.
fn widen<const N: usize>(order: ByteOrder, bytes: &[u8], out: &mut Vec<f32>, read: impl Fn([u8; N]) -> f32) {
    let chunks = bytes.as_chunks::<N>().0.iter();
    match order {
        ByteOrder::Little => out.extend(chunks.map(|&chunk| read(chunk))),
        ByteOrder::Big => out.extend(chunks.map(|&chunk| {
            let mut chunk = chunk;
            chunk.reverse();
            read(chunk)
        })),
    }
}

/// IEEE 754 binary16 to binary32, exact.
pub fn f16_to_f32(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let exponent = u32::from(half >> 10) & 0x1f;
    let mantissa = u32::from(half) & 0x3ff;
    let bits = match (exponent, mantissa) {
        (0, 0) => sign,
        // Subnormal: mantissa x 2^-24 is exact in f32, so let the multiplication normalise it.
        (0, m) => sign | (m as f32 * 2f32.powi(-24)).to_bits(),
        (0x1f, m) => sign | 0x7f80_0000 | (m << 13),
        (e, m) => sign | ((e + 127 - 15) << 23) | (m << 13),
    };
    f32::from_bits(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves() {
        let cases = [
            (0x0000, 0.0),
            (0x8000, -0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x7c00, f32::INFINITY),
        ];
        for (half, expected) in cases {
            assert_eq!(f16_to_f32(half).to_bits(), f32::to_bits(expected), "{half:#x}");
        }
        assert!(f16_to_f32(0x7e00).is_nan());
    }

    #[test]
    fn every_type_widens_in_both_orders() {
        let check = |element: Element, bytes: &[u8], expected: f32| {
            let mut reversed = bytes.to_vec();
            reversed.reverse();
            for (order, bytes) in [(ByteOrder::Little, bytes), (ByteOrder::Big, &reversed)] {
                let mut out = Vec::new();
                element.decode(order, bytes, &mut out);
                assert_eq!(out, [expected], "{element:?} {order:?}");
            }
            assert_eq!(element.bytes(), bytes.len(), "{element:?}");
        };
        check(Element::Bool, &[2], 1.0);
        check(Element::Bool, &[0], 0.0);
        check(Element::U8, &[255], 255.0);
        check(Element::I8, &[0x80], -128.0);
        check(Element::U16, &[0xfe, 0xff], 65534.0);
        check(Element::I16, &[0xfe, 0xff], -2.0);
        check(Element::U32, &(u32::MAX - 255).to_le_bytes(), 4_294_967_040.0);
        check(Element::I32, &(-7i32).to_le_bytes(), -7.0);
        check(Element::U64, &(1u64 << 63).to_le_bytes(), 2f32.powi(63));
        check(Element::I64, &(-9i64).to_le_bytes(), -9.0);
        check(Element::F16, &[0, 0x3c], 1.0);
        check(Element::F32, &1.25f32.to_le_bytes(), 1.25);
        check(Element::F64, &(-0.5f64).to_le_bytes(), -0.5);
    }

    #[test]
    fn types_have_one_place_in_the_table() {
        for (class, bytes, element) in TYPES {
            assert_eq!(Element::of(class, bytes), Some(element));
            assert_eq!(element.bytes(), bytes);
        }
        for (class, bytes) in [
            (Class::Float, 1),
            (Class::Float, 16),
            (Class::Bool, 4),
            (Class::Signed, 3),
        ] {
            assert_eq!(Element::of(class, bytes), None);
        }
    }
}
