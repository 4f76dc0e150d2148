//! Names that a collection, an alias or a vector may have.

use crate::error::{ApiError, ApiResult};
use crate::limits;

/// Whether a vector may have this name: the empty one is the default vector's.
pub fn check_vector_name(name: &str) -> ApiResult<()> {
    let what = if name.len() > limits::VECTOR_NAME_BYTES {
        format!("must have at most {} bytes", limits::VECTOR_NAME_BYTES)
    } else if name == "." || name == ".." {
        "must not be a path".to_owned()
    } else if let Some(c) = forbidden_in(name) {
        format!("cannot contain {c:?} char")
    } else {
        return Ok(());
    };
    let what = format!("a vector's name {what}");
    Err(ApiError::validation("vector_name", what))
}

/// The first character that no name may have.
fn forbidden_in(name: &str) -> Option<char> {
    const FORBIDDEN: [char; 9] = ['<', '>', ':', '"', '/', '\\', '|', '?', '*'];
    name.chars().find(|c| FORBIDDEN.contains(c) || c.is_control())
}

/// `/collections/aliases` is a route: a collection of this name could be neither asked nor dropped.
const RESERVED_NAME: &str = "aliases";

/// Why neither a collection nor an alias may have this name; `None`: they may.
pub fn collection_name_fault(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > limits::NAME_BYTES {
        Some(format!("must have from 1 to {} bytes", limits::NAME_BYTES))
    } else if name == "." || name == ".." {
        Some("must not be a path".to_owned())
    } else if name == RESERVED_NAME {
        Some(format!("`/collections/{RESERVED_NAME}` is a route of the API"))
    } else {
        forbidden_in(name).map(|c| format!("collection name cannot contain {c:?} char"))
    }
}

/// Whether a collection or an alias may have this name. `field` is what the API calls it in this place.
pub fn check_name(field: &str, name: &str) -> ApiResult<()> {
    let Some(what) = collection_name_fault(name) else {
        return Ok(());
    };
    let message = format!("Validation error in path parameters: [{field}: value {name:?} invalid, {what}]");
    Err(ApiError::new(
        axum::http::StatusCode::UNPROCESSABLE_ENTITY,
        message,
    ))
}
