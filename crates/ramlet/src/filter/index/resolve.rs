//! The candidate rows of a filter, from the payload indexes.

use roaring::RoaringBitmap;

use super::estimate::{Cardinality, group_cardinality, node_cardinality};
use super::names::{elements_of, names_of};
use super::plan::{IndexPlan, plan};
use super::range::KeyRange;
use super::tokens::{resolve_tokens, tokens_of};
use crate::error::Error;
use crate::filter::ast::{AnyOf, FieldCheck, FieldCondition, Match};
use crate::filter::compile::{CompiledFilter, FieldNode, Group, Node};
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

/// Rows that can match.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// `None` = all rows.
    pub bitmap: Option<RoaringBitmap>,
    /// These are the matching rows; `false`: each must be checked with [`CompiledFilter::matches`].
    pub exact: bool,
}

/// A scan of more keys than this per row that is left already is not worth it: a payload is read in one or two blocks,
/// and a block of an index holds a few hundred keys.
pub(super) const KEYS_PER_CANDIDATE: u64 = 256;

/// Most children of a `min_should` times its count that are resolved; beyond, every row is looked at.
const MIN_SHOULD_STEPS: u64 = 4_096;

/// All rows that can match `filter`. Reads the indexes' ranges; holds a bitmap per level of nesting.
pub fn resolve(filter: &CompiledFilter, indexes: &mut dyn FieldIndexes) -> Result<Resolved, Error> {
    resolve_group(&filter.root, None, indexes)
}

impl Resolved {
    const ALL: Resolved = Resolved {
        bitmap: None,
        exact: true,
    };
    const UNKNOWN: Resolved = Resolved {
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

    fn is_none(&self) -> bool {
        self.bitmap.as_ref().is_some_and(RoaringBitmap::is_empty)
    }

    fn and(self, other: Resolved) -> Resolved {
        let exact = self.exact && other.exact;
        match (self.bitmap, other.bitmap) {
            (Some(a), Some(b)) => Resolved::some(a & b, exact),
            (Some(one), None) | (None, Some(one)) => Resolved::some(one, exact),
            (None, None) => Resolved { bitmap: None, exact },
        }
    }

    fn or(self, other: Resolved) -> Resolved {
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
    fn not(self, indexes: &mut dyn FieldIndexes) -> Result<Resolved, Error> {
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

/// `outer` is the path of the array whose elements are meant, inside `nested`.
fn resolve_group(
    group: &Group,
    outer: Option<&str>,
    indexes: &mut dyn FieldIndexes,
) -> Result<Resolved, Error> {
    let mut all = resolve_must(&group.must, outer, indexes)?;
    for node in &group.must_not {
        if all.is_none() {
            return Ok(all);
        }
        all = all.and(resolve_node(node, outer, indexes)?.not(indexes)?);
    }
    if !group.should.is_empty() && !all.is_none() {
        let mut any = Resolved::none();
        for node in &group.should {
            any = any.or(resolve_node(node, outer, indexes)?);
            if any.bitmap.is_none() {
                break;
            }
        }
        all = all.and(any);
    }
    if let Some((min_count, nodes)) = &group.min_should
        && !all.is_none()
    {
        all = all.and(resolve_min_should(*min_count, nodes, outer, indexes)?);
    }
    Ok(all)
}

/// The most selective conditions first; a scan much longer than checking the rows that are left is skipped.
fn resolve_must(
    nodes: &[Node],
    outer: Option<&str>,
    indexes: &mut dyn FieldIndexes,
) -> Result<Resolved, Error> {
    if let [node] = nodes {
        return resolve_node(node, outer, indexes);
    }
    let mut by_cost: Vec<(Cardinality, &Node)> = Vec::with_capacity(nodes.len());
    for node in nodes {
        by_cost.push((node_cardinality(node, outer, indexes)?, node));
    }
    by_cost.sort_by_key(|(cardinality, _)| cardinality.max);
    let mut all = Resolved::ALL;
    for (cardinality, node) in by_cost {
        if all.is_none() {
            return Ok(all);
        }
        let left = all.bitmap.as_ref().map(RoaringBitmap::len);
        let too_long = |left: u64| cardinality.max / KEYS_PER_CANDIDATE > left;
        all = match left {
            Some(left) if too_long(left) => all.and(Resolved::UNKNOWN),
            _ => all.and(resolve_node(node, outer, indexes)?),
        };
    }
    Ok(all)
}

/// Rows in at least `min_count` of the children: `at_least[j]` holds the rows seen in more than `j` of them so far.
fn resolve_min_should(
    min_count: u64,
    nodes: &[Node],
    outer: Option<&str>,
    indexes: &mut dyn FieldIndexes,
) -> Result<Resolved, Error> {
    if min_count > nodes.len() as u64 {
        return Ok(Resolved::none());
    }
    if min_count.saturating_mul(nodes.len() as u64) > MIN_SHOULD_STEPS {
        return Ok(Resolved::UNKNOWN);
    }
    let mut at_least: Vec<RoaringBitmap> = Vec::new();
    let mut wanted = min_count;
    let mut exact = true;
    for node in nodes {
        let resolved = resolve_node(node, outer, indexes)?;
        exact &= resolved.exact;
        let Some(rows) = resolved.bitmap else {
            wanted = wanted.saturating_sub(1);
            continue;
        };
        // Each of them enters one of the bitmaps.
        indexes.hold(rows.len())?;
        at_least.push(RoaringBitmap::new());
        for j in (1..at_least.len()).rev() {
            let again = &at_least[j - 1] & &rows;
            at_least[j] |= again;
        }
        at_least[0] |= rows;
        at_least.truncate(usize::try_from(min_count).unwrap_or(usize::MAX));
    }
    match usize::try_from(wanted).unwrap_or(usize::MAX).checked_sub(1) {
        None => Ok(Resolved { bitmap: None, exact }),
        Some(j) => Ok(Resolved::some(
            at_least.into_iter().nth(j).unwrap_or_default(),
            exact,
        )),
    }
}

fn resolve_node(node: &Node, outer: Option<&str>, indexes: &mut dyn FieldIndexes) -> Result<Resolved, Error> {
    match node {
        Node::Field(field) => resolve_field(field, outer, indexes),
        // Elements of arrays have no id, no slice and no vectors.
        Node::HasId(_) | Node::HasVector(_) | Node::Slice { .. } if outer.is_some() => Ok(Resolved::none()),
        Node::HasId(ids) => {
            let mut rows = RoaringBitmap::new();
            indexes.lookup_ids(ids, &mut rows)?;
            Ok(Resolved::some(rows, true))
        }
        Node::HasVector(_) | Node::Slice { .. } => Ok(Resolved::UNKNOWN),
        Node::Nested { path, group } => {
            let elements = elements_of(outer, path);
            let resolved = resolve_group(group, Some(&elements), indexes)?;
            // What holds for values of several elements need not hold within one.
            Ok(match resolved.bitmap {
                Some(rows) => Resolved::some(rows, false),
                None => Resolved::UNKNOWN,
            })
        }
        Node::Group(group) => resolve_group(group, outer, indexes),
    }
}

fn resolve_field(
    field: &FieldNode,
    outer: Option<&str>,
    indexes: &mut dyn FieldIndexes,
) -> Result<Resolved, Error> {
    if let Some(list) = long_list(field) {
        return resolve_long(field, list, outer, indexes);
    }
    if let Some((name, tokens)) = tokens_of(field, outer, indexes) {
        return resolve_tokens(tokens, &name, outer.is_none(), indexes);
    }
    let Some((name, plan)) = field_plan(field, outer, indexes) else {
        return Ok(Resolved::UNKNOWN);
    };
    let mut rows = RoaringBitmap::new();
    for range in &plan.ranges {
        indexes.scan(&name, range, &mut rows)?;
    }
    let resolved = Resolved::some(rows, plan.exact);
    if plan.negate {
        resolved.not(indexes)
    } else {
        Ok(resolved)
    }
}

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

fn resolve_long(
    field: &FieldNode,
    list: &AnyOf,
    outer: Option<&str>,
    indexes: &mut dyn FieldIndexes,
) -> Result<Resolved, Error> {
    let mut any = Resolved::none();
    for at in (0..list_len(list)).step_by(VALUES_AT_ONCE) {
        any = any.or(resolve_field(&part_of(field, list, at), outer, indexes)?);
        if any.bitmap.is_none() {
            break;
        }
    }
    Ok(any)
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

/// Cardinality of a whole filter, for [`super::estimate`].
pub(super) fn filter_cardinality(
    filter: &CompiledFilter,
    indexes: &mut dyn FieldIndexes,
) -> Result<Cardinality, Error> {
    group_cardinality(&filter.root, None, indexes)
}
