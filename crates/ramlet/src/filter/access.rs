//! The part of a point that filters read.

use crate::types::PointId;

/// What a filter asks of a point. Asked only for what the filter's conditions need, and only until it is decided.
pub trait PointAccess {
    fn id(&self) -> PointId;
    /// A JSON object's text; empty = no payload. May be asked once per condition.
    fn payload(&self) -> &[u8];
    fn has_vector(&self, name: &str) -> bool;
    /// Whether the texts of the payload index of this slot are known to lack the word of a hash, so that the payload need not be read.
    fn lacks_word(&self, _slot: u16, _hash: u64) -> bool {
        false
    }
}
