//! How near centroids are, in numbers that sort.

use crate::operands::Nearness;
use crate::table::Kernels;

/// Places that are written at a time: [`Kernels::places_at_most`] wants room for so many more than there are distances.
pub const PLACES_MORE: usize = 4;

/// The reference: a place is overwritten by the next one unless it is kept, without a branch that nothing foretells.
///
/// Safety: that of `PlacesKernel`.
pub(crate) unsafe fn places(distances: &[u64], most: u64, out: *mut u32) -> usize {
    let mut count = 0;
    for (place, distance) in (0u32..).zip(distances) {
        // SAFETY: no more places than distances.
        unsafe { out.add(count).write(place) };
        count += usize::from(*distance <= most);
    }
    count
}

impl Kernels {
    /// Where distances are that are at most so much, ascending, in place of what `out` held.
    pub fn places_at_most(&self, distances: &[u64], most: u64, out: &mut Vec<u32>) {
        assert!(distances.len() <= u32::MAX as usize, "places of 32 bits");
        out.clear();
        out.reserve(distances.len() + PLACES_MORE);
        // SAFETY: the table proves the features; there is room, and so many were written.
        unsafe {
            let count = (self.places)(distances, most, out.as_mut_ptr());
            out.set_len(count);
        }
    }

    /// The distances of centroids `first..`, each [`packed`] with its centroid. All slices have the same length. Bit-equal in
    /// all tables, but for the bits of what isn't a number.
    pub fn nearness(
        &self,
        terms: &Nearness,
        products: &[i32],
        heads: &[[u8; 8]],
        first: u32,
        out: &mut [u64],
    ) {
        assert!(products.len() == heads.len() && products.len() == out.len());
        // SAFETY: the table proves the features.
        unsafe { (self.nearness)(terms, products, heads, first, out) }
    }
}

/// Inlined into a function of each instruction set, for which the compiler vectorizes it.
#[inline(always)]
pub(crate) fn of_each(terms: &Nearness, products: &[i32], heads: &[[u8; 8]], first: u32, out: &mut [u64]) {
    let inputs = products.iter().zip(heads).zip(first..);
    for (out, ((product, head), centroid)) in out.iter_mut().zip(inputs) {
        let head = u64::from_le_bytes(*head);
        let (step, length) = (f32::from_bits(head as u32), f32::from_bits((head >> 32) as u32));
        let product = product.wrapping_sub(terms.less) as f32;
        *out = packed(
            terms.per_length * length + terms.per_product * step * product,
            centroid,
        );
    }
}

/// Distance and number in one that is ordered by distance, then by number. (Sorting these takes a third of the time of sorting
/// pairs.)
#[inline(always)]
pub fn packed(distance: f32, number: u32) -> u64 {
    let bits = distance.to_bits();
    // All bits of a negative distance, else the first.
    let flipped = bits ^ ((bits as i32 >> 31) as u32 | 1 << 31);
    u64::from(flipped) << 32 | u64::from(number)
}

/// What was [`packed`].
#[inline(always)]
pub fn unpacked(both: u64) -> (f32, u32) {
    let flipped = (both >> 32) as u32;
    let bits = flipped ^ (!(flipped as i32 >> 31) as u32 | 1 << 31);
    (f32::from_bits(bits), both as u32)
}
