//! Settings as they are kept: by their keys, what isn't given stays as it is.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{ApiError, ApiResult};

/// Settings by their keys.
pub type StoredSettings = BTreeMap<String, Value>;

/// Lays a group of settings over what is there.
pub fn put<T: Serialize>(other: &mut StoredSettings, key: &str, group: &Option<T>) -> ApiResult<()> {
    if let Some(group) = group {
        merge(
            other,
            key,
            serde_json::to_value(group).map_err(ApiError::internal)?,
        );
    }
    Ok(())
}

/// Objects are merged key by key (null takes a key away), anything else is replaced.
pub fn merge(other: &mut StoredSettings, key: &str, value: Value) {
    let Value::Object(new) = value else {
        other.insert(key.to_owned(), value);
        return;
    };
    let entry = other
        .entry(key.to_owned())
        .or_insert_with(|| Value::Object(Map::new()));
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    if let Value::Object(old) = entry {
        for (field, value) in new {
            match value {
                Value::Null => old.remove(&field),
                value => old.insert(field, value),
            };
        }
    }
}
