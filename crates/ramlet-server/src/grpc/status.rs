//! How a call ended: gRPC's codes for the API's, and the headers that tell them.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::error::{ApiError, VALIDATION};

pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const RETRY_AFTER: HeaderName = HeaderName::from_static("retry-after");

/// Codes of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    Ok = 0,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// The code for a status of REST.
pub fn code_of(status: StatusCode) -> Code {
    match status {
        StatusCode::OK => Code::Ok,
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Code::InvalidArgument,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::CONFLICT => Code::AlreadyExists,
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => Code::DeadlineExceeded,
        StatusCode::PRECONDITION_FAILED => Code::FailedPrecondition,
        // Without a hint to come again, a client doesn't.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::INSUFFICIENT_STORAGE => {
            Code::ResourceExhausted
        }
        StatusCode::NOT_IMPLEMENTED | StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Code::Unimplemented
        }
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        _ => Code::Internal,
    }
}

/// The headers of a call that failed, or its trailers.
pub fn failed(e: &ApiError) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(3);
    headers.insert(GRPC_STATUS, HeaderValue::from(code_of(e.status) as u16));
    if let Ok(message) = HeaderValue::from_str(&percent(&worded(&e.message))) {
        headers.insert(GRPC_MESSAGE, message);
    }
    if let Some(seconds) = e.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    headers
}

/// What REST says of a body as gRPC says it of a message: there is no JSON, and named vectors lie deeper.
fn worded(message: &str) -> Cow<'_, str> {
    let Some(what) = message.strip_prefix(VALIDATION) else {
        return Cow::Borrowed(message);
    };
    let what = what.replace(".vector.?.", ".vectors.vectors_options.vectors.[].");
    // Parts of REST's requests that are no messages of their own.
    let of_rest = [
        "internal.",
        "search_request.",
        "recommend_request.",
        "discover_request.",
        "scroll_request.",
    ];
    let what = of_rest.iter().fold(what, |what, part| what.replace(part, ""));
    Cow::Owned(format!("Validation error in body: {what}"))
}

/// Percent-encoding as gRPC has it: all but printable ASCII, and the sign itself.
fn percent(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (0x20..0x7f).contains(&byte) && byte != b'%' {
            out.push(byte as char);
        } else {
            // Writing into a string can't fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_for_the_statuses_that_the_api_has() {
        for (status, code) in [
            (400, Code::InvalidArgument),
            (422, Code::InvalidArgument),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::NotFound),
            (408, Code::DeadlineExceeded),
            (409, Code::AlreadyExists),
            (413, Code::ResourceExhausted),
            (429, Code::ResourceExhausted),
            (500, Code::Internal),
            (501, Code::Unimplemented),
            (503, Code::Unavailable),
            (507, Code::ResourceExhausted),
        ] {
            assert_eq!(code_of(StatusCode::from_u16(status).unwrap()), code, "{status}");
        }
    }

    #[test]
    fn a_refusal_names_its_reason_and_when_to_come_again() {
        let headers = failed(&ApiError::new(StatusCode::TOO_MANY_REQUESTS, "100 % taken: ü\n"));
        assert_eq!(headers["grpc-status"], "8");
        assert_eq!(headers["grpc-message"], "100 %25 taken: %C3%BC%0A");
        assert_eq!(headers["retry-after"], "1");
        assert!(!failed(&ApiError::wrong_input("x")).contains_key("retry-after"));
    }

    #[test]
    fn a_message_is_no_json() {
        let of = |path: &str| worded(&ApiError::validation(path, "no").message).into_owned();
        let before = "Validation error in body: [";
        assert_eq!(
            of("internal.prefetch[1].limit"),
            format!("{before}prefetch[1].limit: no]")
        );
        let named = "points[0].vectors.vectors_options.vectors.[].values";
        assert_eq!(of("points[0].vector.?.values"), format!("{before}{named}: no]"));
        assert_eq!(worded("Wrong input: x"), "Wrong input: x");
    }
}
