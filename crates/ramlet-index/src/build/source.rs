//! The source of a build's rows.

use crate::error::Result;

/// Encoded rows with their numbers, in an order that is the same at every replay.
pub trait RowSource {
    /// How many rows a replay gives.
    fn rows(&self) -> u32;

    /// Calls `each` with every row's number and bytes ([`crate::encode_row`]); no number comes twice.
    /// An error of `each` ends the replay and is returned.
    fn replay(&mut self, each: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()>;
}
