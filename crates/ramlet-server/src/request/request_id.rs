//! The id of a request: the client's, or one that is made. It stands in the answer and in the lines of the log.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// Of requests and answers, and in the metadata of gRPC.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where a client says it, the first that is there; the audit log looks there too.
const GIVEN: [&str; 3] = ["x-request-id", "x-tracing-id", "traceparent"];

/// A longer one is somebody's mistake: it would fill the log.
const GIVEN_MAX: usize = 128;

/// The request's id, which stands in its head from now on.
pub fn name(headers: &mut HeaderMap) -> HeaderValue {
    let given = GIVEN.iter().find_map(|name| headers.get(*name));
    let id = match given.filter(|id| is_sane(id.as_bytes())) {
        Some(given) => given.clone(),
        None => made(),
    };
    headers.insert(REQUEST_ID, id.clone());
    id
}

/// The id that a request was given by [`name`]; empty where none was, as of requests within the process.
pub fn of(headers: &HeaderMap) -> HeaderValue {
    let id = headers.get(REQUEST_ID).cloned();
    id.unwrap_or_else(|| HeaderValue::from_static(""))
}

/// The same as text.
pub fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}

/// What may stand in a line of a log without being mistaken for more of it.
fn is_sane(id: &[u8]) -> bool {
    let may_be = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=GIVEN_MAX).contains(&id.len()) && id.iter().all(may_be)
}

/// Sixteen digits: of this process a number that comes once, mixed with a number of the process.
fn made() -> HeaderValue {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Odd, so that each number has an id of its own.
    let mixed = process.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut digits = [0; 16];
    for (at, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(mixed >> (60 - 4 * at)) as usize & 15];
    }
    HeaderValue::from_bytes(&digits).unwrap_or_else(|_| HeaderValue::from_static("0"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn named(given: &[(&'static str, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.insert(*name, HeaderValue::from_str(value).expect("a header"));
        }
        let id = name(&mut headers);
        assert_eq!(of(&headers), id);
        text(&id).to_owned()
    }

    #[test]
    fn a_sane_id_of_the_client_is_kept() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(
            named(&[("x-request-id", "req-1"), ("traceparent", trace)]),
            "req-1"
        );
        assert_eq!(named(&[("traceparent", trace)]), trace);
    }

    #[test]
    fn others_get_one_that_is_made() {
        let long = "a".repeat(129);
        let all = [
            &[][..],
            &[("x-request-id", "")],
            &[("x-request-id", "a b")],
            &[("x-request-id", &long)],
        ];
        let made: BTreeSet<String> = all.into_iter().map(named).collect();
        assert_eq!(made.len(), 4, "each its own: {made:?}");
        assert!(
            made.iter().all(|id| id.len() == 16 && is_sane(id.as_bytes())),
            "{made:?}"
        );
        assert_eq!(text(&of(&HeaderMap::new())), "");
    }
}
