//! Changes of shard keys that come as `POST /collections/{collection}/cluster`. Nodes make them by the routes of shard keys, so the log has one form of each.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::error::{ApiError, ApiResult};
use crate::request::api_request::RequestBody;
use crate::request::call::Call;
use crate::request::route::Route;
use crate::routes::routes;

pub(crate) const CLUSTER: &str = "/collections/{collection}/cluster";
pub(crate) const KEYS: &str = "/collections/{collection}/shards";
pub(crate) const DROPPED: &str = "/collections/{collection}/shards/delete";

/// The route of what is to be done, with its body. Whatever else was asked is as it was.
pub(crate) fn by_own_route(route: &'static Route, mut call: Call) -> ApiResult<(&'static Route, Call)> {
    if (route.method, route.path) != ("POST", CLUSTER) {
        return Ok((route, call));
    }
    let body = match call.request.take_body() {
        RequestBody::Json(body) => body,
        RequestBody::Message(message, _) => message.text().map_err(ApiError::wrong_input)?.into(),
    };
    let (route, body) = match change_of(&body) {
        Some((method, path, inner)) => {
            let mut all = routes().iter();
            let own = all.find(|route| (route.method, route.path) == (method, path));
            let own = own.ok_or_else(|| ApiError::internal(format!("there is no route {method} {path}")))?;
            (own, inner)
        }
        None => (route, body),
    };
    let request = call.request.with_body(body);
    Ok((route, Call { request, ..call }))
}

/// Method and path of a change of keys, and what it says.
fn change_of(body: &[u8]) -> Option<(&'static str, &'static str, Bytes)> {
    let operation: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(body).ok()?;
    let mut all = operation.iter();
    let (Some((name, inner)), None) = (all.next(), all.next()) else {
        return None;
    };
    let (method, path) = match &**name {
        "create_sharding_key" => ("PUT", KEYS),
        "drop_sharding_key" => ("POST", DROPPED),
        _ => return None,
    };
    Some((method, path, Bytes::copy_from_slice(inner.get().as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_keys_are_told_from_others() {
        let of =
            |text: &str| change_of(text.as_bytes()).map(|(method, path, body)| (method, path, body.to_vec()));
        let key = br#"{"shard_key": "a"}"#.to_vec();
        assert_eq!(
            of(r#"{"create_sharding_key": {"shard_key": "a"}}"#),
            Some(("PUT", KEYS, key.clone()))
        );
        assert_eq!(
            of(r#"{"drop_sharding_key": {"shard_key": "a"}}"#),
            Some(("POST", DROPPED, key))
        );
        for other in [
            r#"{"move_shard": {"shard_id": 1}}"#,
            r#"{"create_sharding_key": {}, "drop_sharding_key": {}}"#,
            "{}",
            "[]",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
