//! The names under which payload indexes are found.

use crate::filter::ast::FieldCondition;
use crate::payload::Path;

/// The path of all elements of the array at `path`.
pub(in crate::filter) fn elements_of(outer: Option<&str>, path: &Path) -> String {
    match outer {
        Some(outer) => format!("{outer}.{path}[]"),
        None => format!("{path}[]"),
    }
}

/// The names that an index of a condition's field may have.
pub(in crate::filter) fn names_of(
    condition: &FieldCondition,
    path: &Path,
    outer: Option<&str>,
) -> [String; 2] {
    match outer {
        Some(outer) => [format!("{outer}.{path}"), format!("{outer}.{}", condition.key)],
        None => [path.to_string(), condition.key.clone()],
    }
}
