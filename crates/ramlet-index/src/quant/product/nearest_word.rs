//! The word of a part that is nearest.

use super::WORDS;

/// The word nearest to some values, the first of equals, and its squared distance.
pub(super) fn nearest(book: &[f32], values: &[f32]) -> (u8, f32) {
    let mut distances = [0.0f32; WORDS];
    for (value, column) in values.iter().zip(book.as_chunks::<WORDS>().0) {
        for (distance, word) in distances.iter_mut().zip(column) {
            let off = value - word;
            *distance += off * off;
        }
    }
    least(&distances)
}

/// Where the least of some numbers stands, the first of equals, and that number.
#[inline]
pub(super) fn least(numbers: &[f32; WORDS]) -> (u8, f32) {
    // The compiler makes a vector of these.
    const LANES: usize = 8;
    let (mut least, mut words) = ([f32::INFINITY; LANES], [0u32; LANES]);
    for (block, lanes) in (0u32..).zip(numbers.as_chunks::<LANES>().0) {
        for i in 0..LANES {
            let nearer = lanes[i] < least[i];
            least[i] = if nearer { lanes[i] } else { least[i] };
            words[i] = if nearer { block } else { words[i] };
        }
    }
    let mut best = (f32::INFINITY, 0);
    for (lane, (number, block)) in (0u32..).zip(least.into_iter().zip(words)) {
        let word = block * LANES as u32 + lane;
        if number < best.0 || (number == best.0 && word < best.1) {
            best = (number, word);
        }
    }
    (best.1 as u8, best.0)
}
