//! The web page: seven files as they were written, part of the binary. It holds no data, so it needs no key; what it shows it asks for by the
//! routes that everybody has, with the key that its user types in.

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};

use crate::answers::answer::Answer;
use crate::error::ApiResult;
use crate::request::call::Call;

/// Nothing but our own files and our own answers: a name or a payload that found its way into the page as markup would still run nothing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

pub async fn page(_: Call) -> ApiResult<Answer> {
    Ok(file(
        "text/html; charset=utf-8",
        include_str!("../dashboard/index.html"),
    ))
}

pub async fn script(_: Call) -> ApiResult<Answer> {
    Ok(file(SCRIPT, include_str!("../dashboard/dashboard.js")))
}

pub async fn base(_: Call) -> ApiResult<Answer> {
    Ok(file(SCRIPT, include_str!("../dashboard/base.js")))
}

pub async fn manage(_: Call) -> ApiResult<Answer> {
    Ok(file(SCRIPT, include_str!("../dashboard/manage.js")))
}

pub async fn nodes(_: Call) -> ApiResult<Answer> {
    Ok(file(SCRIPT, include_str!("../dashboard/nodes.js")))
}

pub async fn points(_: Call) -> ApiResult<Answer> {
    Ok(file(SCRIPT, include_str!("../dashboard/points.js")))
}

pub async fn style(_: Call) -> ApiResult<Answer> {
    Ok(file(
        "text/css; charset=utf-8",
        include_str!("../dashboard/dashboard.css"),
    ))
}

fn file(media: &'static str, text: &'static str) -> Answer {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, media),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // The next version of the server has another page at the same address.
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Answer::Whole(response)
}
