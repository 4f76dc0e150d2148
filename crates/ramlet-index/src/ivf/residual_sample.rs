//! A sample of residuals for training product codes.

/// Vectors that product codes are trained with, if there are none more and they fit a quarter of the scratch.
pub(super) const TRAINED_WITH: usize = 4096;

/// Squared length of a residual from which on books aren't made for it, and times that of the one in the middle: the square of it is
/// reckoned with too, and must be a number.
const TRAINED_SQUARES: f64 = 1e18;
const TRAINED_TIMES: f64 = 1e6;

/// Leaves out residuals that are too long. (One vector of 1e18 among others made the whole job fail.)
pub(super) fn leave_out_far(sample: &mut Vec<f32>, dims: usize) {
    let mut squares: Vec<f64> = sample.chunks_exact(dims).map(crate::quant::squares).collect();
    let middle = squares.len() / 2;
    let most = match squares.is_empty() {
        true => return,
        false => *squares.select_nth_unstable_by(middle, f64::total_cmp).1,
    };
    let most = (most * TRAINED_TIMES).max(TRAINED_SQUARES);
    let mut kept = 0;
    for row in 0..sample.len() / dims {
        let at = row * dims..(row + 1) * dims;
        let square = crate::quant::squares(&sample[at.clone()]);
        if square <= most && square.is_finite() {
            sample.copy_within(at, kept * dims);
            kept += 1;
        }
    }
    sample.truncate(kept * dims);
}

/// Adds to rotated residuals as many more, up to `most` in all. All directions are equal to a random rotation: what is found in
/// some dimensions may as well be found in others, but for their variances. So copies are shifted by an even number of
/// dimensions and scaled to those they then stand for.
///
/// (Two hundred rows are held out in 32 MB: a word of a book of 16 would be the mean of a dozen points.)
pub(super) fn shift_more(sample: &mut Vec<f32>, dims: usize, most: usize) {
    let own = sample.len() / dims;
    let mut deviations = vec![0.0f32; dims];
    for vector in sample.chunks_exact(dims) {
        let values = deviations.iter_mut().zip(vector);
        values.for_each(|(sum, value)| *sum += value * value);
    }
    deviations.iter_mut().for_each(|sum| *sum = sum.sqrt());
    sample.reserve_exact(most.saturating_sub(own) * dims);
    for shift in (2..dims).step_by(2) {
        for row in 0..own.min(most.saturating_sub(sample.len() / dims)) {
            for dim in 0..dims {
                let from = (dim + shift) % dims;
                let ratio = deviations[dim] / deviations[from];
                let value = sample[row * dims + from] * if ratio.is_finite() { ratio } else { 0.0 };
                sample.push(value);
            }
        }
    }
}
