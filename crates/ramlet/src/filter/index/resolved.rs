//! Candidate rows, and how they are combined.

use roaring::RoaringBitmap;

use super::field_indexes::FieldIndexes;
use crate::error::Error;

/// Rows that can match.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// `None` = all rows.
    pub bitmap: Option<RoaringBitmap>,
    /// These are the matching rows; `false`: each must be checked with [`CompiledFilter::matches`].
    pub exact: bool,
}

impl Resolved {
    pub(super) const ALL: Resolved = Resolved {
        bitmap: None,
        exact: true,
    };
    pub(super) const UNKNOWN: Resolved = Resolved {
        bitmap: None,
        exact: false,
    };

    pub(super) fn some(bitmap: RoaringBitmap, exact: bool) -> Resolved {
        // There is nothing to check in no rows.
        let exact = exact || bitmap.is_empty();
        Resolved {
            bitmap: Some(bitmap),
            exact,
        }
    }

    pub(super) fn none() -> Resolved {
        Resolved::some(RoaringBitmap::new(), true)
    }

    pub(super) fn is_none(&self) -> bool {
        self.bitmap.as_ref().is_some_and(RoaringBitmap::is_empty)
    }

    pub(super) fn and(self, other: Resolved) -> Resolved {
        let exact = self.exact && other.exact;
        match (self.bitmap, other.bitmap) {
            (Some(a), Some(b)) => Resolved::some(a & b, exact),
            (Some(one), None) | (None, Some(one)) => Resolved::some(one, exact),
            (None, None) => Resolved { bitmap: None, exact },
        }
    }

    pub(super) fn or(self, other: Resolved) -> Resolved {
        let is_all = |r: &Resolved| r.bitmap.is_none() && r.exact;
        if is_all(&self) || is_all(&other) {
            return Resolved::ALL;
        }
        match (self.bitmap, other.bitmap) {
            (Some(a), Some(b)) => Resolved::some(a | b, self.exact && other.exact),
            _ => Resolved::UNKNOWN,
        }
    }

    /// All other rows; a superset has no complement worth knowing.
    pub(super) fn not(self, indexes: &mut dyn FieldIndexes) -> Result<Resolved, Error> {
        Ok(match (self.exact, self.bitmap) {
            (false, _) => Resolved::UNKNOWN,
            (true, None) => Resolved::none(),
            (true, Some(bitmap)) => {
                let rows = indexes.rows();
                indexes.hold(u64::from(rows).saturating_sub(bitmap.len()))?;
                Resolved::some(all_rows(rows) - bitmap, true)
            }
        })
    }
}

fn all_rows(rows: u32) -> RoaringBitmap {
    let mut all = RoaringBitmap::new();
    all.insert_range(0..rows);
    all
}
