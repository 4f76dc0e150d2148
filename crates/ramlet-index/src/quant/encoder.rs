//! Encodes rows.

use ramlet_kernels::kernels;

use super::group::SignRow;
use super::residual_codes::{ResidualLayout, extended_factor};
use super::sq8::Sq8Layout;
use super::{ExtendedLayout, HALF_MOST, HALF_STEP, HALF_UNKNOWN, dot, from_half, to_half, to_half_below};
use crate::Metric;

/// A row less its centroid, both rotated.
#[derive(Debug, Default)]
pub(crate) struct Residual {
    values: Vec<f32>,
    /// `|r|^2`.
    squares: f64,
    /// `|x|^2`.
    row_squares: f64,
}

impl Residual {
    /// Takes a row in place of the last one: rotated, and both less the mean; `row_squares` is the row's own `|x|^2`.
    pub(crate) fn set(&mut self, rotated: &[f32], centroid: &[f32], row_squares: f64) {
        self.values.clear();
        self.values
            .extend(rotated.iter().zip(centroid).map(|(x, c)| x - c));
        self.squares = dot(&self.values, &self.values);
        self.row_squares = row_squares;
    }

    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }
}

/// Codes residuals; a few words. `unit` is about the length of a residual: factors are stored in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder {
    metric: Metric,
    unit: f64,
}

impl Encoder {
    pub(crate) fn new(metric: Metric, unit: f32) -> Encoder {
        Encoder {
            metric,
            unit: f64::from(unit),
        }
    }

    /// A unit for residuals of this mean squared length: a power of two of which the square is one too, 1 if there is nothing to go by.
    pub(crate) fn unit_for(mean_squares: f64) -> f32 {
        const POWER_MOST: f64 = 60.0;
        let power = mean_squares.sqrt().log2().round();
        if power.is_finite() {
            power.clamp(-POWER_MOST, POWER_MOST).exp2() as f32
        } else {
            1.0
        }
    }

    /// What a group takes in. `signs` is overwritten.
    pub(crate) fn one_bit<'s>(
        &self,
        residual: &Residual,
        number: u32,
        signs: &'s mut Vec<u8>,
    ) -> SignRow<'s> {
        let r = &residual.values;
        signs.clear();
        signs.resize(r.len().div_ceil(8), 0);
        kernels().signs(r, signs);
        let along = kernels().size_f64(r);
        let add = self.add(residual);
        let factor = match along > 0.0 {
            true => residual.squares / along * (r.len() as f64).sqrt() / self.unit,
            false => 0.0,
        };
        // A row that is far too long for the unit: it is read, whatever the query.
        let is_known = factor <= HALF_MOST && residual.squares.is_finite();
        SignRow {
            signs,
            add: match is_known {
                true => to_half_below(add / (self.unit * self.unit)),
                false => HALF_UNKNOWN,
            },
            factor: to_half(factor),
            number,
        }
    }

    fn add(&self, residual: &Residual) -> f64 {
        match self.metric {
            // The length that cosine divides by is 1, but for rows of zeros, which are like nothing.
            Metric::Cosine => residual.squares + 1.0 - residual.row_squares,
            _ => residual.squares,
        }
    }

    /// Writes a row of extended codes into `out`. `levels` is overwritten.
    pub(crate) fn extended(
        &self,
        residual: &Residual,
        layout: &ExtendedLayout,
        levels: &mut Vec<u8>,
        out: &mut [u8],
    ) {
        let r = &residual.values;
        let planes = layout.planes() as u32;
        levels.resize(r.len(), 0);
        let along = kernels().levels(r, planes, levels);
        kernels().planes(levels, planes, &mut out[..layout.code_bytes()]);
        let scale = (r.len() as f64).sqrt() * f64::from(1u32 << planes) / self.unit;
        let nothing = self.unit * HALF_STEP;
        let factor = match along > 0.0 {
            true => residual.squares / along * scale,
            false if residual.squares <= nothing * nothing => 0.0,
            false => f64::NAN,
        };
        out[layout.code_bytes()..].copy_from_slice(&to_half(factor));
    }

    /// Writes a row of a byte a dimension into `out`. `numbers` is overwritten.
    pub(crate) fn sq8(
        &self,
        residual: &Residual,
        number: u32,
        layout: Sq8Layout,
        numbers: &mut Vec<f32>,
        out: &mut [u8],
    ) {
        let of = (&residual.values[..], residual.squares);
        layout.put(of, (self.add(residual), number), numbers, out);
    }

    /// What a row's extended code, just written with these levels, leaves over of it.
    pub(crate) fn left_over(
        &self,
        residual: &Residual,
        layout: &ExtendedLayout,
        levels: &[u8],
        row: &[u8],
        out: &mut Vec<f32>,
    ) {
        let factor = extended_factor(layout, row, self.unit) as f32;
        out.resize(levels.len(), 0.0);
        kernels().grid_values(&residual.values, levels, layout.planes() as u32, out);
        for (out, value) in out.iter_mut().zip(&residual.values) {
            *out = value - factor * *out;
        }
    }

    /// Writes what is left over of a row into `out`. `levels` and `numbers` are overwritten.
    pub(crate) fn residual(
        &self,
        residual: &Residual,
        left: &[f32],
        layout: &ResidualLayout,
        (levels, numbers): (&mut Vec<u8>, &mut Vec<f32>),
        out: &mut [u8],
    ) {
        let planes = u32::from(layout.bits) - 1;
        levels.resize(left.len(), 0);
        let along = kernels().levels(left, planes, levels);
        let (signs, others) = out[..layout.code_bytes()].split_at_mut(layout.dims.div_ceil(8));
        kernels().signs(left, signs);
        kernels().planes(levels, planes, others);
        numbers.resize(left.len(), 0.0);
        kernels().grid_values(left, levels, planes, numbers);
        let along_row = dot(&residual.values, numbers);
        let squares = dot(left, left);
        let scale = (left.len() as f64).sqrt() * f64::from(1u32 << planes) / self.unit;
        let factor = to_half(if along > 0.0 { squares / along * scale } else { 0.0 });
        // What both codes say of the row, along the row.
        let said =
            residual.squares - dot(left, &residual.values) + f64::from(from_half(factor)) / scale * along_row;
        let longer = match residual.squares > 0.0 {
            true => residual.squares / said - 1.0,
            false => 0.0,
        };
        let add = self.add(residual) / (self.unit * self.unit);
        let factors = &mut out[layout.code_bytes()..];
        factors[..2].copy_from_slice(&factor);
        factors[2..4].copy_from_slice(&to_half(add - f64::from(from_half(to_half(add)))));
        factors[4..].copy_from_slice(&to_half(longer));
    }
}
