//! What is left of the caches for rows that are all compared.

use std::sync::Arc;

use crate::schema::VectorField;
use crate::segment::{SegmentView, layout};
use crate::state::core::Core;

/// Rows of which so many times their bytes may be cached are few enough to be read: what an index of them keeps in RAM would be missed elsewhere.
const SMALL_SHARE: u64 = 16;

/// Bytes that may be cached of a vector's rows where all are compared: what other vectors leave, of this collection and of others. Each of their segments has what it can't do
/// without, its rows where all are compared, else the least codes. Collections that aren't loaded want nothing.
pub fn room(core: &Core, vector: &VectorField) -> u64 {
    let most = most(core);
    let needed = |other: Arc<Core>| {
        let but = std::ptr::eq(&*other, core).then_some(vector.slot);
        needed(&other, but)
    };
    let others: u64 = core.shared.one_by_one().map(needed).sum();
    layout::room_of_rows(vector, most.saturating_sub(others).max(most / SMALL_SHARE))
}

/// The same for so many rows: of few, others aren't looked at.
pub fn room_for(core: &Core, vector: &VectorField, rows: u64) -> u64 {
    match layout::compared_bytes(vector, rows) <= most(core) / SMALL_SHARE {
        true => layout::room_of_rows(vector, most(core)),
        false => room(core, vector),
    }
}

/// Bytes that may be cached at all.
pub fn most(core: &Core) -> u64 {
    core.file_context.caches.consumer.cap()
}

/// Bytes without which searches read rows or codes by the cluster, but those of one vector.
fn needed(core: &Core, but: Option<u16>) -> u64 {
    let view = core.view.load();
    let vectors = || {
        view.schema
            .vectors
            .iter()
            .filter(|vector| Some(vector.slot) != but)
    };
    let of_segment = |segment: &SegmentView| vectors().map(|vector| needed_by(vector, segment)).sum::<u64>();
    view.segments.iter().map(of_segment).sum()
}

fn needed_by(vector: &VectorField, view: &SegmentView) -> u64 {
    let Some(column) = view.segment.vector(vector.slot) else {
        return 0;
    };
    let rows = column.rows(view.segment.rows());
    match column.index.kind() {
        "flat" => layout::compared_bytes(vector, rows),
        "ivf" => layout::least_bytes(vector, u32::try_from(rows).unwrap_or(u32::MAX)),
        // A graph needs nothing, and of rows of a length of their own nothing is kept.
        _ => 0,
    }
}
