//! The range of numbers of a vector's datatype. The API accepts others and changes them silently.

use anyhow::{Result, bail};

/// Numbers that a datatype holds, where it holds less than 32-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueRange {
    /// `uint8`: whole numbers from 0 to 255.
    Bytes,
    /// `float16`.
    Halves,
}

const HALF_MAX: f32 = 65_504.0;

impl ValueRange {
    /// By the API's name of the datatype.
    pub fn of(datatype: &str) -> Option<ValueRange> {
        match datatype {
            "uint8" => Some(ValueRange::Bytes),
            "float16" => Some(ValueRange::Halves),
            _ => None,
        }
    }

    fn holds(self, value: f32) -> bool {
        match self {
            ValueRange::Bytes => (0.0..=255.0).contains(&value) && value.fract() == 0.0,
            ValueRange::Halves => value.abs() <= HALF_MAX,
        }
    }

    /// Fails at the first number that would be changed.
    pub fn check(self, vector: &[f32]) -> Result<()> {
        let Some(at) = vector.iter().position(|value| !self.holds(*value)) else {
            return Ok(());
        };
        let (name, rule) = match self {
            ValueRange::Bytes => ("uint8", "whole numbers from 0 to 255"),
            ValueRange::Halves => ("float16", "numbers up to 65504"),
        };
        bail!(
            "number {at} of the vector is {}, and {name} holds {rule}; create the collection with --datatype float32 to store it unchanged",
            vector[at]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_would_be_changed() {
        let check = |datatype, vector: &[f32], expected: Option<&str>| {
            let range = ValueRange::of(datatype).expect("it holds less");
            let said = range.check(vector).err().map(|e| e.to_string());
            match expected {
                None => assert_eq!(said, None),
                Some(part) => assert!(
                    said.as_deref().is_some_and(|said| said.contains(part)),
                    "{said:?}"
                ),
            }
        };
        check("uint8", &[0.0, 255.0, 7.0], None);
        check("uint8", &[1.0, 0.5], Some("number 1 of the vector is 0.5"));
        check("uint8", &[-1.0], Some("number 0 of the vector is -1"));
        check("uint8", &[256.0], Some("is 256"));
        check("uint8", &[f32::NAN], Some("is NaN"));
        check("float16", &[65_504.0, 1e-9, -0.1], None);
        check(
            "float16",
            &[0.0, -70_000.0],
            Some("number 1 of the vector is -70000"),
        );
        for datatype in ["float32", "turbo4"] {
            assert_eq!(ValueRange::of(datatype), None);
        }
    }
}
