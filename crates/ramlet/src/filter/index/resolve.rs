//! The candidate rows of a filter, from the payload indexes.

use roaring::RoaringBitmap;

use super::estimate::{Cardinality, node_cardinality};
use super::field_indexes::{
    FieldIndexes, KEYS_PER_CANDIDATE, VALUES_AT_ONCE, field_plan, list_len, long_list, part_of,
};
use super::names::elements_of;
use super::resolved::Resolved;
use super::tokens::{resolve_tokens, tokens_of};
use crate::error::Error;
use crate::filter::ast::AnyOf;
use crate::filter::compile::{CompiledFilter, FieldNode, Group, Node};

/// Most children of a `min_should` times its count that are resolved; beyond, every row is looked at.
const MIN_SHOULD_STEPS: u64 = 4_096;

/// All rows that can match `filter`. Reads the indexes' ranges; holds a bitmap per level of nesting.
pub fn resolve(filter: &CompiledFilter, indexes: &mut dyn FieldIndexes) -> Result<Resolved, Error> {
    resolve_group(&filter.root, None, indexes)
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
