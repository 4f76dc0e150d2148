//! Conversion between the API's vectors (`f32`) and stored rows.

use std::fmt;

use ramlet_kernels::kernels;

use crate::{Element, Metric};

/// A vector has an element that is NaN or infinite: it would compare with nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NotFinite {
    /// Which element, from 0.
    pub position: usize,
    pub value: f32,
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "element {} of the vector is {}: every element must be finite",
            self.position, self.value
        )
    }
}

impl std::error::Error for NotFinite {}

/// Elements converted at once, through a buffer on the stack.
const CHUNK: usize = 128;

/// Whether every element is finite.
pub fn validate(vector: &[f32]) -> Result<(), NotFinite> {
    // Without a branch for each, several are looked at in one step; which it is matters to a refusal only.
    if vector.iter().fold(true, |all, value| all & value.is_finite()) {
        return Ok(());
    }
    match vector.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(position) => Err(NotFinite {
            position,
            value: vector[position],
        }),
    }
}

/// Appends the row of a finite vector: [`Element::row_bytes`] bytes.
///
/// Under cosine, floats are stored normalised (a zero vector stays zero), so that a score is one dot product.
pub fn encode_row(metric: Metric, element: Element, vector: &[f32], out: &mut Vec<u8>) {
    let norm = if metric.normalises(element) {
        norm(vector)
    } else {
        1.0
    };
    out.reserve(element.row_bytes(vector.len()));
    let mut scaled = [0.0f32; CHUNK];
    for chunk in vector.chunks(CHUNK) {
        let scaled = &mut scaled[..chunk.len()];
        for (scaled, value) in scaled.iter_mut().zip(chunk) {
            *scaled = divide(*value, norm);
        }
        match element {
            Element::F32 => {
                let mut bytes = [[0u8; 4]; CHUNK];
                for (bytes, value) in bytes.iter_mut().zip(&*scaled) {
                    *bytes = value.to_le_bytes();
                }
                out.extend_from_slice(bytes[..scaled.len()].as_flattened());
            }
            Element::F16 => encode_f16(scaled, out),
            Element::U8 => out.extend(scaled.iter().map(|value| to_u8(*value))),
        }
    }
}

/// Appends the elements of a row as they are stored (under cosine: normalised).
///
/// Bytes behind the last whole element are ignored.
pub fn decode_row(element: Element, row: &[u8], out: &mut Vec<f32>) {
    match element {
        Element::F32 => out.extend(
            row.as_chunks::<4>()
                .0
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes)),
        ),
        Element::F16 => decode_f16(row, out),
        Element::U8 => out.extend(row.iter().map(|byte| f32::from(*byte))),
    }
}

/// Length of a vector, 1 for a zero vector; summed in f64, which neither overflows nor loses small elements.
pub(crate) fn norm(vector: &[f32]) -> f64 {
    let squares: f64 = sum_of_squares(vector);
    if squares == 0.0 { 1.0 } else { squares.sqrt() }
}

/// Several sums side by side: one alone would wait for each addition.
fn sum_of_squares(vector: &[f32]) -> f64 {
    let mut sums = [0.0f64; 8];
    let (eights, rest) = vector.as_chunks::<8>();
    for eight in eights {
        for (sum, value) in sums.iter_mut().zip(eight) {
            *sum += f64::from(*value).powi(2);
        }
    }
    let rest: f64 = rest.iter().map(|value| f64::from(*value).powi(2)).sum();
    sums.iter().sum::<f64>() + rest
}

pub(crate) fn divide(value: f32, norm: f64) -> f32 {
    if norm == 1.0 {
        value
    } else {
        (f64::from(value) / norm) as f32
    }
}

/// As the peers do: fractions are cut off, what lies outside is clamped.
pub(crate) fn to_u8(value: f32) -> u8 {
    value as u8
}

fn encode_f16(values: &[f32], out: &mut Vec<u8>) {
    let mut halves = [0u16; CHUNK];
    let halves = &mut halves[..values.len()];
    kernels().f32_to_f16(values, halves);
    let mut bytes = [[0u8; 2]; CHUNK];
    for (bytes, half) in bytes.iter_mut().zip(&*halves) {
        *bytes = half.to_le_bytes();
    }
    out.extend_from_slice(bytes[..halves.len()].as_flattened());
}

fn decode_f16(row: &[u8], out: &mut Vec<f32>) {
    let (mut halves, mut wide) = ([0u16; CHUNK], [0.0f32; CHUNK]);
    for chunk in row.as_chunks::<2>().0.chunks(CHUNK) {
        let (halves, wide) = (&mut halves[..chunk.len()], &mut wide[..chunk.len()]);
        for (half, bytes) in halves.iter_mut().zip(chunk) {
            *half = u16::from_le_bytes(*bytes);
        }
        kernels().f16_to_f32(halves, wide);
        out.extend_from_slice(wide);
    }
}
