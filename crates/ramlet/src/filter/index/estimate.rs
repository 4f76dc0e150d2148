//! How many rows match a filter, without reading them.

use super::field_indexes::{FieldIndexes, VALUES_AT_ONCE, field_plan, list_len, long_list, part_of};
use super::names::elements_of;
use super::tokens::{estimate_tokens, tokens_of};
use crate::error::Error;
use crate::filter::compile::{CompiledFilter, FieldNode, Group, Node};

/// Rows that match: certainly between `min` and `max`, and `expected` if conditions are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cardinality {
    pub min: u64,
    pub expected: u64,
    pub max: u64,
}

/// The number of rows (of `indexes.rows()`, deleted ones included) that match; reads no keys, only counts of them.
pub fn estimate(filter: &CompiledFilter, indexes: &mut dyn FieldIndexes) -> Result<Cardinality, Error> {
    group_cardinality(&filter.root, None, indexes)
}

impl Cardinality {
    fn all(rows: u64) -> Cardinality {
        Cardinality {
            min: rows,
            expected: rows,
            max: rows,
        }
    }

    /// Nothing is known; half is the guess that is never wrong by more than half.
    fn unknown(rows: u64) -> Cardinality {
        Cardinality {
            min: 0,
            expected: rows / 2,
            max: rows,
        }
    }

    fn not(self, rows: u64) -> Cardinality {
        Cardinality {
            min: rows - self.max.min(rows),
            expected: rows - self.expected.min(rows),
            max: rows - self.min.min(rows),
        }
    }

    fn and(self, other: Cardinality, rows: u64) -> Cardinality {
        let min = (self.min + other.min).saturating_sub(rows);
        let max = self.max.min(other.max);
        let expected = share(self.expected, other.expected, rows).clamp(min, max);
        Cardinality { min, expected, max }
    }

    fn or(self, other: Cardinality, rows: u64) -> Cardinality {
        self.not(rows).and(other.not(rows), rows).not(rows)
    }
}

/// `a * b / rows`.
fn share(a: u64, b: u64, rows: u64) -> u64 {
    (u128::from(a) * u128::from(b)).div_ceil(u128::from(rows.max(1))) as u64
}

pub(super) fn group_cardinality(
    group: &Group,
    outer: Option<&str>,
    indexes: &mut dyn FieldIndexes,
) -> Result<Cardinality, Error> {
    let rows = u64::from(indexes.rows());
    let mut all = Cardinality::all(rows);
    for node in &group.must {
        all = all.and(node_cardinality(node, outer, indexes)?, rows);
    }
    for node in &group.must_not {
        all = all.and(node_cardinality(node, outer, indexes)?.not(rows), rows);
    }
    if !group.should.is_empty() {
        all = all.and(any_cardinality(&group.should, outer, indexes)?, rows);
    }
    if let Some((min_count, nodes)) = &group.min_should {
        let any = any_cardinality(nodes, outer, indexes)?;
        let some = match *min_count {
            1 => any,
            n if n > nodes.len() as u64 => Cardinality::all(rows).not(rows),
            n => Cardinality {
                min: 0,
                expected: any.expected / n,
                ..any
            },
        };
        all = all.and(some, rows);
    }
    Ok(all)
}

fn any_cardinality(
    nodes: &[Node],
    outer: Option<&str>,
    indexes: &mut dyn FieldIndexes,
) -> Result<Cardinality, Error> {
    let rows = u64::from(indexes.rows());
    let mut any = Cardinality::all(rows).not(rows);
    for node in nodes {
        any = any.or(node_cardinality(node, outer, indexes)?, rows);
    }
    Ok(any)
}

pub(super) fn node_cardinality(
    node: &Node,
    outer: Option<&str>,
    indexes: &mut dyn FieldIndexes,
) -> Result<Cardinality, Error> {
    let rows = u64::from(indexes.rows());
    match node {
        Node::Field(field) => field_cardinality(field, outer, indexes),
        Node::HasId(_) | Node::HasVector(_) | Node::Slice { .. } if outer.is_some() => {
            Ok(Cardinality::all(rows).not(rows))
        }
        Node::HasId(ids) => {
            let max = rows.min(ids.len() as u64);
            Ok(Cardinality {
                min: 0,
                expected: max,
                max,
            })
        }
        Node::HasVector(_) => Ok(Cardinality {
            min: 0,
            expected: rows,
            max: rows,
        }),
        Node::Slice { total, .. } => Ok(Cardinality {
            min: 0,
            expected: rows / (*total).max(1),
            max: rows,
        }),
        Node::Nested { path, group } => {
            let inner = group_cardinality(group, Some(&elements_of(outer, path)), indexes)?;
            Ok(Cardinality { min: 0, ..inner })
        }
        Node::Group(group) => group_cardinality(group, outer, indexes),
    }
}

fn field_cardinality(
    field: &FieldNode,
    outer: Option<&str>,
    indexes: &mut dyn FieldIndexes,
) -> Result<Cardinality, Error> {
    let rows = u64::from(indexes.rows());
    if let Some(list) = long_list(field) {
        // As many of the values as are planned at once stand for all.
        let part = field_cardinality(&part_of(field, list, 0), outer, indexes)?;
        let times = |n: u64| n.saturating_mul(list_len(list) as u64) / VALUES_AT_ONCE as u64;
        return Ok(Cardinality {
            min: 0,
            expected: times(part.expected).min(rows),
            max: rows,
        });
    }
    if let Some((name, tokens)) = tokens_of(field, outer, indexes) {
        let max = estimate_tokens(tokens, &name, indexes)?.min(rows);
        return Ok(Cardinality {
            min: 0,
            expected: if tokens.is_decided_by_tokens() {
                max
            } else {
                max.div_ceil(2)
            },
            max,
        });
    }
    let Some((name, plan)) = field_plan(field, outer, indexes) else {
        return Ok(Cardinality::unknown(rows));
    };
    let mut keys = 0u64;
    for range in &plan.ranges {
        keys = keys.saturating_add(indexes.estimate(&name, range)?);
    }
    let max = keys.min(rows);
    let expected = if plan.exact { max } else { max.div_ceil(2) };
    let found = Cardinality {
        min: 0,
        expected,
        max,
    };
    Ok(if plan.negate { found.not(rows) } else { found })
}
