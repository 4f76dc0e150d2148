//! How near centroids are, in numbers that sort.

use crate::table::Kernels;

/// What turns a product and a centroid's head (`step`, `length`: f32, little endian) into its key:
/// `per_length * length + per_product * step * (product - less)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nearness {
    pub per_length: f32,
    pub per_product: f32,
    pub less: i32,
}

/// Safety: the processor has the table's features.
pub(crate) type NearnessKernel =
    unsafe fn(&Nearness, products: &[i32], heads: &[[u8; 8]], first: u32, out: &mut [u64]);

impl Kernels {
    /// The keys of centroids `first..`, each [`packed`] with its centroid. All slices have the same length. Bit-equal in
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

/// Key and number in one that is ordered by key, then by number. (Sorting these takes a third of the time of sorting
/// pairs.)
#[inline(always)]
pub fn packed(key: f32, number: u32) -> u64 {
    let bits = key.to_bits();
    // All bits of a negative key, else the first.
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
