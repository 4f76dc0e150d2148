//! Number formats of vector files, little endian, widened to f32.

/// Element type of a vector file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    U8,
    I8,
    U16,
    I16,
    I32,
    F16,
    F32,
    F64,
}

impl Element {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Element::U8 | Element::I8 => 1,
            Element::U16 | Element::I16 | Element::F16 => 2,
            Element::I32 | Element::F32 => 4,
            Element::F64 => 8,
        }
    }

    /// Appends the elements in `bytes` (a whole number of them) to `out`.
    pub fn decode(self, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            Element::U8 => out.extend(bytes.iter().map(|&b| f32::from(b))),
            Element::I8 => out.extend(bytes.iter().map(|&b| f32::from(b as i8))),
            Element::U16 => widen(bytes, out, |b| f32::from(u16::from_le_bytes(b))),
            Element::I16 => widen(bytes, out, |b| f32::from(i16::from_le_bytes(b))),
            Element::I32 => widen(bytes, out, |b| i32::from_le_bytes(b) as f32),
            Element::F16 => widen(bytes, out, |b| f16_to_f32(u16::from_le_bytes(b))),
            Element::F32 => widen(bytes, out, f32::from_le_bytes),
            Element::F64 => widen(bytes, out, |b| f64::from_le_bytes(b) as f32),
        }
    }
}

fn widen<const N: usize>(bytes: &[u8], out: &mut Vec<f32>, read: impl Fn([u8; N]) -> f32) {
    out.extend(bytes.as_chunks::<N>().0.iter().map(|&chunk| read(chunk)));
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
    fn every_type_widens() {
        let check = |element: Element, bytes: &[u8], expected: &[f32]| {
            let mut out = Vec::new();
            element.decode(bytes, &mut out);
            assert_eq!(out, expected, "{element:?}");
        };
        check(Element::U8, &[0, 255], &[0.0, 255.0]);
        check(Element::I8, &[0x80, 1], &[-128.0, 1.0]);
        check(Element::U16, &[0xff, 0xff], &[65535.0]);
        check(Element::I16, &[0xff, 0xff], &[-1.0]);
        check(Element::I32, &(-7i32).to_le_bytes(), &[-7.0]);
        check(Element::F16, &[0, 0x3c], &[1.0]);
        check(Element::F32, &1.25f32.to_le_bytes(), &[1.25]);
        check(Element::F64, &(-0.5f64).to_le_bytes(), &[-0.5]);
    }
}
