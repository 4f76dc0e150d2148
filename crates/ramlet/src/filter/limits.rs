//! Limits of a filter, checked before it is compiled.

use super::ast::{AnyOf, Condition, FieldCheck, FieldCondition, Filter, Match};
use crate::payload::Path;

/// Bounds of one filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterLimits {
    /// Filters inside filters, `nested` included.
    pub depth: usize,
    /// Conditions in all.
    pub conditions: usize,
    /// Values in lists in all: `any`, `except`, `has_id`, points of polygons.
    pub values: usize,
}

impl Default for FilterLimits {
    fn default() -> FilterLimits {
        FilterLimits {
            depth: 32,
            conditions: 4_096,
            values: 1_000_000,
        }
    }
}

impl Filter {
    /// Refuses what is over the limits, paths that don't parse, and numbers that make no sense; says what and where.
    pub fn check(&self, limits: &FilterLimits) -> Result<(), String> {
        let mut left = *limits;
        self.check_level(limits, &mut left, limits.depth)
    }

    fn check_level(
        &self,
        limits: &FilterLimits,
        left: &mut FilterLimits,
        depth: usize,
    ) -> Result<(), String> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(format!(
                "filter is nested deeper than the limit of {} levels",
                limits.depth
            ));
        };
        if let Some(min_should) = &self.min_should
            && min_should.min_count < 1
        {
            return Err("filter: min_should.min_count must be 1 or larger, got 0".to_string());
        }
        for condition in self.conditions() {
            left.conditions = left.conditions.checked_sub(1).ok_or_else(|| {
                format!(
                    "filter has more conditions than the limit of {}",
                    limits.conditions
                )
            })?;
            left.values = left
                .values
                .checked_sub(values_of(condition))
                .ok_or_else(|| format!("filter lists more values than the limit of {}", limits.values))?;
            match condition {
                Condition::Field(FieldCondition { key, .. })
                | Condition::IsEmpty(key)
                | Condition::IsNull(key) => {
                    check_key(key)?;
                }
                Condition::Nested { key, filter } => {
                    check_key(key)?;
                    filter.check_level(limits, left, depth)?;
                }
                Condition::Filter(filter) => filter.check_level(limits, left, depth)?,
                Condition::Slice { total, index } if index >= total => {
                    return Err(format!("filter: slice index {index} must be below total {total}"));
                }
                Condition::Slice { .. } | Condition::HasId(_) | Condition::HasVector(_) => {}
            }
        }
        Ok(())
    }
}

fn check_key(key: &str) -> Result<(), String> {
    Path::parse(key).map(|_| ()).map_err(|e| format!("filter: {e}"))
}

fn values_of(condition: &Condition) -> usize {
    match condition {
        Condition::HasId(ids) => ids.len(),
        Condition::Field(field) => match &field.check {
            FieldCheck::Match(Match::Any(list) | Match::Except(list)) => match list {
                AnyOf::Ints(ints) => ints.len(),
                AnyOf::Strs(strs) => strs.len(),
            },
            FieldCheck::GeoPolygon(polygon) => {
                polygon.exterior.len() + polygon.interiors.iter().map(Vec::len).sum::<usize>()
            }
            _ => 0,
        },
        _ => 0,
    }
}
