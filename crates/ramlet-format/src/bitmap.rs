//! Bitmaps of rows (deletes, presence): a roaring bitmap in its portable serialisation
//! (<https://github.com/RoaringBitmap/RoaringFormatSpec>) in an [`envelope`].

use crate::envelope::{self, EnvelopeKind};
use crate::error::{FormatError, Result, ensure};
use roaring::RoaringBitmap;

const WHAT: &str = "bitmap";

/// The whole file. `kind` is `Deletes` or `Presence`.
pub fn encode(kind: EnvelopeKind, rows: &RoaringBitmap) -> Vec<u8> {
    let mut body = Vec::with_capacity(rows.serialized_size());
    rows.serialize_into(&mut body)
        .expect("writing to a Vec doesn't fail");
    envelope::encode(kind, &body)
}

/// `Err` if the envelope or the bitmap is broken, or a row isn't below `rows`, the segment's number of rows.
pub fn decode(kind: EnvelopeKind, rows: u32, bytes: &[u8]) -> Result<RoaringBitmap> {
    let mut body = envelope::decode(kind, bytes)?;
    let bitmap = RoaringBitmap::deserialize_from(&mut body)
        .map_err(|error| FormatError::new(WHAT, format!("{kind:?}: {error}")))?;
    ensure(body.is_empty(), WHAT, || {
        format!("{kind:?}: {} bytes too many", body.len())
    })?;
    let max = bitmap.max();
    ensure(max.is_none_or(|max| max < rows), WHAT, || {
        format!("{kind:?}: row {max:?} of {rows}")
    })?;
    Ok(bitmap)
}
