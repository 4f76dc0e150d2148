//! XXH64 with seed 0: <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>.
//!
//! On disk in Bloom filters: must not change. Checked against the specification's published values in the tests.

use xxhash_rust::xxh64::xxh64;

/// The same of bytes that come one after another: `update`, and `digest` of all that came. What came before costs nothing anew. Its
/// [`Default`] has seed 0.
pub use xxhash_rust::xxh64::Xxh64;

/// XXH64 of `bytes`, seed 0. A few ns for an id; not for keys that an attacker may choose to collide *and* must not.
#[inline]
pub fn hash64(bytes: &[u8]) -> u64 {
    xxh64(bytes, 0)
}
