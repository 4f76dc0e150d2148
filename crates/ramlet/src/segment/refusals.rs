//! Indexes missing for lack of memory: recorded with the segment, shown in the collection's status, and retried when the memory is free or the
//! budget larger.

use ramlet_format::manifest::SegmentEntry;
use serde_json::{Value, json};

use super::indexes::Lack;

/// By a vector's slot: what its index needs, what there was, and whether that passes by itself.
const REFUSED: &str = "refused_indexes";
/// Bytes that might be cached at most when that was tried: what tells one budget from another.
const REFUSED_IN: &str = "refused_in";

/// So much more room, and an index that was refused is tried again.
const WORTH_ANOTHER_TRY: f64 = 1.25;

pub fn note_refusals(extra: &mut Value, refused: &[(u16, Lack)], room: u64) {
    for (slot, lack) in refused {
        extra[REFUSED][slot.to_string()] = json!([lack.needed_bytes, lack.given_bytes, lack.passes]);
    }
    extra[REFUSED_IN] = room.into();
}

/// Forgets that indexes were refused, if the budget has grown since.
pub fn reconsider_refusals(extra: &mut Value, room: u64) {
    let before = extra.get(REFUSED_IN).and_then(Value::as_u64);
    if before.is_some_and(|before| room as f64 >= before as f64 * WORTH_ANOTHER_TRY)
        && let Some(extra) = extra.as_object_mut()
    {
        extra.remove(REFUSED);
    }
}

/// Whether a segment was written without the index that a vector should have, for want of memory: it would be again. What it
/// lacked, if so.
pub fn refused_index(entry: &SegmentEntry, slot: u16) -> Option<Lack> {
    let bytes = entry.extra.get(REFUSED)?.get(slot.to_string())?;
    let number = |at: usize| bytes.get(at)?.as_u64();
    Some(Lack {
        needed_bytes: number(0)?,
        given_bytes: number(1)?,
        passes: bytes.get(2).and_then(Value::as_bool).unwrap_or(false),
    })
}

/// Of a vector that is dropped.
pub fn forget_refusal(extra: &mut Value, slot: u16) {
    if let Some(refused) = extra.get_mut(REFUSED).and_then(Value::as_object_mut) {
        refused.remove(&slot.to_string());
    }
}
