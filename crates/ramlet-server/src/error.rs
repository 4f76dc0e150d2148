//! A failed request: its status code and message, and the table that maps the engine's errors to them.

use axum::http::StatusCode;
use ramlet::{BudgetBytes, ErrorKind};
use ramlet_memory::OverBudget;

use crate::limits::RETRY_AFTER_SECONDS;
use crate::observability::refusals::Refusal;
use crate::wire::inference::InferenceError;

/// What the client gets instead of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub status: StatusCode,
    pub message: String,
    /// Seconds, for 429 and 503.
    pub retry_after: Option<u32>,
    /// What was wanting, where it is a refusal.
    pub refusal: Option<Refusal>,
    /// The numbers of a refusal for want of memory. Callers in process find them among the response's extensions.
    pub budget: Option<BudgetBytes>,
    /// Bytes on disk aren't what was written.
    pub is_damage: bool,
}

pub type ApiResult<T> = Result<T, ApiError>;

/// Status code and the words in front of the sentence, for each kind of the engine's failures.
pub fn status_of(kind: ErrorKind) -> (StatusCode, &'static str) {
    match kind {
        ErrorKind::BadInput => (StatusCode::BAD_REQUEST, "Wrong input: "),
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, "Not found: "),
        ErrorKind::AlreadyExists => (StatusCode::CONFLICT, "Wrong input: "),
        ErrorKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "Over the memory budget: "),
        ErrorKind::OverBudget => (StatusCode::TOO_MANY_REQUESTS, "Memory budget taken: "),
        ErrorKind::Busy => (StatusCode::TOO_MANY_REQUESTS, "Busy: "),
        ErrorKind::MemoryFull => (StatusCode::INSUFFICIENT_STORAGE, "Memory full: "),
        ErrorKind::DiskFull => (StatusCode::INSUFFICIENT_STORAGE, "Disk full: "),
        ErrorKind::NoDescriptors => (StatusCode::INSUFFICIENT_STORAGE, "Out of file descriptors: "),
        ErrorKind::CollectionClosed => (StatusCode::SERVICE_UNAVAILABLE, "Collection closed: "),
        ErrorKind::WritesStopped => (StatusCode::SERVICE_UNAVAILABLE, "Writes stopped: "),
        ErrorKind::Closed => (StatusCode::SERVICE_UNAVAILABLE, "Shutting down: "),
        ErrorKind::Corrupt => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "Service internal error: corrupt data: ",
        ),
        ErrorKind::Io | ErrorKind::NoPermission => {
            (StatusCode::INTERNAL_SERVER_ERROR, "Service internal error: ")
        }
    }
}

impl ApiError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        let asks_to_wait = status == StatusCode::TOO_MANY_REQUESTS;
        ApiError {
            status,
            message: message.into(),
            retry_after: asks_to_wait.then_some(RETRY_AFTER_SECONDS),
            refusal: Refusal::of_status(status),
            budget: None,
            is_damage: false,
        }
    }

    /// 400, the request's meaning is wrong.
    pub fn wrong_input(what: impl std::fmt::Display) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, format!("Wrong input: {what}"))
    }

    /// 400, the body isn't the JSON that the route takes.
    pub fn format(what: impl std::fmt::Display) -> ApiError {
        let what = without_type_names(&what.to_string());
        if what.starts_with(MIN_COUNT) {
            return ApiError::validation("filter.min_should.min_count", MIN_COUNT);
        }
        // The API reads a condition that says nothing, and refuses it by its validation.
        if what.starts_with("At least one field condition must be specified") {
            return ApiError::validation("filter", what);
        }
        ApiError::new(
            StatusCode::BAD_REQUEST,
            format!("Format error in JSON body: {what}"),
        )
    }

    /// 422, a value is outside its range; `path` is where in the body it stands.
    pub fn validation(path: impl std::fmt::Display, what: impl std::fmt::Display) -> ApiError {
        let message = format!("{VALIDATION}[{path}: {what}]");
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// The same where the path of a validation error begins within a part of the body.
    pub fn within(mut self, part: impl std::fmt::Display) -> ApiError {
        let inner = self.message.strip_prefix(VALIDATION);
        if let Some(rest) = inner.and_then(|inner| inner.strip_prefix('[')) {
            self.message = format!("{VALIDATION}[{part}.{rest}");
        }
        self
    }

    /// 400, a part of the API that isn't built yet: named, never passed over.
    pub fn unsupported(feature: impl std::fmt::Display) -> ApiError {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            format!(
                "Bad request: {feature} is not supported by this version of Ramlet (see docs/compatibility.md)"
            ),
        )
    }

    /// Whether memory was missing, for now or for good.
    pub fn is_over_budget(&self) -> bool {
        matches!(
            self.status,
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::TOO_MANY_REQUESTS
        )
    }

    pub fn not_found(what: impl std::fmt::Display) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, format!("Not found: {what}"))
    }

    pub fn internal(what: impl std::fmt::Display) -> ApiError {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("Service internal error: {what}"),
        )
    }
}

/// What stands before the list of what a validation found.
pub const VALIDATION: &str = "Validation error in JSON body: ";

/// What a filter says of `min_should` that wants nothing, which the API finds by its validation.
const MIN_COUNT: &str = "min_count must be greater than 0";

/// Names of our own types mean nothing to a client.
fn without_type_names(what: &str) -> String {
    let mut parts = what.split("struct Wire");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("an object");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_alphanumeric()));
    }
    out
}

impl From<ramlet::Error> for ApiError {
    fn from(e: ramlet::Error) -> ApiError {
        let (status, prefix) = status_of(e.kind());
        let text = e.to_string();
        // What the API finds when it validates a filter, before it looks at the collection.
        if text.contains("filter: slice index") && !text.ends_with("below total 0") {
            return ApiError::validation("filter", text);
        }
        // The engine may use the API's own sentence.
        let message = if text.starts_with(prefix) || text.starts_with("Bad request: ") {
            text
        } else {
            format!("{prefix}{text}")
        };
        ApiError {
            budget: e.budget_bytes(),
            refusal: Refusal::of_kind(e.kind()),
            is_damage: e.kind() == ErrorKind::Corrupt,
            ..ApiError::new(status, message)
        }
    }
}

impl From<InferenceError> for ApiError {
    fn from(e: InferenceError) -> ApiError {
        ApiError::wrong_input(e.0)
    }
}

impl From<OverBudget> for ApiError {
    fn from(e: OverBudget) -> ApiError {
        ramlet::Error::from(e).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_speak_of_what_the_client_sent() {
        let e = ApiError::format("invalid type: null, expected struct WireCreate at line 1 column 4");
        let said = "Format error in JSON body: invalid type: null, expected an object at line 1 column 4";
        assert_eq!((e.status.as_u16(), e.message.as_str()), (400, said));
        let e = ApiError::format("min_count must be greater than 0 at line 1 column 60");
        let said =
            "Validation error in JSON body: [filter.min_should.min_count: min_count must be greater than 0]";
        assert_eq!((e.status.as_u16(), e.message.as_str()), (422, said));
        let within = ApiError::validation("limit", "no")
            .within("prefetch[1]")
            .within("internal");
        assert_eq!(
            within.message,
            "Validation error in JSON body: [internal.prefetch[1].limit: no]"
        );
        assert_eq!(ApiError::wrong_input("x").within("y"), ApiError::wrong_input("x"));
    }
}
