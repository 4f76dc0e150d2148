//! The seam between filters and payload indexes, and which index serves a condition.

use roaring::RoaringBitmap;

use super::names::names_of;
use super::plan::{IndexPlan, plan};
use super::range::KeyRange;
use crate::error::Error;
use crate::filter::ast::{AnyOf, FieldCheck, FieldCondition, Match};
use crate::filter::compile::FieldNode;
use crate::filter::field_check::Check;
use crate::types::{FieldKind, PointId};

/// The payload indexes of a set of rows `0..rows()`. Fields are named as they were when the index was made, or in the
/// path's shortest spelling (`Path::to_string`).
pub trait FieldIndexes {
    /// The kind of the index on `field`; `None` when there is none.
    fn kind(&self, field: &str) -> Option<FieldKind>;
    /// Adds the rows with a key in the range to `out`.
    fn scan(&mut self, field: &str, range: &KeyRange, out: &mut RoaringBitmap) -> Result<(), Error>;
    /// At least the number of keys in the range, without reading them all.
    fn estimate(&mut self, field: &str, range: &KeyRange) -> Result<u64, Error>;
    fn rows(&self) -> u32;
    /// Adds the rows of those ids that are here to `out`. The ids are sorted.
    fn lookup_ids(&mut self, ids: &[PointId], out: &mut RoaringBitmap) -> Result<(), Error>;
    /// A further bitmap of at most `rows` rows is about to be made: the place to refuse it for want of memory.
    fn hold(&mut self, _rows: u64) -> Result<(), Error> {
        Ok(())
    }
}

/// A scan of more keys than this per row that is left already is not worth it: a payload is read in one or two blocks,
/// and a block of an index holds a few hundred keys.
pub(super) const KEYS_PER_CANDIDATE: u64 = 256;

/// Values of a list that are planned at once: a value's range of keys takes ten times the value.
pub(super) const VALUES_AT_ONCE: usize = 1_024;

/// The list of `match any`, where it is too long to be planned as a whole.
pub(super) fn long_list(field: &FieldNode) -> Option<&AnyOf> {
    match &field.condition.check {
        FieldCheck::Match(Match::Any(list)) if list_len(list) > VALUES_AT_ONCE => Some(list),
        _ => None,
    }
}

pub(super) fn list_len(list: &AnyOf) -> usize {
    match list {
        AnyOf::Ints(ints) => ints.len(),
        AnyOf::Strs(strs) => strs.len(),
    }
}

/// The same condition with the values from `at` on, as many as are planned at once.
pub(super) fn part_of(field: &FieldNode, list: &AnyOf, at: usize) -> FieldNode {
    let end = (at + VALUES_AT_ONCE).min(list_len(list));
    let part = match list {
        AnyOf::Ints(ints) => AnyOf::Ints(ints[at..end].to_vec()),
        AnyOf::Strs(strs) => AnyOf::Strs(strs[at..end].to_vec()),
    };
    FieldNode {
        condition: FieldCondition {
            key: field.condition.key.clone(),
            check: FieldCheck::Match(Match::Any(part)),
        },
        path: field.path.clone(),
        // Not asked: a plan is made from the condition.
        check: Check::IsNull(true),
    }
}

/// The name and the kind of the index that serves a condition.
pub(super) fn index_of(
    field: &FieldNode,
    outer: Option<&str>,
    indexes: &dyn FieldIndexes,
) -> Option<(String, FieldKind)> {
    let names = names_of(&field.condition, &field.path, outer).into_iter();
    names
        .filter_map(|name| indexes.kind(&name).map(|kind| (name, kind)))
        .next()
}

/// The plan of a condition with the name of the index that serves it. Within `nested` only plans that mean "some value
/// is in the ranges" hold, as a superset: the element's values are among the values of the path over all elements.
pub(super) fn field_plan(
    field: &FieldNode,
    outer: Option<&str>,
    indexes: &dyn FieldIndexes,
) -> Option<(String, IndexPlan)> {
    let (name, kind) = index_of(field, outer, indexes)?;
    if let FieldCheck::Match(Match::Except(list)) = &field.condition.check
        && list_len(list) > VALUES_AT_ONCE
    {
        // A range for every gap: rather look at the payloads.
        return None;
    }
    let mut plan = plan(kind, &field.condition)?;
    let is_match = matches!(field.condition.check, FieldCheck::Match(_));
    if kind == FieldKind::Uuid && is_match && !matches!(field.check, Check::Uuids(..)) {
        // Its keys don't tell how an id is written.
        plan.exact = false;
    }
    if outer.is_some() {
        if plan.negate {
            return None;
        }
        plan.exact = false;
    }
    Some((name, plan))
}
