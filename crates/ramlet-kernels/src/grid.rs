//! Vectors in a few bits a dimension, as they are coded: levels, planes of bits, and what they stand for.
//!
//! All are bit-equal in all tables: sums run in eight lanes, whatever the width of a register.

use crate::table::Kernels;

impl Kernels {
    /// Writes the vector in whole numbers of -127 to 127, each plus 128, and returns what one of them stands for: `value ~ scale *
    /// (code - 128)`. The greatest value is 127, or less of a vector whose greatest is below 1e-30.
    pub fn to_bytes(&self, vector: &[f32], codes: &mut [u8]) -> f32 {
        assert_eq!(vector.len(), codes.len(), "codes of another length");
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.grid.to_bytes)(vector, codes) }
    }

    /// Writes the levels, of so many bits (seven at most) beside the sign, whose numbers `u` point most nearly where the vector
    /// `r` does, and returns `<u, r>`; zeros and 0 if there is no telling. A level grows with its number, which is half a step
    /// beyond it: with 3 bits 0..8 are -7.5 to -0.5 where a value is less than 0, else 0.5 to 7.5.
    ///
    /// The step is the best of those tried, then each level moves by one where that turns the numbers towards the vector.
    pub fn levels(&self, vector: &[f32], planes: u32, levels: &mut [u8]) -> f64 {
        assert_eq!(vector.len(), levels.len(), "levels of another length");
        assert!(planes <= 7, "{planes} planes of a level");
        // SAFETY: the table proves the features; the rest was just checked.
        unsafe { (self.grid.levels)(vector, planes, levels) }
    }

    /// Writes the lowest bits of each level apart: planes of `ceil(d / 8)` bytes, the most significant first; bit `i % 8` of byte
    /// `i / 8` is level `i`'s.
    pub fn planes(&self, levels: &[u8], planes: u32, out: &mut [u8]) {
        assert!(planes <= 8, "{planes} planes of a byte");
        assert_eq!(
            out.len(),
            planes as usize * levels.len().div_ceil(8),
            "planes of another length"
        );
        // SAFETY: the table proves the features; the length was just checked.
        unsafe { (self.grid.planes)(levels, planes, out) }
    }

    /// Writes a plane whose bits tell which values are 0 or more.
    pub fn signs(&self, values: &[f32], out: &mut [u8]) {
        assert_eq!(out.len(), values.len().div_ceil(8), "a plane of another length");
        // SAFETY: the table proves the features; the length was just checked.
        unsafe { (self.grid.signs)(values, out) }
    }

    /// The numbers that the values' signs and levels of so many bits beside them stand for.
    pub fn grid_values(&self, values: &[f32], levels: &[u8], planes: u32, out: &mut [f32]) {
        assert!(
            values.len() == levels.len() && values.len() == out.len(),
            "numbers of another length"
        );
        assert!(planes <= 7, "{planes} planes of a level");
        // SAFETY: the table proves the features; the rest was just checked.
        unsafe { (self.grid.values)(values, levels, planes, out) }
    }

    /// Adds to sums what bytes as of [`Kernels::to_bytes`] stand for: `scale * (code - 128)`.
    pub fn add_bytes(&self, sums: &mut [f32], codes: &[u8], scale: f32) {
        assert_eq!(sums.len(), codes.len(), "sums of another length");
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.grid.add)(sums, codes, scale) }
    }

    /// Dot product in double precision.
    pub fn dot_f64(&self, a: &[f32], b: &[f32]) -> f64 {
        assert_eq!(a.len(), b.len(), "a product of different lengths");
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.grid.dot)(a, b) }
    }

    /// Sum of the absolute values, in double precision.
    pub fn size_f64(&self, values: &[f32]) -> f64 {
        // SAFETY: the table proves the features.
        unsafe { (self.grid.size)(values) }
    }
}

/// The functions, inlined into those of an instruction set, for which the compiler vectorizes them.
macro_rules! grid_kernels {
    ($($feature:literal)?) => {
        pub(super) mod grid {
            use crate::grid;
            use crate::table::GridKernels;

            pub(in crate::arch) const KERNELS: GridKernels = GridKernels {
                to_bytes,
                levels,
                planes,
                signs,
                values,
                add,
                dot,
                size,
            };

            $(#[target_feature(enable = $feature)])?
            fn to_bytes(vector: &[f32], codes: &mut [u8]) -> f32 {
                grid::to_bytes(vector, codes)
            }

            $(#[target_feature(enable = $feature)])?
            fn levels(vector: &[f32], planes: u32, levels: &mut [u8]) -> f64 {
                grid::levels(vector, planes, levels, None)
            }

            $(#[target_feature(enable = $feature)])?
            fn planes(levels: &[u8], planes: u32, out: &mut [u8]) {
                grid::planes(levels, planes, out);
            }

            $(#[target_feature(enable = $feature)])?
            fn signs(values: &[f32], out: &mut [u8]) {
                grid::signs(values, out);
            }

            $(#[target_feature(enable = $feature)])?
            fn values(values: &[f32], levels: &[u8], planes: u32, out: &mut [f32]) {
                grid::values(values, levels, planes, out);
            }

            $(#[target_feature(enable = $feature)])?
            fn add(sums: &mut [f32], codes: &[u8], scale: f32) {
                grid::add(sums, codes, scale);
            }

            $(#[target_feature(enable = $feature)])?
            fn dot(a: &[f32], b: &[f32]) -> f64 {
                grid::dot(a, b)
            }

            $(#[target_feature(enable = $feature)])?
            fn size(values: &[f32]) -> f64 {
                grid::size(values)
            }
        }
    };
}

/// Added and taken away again, it leaves the nearest whole number, which the sum's lowest bits are.
pub(crate) const ROUNDER: f32 = 12_582_912.0;

pub(crate) const LANES: usize = 8;

#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    let greater = |most: f32, value: f32| if value.abs() > most { value.abs() } else { most };
    let (whole, rest) = values.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    for chunk in whole {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = greater(*lane, *value);
        }
    }
    lanes.iter().chain(rest).copied().fold(0.0, greater)
}

#[inline(always)]
pub(crate) fn to_bytes(vector: &[f32], codes: &mut [u8]) -> f32 {
    // The least normal number, so that its inverse is finite; a huge one stays finite too.
    let most = largest(vector).clamp(1e-30, 1e30);
    let inverse = 127.0 / most;
    for (code, value) in codes.iter_mut().zip(vector) {
        let value = (value * inverse).clamp(-127.0, 127.0);
        *code = (value + ROUNDER).to_bits() as u8 ^ 0x80;
    }
    most / 127.0
}

/// Step sizes tried, as shares of the one at which the largest value just fits: it pays to clip a few, the more the
/// fewer bits and the more dimensions there are.
const STEPS: [f32; 10] = [0.45, 0.53, 0.6, 0.67, 0.73, 0.79, 0.85, 0.91, 0.96, 1.0];

/// From the largest on, so many in turn that are worse than the best end the search: of codes of 6 bits the first or the second
/// is the best, and to try all ten took a tenth of a build's time.
const WORSE: usize = 2;

/// `<u, r>` and `|u|^2`.
#[derive(Clone, Copy)]
pub(crate) struct Fit {
    along: f64,
    squares: f64,
}

/// How the code with steps of `1 / per_unit` fits. Safety: the processor has the table's features.
type Measure = unsafe fn(r: &[f32], per_unit: f32, most: f32) -> Fit;

impl Fit {
    #[inline(always)]
    pub(crate) fn of([along, squares]: [[f32; LANES]; 2]) -> Fit {
        let sum = |lanes: [f32; LANES]| lanes.iter().map(|lane| f64::from(*lane)).sum();
        Fit {
            along: sum(along),
            squares: sum(squares),
        }
    }

    #[inline(always)]
    fn cosine(self) -> f64 {
        self.along / self.squares.sqrt()
    }
}

/// `by_hand` goes before [`measure`].
#[inline(always)]
pub(crate) fn levels(r: &[f32], planes: u32, levels: &mut [u8], by_hand: Option<Measure>) -> f64 {
    let most = ((1u32 << planes) - 1) as f32;
    let fits = largest(r) / (most + 1.0);
    let (mut best, mut worse): (Option<(f32, Fit, f64)>, _) = (None, 0);
    for share in STEPS.iter().rev() {
        let per_unit = 1.0 / (fits * share);
        if !per_unit.is_finite() {
            continue;
        }
        let found = match by_hand {
            // SAFETY: it is of the table that this is of.
            Some(by_hand) => unsafe { by_hand(r, per_unit, most) },
            None => measure(r, per_unit, most),
        };
        let cosine = found.cosine();
        if best.is_none_or(|(_, _, best)| cosine > best) {
            (best, worse) = (Some((per_unit, found, cosine)), 0);
        } else {
            worse += 1;
        }
        if worse == WORSE {
            break;
        }
    }
    let Some((per_unit, start, _)) = best else {
        // Nothing, or too little for a float to tell.
        levels.fill(0);
        return 0.0;
    };
    for (level, value) in levels.iter_mut().zip(r) {
        *level = (rounded_level(*value, per_unit, most) + ROUNDER).to_bits() as u8;
    }
    let most = most as u8;
    let along = improve(r, levels, most, start);
    // Levels grow away from zero; in the code they grow upwards. (All of their bits are flipped, without a branch that nothing
    // foretells.)
    for (level, value) in levels.iter_mut().zip(r) {
        *level ^= if *value < 0.0 { most } else { 0 };
    }
    along
}

/// Steps from zero to the grid value of a number, less the half step. (Converting to an integer and back would take several times
/// as long, since what isn't a number is asked for.)
#[inline(always)]
fn rounded_level(value: f32, per_unit: f32, most: f32) -> f32 {
    let steps = value.abs() * per_unit;
    let most = most + 0.5;
    let steps = if steps < most { steps } else { most };
    (steps - 0.5 + ROUNDER) - ROUNDER
}

/// How the code with steps of `1 / per_unit` fits.
#[inline(always)]
fn measure(r: &[f32], per_unit: f32, most: f32) -> Fit {
    let mut sums = [[0.0f32; LANES]; 2];
    let (chunks, rest) = r.as_chunks::<LANES>();
    for chunk in chunks {
        measure_eight(&mut sums, chunk, &[1.0; LANES], per_unit, most);
    }
    let (mut last, mut counts) = ([0.0; LANES], [0.0; LANES]);
    last[..rest.len()].copy_from_slice(rest);
    counts[..rest.len()].fill(1.0);
    measure_eight(&mut sums, &last, &counts, per_unit, most);
    Fit::of(sums)
}

/// A function and not a closure, which would be compiled apart and without the instruction set's features.
#[inline(always)]
fn measure_eight(
    [along, squares]: &mut [[f32; LANES]; 2],
    values: &[f32; LANES],
    counts: &[f32; LANES],
    per_unit: f32,
    most: f32,
) {
    for lane in 0..LANES {
        let u = counts[lane] * (rounded_level(values[lane], per_unit, most) + 0.5);
        along[lane] += u * values[lane].abs();
        squares[lane] += u * u;
    }
}

/// Moves each level by one if that turns the code towards `r`; `<u, r>` at the end.
///
/// Whether a level moves depends on those that moved before it. But few do: eight are judged at once, and again after one of them.
#[inline(always)]
fn improve(r: &[f32], levels: &mut [u8], most: u8, mut fit: Fit) -> f64 {
    let ((chunks, rest), (levels, last)) = (r.as_chunks::<LANES>(), levels.as_chunks_mut::<LANES>());
    for (values, levels) in chunks.iter().zip(levels) {
        improve_eight(values, levels, (most, u8::MAX), &mut fit);
    }
    if !rest.is_empty() {
        let (mut values, mut levels) = ([0.0; LANES], [0; LANES]);
        values[..rest.len()].copy_from_slice(rest);
        levels[..rest.len()].copy_from_slice(last);
        improve_eight(&values, &mut levels, (most, (1 << rest.len()) - 1), &mut fit);
        last.copy_from_slice(&levels[..rest.len()]);
    }
    fit.along
}

/// The levels of the lanes of `open` are there.
#[inline(always)]
fn improve_eight(values: &[f32; LANES], levels: &mut [u8; LANES], (most, mut open): (u8, u8), fit: &mut Fit) {
    loop {
        let moving = open & moving(values, levels, most, *fit);
        if moving == 0 {
            return;
        }
        let lane = moving.trailing_zeros() as usize;
        let (up, moved) = moved(f64::from(values[lane].abs()), f64::from(levels[lane]) + 0.5, *fit);
        levels[lane] = if up { levels[lane] + 1 } else { levels[lane] - 1 };
        *fit = moved;
        // It and those before it have had their turn.
        open &= ((0xfe_u16) << lane) as u8;
    }
}

/// Which levels move, if none before them does.
#[inline(always)]
fn moving(values: &[f32; LANES], levels: &[u8; LANES], most: u8, fit: Fit) -> u8 {
    let last = f64::from(most) + 0.5;
    let mut moving = [0u64; LANES];
    for lane in 0..LANES {
        let u = f64::from(levels[lane]) + 0.5;
        let (up, moved) = moved(f64::from(values[lane].abs()), u, fit);
        let edge = if up { last } else { 0.5 };
        let better = moved.along * moved.along * fit.squares > fit.along * fit.along * moved.squares;
        let moves = (u != edge) & (moved.along > 0.0) & better;
        moving[lane] = if moves { 1 << lane } else { 0 };
    }
    moving.iter().fold(0, |all, one| all | one) as u8
}

/// Whether the level that `r` asks for at the present scale lies above the one it has, and the fit if it moves there.
#[inline(always)]
fn moved(value: f64, u: f64, fit: Fit) -> (bool, Fit) {
    let up = value * fit.squares > u * fit.along;
    let step = if up { 1.0 } else { -1.0 };
    let moved = Fit {
        along: fit.along + step * value,
        squares: fit.squares + 2.0 * step * u + 1.0,
    };
    (up, moved)
}

/// The lowest bits of eight bytes, in order.
#[inline(always)]
fn lowest(bytes: u64) -> u8 {
    const LOWEST: u64 = 0x0101_0101_0101_0101;
    // Byte `i` times the seven-times-shifted ones: bit `56 + i`, and nothing carries.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    ((bytes & LOWEST).wrapping_mul(GATHER) >> 56) as u8
}

#[inline(always)]
pub(crate) fn planes(levels: &[u8], planes: u32, out: &mut [u8]) {
    let plane_bytes = levels.len().div_ceil(8);
    for (i, levels) in levels.chunks(8).enumerate() {
        let mut bytes = [0; 8];
        bytes[..levels.len()].copy_from_slice(levels);
        let bytes = u64::from_le_bytes(bytes);
        for plane in 0..planes {
            out[plane as usize * plane_bytes + i] = lowest(bytes >> (planes - 1 - plane));
        }
    }
}

#[inline(always)]
pub(crate) fn signs(values: &[f32], out: &mut [u8]) {
    let (chunks, rest) = values.as_chunks::<8>();
    for (values, out) in chunks.iter().zip(&mut *out) {
        *out = lowest(u64::from_le_bytes(values.map(|value| u8::from(value >= 0.0))));
    }
    if let Some(out) = out.get_mut(chunks.len()) {
        *out = (0..)
            .zip(rest)
            .fold(0, |all, (i, value)| all | u8::from(*value >= 0.0) << i);
    }
}

#[inline(always)]
pub(crate) fn values(values: &[f32], levels: &[u8], planes: u32, out: &mut [f32]) {
    let half = 1i32 << planes;
    // Of `planes + 1` bits with the sign's on top the middle lies half a step below that.
    let middle = half as f32 - 0.5;
    for ((value, level), out) in values.iter().zip(levels).zip(out) {
        let above = if *value >= 0.0 { half } else { 0 };
        *out = (above + i32::from(*level)) as f32 - middle;
    }
}

#[inline(always)]
pub(crate) fn add(sums: &mut [f32], codes: &[u8], scale: f32) {
    for (sum, code) in sums.iter_mut().zip(codes) {
        *sum += scale * (f32::from(*code) - 128.0);
    }
}

#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0.0f64; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *lane += f64::from(*a) * f64::from(*b);
    }
    sum(lanes)
}

#[inline(always)]
pub(crate) fn size(values: &[f32]) -> f64 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0f64; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] += f64::from(chunk[lane].abs());
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += f64::from(value.abs());
    }
    sum(lanes)
}

#[inline(always)]
fn sum([a, b, c, d, e, f, g, h]: [f64; LANES]) -> f64 {
    ((a + e) + (b + f)) + ((c + g) + (d + h))
}
