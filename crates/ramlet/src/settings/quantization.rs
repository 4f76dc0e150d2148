//! `quantization_config`: the requested codes, and the codes that implement them.

use serde::{Deserialize, Serialize};

use super::Placement;

/// The API's four kinds of quantization.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantization {
    Scalar(ScalarQuantization),
    Product(ProductQuantization),
    Binary(BinaryQuantization),
    Turbo(TurboQuantization),
}

/// One byte a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScalarQuantization {
    pub r#type: ScalarType,
    /// Share of the values that the range of codes covers, 0.5 to 1; the rest is clipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantile: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_ram: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Placement>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScalarType {
    Int8,
}

/// Groups of dimensions coded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductQuantization {
    pub compression: Compression,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_ram: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Placement>,
}

/// How many times smaller than 4 bytes a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    X4,
    X8,
    X16,
    X32,
    X64,
}

/// A bit or two a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BinaryQuantization {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_ram: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Placement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<BinaryEncoding>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_encoding: Option<BinaryQueryEncoding>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BinaryEncoding {
    #[default]
    OneBit,
    TwoBits,
    OneAndHalfBits,
}

/// How the query is rounded against binary codes. Ours is always at least as exact as any of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BinaryQueryEncoding {
    #[default]
    Default,
    Binary,
    Scalar4Bits,
    Scalar8Bits,
}

/// Rotated codes of 1 to 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurboQuantization {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_ram: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Placement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<TurboBits>,
}

/// Bits a dimension; 4 unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TurboBits {
    #[serde(rename = "bits1")]
    Bits1,
    #[serde(rename = "bits1_5")]
    Bits1_5,
    #[serde(rename = "bits2")]
    Bits2,
    #[default]
    #[serde(rename = "bits4")]
    Bits4,
    #[serde(rename = "bits8")]
    Bits8,
}

/// Codes that a segment should be searched by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CodeSpec {
    /// Extended RaBitQ codes, in halves of a bit a dimension: 2 are one bit.
    Bits { halves: u8 },
    /// Product codes of so many bytes a vector.
    Product { bytes: usize },
}

impl CodeSpec {
    /// Bytes of a vector's code, without factors and row number.
    pub fn bytes(&self, dims: usize) -> usize {
        match *self {
            CodeSpec::Bits { halves } => (dims * usize::from(halves)).div_ceil(16),
            CodeSpec::Product { bytes } => bytes,
        }
    }
}

impl Compression {
    pub fn times(self) -> usize {
        match self {
            Compression::X4 => 4,
            Compression::X8 => 8,
            Compression::X16 => 16,
            Compression::X32 => 32,
            Compression::X64 => 64,
        }
    }
}

impl Quantization {
    /// Where the codes are asked to lie: `memory`, or else `always_ram: true`, which means pinned.
    pub fn placement(&self) -> Option<Placement> {
        let (memory, always_ram) = match self {
            Quantization::Scalar(q) => (q.memory, q.always_ram),
            Quantization::Product(q) => (q.memory, q.always_ram),
            Quantization::Binary(q) => (q.memory, q.always_ram),
            Quantization::Turbo(q) => (q.memory, q.always_ram),
        };
        memory.or((always_ram == Some(true)).then_some(Placement::Pinned))
    }

    /// The field that is out of its range, and what is wrong with it.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match self {
            Quantization::Scalar(q) if q.quantile.is_some_and(|q| !(0.5..=1.0).contains(&q)) => Err((
                "scalar.quantile",
                format!(
                    "value {} invalid, must be from 0.5 to 1.0",
                    q.quantile.unwrap_or(f64::NAN)
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// The codes that a quantization asks for, best first; without one none: the engine chooses by the room there is.
///
/// | asked | codes |
/// |---|---|
/// | scalar int8 | 8 bits a dimension |
/// | product x4 | 8 bits a dimension, which take as many bytes |
/// | product x8 .. x64 | product codes of `4 * dims / 8 .. 4 * dims / 64` bytes, one at least |
/// | binary one_bit, one_and_half_bits, two_bits | 1, 1.5, 2 bits |
/// | turbo bits1 .. bits8 | 1, 1.5, 2, 4, 8 bits; 4 unless said |
///
/// Built are whole bits: 2 for 1.5.
pub fn codes_wanted(quantization: Option<&Quantization>, dims: usize) -> Vec<CodeSpec> {
    let halves = match quantization {
        None => return Vec::new(),
        // Codes of 4 bits to a part have no more than 4 bits a dimension.
        Some(Quantization::Product(q)) if q.compression == Compression::X4 => 16,
        Some(Quantization::Product(q)) => {
            let bytes = (4 * dims).div_ceil(q.compression.times());
            return vec![CodeSpec::Product { bytes }];
        }
        Some(Quantization::Scalar(_)) => 16,
        Some(Quantization::Binary(q)) => match q.encoding.unwrap_or_default() {
            BinaryEncoding::OneBit => 2,
            BinaryEncoding::OneAndHalfBits => 3,
            BinaryEncoding::TwoBits => 4,
        },
        Some(Quantization::Turbo(q)) => match q.bits.unwrap_or_default() {
            TurboBits::Bits1 => 2,
            TurboBits::Bits1_5 => 3,
            TurboBits::Bits2 => 4,
            TurboBits::Bits4 => 8,
            TurboBits::Bits8 => 16,
        },
    };
    vec![CodeSpec::Bits { halves }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, dims: usize, bytes: usize, placement: Option<Placement>) {
        let asked: Quantization = serde_json::from_str(text).expect(text);
        let codes = codes_wanted(Some(&asked), dims);
        assert_eq!(codes[0].bytes(dims), bytes, "{text}");
        assert_eq!(asked.placement(), placement, "{text}");
        let again = serde_json::to_value(asked).expect("serialises");
        assert_eq!(
            again,
            serde_json::from_str::<serde_json::Value>(text).expect(text)
        );
    }

    #[test]
    fn every_setting_of_the_api_has_codes_and_is_shown_as_it_came() {
        check(r#"{"scalar":{"type":"int8","quantile":0.99}}"#, 100, 100, None);
        let pinned = Some(Placement::Pinned);
        check(
            r#"{"scalar":{"type":"int8","always_ram":true}}"#,
            100,
            100,
            pinned,
        );
        check(r#"{"scalar":{"type":"int8","always_ram":false}}"#, 100, 100, None);
        let cold = Some(Placement::Cold);
        check(
            r#"{"scalar":{"type":"int8","always_ram":true,"memory":"cold"}}"#,
            7,
            7,
            cold,
        );
        for (name, bytes) in [("x4", 100), ("x8", 50), ("x16", 25), ("x32", 13), ("x64", 7)] {
            check(
                &format!(r#"{{"product":{{"compression":"{name}"}}}}"#),
                100,
                bytes,
                None,
            );
        }
        check("{\"binary\":{}}", 100, 13, None);
        for (name, bytes) in [("one_bit", 16), ("one_and_half_bits", 24), ("two_bits", 32)] {
            check(
                &format!(r#"{{"binary":{{"encoding":"{name}"}}}}"#),
                128,
                bytes,
                None,
            );
        }
        for name in ["default", "binary", "scalar4bits", "scalar8bits"] {
            check(
                &format!(r#"{{"binary":{{"query_encoding":"{name}"}}}}"#),
                128,
                16,
                None,
            );
        }
        check(r#"{"turbo":{}}"#, 128, 64, None);
        for (name, bytes) in [
            ("bits1", 16),
            ("bits1_5", 24),
            ("bits2", 32),
            ("bits4", 64),
            ("bits8", 128),
        ] {
            check(&format!(r#"{{"turbo":{{"bits":"{name}"}}}}"#), 128, bytes, None);
        }
        assert!(codes_wanted(None, 100).is_empty());
    }

    #[test]
    fn a_quantile_has_bounds() {
        let of = |quantile| {
            let text = format!(r#"{{"scalar":{{"type":"int8","quantile":{quantile}}}}}"#);
            serde_json::from_str::<Quantization>(&text)
                .expect("parses")
                .check()
        };
        assert!(of(0.5).is_ok() && of(1.0).is_ok());
        assert_eq!(of(0.49).unwrap_err().0, "scalar.quantile");
        assert!(of(1.01).is_err());
    }
}
