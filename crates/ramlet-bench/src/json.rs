//! Numbers as JSON text, as short as they can be: the wire costs more than the disk.

use anyhow::{Result, bail};

/// Appends `[1,2.5,...]`. JSON has no NaN and no infinity: such a row is an error that names the position.
pub fn write_vector(vector: &[f32], out: &mut Vec<u8>) -> Result<()> {
    out.push(b'[');
    for (at, &value) in vector.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if !value.is_finite() {
            bail!("number {at} of the vector is {value}");
        }
        write_number(value, out);
    }
    out.push(b']');
    Ok(())
}

/// The shortest text that reads back as the same f32; whole numbers without a point.
fn write_number(value: f32, out: &mut Vec<u8>) {
    const WHOLE_MAX: f32 = 16_777_216.0;
    let whole = value.trunc() == value && value.abs() < WHOLE_MAX;
    let written = if whole {
        serde_json::to_writer(out, &(value as i32))
    } else {
        serde_json::to_writer(out, &value)
    };
    written.expect("a number into memory");
}

/// Appends `text` as a JSON string.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a string into memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_as_they_were() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut values = vec![0.0, -0.0, 1.0, -255.0, 0.1, 1e-38, 3.4e38, 16_777_216.0, 1.5];
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            values.push(f32::from_bits(state as u32));
        }
        values.retain(|v| v.is_finite());
        let mut text = Vec::new();
        write_vector(&values, &mut text).unwrap();
        let back: Vec<f32> = serde_json::from_slice(&text).unwrap();
        assert_eq!(back, values);
    }

    #[test]
    fn text_is_short() {
        let mut text = Vec::new();
        write_vector(&[0.0, 255.0, -3.0, 0.5], &mut text).unwrap();
        assert_eq!(text, b"[0,255,-3,0.5]");
    }

    #[test]
    fn no_nan() {
        let error = write_vector(&[0.0, f32::NAN], &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "number 1 of the vector is NaN");
    }
}
