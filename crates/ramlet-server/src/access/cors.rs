//! CORS: a browser lets pages of other origins use this server only if it says so (the Fetch standard, section 3.3).
//!
//! As the API has it, any page may, for the key is what counts. Without a key it takes the user's word.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;

use super::auth::Keys;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// Seconds that a browser may remember the answer to a preflight.
const REMEMBERED: HeaderValue = HeaderValue::from_static("3600");
const ANY: HeaderValue = HeaderValue::from_static("*");
const EXPOSED: HeaderValue = HeaderValue::from_static("retry-after, content-disposition, x-request-id");

/// Whether a page asks and may be answered.
pub fn is_answerable(keys: &Keys, headers: &HeaderMap) -> bool {
    keys.any_origin() && headers.contains_key(header::ORIGIN)
}

/// Lets the page read the answer. No credentials of the browser's own go with such a request, so any origin may be named.
pub fn allow(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
}

/// The answer to a browser that asks beforehand, without a key and on any path; `None`: it doesn't.
pub fn preflight(keys: &Keys, method: &Method, headers: &HeaderMap) -> Option<Response> {
    let wanted = headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if *method != Method::OPTIONS || !wanted || !is_answerable(keys, headers) {
        return None;
    }
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    allow(&mut response);
    let answer = response.headers_mut();
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    answer.insert(header::VARY, varies());
    if let Some(names) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    Some(response)
}

fn varies() -> HeaderValue {
    const NAME: HeaderName = header::ACCESS_CONTROL_REQUEST_HEADERS;
    HeaderValue::from_name(NAME)
}
